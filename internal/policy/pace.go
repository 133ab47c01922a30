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
