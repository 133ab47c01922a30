package policy

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// The three forms of an HTTP date (RFC 9110, 5.6.7). All are in GMT.
var httpDates = []string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	time.ANSIC,
}

const maxSeconds = int64(math.MaxInt64 / time.Second)

// ParseRetryAfter returns the longest wait that the Retry-After header lines
// ask for; false when none of them is usable. Dates count from the response's
// Date header when it has a readable one, which removes the error of the
// destination's clock, else from now. The result is not capped; a number too
// great for a Duration gives the greatest one.
func ParseRetryAfter(values []string, date string, now time.Time) (time.Duration, bool) {
	var longest time.Duration
	for _, v := range values {
		longest = max(longest, parseWish(strings.Trim(v, " \t"), date, now))
	}
	return longest, longest > 0
}

// parseWish reads one header value; anything unusable gives zero or less.
func parseWish(v, date string, now time.Time) time.Duration {
	if isDigits(v) {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seconds > maxSeconds { // digits only: the error can but be overflow
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	at, ok := parseHTTPDate(v)
	if !ok {
		return 0
	}
	if sent, ok := parseHTTPDate(strings.Trim(date, " \t")); ok {
		now = sent
	}
	return at.Sub(now)
}

// isDigits excludes what strconv would take but the header may not hold, such
// as a sign.
func isDigits(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return v != ""
}

func parseHTTPDate(v string) (time.Time, bool) {
	for _, layout := range httpDates {
		if t, err := time.Parse(layout, v); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// wish is what the destination asked for, as far as the policy obeys it.
type wish struct {
	wait   time.Duration // 0: nothing usable
	capped bool
}

// wishOf reads the Retry-After of an outcome. Answers that are final or that
// point elsewhere are not asked.
func (p *Policy) wishOf(o *Outcome) wish {
	if !p.RetryAfter.Honor || o.Status == 0 || o.Status >= 200 && o.Status < 400 {
		return wish{}
	}
	asked, ok := ParseRetryAfter(o.RetryAfter, o.Date, o.At)
	if !ok {
		return wish{}
	}
	if asked > p.RetryAfter.Max {
		return wish{wait: p.RetryAfter.Max, capped: true}
	}
	// Up to the next whole tick: rounding must not send early.
	return wish{wait: (asked + tick - 1).Truncate(tick)}
}
