package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Config is what the law needs of the endpoint's policy.
type Config struct {
	Limit int // requests in flight at most

	Breaker      bool
	Consecutive  int // failures of the destination in a row that open the lane
	WindowFailed int // failed first attempts ...
	WindowOf     int // ... among this many that open it too

	ProbeFraction float64 // gap between probes as a share of the time open
	ProbeMin      time.Duration
	ProbeMax      time.Duration
	ProbeJitter   float64
}

const (
	// reopenWithin: an endpoint that fails again this soon after a close never
	// recovered, so its outage goes on counting from where it began.
	reopenWithin = 60 * time.Second
	// backEvery gives the backlog every tenth slot while live events wait too.
	backEvery = 10
	// noHeaderHold is how long a throttled lane without Retry-After waits.
	noHeaderHold = time.Second
	// refusalsClose: so many probes answered "refused for good" show that the
	// endpoint is up; the events are then judged one by one.
	refusalsClose = 3
)

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
	ID       hook.ID
	FirstDue time.Time // first due time of the run
	Charged  int       // charged attempts of the run
	Fails    int       // failed attempts of the run of any kind, probes included
	Tried    bool      // the run has had an attempt
	Replay   bool      // the run was started by a replay
	Manual   bool      // a person asked for this send
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
	Closed bool   // the lane was closed then
	Probe  bool
	First  bool // counts in the window of first attempts
}

// Lane is the control state of one endpoint. It is a plain value machine, used
// by one goroutine at a time.
type Lane struct {
	cfg Config

	state    State
	gen      uint64 // grows with every open and close; old results steer nothing
	paused   bool   // by the operator, or disabled: hold everything
	inFlight int
	limit    float64

	streak   int    // destination failures since the last success
	window   []bool // latest first attempts, true = failed; a ring of cfg.WindowOf
	windowAt int    // next slot of the ring once it is full
	refusals int    // probes in a row answered with a refusal
	openedBy OpenReason
	openedAt time.Time // start of the outage
	closedAt time.Time
	lastBad  time.Time
	blocked  time.Time // since when deliveries are held; zero: they are not
	wasBlock time.Time // blocked of the outage that the last close ended

	probeAt time.Time
	hold    time.Time // Retry-After: nothing leaves before
	retryAt time.Time // earliest refill after a destination failure

	throttledAt time.Time
	retryAfter  time.Duration
	srtt        time.Duration

	live, back queue
	turn       int
}

// New returns a closed lane without history.
func New(cfg Config) *Lane {
	return &Lane{cfg: cfg, gen: 1, limit: float64(cfg.Limit)}
}

// Configure replaces the configuration; it takes effect at the next decision.
func (l *Lane) Configure(cfg Config) {
	if cfg.WindowOf != l.cfg.WindowOf {
		l.window, l.windowAt = nil, 0
	}
	l.cfg = cfg
	l.limit = float64(cfg.Limit)
}

// State returns the breaker's state.
func (l *Lane) State() State { return l.state }

// Limit returns how many requests may be in flight.
func (l *Lane) Limit() float64 { return l.limit }

// InFlight returns how many requests are in flight, probes included.
func (l *Lane) InFlight() int { return l.inFlight }

// Queued returns how many deliveries wait in memory.
func (l *Lane) Queued() int { return l.live.len() + l.back.len() }

// Paused reports whether an operator's pause or a disabled endpoint holds
// everything.
func (l *Lane) Paused() bool { return l.paused }

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
	if l.isLive(r) {
		l.live.pushBack(r)
		return
	}
	l.back.pushBack(r)
}

// isLive tells events of a healthy time from the backlog of an outage, which
// must not delay them.
func (l *Lane) isLive(r Ref) bool {
	return l.state == Closed && r.Fails == 0 && !r.Replay && r.FirstDue.After(l.lastBad)
}

// Return puts back a delivery whose probe failed; it stays held, ahead of the
// rest of the backlog.
func (l *Lane) Return(r Ref) { l.back.pushFront(r) }

// Manual hands the lane a delivery that a person wants sent now. On an open
// lane it is the next probe.
func (l *Lane) Manual(now time.Time, r Ref) {
	r.Manual = true
	l.take(r.ID)
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
	_, ok := l.take(id)
	return ok
}

func (l *Lane) take(id hook.ID) (Ref, bool) {
	for _, q := range []*queue{&l.live, &l.back} {
		for i := range q.len() {
			if q.at(i).ID == id {
				return q.remove(i), true
			}
		}
	}
	return Ref{}, false
}

// Drop empties the lane's queues and returns what was in them.
func (l *Lane) Drop() []Ref { return append(l.live.drain(), l.back.drain()...) }

// Pause holds everything until Resume.
func (l *Lane) Pause(now time.Time) {
	l.paused = true
	l.block(now)
}

// Resume ends a pause and a Retry-After hold. An open lane stays open and
// probes; a closed one starts anew.
func (l *Lane) Resume(now time.Time) {
	l.paused = false
	l.hold = time.Time{}
	if l.state == Closed {
		l.close(now)
	}
	l.unblock(now)
}

// Reset closes the breaker by hand.
func (l *Lane) Reset(now time.Time) {
	l.hold = time.Time{}
	l.close(now)
}
