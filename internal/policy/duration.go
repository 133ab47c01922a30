package policy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrBadDuration is returned for a text that is not a duration.
var ErrBadDuration = errors.New(`must be a duration such as "30s", "1h30m" or "7d"`)

const (
	day     = 24 * time.Hour
	maxDays = int64(math.MaxInt64 / day)
)

// ParseDuration reads a duration in Go syntax, or whole days such as "7d".
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 63)
		if err != nil || int64(n) > maxDays {
			return 0, ErrBadDuration
		}
		return time.Duration(n) * day, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, ErrBadDuration
	}
	return d, nil
}

// FormatDuration writes d as ParseDuration reads it, without the zero units at
// the end that Duration.String keeps: "6h" rather than "6h0m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if d%time.Minute == 0 && d != 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
