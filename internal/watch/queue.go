package watch

import "time"

const (
	// growthSpan is the time over which growth is measured, and for which a
	// queue must not have grown before its warning ends.
	growthSpan = 5 * time.Minute
	// growthLeast and growthFactor are how much a queue must have grown.
	growthLeast  = 100
	growthFactor = 1.5
	// growthRepeats is for how many measurements in a row it must have.
	growthRepeats = 3
	// drainSpan is the time over which the drain rate is measured.
	drainSpan = time.Minute
	// samplesKept covers growthSpan at one measurement every 15 s.
	samplesKept = 24
)

// Depth is a measured retry queue. AtLeast tells that counting stopped there.
type Depth struct {
	N       int64
	AtLeast bool
}

// Queue follows the depth of one retry queue: the early warning of a storm that
// does not show in the attempts, because an open breaker sends nothing.
type Queue struct {
	Since time.Time // of the warning; zero: none

	samples [samplesKept]sample
	taken   int // samples so far; the newest is at (taken-1) % samplesKept
	repeats int // measurements in a row that showed growth

	peak   int64     // since the warning was raised
	peakAt time.Time // when the depth last exceeded it
}

type sample struct {
	at time.Time
	Depth
}

// Growing reports whether the warning is raised.
func (q *Queue) Growing() bool { return !q.Since.IsZero() }

// Latest returns the newest measurement and when it was made.
func (q *Queue) Latest() (Depth, time.Time) {
	if q.taken == 0 {
		return Depth{}, time.Time{}
	}
	s := q.samples[(q.taken-1)%samplesKept]
	return s.Depth, s.at
}

// Judge takes a new measurement.
func (q *Queue) Judge(now time.Time, d Depth) Change {
	before, known := q.before(now, growthSpan)
	q.samples[q.taken%samplesKept] = sample{now, d}
	q.taken++
	if q.Growing() {
		return q.judgeEnd(now, d)
	}
	grew := known && d.N-before.N > growthLeast && float64(d.N) > growthFactor*float64(before.N)
	if !grew {
		q.repeats = 0
		return Same
	}
	q.repeats++
	if q.repeats < growthRepeats {
		return Same
	}
	q.Since, q.peak, q.peakAt = now, d.N, now
	return Raised
}

// judgeEnd ends the warning when the queue has not grown for a while. Beyond
// the point where counting stops nobody knows, so it counts as growing.
func (q *Queue) judgeEnd(now time.Time, d Depth) Change {
	if d.N > q.peak || d.AtLeast {
		q.peak, q.peakAt = max(q.peak, d.N), now
	}
	if now.Sub(q.peakAt) < growthSpan {
		return Same
	}
	q.Since, q.repeats = time.Time{}, 0
	return Ended
}

// Resume takes over a warning that an earlier owner raised at the given depth.
func (q *Queue) Resume(now, since time.Time, depth int64) {
	q.Since, q.peak, q.peakAt = since, depth, now
}

// DrainPerMinute is how many fewer there are than a minute ago.
func (q *Queue) DrainPerMinute(now time.Time) float64 {
	latest, at := q.Latest()
	then, ok := q.before(now, drainSpan)
	if !ok || !then.at.Before(at) {
		return 0
	}
	return float64(then.N-latest.N) / at.Sub(then.at).Minutes()
}

// before returns the newest sample that is at least span old or, when measuring
// began later than that, the oldest one: a queue that has grown enough in less
// time than it may take has grown all the same, and one that was deep when
// measuring began has not grown at all.
func (q *Queue) before(now time.Time, span time.Duration) (sample, bool) {
	if q.taken == 0 {
		return sample{}, false
	}
	oldest := max(0, q.taken-samplesKept)
	for i := q.taken - 1; i > oldest; i-- {
		if s := q.samples[i%samplesKept]; now.Sub(s.at) >= span {
			return s, true
		}
	}
	return q.samples[oldest%samplesKept], true
}
