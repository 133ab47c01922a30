package policy

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Waits are whole milliseconds, as the log stores them, so that what is
// recomputed from the log is what was waited.
const tick = time.Millisecond

// decorrelation is the growth of decorrelated jitter over its last draw.
const decorrelation = 3

// Ceiling returns the ceiling of retry n, counted from 1. For decorrelated
// jitter, where the ceiling follows the last draw, it is the greatest one that
// retry n can have.
func (p *Policy) Ceiling(n int) time.Duration {
	n = max(n, 1)
	b := &p.Retry.Backoff
	switch {
	case b.Kind == Schedule && len(b.Delays) == 0:
		return 0
	case b.Kind == Schedule:
		return b.Delays[min(n, len(b.Delays))-1]
	case p.Retry.Jitter.Kind == JitterDecorrelated && n > 1:
		// The floor may have lifted the first draw, and all others grow from it.
		return b.grown(max(p.Ceiling(1), p.Retry.MinDelay), decorrelation, n-1)
	case p.Retry.Jitter.Kind == JitterDecorrelated:
		return b.decorrelated(0)
	default:
		return b.grown(b.Base, b.Multiplier, n-1)
	}
}

// grown returns start * factor^steps, at most the cap. The power may overflow
// to infinity, which is above every cap.
func (b *Backoff) grown(start time.Duration, factor float64, steps int) time.Duration {
	seconds := start.Seconds() * math.Pow(factor, float64(steps))
	if !(seconds < b.Cap.Seconds()) {
		return b.Cap
	}
	return fromTicks(seconds * float64(time.Second/tick))
}

// Delay returns the wait before retry n and the ceiling it was drawn under.
// prev is the last draw of the run, used by decorrelated jitter only; zero
// before the first.
func (p *Policy) Delay(n int, prev time.Duration, u float64) (delay, ceiling time.Duration) {
	ceiling = p.Ceiling(n)
	if p.Retry.Jitter.Kind == JitterDecorrelated {
		ceiling = p.Retry.Backoff.decorrelated(prev)
	}
	return p.Draw(ceiling, u), ceiling
}

func (b *Backoff) decorrelated(prev time.Duration) time.Duration {
	if prev <= 0 {
		prev = b.Base
	}
	if prev > b.Cap/decorrelation {
		return b.Cap
	}
	return decorrelation * prev
}

// Draw returns the wait for a ceiling and u. Ceiling and u are stored with
// every attempt, so each wait can be drawn again from the log.
func (p *Policy) Draw(ceiling time.Duration, u float64) time.Duration {
	low, high := p.interval(ceiling)
	return between(low, high, u)
}

// interval returns the ends of the uniform draw. The floor is inside it, like
// the cap: clamping after the draw would pile a part of all retries on exactly
// the floor.
func (p *Policy) interval(ceiling time.Duration) (low, high time.Duration) {
	c := toTicks(ceiling)
	a, b := c, c
	switch j := &p.Retry.Jitter; j.Kind {
	case JitterFull:
		a = 0
	case JitterEqual:
		a = c / 2
	case JitterPercent:
		a, b = c*(1-j.Percent/100), c*(1+j.Percent/100)
	case JitterRange:
		a, b = c*j.Low, c*j.High
	case JitterDecorrelated:
		a = toTicks(p.Retry.Backoff.Base)
	case JitterNone:
	}
	low = max(fromTicks(a), p.Retry.MinDelay)
	return low, max(fromTicks(b), low)
}

// between returns the point u of the way from low to high, never high itself
// unless there is nothing in between.
func between(low, high time.Duration, u float64) time.Duration {
	if high <= low {
		return low
	}
	d := low + fromTicks(unit(u)*toTicks(high-low))
	return max(low, min(d, high-tick))
}

// late spreads a wait that the destination asked for: never earlier than
// asked, since obeying it to the second would bring all waiting events back at
// the same moment.
func (p *Policy) late(asked time.Duration, u float64) time.Duration {
	spread := max(toTicks(p.RetryAfter.LateMin), toTicks(asked)*p.RetryAfter.LatePercent/100)
	return asked + fromTicks(unit(u)*spread)
}

// holdFor is how long a lane waits that was asked to. It ends when the
// destination said, and hardly later: whoever sends for a lane sends one after
// the other, so only lanes of different endpoints would come back together.
func holdFor(asked time.Duration, u float64) time.Duration {
	return asked + time.Duration(unit(u)*float64(min(asked/10, time.Second)))
}

// Wait returns the wait that follows an attempt, given what decided it. The
// arguments are those an attempt row keeps: the delay source, the ceiling, the
// wish of the destination (0 when there was none) and u.
func (p *Policy) Wait(source hook.DelaySource, ceiling, asked time.Duration, u float64) time.Duration {
	switch source {
	case hook.DelayBackoff:
		return p.Draw(ceiling, u)
	case hook.DelayThrottle:
		return fromTicks(toTicks(p.Draw(ceiling, u)) * p.RetryAfter.ThrottleMultiplier)
	case hook.DelayConfirm:
		return max(confirmAfter, p.Retry.MinDelay)
	case hook.DelayRetryAfter:
		return max(p.late(asked, u), p.Retry.MinDelay)
	default: // DelayNone
		return 0
	}
}

func toTicks(d time.Duration) float64 { return float64(d) / float64(tick) }

func fromTicks(t float64) time.Duration { return time.Duration(math.Round(t)) * tick }

// unit keeps a bad u from producing a wait outside its interval.
func unit(u float64) float64 {
	if !(u > 0) {
		return 0
	}
	return min(u, 1)
}
