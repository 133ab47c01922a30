package watch

import "time"

const (
	trendEvery   = time.Minute
	trendMinutes = 10 // in each of which the sum must grow

	manyLanes = 5
	manyShare = 10 // of a hundred lanes with traffic
)

// Trend follows the sum of all retry queues by the minute: it is raised when
// the sum has grown in each of ten minutes in a row, which is faster than
// anybody drains, and ends when it has not grown for five.
type Trend struct {
	Since time.Time // zero: not raised

	at    time.Time // of the last sample
	sum   int64
	grown int       // minutes of growth in a row
	grew  time.Time // end of the last minute that grew
}

// Growing reports whether the signal is raised.
func (t *Trend) Growing() bool { return !t.Since.IsZero() }

// Judge takes the sum at now. What comes less than a minute after the last
// sample is left out.
func (t *Trend) Judge(now time.Time, sum int64) Change {
	if t.at.IsZero() {
		t.at, t.sum = now, sum
		return Same
	}
	if now.Sub(t.at) < trendEvery {
		return Same
	}
	if sum > t.sum {
		t.grown++
		t.grew = now
	} else {
		t.grown = 0
	}
	t.at, t.sum = now, sum
	switch {
	case !t.Growing() && t.grown >= trendMinutes:
		t.Since = now
		return Raised
	case t.Growing() && now.Sub(t.grew) >= calmFor:
		t.Since = time.Time{}
		return Ended
	}
	return Same
}

// Resume takes over a signal that an earlier judge raised.
func (t *Trend) Resume(now, since time.Time) { *t = Trend{Since: since, grew: now} }

// ManyOpened reports whether so many of the lanes with traffic opened at about
// the same time that the cause is hardly theirs.
func ManyOpened(opened, lanes int64) bool {
	return opened >= manyLanes && 100*opened >= manyShare*lanes
}
