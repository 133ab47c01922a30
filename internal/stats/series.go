package stats

import (
	"time"
)

// Step is how long the pieces are that figures are kept in. Minutes become hours
// and hours become days as they grow old.
type Step uint8

// The numbers of steps are stored.
const (
	Minutes Step = 0
	Hours   Step = 1
	Days    Step = 2
)

// Length is the length of a piece.
func (s Step) Length() time.Duration {
	switch s {
	case Hours:
		return time.Hour
	case Days:
		return 24 * time.Hour
	default:
		return time.Minute
	}
}

// Floor is the beginning of the piece that a moment is in, in UTC.
func (s Step) Floor(t time.Time) time.Time { return t.UTC().Truncate(s.Length()) }

// Point is what a subject's figures were in a piece of time.
type Point struct {
	At     time.Time // its beginning
	Counts Counts
}

// Series makes pieces of a length out of finer ones, in the order of time, from
// one moment up to another. A piece without figures is there and empty, so that a
// chart has no gaps to guess.
func Series(points []Point, from, to time.Time, length time.Duration) []Point {
	from = from.UTC().Truncate(length)
	if !to.After(from) {
		return nil
	}
	out := make([]Point, (to.Sub(from)+length-1)/length)
	for i := range out {
		out[i].At = from.Add(time.Duration(i) * length)
	}
	for _, p := range points {
		if i := p.At.Sub(from) / length; !p.At.Before(from) && int(i) < len(out) {
			out[i].Counts.Merge(p.Counts)
		}
	}
	return out
}

// Total adds up all points.
func Total(points []Point) (sum Counts) {
	for _, p := range points {
		sum.Merge(p.Counts)
	}
	return sum
}
