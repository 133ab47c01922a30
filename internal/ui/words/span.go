package words

import (
	"fmt"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

const day = 24 * time.Hour

// Duration writes how long something lasts in at most two units: 168 ms, 14 s,
// 6 m 12 s, 71 h 53 m, 3 d 04 h, 26 d. It rounds down: what has not lasted that
// long is not said to have.
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return "< 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return pair(d, time.Minute, "m", time.Second, "s")
	case d < 3*day:
		return pair(d, time.Hour, "h", time.Minute, "m")
	case d < 10*day:
		return pair(d, day, "d", time.Hour, "h")
	default:
		return Number(int64(d/day)) + " d"
	}
}

func pair(d, large time.Duration, largeUnit string, small time.Duration, smallUnit string) string {
	rest := d % large / small
	if rest == 0 {
		return fmt.Sprintf("%d %s", d/large, largeUnit)
	}
	return fmt.Sprintf("%d %s %02d %s", d/large, largeUnit, rest, smallUnit)
}

// Latency writes how long an answer took, in milliseconds as the API has it:
// 0.4 ms, 168 ms, 1.9 s, 1 m 02 s.
func Latency(ms float64) string {
	switch {
	case math.IsNaN(ms) || math.IsInf(ms, 0) || ms < 0:
		return None
	case ms == 0:
		return "0 ms"
	case ms < 0.1:
		return "< 0.1 ms"
	case ms < 9.95:
		return trim(ms, 1) + " ms"
	case ms < 999.5:
		return trim(ms, 0) + " ms"
	case ms < 9_950:
		return trim(ms/1000, 1) + " s"
	default:
		return Duration(spanOf(ms))
	}
}

// LatencyOr writes a latency that may not be known.
func LatencyOr(ms *float64) string {
	if ms == nil {
		return None
	}
	return Latency(*ms)
}

// spanOf is milliseconds of the API as a duration, to the next whole second
// where seconds are what is shown.
func spanOf(ms float64) time.Duration {
	switch {
	case math.IsNaN(ms) || ms <= 0:
		return 0
	case ms >= float64(math.MaxInt64/int64(time.Millisecond)):
		return math.MaxInt64
	case ms >= 1000:
		return time.Duration(math.Round(ms/1000)) * time.Second
	default:
		return time.Duration(ms * float64(time.Millisecond))
	}
}

// Since returns how long ago t was, 0 for what is not over by a slow clock.
func Since(t, now time.Time) time.Duration { return max(now.Sub(t), 0) }

// Age writes how long ago something was: 5 s ago. Zero: –.
func Age(t, now time.Time) string {
	if t.IsZero() {
		return None
	}
	d := Since(t, now)
	if d < time.Second {
		return "now"
	}
	return Duration(d) + " ago"
}

// In writes how long it is until t: in 14 s. It rounds up, so that nothing is late
// that came when it was said. Zero: –.
func In(t, now time.Time) string {
	if t.IsZero() {
		return None
	}
	left := t.Sub(now)
	if left <= 0 {
		return "now"
	}
	return "in " + Duration(roundUp(left))
}

// roundUp goes to the next of the smaller of the units that Duration shows.
func roundUp(d time.Duration) time.Duration {
	for _, step := range []struct{ below, unit time.Duration }{
		{time.Hour, time.Second}, {3 * day, time.Minute}, {10 * day, time.Hour}, {math.MaxInt64 - day, day},
	} {
		if d < step.below {
			return (d + step.unit - 1).Truncate(step.unit)
		}
	}
	return d
}

// Clock writes when something was: 03:12:40 today, 15 Nov 18:12 this year, else
// 2025-11-12 08:14. All times are UTC, which a page says once. Zero: –.
func Clock(t, now time.Time) string { return clock(t, now, "15:04:05") }

// About writes a time that is not known to the second: 03:15.
func About(t, now time.Time) string { return clock(t.Round(time.Minute), now, "15:04") }

func clock(t, now time.Time, today string) string {
	if t.IsZero() {
		return None
	}
	t, now = t.UTC(), now.UTC()
	switch {
	case t.Year() != now.Year():
		return t.Format("2006-01-02 15:04")
	case t.YearDay() != now.YearDay():
		return t.Format("2 Jan 15:04")
	default:
		return t.Format(today)
	}
}

// Moment writes a time in full, for titles and exports: 2026-11-16 03:12:40 UTC.
func Moment(t time.Time) string {
	if t.IsZero() {
		return None
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// timeOf reads a time of the API.
func timeOf(s view.Stamp) time.Time { return time.Time(s) }
