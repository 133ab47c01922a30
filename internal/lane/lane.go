package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Config is what the law needs of the endpoint's policy.
type Config struct {
	// Fixed limits the requests in flight to Limit and learns nothing. Without
	// it the limit adapts between 1 and Max, and Initial is its value at rest.
	Fixed   bool
	Limit   int
	Initial int
	Max     int

	Breaker      bool
	Consecutive  int // failures of the destination in a row that open the lane
	WindowFailed int // failed first attempts ...
	WindowOf     int // ... among this many that open it too

	ProbeFraction float64 // gap between probes as a share of the time open
	ProbeMin      time.Duration
	ProbeMax      time.Duration
	ProbeJitter   float64

	Rate  float64 // requests started per second, 0: not limited
	Burst int     // of Rate

	// DisableAfter asks to disable the endpoint after so long without a
	// success; 0: never.
	DisableAfter time.Duration
}

// rest is the limit of a healthy lane without load.
func (c *Config) rest() float64 {
	if c.Fixed {
		return float64(c.Limit)
	}
	return float64(min(c.Initial, c.Max))
}

// most is the highest limit.
func (c *Config) most() float64 {
	if c.Fixed {
		return float64(c.Limit)
	}
	return float64(c.Max)
}

// State is the breaker of a lane.
type State uint8

// HalfOpen is Open with its one probe in flight.
const (
	Closed State = iota
	Open
	HalfOpen
)

func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}

// Ref is a delivery as the lane sees it.
type Ref struct {
	ID             hook.ID
	FirstDue       time.Time // first due time of the run
	Charged        int       // charged attempts of the run
	FailedAttempts int       // failed attempts of the run of any kind, probes included
	Tried          bool      // the run has had an attempt
	Replay         bool      // the run was started by a replay
	Manual         bool      // a person asked for this send
}

// kind is what an attempt of r outside a probe is called.
func (r Ref) kind() hook.AttemptKind {
	switch {
	case r.Manual:
		return hook.Manual
	case r.Tried:
		return hook.Retry
	case r.Replay:
		return hook.Replay
	default:
		return hook.First
	}
}

// Tag travels with an attempt and comes back with its result.
type Tag struct {
	Gen    uint64 // generation of the lane when it started
	Round  uint64 // the round whose cohort it belongs to; 0: none
	Closed bool   // the lane was closed then
	Probe  bool
	First  bool      // counts in the window of first attempts
	Load   float64   // requests started in the second before, itself included
	At     time.Time // when it started
}

// Lane is the control state of one endpoint. It is a plain value machine, used
// by one goroutine at a time.
type Lane struct {
	cfg Config

	state  State
	gen    uint64 // grows with every open and close; old results steer nothing
	paused bool   // by the operator, or disabled: hold everything
	flight flight

	streak   int // destination failures since the last success
	silence  silence
	firsts   ring // latest first attempts: failed or not
	latest   ring // latest results: destination failures or not
	refusals int  // probes in a row answered with a refusal
	openedBy OpenReason
	openedAt time.Time // start of the outage
	closedAt time.Time
	lastBad  time.Time
	starting bool      // in slow start after a close
	lastAny  time.Time // latest answer of any kind
	blocked  time.Time // since when deliveries are held; zero: they are not
	wasBlock time.Time // blocked of the outage that the last close ended

	probeAt time.Time
	hold    time.Time // Retry-After: nothing leaves before
	restAt  time.Time // earliest refill after a destination failure

	ramp ramp
	flow flow
	rate bucket // the operator's limit

	failing failing

	live, back queue
	turn       int
}

// New returns a closed lane without history.
func New(cfg Config, now time.Time) *Lane {
	l := &Lane{cfg: cfg, gen: 1, firsts: newRing(cfg.WindowOf), latest: newRing(recentResults)}
	l.ramp.healthyPeak = cfg.rest()
	l.restart(now)
	return l
}

// Configure replaces the configuration; it takes effect at the next decision.
func (l *Lane) Configure(now time.Time, cfg Config) {
	old := l.cfg
	l.cfg = cfg
	if cfg.WindowOf != old.WindowOf {
		l.firsts = newRing(cfg.WindowOf)
	}
	switch {
	case cfg.Fixed != old.Fixed:
		l.restart(now)
	case cfg.Fixed:
		l.ramp.limit = cfg.rest()
	default:
		l.lowerTo(now, cfg.most())
	}
}

// lowerTo keeps the limit, and where it was growing to, at or below a new
// maximum.
func (l *Lane) lowerTo(now time.Time, most float64) {
	r := &l.ramp
	r.probeSaved = min(r.probeSaved, most)
	if max(r.limit, r.round.target) > most {
		r.limit = min(r.limit, most)
		l.newRound(now)
	}
}

// restart sets the limit to where a lane begins after a close, or without any
// history: at one request, in slow start. A fixed limit applies at once.
func (l *Lane) restart(now time.Time) {
	l.ramp.limit, l.ramp.slowStart = 1, true
	l.ramp.probeUntil = time.Time{}
	if l.cfg.Fixed {
		l.ramp.limit, l.ramp.slowStart = l.cfg.rest(), false
	}
	l.newRound(now)
}

// State returns the breaker's state.
func (l *Lane) State() State { return l.state }

// Limit returns how many requests may be in flight.
func (l *Lane) Limit() float64 { return max(1, l.ramp.limit) }

// SlowStart reports whether the lane is finding its limit after a close.
func (l *Lane) SlowStart() bool { return l.ramp.slowStart }

// InFlight returns how many requests are in flight, probes included.
func (l *Lane) InFlight() int { return l.flight.n }

// Queued returns how many deliveries wait in memory.
func (l *Lane) Queued() int { return l.live.len() + l.back.len() }

// Paused reports whether an operator's pause or a disabled endpoint holds
// everything.
func (l *Lane) Paused() bool { return l.paused }

// Waits reports whether a Retry-After, or a 429 without one, keeps everything back.
func (l *Lane) Waits(now time.Time) bool { return now.Before(l.hold) }

// BlockedSince returns since when the lane holds its deliveries: it is open,
// paused or waiting for a Retry-After. Zero means that it does not.
func (l *Lane) BlockedSince(now time.Time) time.Time {
	if l.state == Closed && !l.paused && !now.Before(l.hold) {
		return time.Time{}
	}
	return l.blocked
}

func (l *Lane) block(now time.Time) {
	if l.blocked.IsZero() {
		l.blocked = now
	}
}

// unblock ends a hold unless something else still blocks the lane.
func (l *Lane) unblock(now time.Time) {
	if l.state == Closed && !l.paused && !now.Before(l.hold) && !l.blocked.IsZero() {
		l.wasBlock, l.blocked = l.blocked, time.Time{}
	}
}

// Arrive hands the lane a delivery that is due: newly accepted, due again, or
// read from the store.
func (l *Lane) Arrive(r Ref) {
	switch {
	case r.Manual:
		l.live.pushFront(r)
	case l.isLive(r):
		l.flow.load.arrive(r.FirstDue)
		l.live.pushBack(r)
	default:
		l.back.pushBack(r)
	}
}

// isLive tells events of a healthy time from the backlog of an outage, which
// must not delay them.
func (l *Lane) isLive(r Ref) bool {
	return l.state == Closed && r.isNew() && r.FirstDue.After(l.lastBad)
}

func (r *Ref) isNew() bool { return r.FailedAttempts == 0 && !r.Replay && !r.Manual }

// Return puts back a delivery whose probe failed; it stays held, ahead of the
// rest of the backlog.
func (l *Lane) Return(r Ref) { l.back.pushFront(r) }

// Manual hands the lane a delivery that a person wants sent now. On an open
// lane it is the next probe.
func (l *Lane) Manual(now time.Time, r Ref) {
	r.Manual = true
	l.Forget(r.ID)
	l.live.pushFront(r)
	if l.state == Open {
		l.probeAt = now
	}
}

// ProbeNow asks an open lane to probe at once.
func (l *Lane) ProbeNow(now time.Time) {
	if l.state == Open {
		l.probeAt = now
	}
}

// Forget takes a waiting delivery out, because it was cancelled. It reports
// whether it was there.
func (l *Lane) Forget(id hook.ID) bool {
	for _, q := range []*queue{&l.live, &l.back} {
		for i := range q.len() {
			if q.at(i).ID == id {
				q.remove(i)
				return true
			}
		}
	}
	return false
}

// Drop empties the lane's queues and returns what was in them.
func (l *Lane) Drop() []Ref { return append(l.live.drain(), l.back.drain()...) }

// Pause holds everything until Resume.
func (l *Lane) Pause(now time.Time) {
	l.paused = true
	l.block(now)
}

// Resume ends a pause and a Retry-After hold, and forgets what was learnt of the
// endpoint's rates. An open lane stays open and probes; a closed one starts anew.
func (l *Lane) Resume(now time.Time) {
	l.paused = false
	l.hold = time.Time{}
	l.failing = failing{}
	l.flow.forget()
	if l.state == Closed {
		l.close(now)
	}
	l.unblock(now)
}

// Reset closes the breaker by hand and forgets what was learnt of the endpoint's
// rates.
func (l *Lane) Reset(now time.Time) {
	l.hold = time.Time{}
	l.flow.forget()
	l.close(now)
}
