package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Outcome is what the lane learns from one attempt.
type Outcome struct {
	Class hook.Class
	RTT   time.Duration
	// Hold is how long the destination asked to be left alone, spread later;
	// zero when it did not.
	Hold time.Duration
	// RetryAfter is the value it gave, before spreading.
	RetryAfter time.Duration
}

// Change says what a result did to the lane.
type Change struct {
	Opened, Closed bool
	// Save asks for a checkpoint at once.
	Save bool
	// Refill is false after a destination failure: the next request waits for
	// Wake, so that a dying destination is not hit by an instant refill.
	Refill bool
}

// Result takes the outcome of an attempt. u is uniform in [0,1).
func (l *Lane) Result(now time.Time, u float64, tag Tag, o Outcome) Change {
	l.inFlight--
	if tag.Probe {
		return l.probeResult(now, u, o)
	}
	if tag.Gen != l.gen {
		// Started before an open or close: it settles its event and steers
		// nothing, but a failure is still news of the destination.
		if isDown(o.Class) {
			l.lastBad = now
		}
		return Change{Refill: true}
	}
	return l.learn(now, u, tag, o)
}

func isDown(c hook.Class) bool { return c == hook.Down || c == hook.Limited }

func (l *Lane) learn(now time.Time, u float64, tag Tag, o Outcome) Change {
	c := Change{Refill: true}
	if tag.First {
		l.sample(o.Class)
	}
	if o.Hold > 0 || o.Class == hook.Throttle {
		l.holdFor(now, u, o)
		c.Save = true
	}
	switch o.Class {
	case hook.Success:
		l.streak = 0
		l.smooth(o.RTT)
	case hook.Down, hook.Limited:
		l.streak++
		l.lastBad = now
		l.retryAt = now.Add(time.Duration((0.05 + 0.1*u) * float64(time.Second)))
		c.Refill = false
	default:
	}
	if reason := l.trips(); reason != 0 {
		l.open(now, u, reason)
		c.Opened, c.Save = true, true
	}
	return c
}

// sample records a first attempt in the window. Throttles, refusals and local
// errors say nothing about the destination's health.
func (l *Lane) sample(c hook.Class) {
	if c != hook.Success && c != hook.Retryable && !isDown(c) {
		return
	}
	failed := c != hook.Success
	if len(l.window) < l.cfg.WindowOf {
		l.window = append(l.window, failed)
		return
	}
	l.window[l.windowAt] = failed
	l.windowAt = (l.windowAt + 1) % len(l.window)
}

func (l *Lane) trips() OpenReason {
	if !l.cfg.Breaker {
		return 0
	}
	if l.streak >= l.cfg.Consecutive {
		return OpenedByStreak
	}
	if len(l.window) < l.cfg.WindowOf {
		return 0
	}
	failed := 0
	for _, f := range l.window {
		if f {
			failed++
		}
	}
	if failed >= l.cfg.WindowFailed {
		return OpenedByRatio
	}
	return 0
}

func (l *Lane) smooth(rtt time.Duration) {
	if l.srtt == 0 {
		l.srtt = rtt
		return
	}
	l.srtt += (rtt - l.srtt) / 10
}

// holdFor keeps everything back for as long as the destination asked. A later,
// shorter wish never shortens the hold.
func (l *Lane) holdFor(now time.Time, u float64, o Outcome) {
	wait := o.Hold
	if wait <= 0 {
		wait = noHeaderHold + time.Duration(u*float64(noHeaderHold))
	}
	if until := now.Add(wait); until.After(l.hold) {
		l.hold = until
	}
	l.throttledAt, l.retryAfter = now, o.RetryAfter
	l.block(now)
}

func (l *Lane) open(now time.Time, u float64, reason OpenReason) {
	if l.openedAt.IsZero() || now.Sub(l.closedAt) > reopenWithin {
		l.openedAt = now
		l.wasBlock = time.Time{}
	}
	if l.blocked.IsZero() && !l.wasBlock.IsZero() {
		l.blocked = l.wasBlock
	}
	l.block(now)
	l.state, l.openedBy = Open, reason
	l.gen++
	l.lastBad = now
	l.forgetSamples()
	for _, r := range l.live.drain() {
		l.back.pushBack(r)
	}
	l.probeAt = now.Add(l.gap(now, u))
}

func (l *Lane) close(now time.Time) {
	l.state = Closed
	l.gen++
	l.closedAt = now
	l.retryAt = time.Time{}
	l.forgetSamples()
	l.unblock(now)
	for _, r := range l.back.drain() {
		l.Arrive(r)
	}
}

func (l *Lane) forgetSamples() {
	l.streak, l.refusals = 0, 0
	l.window, l.windowAt = l.window[:0], 0
}

// gap is the wait before the next probe: a share of the time open, so that a
// short outage is noticed soon and a long one costs little.
func (l *Lane) gap(now time.Time, u float64) time.Duration {
	open := float64(now.Sub(l.openedAt)) * l.cfg.ProbeFraction
	open = min(max(open, float64(l.cfg.ProbeMin)), float64(l.cfg.ProbeMax))
	return time.Duration(open * (1 - l.cfg.ProbeJitter + 2*l.cfg.ProbeJitter*u))
}

func (l *Lane) probeResult(now time.Time, u float64, o Outcome) Change {
	c := Change{Refill: true, Save: true}
	if l.state != HalfOpen {
		// Closed by hand while the probe was out: it steers nothing.
		return Change{Refill: true}
	}
	l.state = Open
	switch o.Class {
	case hook.Success:
		l.smooth(o.RTT)
		l.close(now)
		c.Closed = true
		return c
	case hook.Throttle:
		// It is alive and asks for less.
		l.close(now)
		l.holdFor(now, u, o)
		c.Closed = true
		return c
	case hook.Permanent:
		l.refusals++
		if l.refusals >= refusalsClose {
			l.close(now)
			c.Closed = true
			return c
		}
	default:
		l.refusals = 0
	}
	if o.Class != hook.Local {
		l.lastBad = now
	}
	if o.Hold > 0 {
		l.holdFor(now, u, o)
	}
	l.probeAt = now.Add(l.gap(now, u))
	return c
}
