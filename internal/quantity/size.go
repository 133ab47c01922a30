package quantity

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// ErrSize is returned for a text that is not a size.
var ErrSize = errors.New("must be a size such as 64 KiB or 1 MiB")

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

// ParseSize reads a whole number of bytes with a binary unit: "1 MiB",
// "512MiB". A number needs a unit, except for 0.
func ParseSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if err != nil || int64(n) > math.MaxInt64/u.bytes {
			return 0, ErrSize
		}
		return int64(n) * u.bytes, nil
	}
	return 0, ErrSize
}

// FormatSize writes n in the greatest unit that leaves a whole number.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + " " + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}
