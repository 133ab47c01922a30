package chart

import (
	"strconv"
	"time"
)

// Window is the horizontal axis: a stretch of time, labelled in UTC, or from its start on if Elapsed.
type Window struct {
	From, To time.Time
	Elapsed  bool
}

// Last is the window that ends now.
func Last(now time.Time, length time.Duration) Window { return Window{From: now.Add(-length), To: now} }

// length is at least a millisecond and never overflows.
func (w Window) length() time.Duration { return max(w.To.Sub(w.From), time.Millisecond) }

// at is the place of a moment as a share of the width, 0 to 1.
func (w Window) at(t time.Time) float64 {
	return share(t.Sub(w.From).Seconds(), w.length().Seconds())
}

func (w Window) holds(t time.Time) bool { return !t.Before(w.From) && !t.After(w.From.Add(w.length())) }

const day = 24 * time.Hour

// steps are the distances of ticks that read well. 15 minutes get 3, an hour 10, a day 4 hours, a week its days.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 3 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 182 * day, 364 * day,
}

// step is the distance of the ticks, at most `most` of them.
func (w Window) step(most int) time.Duration {
	for _, s := range steps {
		if w.length() <= s*time.Duration(most) {
			return s
		}
	}
	s := steps[len(steps)-1]
	for w.length()/s > time.Duration(most) {
		s *= 2
	}
	return s
}

type tick struct {
	at    float64
	label string
}

func (w Window) ticks(most int) []tick {
	step := w.step(most)
	if !w.Elapsed && (step < time.Minute || step >= 182*day) {
		step = w.step(max(most-2, 2)) // labels with seconds, and with years, are wide
	}
	var out []tick
	if w.Elapsed {
		for d := time.Duration(0); d <= w.length() && len(out) <= most; d += step {
			out = append(out, tick{share(d.Seconds(), w.length().Seconds()), elapsed(d, step)})
		}
		return out
	}
	first := w.From.UTC().Truncate(step)
	for t := first; len(out) <= most && !t.After(w.To); t = t.Add(step) {
		if w.holds(t) {
			out = append(out, tick{w.at(t), clockLabel(t, step)})
		}
	}
	return out
}

func clockLabel(t time.Time, step time.Duration) string {
	switch t = t.UTC(); {
	case step >= 182*day:
		return t.Format("Jan 2006")
	case step >= day:
		return t.Format("2 Jan")
	case step >= time.Minute:
		return t.Format("15:04")
	case step >= time.Second:
		return t.Format("15:04:05")
	default:
		return t.Format("05.000")
	}
}

func elapsed(d, step time.Duration) string {
	count := func(unit time.Duration, name string) string {
		return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + name
	}
	switch {
	case d == 0:
		return "0"
	case step >= day:
		return count(day, " d")
	case step >= time.Hour:
		return count(time.Hour, " h")
	case step >= time.Minute:
		return count(time.Minute, " min")
	default:
		return count(time.Second, " s")
	}
}

// stamp is the time in a row of a table.
func (w Window) stamp(t time.Time) string {
	switch length := w.length(); {
	case w.Elapsed:
		d := t.Sub(w.From).Round(time.Second)
		return strconv.Itoa(int(d/time.Minute)) + ":" + pad2(int(d%time.Minute/time.Second))
	case length > day:
		return t.UTC().Format("2 Jan 15:04")
	case length > 20*time.Minute:
		return t.UTC().Format("15:04")
	default:
		return t.UTC().Format("15:04:05")
	}
}

func pad2(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}
