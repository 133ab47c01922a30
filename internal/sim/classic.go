package sim

import (
	"math/rand/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// The classic designs keep a retry schedule per event and know nothing of the
// endpoint but, perhaps, a fixed limit and a shared breaker.

// breakerKind is what a classic breaker does with what comes while it is open.
type breakerKind uint8

const (
	noBreaker   breakerKind = iota
	burnBreaker             // fails it at once, which costs an attempt
	holdBreaker             // keeps it, and lets everything go at the first success
)

const (
	classicTrip   = 5    // failures in a row that open the breaker
	classicCool   = 60.0 // seconds until its one trial request ...
	classicSpread = 0.2  // ... give or take this share
)

type breakerState uint8

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerTrial // half-open: the next request decides
)

// classic sends to one endpoint by a schedule per event.
type classic struct {
	w   *world
	d   *destination
	rng *rand.Rand
	p   *policy.Policy

	most    int // in flight, 0: any number
	breaker breakerKind

	quietUntil float64 // the endpoint has asked for no request before

	inFlight int
	ready    queue[*event]
	parked   queue[*event] // held by an open breaker
	state    breakerState
	streak   int
	trial    *event // in flight while half-open
}

func (c *classic) limit() float64 { return float64(c.most) }

func (c *classic) stored() *shelf { return nil }

func (c *classic) asked() *float64 { return &c.quietUntil }

// restart changes nothing: what a classic sender knows is in its events.
func (c *classic) restart(float64) {}

func (c *classic) accept(poison bool) { c.arrive(c.w.newEvent(c, c.w.now, poison)) }

// arrive takes an event that is due.
func (c *classic) arrive(e *event) {
	switch {
	case c.state == breakerClosed:
		c.ready.push(e)
		c.pump()
	case c.state == breakerTrial && c.trial == nil:
		c.try(e)
	case c.breaker == burnBreaker:
		// Nothing is sent, and yet the attempt is gone.
		c.judge(e, &request{event: e, kind: hook.Retry})
		c.w.retire(e)
	default:
		c.parked.push(e)
	}
}

func (c *classic) pump() {
	for c.ready.len() > 0 && (c.most == 0 || c.inFlight < c.most) {
		e := c.ready.pop()
		if c.state != breakerClosed { // it opened while this one waited
			c.arrive(e)
			continue
		}
		c.send(e)
	}
}

func (c *classic) try(e *event) {
	c.trial = e
	c.send(e)
}

func (c *classic) send(e *event) {
	c.inFlight++
	kind := hook.First
	if e.progress.BackoffSteps > 0 {
		kind = hook.Retry
	}
	c.w.send(request{event: e, from: c, to: c.d, kind: kind})
}

func (c *classic) result(r *request) {
	c.inFlight--
	c.w.heard(r)
	if r.status/100 == 2 {
		c.succeed(r.event)
	} else {
		c.fail(r.event)
	}
	c.judge(r.event, r)
	c.pump()
}

func (c *classic) succeed(e *event) {
	c.streak = 0
	if c.state == breakerTrial && c.trial == e {
		c.state, c.trial = breakerClosed, nil
		for c.parked.len() > 0 {
			c.ready.push(c.parked.pop())
		}
	}
}

func (c *classic) fail(e *event) {
	c.streak++
	failedTrial := c.state == breakerTrial && c.trial == e
	if c.breaker == noBreaker || !failedTrial && (c.state != breakerClosed || c.streak < classicTrip) {
		return
	}
	c.state, c.trial = breakerOpen, nil
	c.w.after(classicCool*(1-classicSpread+2*classicSpread*c.rng.Float64()), c.halfOpen)
}

func (c *classic) halfOpen() {
	c.state = breakerTrial
	if c.parked.len() > 0 {
		c.try(c.parked.pop())
	}
}

// judge lets the event's own policy decide what follows.
func (c *classic) judge(e *event, r *request) {
	v := c.p.Judge(e.progress, e.due, outcome(r, true, c.w.clock(), c.rng.Float64()))
	e.progress = v.Progress
	if v.State != hook.Pending {
		c.w.metrics.settle(e, v.State)
		return
	}
	e.due = v.DueAt
	c.w.at(c.w.secondsOf(v.DueAt), func() { c.arrive(e) })
}
