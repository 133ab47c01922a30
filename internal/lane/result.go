package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	// reopenWithin: an endpoint that fails again this soon after a close never
	// recovered, so its outage goes on counting from where it began.
	reopenWithin = 60 * time.Second
	// refusalsClose: so many probes answered "refused for good" show that the
	// endpoint is up; the events are then judged one by one.
	refusalsClose = 3
	// recentResults is how many results decide about halving the limit, and
	// halveAt how many destination failures among them do. Halving on every
	// failure would starve an endpoint that loses one request in a hundred.
	recentResults = 20
	halveAt       = 4
)

// Outcome is what the lane learns from one attempt.
type Outcome struct {
	Class hook.Class
	RTT   time.Duration
	// Waited is set when the request waited on our side before it was sent,
	// which is no part of RTT: more of them at a time would wait as well.
	Waited bool
	// Hold is how long the destination asked to be left alone, spread later;
	// zero when it did not.
	Hold time.Duration
	// RetryAfter is the value it gave, before spreading.
	RetryAfter time.Duration
	// HostSilent: its host lets the requests of all its lanes wait in vain.
	HostSilent bool
	// LastChance: with one more failure like this the delivery is given up.
	LastChance bool
}

// Change says what a result did to the lane.
type Change struct {
	Opened, Closed bool
	Failures       int // that opened it
	// Save asks for a checkpoint at once.
	Save bool
	// Refill is false after a destination failure: the next request waits for
	// Wake, so that a dying destination is not hit by an instant refill.
	Refill bool
	// Disable is set when the endpoint has done nothing but fail for so long
	// that it should be disabled.
	Disable bool
	// FailingWarn is set once when the endpoint has failed for this percentage
	// of the time after which it is disabled.
	FailingWarn int
	// Recovered is set when an endpoint that was warned of has answered well.
	Recovered bool
	// SlowStartDone is set when the lane has found its limit after a close.
	SlowStartDone bool
}

// Result takes the outcome of an attempt. u is uniform in [0,1).
func (l *Lane) Result(now time.Time, u float64, tag Tag, o Outcome) Change {
	l.flight.end(tag.At, o.Class == hook.Success)
	l.lastAny = now
	warned := l.failing.warned > 0
	disable, warn := l.failing.learn(now, o.Class, l.cfg.DisableAfter)
	var c Change
	switch {
	case tag.Gen != l.gen:
		// Started before an open or close, by hand included: it settles its
		// event and steers nothing, but a failure is still news of the
		// destination.
		if isDown(o.Class) {
			l.lastBad = now
		}
		if o.Hold > 0 { // whenever it was sent, the destination wants to be left alone now
			l.holdUntil(now, now.Add(o.Hold))
			c.Save = true
		}
		c.Refill = true
	case tag.Probe:
		c = l.probeResult(now, u, tag, o)
	default:
		c = l.learn(now, u, tag, o)
	}
	c.Disable, c.FailingWarn = disable, warn
	c.Recovered = warned && o.Class == hook.Success
	if l.starting && !l.ramp.slowStart {
		l.starting, c.SlowStartDone = false, true
	}
	return c
}

func isDown(c hook.Class) bool { return c == hook.Down || c == hook.Limited }

func (l *Lane) learn(now time.Time, u float64, tag Tag, o Outcome) Change {
	c := Change{Refill: true}
	if o.Class != hook.Local {
		l.latest.add(isDown(o.Class))
	}
	l.flow.try(now, tag.At, isDown(o.Class))
	vain := l.silence.learn(now, o.Class, o.RTT, l.ramp.srtt)
	if o.HostSilent {
		vain = 0 // the host answers for it
	}
	if tag.First {
		l.sample(o.Class)
	}
	if o.Class == hook.Throttle {
		l.throttle(now, u, tag.Load, o)
		c.Save = true
	} else if o.Hold > 0 { // the class decides the pace; the wish itself is obeyed
		l.holdUntil(now, now.Add(o.Hold))
		c.Save = true
	}
	switch o.Class {
	case hook.Success:
		l.streak = 0
		l.succeed(now, tag, o)
		return c
	case hook.Down, hook.Limited:
		l.streak++
		l.flow.failed(now, tag.Load, l.streak == 1, vain, o.RTT)
		l.lastBad = now
		if l.flow.loss.expected(now) == 0 || l.failsOften(now) {
			l.restAt = now.Add(time.Duration((0.05 + 0.1*u) * float64(time.Second)))
			c.Refill = false
		}
	case hook.Retryable:
	default:
		return c // says nothing about the destination's health
	}
	if reason := l.trips(now, o.LastChance, vain); reason != 0 {
		c.Failures = max(l.streak, vain)
		if reason == OpenedByRatio {
			c.Failures = l.firsts.sum
		}
		l.open(now, u, reason)
		c.Opened, c.Save, c.Refill = true, true, true
		return c
	}
	if isDown(o.Class) {
		l.relent(now, tag.Load)
	}
	return c
}

// relent answers a failure that does not open the lane.
func (l *Lane) relent(now time.Time, load float64) {
	if !l.flow.ease(now, load, l.streak) && l.failsOften(now) {
		l.halve(now)
	}
}

// failsOften reports whether more of the latest results are failures than it loses
// whatever it is sent.
func (l *Lane) failsOften(now time.Time) bool {
	return float64(l.latest.sum) >= max(halveAt, l.flow.loss.most(now, recentResults))
}

// sample records a first attempt in the window. Throttles, refusals and local
// errors say nothing about the destination's health.
func (l *Lane) sample(c hook.Class) {
	if c == hook.Success || c == hook.Retryable || isDown(c) {
		l.firsts.add(c != hook.Success)
	}
}

// trips says why the lane opens, if it does. An endpoint without a name or with an old
// certificate may get so few events that each is given up before there are enough
// failures in a row: it opens before that, when it has heard of nothing else lately.
func (l *Lane) trips(now time.Time, lastChance bool, vain int) OpenReason {
	switch {
	case !l.cfg.Breaker:
		return 0
	case l.streak >= l.flow.loss.row(now, l.cfg.Consecutive, l.flight.young+l.streak) || hangs(vain, l.cfg.Consecutive) || lastChance && l.latest.sum == l.latest.n:
		return OpenedByStreak
	case l.firsts.full() && l.firsts.sum >= l.cfg.WindowFailed:
		return OpenedByRatio
	default:
		return 0
	}
}

func (l *Lane) open(now time.Time, u float64, reason OpenReason) {
	again := !l.closedAt.IsZero() && now.Sub(l.closedAt) <= reopenWithin
	steady := l.flow.opened(now, reason, again)
	if !again || steady {
		l.openedAt = now
	}
	if !again {
		l.wasBlock = time.Time{}
	}
	if l.blocked.IsZero() && !l.wasBlock.IsZero() {
		l.blocked = l.wasBlock
	}
	l.block(now)
	l.state, l.openedBy, l.starting = Open, reason, false
	l.gen++
	l.lastBad = now
	l.forgetSamples()
	l.ramp.probeUntil = time.Time{}
	for _, r := range l.live.drain() {
		l.back.pushBack(r)
	}
	l.probeAt = now.Add(l.gap(now, u))
}

func (l *Lane) close(now time.Time) {
	if !l.blocked.IsZero() {
		l.flow.begin(now, now.Sub(l.heldSince()))
	}
	l.state = Closed
	l.gen++
	l.closedAt = now
	l.restAt = time.Time{}
	l.forgetSamples()
	l.ramp.closed(now)
	l.restart(now)
	if !l.cfg.Fixed && l.flow.recovery.flaps(now) {
		l.ramp.goOn(min(l.cfg.most(), l.flow.recovery.rate*l.ramp.base))
	}
	l.starting = l.ramp.slowStart
	l.unblock(now)
	for _, r := range l.back.drain() {
		l.Arrive(r)
	}
}

// heldSince is since when the backlog of an open lane is held; one that an outage before
// has left counts as if it had been held until this one began.
func (l *Lane) heldSince() time.Time { return l.blocked.Add(-l.flow.recovery.left) }

func (l *Lane) forgetSamples() {
	l.streak, l.refusals, l.silence = 0, 0, silence{}
	l.firsts.reset()
	l.latest.reset()
}

// gap is the wait before the next probe: a share of the time open, so that a
// short outage is noticed soon and a long one costs little.
func (l *Lane) gap(now time.Time, u float64) time.Duration {
	open := float64(now.Sub(l.openedAt)) * l.cfg.ProbeFraction
	open = min(max(open, float64(l.cfg.ProbeMin)), float64(l.cfg.ProbeMax))
	return time.Duration(open * (1 - l.cfg.ProbeJitter + 2*l.cfg.ProbeJitter*u))
}

func (l *Lane) probeResult(now time.Time, u float64, tag Tag, o Outcome) Change {
	c := Change{Refill: true, Save: true}
	l.state = Open
	switch o.Class {
	case hook.Success:
		l.close(now)
		c.Closed = true
		return c
	case hook.Throttle:
		// It is alive and asks for less.
		l.close(now)
		l.throttle(now, u, tag.Load, o)
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
		l.holdUntil(now, now.Add(o.Hold))
	}
	l.probeAt = now.Add(l.gap(now, u))
	return c
}

// failing counts what an endpoint has done since its last success.
type failing struct {
	since    time.Time // first failure; zero: none
	attempts int
	warned   int // the last percentage that was told
}

const (
	// An endpoint is disabled only for failures that are spread out: a short
	// burst of traffic to a broken endpoint says little.
	failingSpread   = 12 * time.Hour
	failingAttempts = 10
)

// learn reports whether the endpoint has failed for long enough to be
// disabled, else the percentage of that time to warn of. Throttles and our own
// errors are no failures.
func (f *failing) learn(now time.Time, c hook.Class, limit time.Duration) (disable bool, warn int) {
	switch c {
	case hook.Success:
		*f = failing{}
		return false, 0
	case hook.Throttle, hook.Local:
		return false, 0
	default:
	}
	if f.since.IsZero() {
		f.since = now
	}
	f.attempts++
	if f.attempts < failingAttempts {
		return false, 0
	}
	reached := f.reached(now, limit)
	if reached > f.warned && reached < 100 {
		f.warned, warn = reached, reached
	}
	return reached == 100, warn
}

// reached returns how much of the time that disables the endpoint has passed:
// 0, 50, 90 or 100 percent.
func (f *failing) reached(now time.Time, limit time.Duration) int {
	if limit <= 0 || f.since.IsZero() {
		return 0
	}
	share := float64(now.Sub(f.since)) / float64(max(limit, failingSpread))
	switch {
	case share >= 1:
		return 100
	case share >= 0.9:
		return 90
	case share >= 0.5:
		return 50
	default:
		return 0
	}
}

// ForgetFailures starts the count of days with nothing but failures anew if it
// began before t: the endpoint was changed then, and gets a new chance.
func (l *Lane) ForgetFailures(t time.Time) {
	if l.failing.since.Before(t) {
		l.failing = failing{}
	}
}

// FailingSince returns when the endpoint first failed after its last success;
// zero: it has not.
func (l *Lane) FailingSince() time.Time { return l.failing.since }
