package policy

import (
	"math"
	"time"
)

// Pace is how fast a replay is fed: PerMinute deliveries at first, times Ramp
// after each clean minute, up to MaxMultiple times the start.
type Pace struct {
	PerMinute   int
	Ramp        float64
	MaxMultiple float64
}

// Max returns the pace that is never exceeded.
func (p Pace) Max() int {
	return max(p.PerMinute, int(min(float64(p.PerMinute)*p.MaxMultiple, math.MaxInt32)))
}

// Next returns the pace after a clean minute at the current one. A pace that
// may grow does, even where rounding would keep it.
func (p Pace) Next(current int) int {
	grown := int(min(math.Round(float64(current)*p.Ramp), math.MaxInt32))
	if p.Ramp > 1 {
		grown = max(grown, current+1)
	}
	return min(p.Max(), grown)
}

// Estimate returns how long n deliveries take when every minute is clean,
// beginning at the given pace.
func (p Pace) Estimate(n int64, current int) time.Duration {
	var total time.Duration
	rate := max(current, 1)
	for n > int64(rate) {
		next := p.Next(rate)
		if next == rate {
			break
		}
		n -= int64(rate)
		total += time.Minute
		rate = next
	}
	seconds := float64(max(n, 0)) * 60 / float64(rate)
	return total + time.Duration(math.Ceil(seconds)*float64(time.Second))
}

// PaceStep is a stretch at one pace.
type PaceStep struct {
	After     time.Duration // from the start
	PerMinute int
	Sent      int64 // by its end
}

// maxSteps bounds a course; the last of so many goes on to the end.
const maxSteps = 60

// Course returns the stretches in which n deliveries are sent when every minute is
// clean.
func (p Pace) Course(n int64) []PaceStep {
	var steps []PaceStep
	rate, sent := max(p.PerMinute, 1), int64(0)
	for sent < n {
		next := p.Next(rate)
		s := PaceStep{After: time.Duration(len(steps)) * time.Minute, PerMinute: rate, Sent: min(sent+int64(rate), n)}
		if next == rate || len(steps) == maxSteps-1 {
			s.Sent = n
		}
		steps = append(steps, s)
		rate, sent = next, s.Sent
	}
	return steps
}
