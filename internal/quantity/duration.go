// Package quantity reads and writes durations, sizes and numbers, in the one
// way that settings, policies, scenarios, the command line and the API share.
//
// It judges no bounds: what is too long or too large is the caller's rule. It
// is pure.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrDuration is returned for a text that is not a duration.
var ErrDuration = errors.New(`must be a duration such as "30s", "1h30m" or "7d"`)

const (
	day     = 24 * time.Hour
	maxDays = uint64(math.MaxInt64 / day)
)

// ParseDuration reads a duration in Go's syntax, or whole days such as "7d". A
// number needs a unit, except for 0.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 63)
		if err != nil || n > maxDays {
			return 0, ErrDuration
		}
		return time.Duration(n) * day, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, ErrDuration
	}
	return d, nil
}

// FormatDuration writes d as people do and as ParseDuration reads it: whole days
// as days, and no units that are zero at the end. "7d" rather than "168h0m0s".
func FormatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if d%time.Minute == 0 && d != 0 {
		s = strings.TrimSuffix(s, "0s")
	}
	if d%time.Hour == 0 {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Between words the rule of a duration: "between 1m and 30d".
func Between(low, high time.Duration) string {
	return fmt.Sprintf("between %s and %s", FormatDuration(low), FormatDuration(high))
}
