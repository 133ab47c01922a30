package words

import "github.com/breakwaterhq/breakwater/internal/quantity"

// spell writes a duration of the API, 40m30s, as people read it: 40 m 30 s. What
// is none stays as it is.
func spell(s string) string {
	d, err := quantity.ParseDuration(s)
	if err != nil {
		return s
	}
	return Duration(d)
}
