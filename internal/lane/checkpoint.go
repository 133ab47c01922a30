package lane

import (
	"math"
	"time"
)

// OpenReason says what opened a lane. The numbers are stored.
type OpenReason uint8

// The reasons to open.
const (
	OpenedByStreak OpenReason = 1 // too many failures in a row
	OpenedByRatio  OpenReason = 2 // too many failed first attempts in the window
)

func (r OpenReason) String() string {
	switch r {
	case OpenedByStreak:
		return "consecutive"
	case OpenedByRatio:
		return "ratio"
	default:
		return ""
	}
}

// Checkpoint is what of a lane outlives its owner. A probe in flight is saved
// as open. Times are wall-clock times; zero means never.
type Checkpoint struct {
	SavedAt time.Time // known to those who read it from a store

	Open        bool
	OpenReason  OpenReason
	OpenedAt    time.Time
	ClosedAt    time.Time
	BlockedAt   time.Time // since when the lane holds its deliveries
	LastBadAt   time.Time
	NextProbeAt time.Time
	HoldUntil   time.Time // Retry-After: nothing leaves before

	Limit       float64
	SlowStart   bool
	BaseLatency time.Duration // 0: unknown
	BaseWeight  float64
	SRTT        time.Duration
	HealthyPeak float64

	// What the endpoint refuses. Rates are requests per second, 0: none.
	Pace          float64 // at ThrottledAt; it grows with time
	PaceSlowStart bool
	ThrottledAt   time.Time
	RetryAfter    time.Duration

	// What is known of its load, and how far a recovery is.
	Usual    float64       // the live load of late
	Proven   float64       // the highest load carried, of days
	Recovery float64       // rate of a recovery, 0: there is none
	Held     time.Duration // how long what it drains, or an outage before has left, was held

	Breakage
	Host       float64     // what its host leaves it, 0: all
	HostLearnt *HostLearnt // of its host, nil: nothing

	FailingSince    time.Time // first failure since the last success
	FailingAttempts int
	FailingWarned   int // percent of DisableAfter that was last warned of
}

// Breakage is what loads have broken a destination, in requests per second.
type Breakage struct {
	Ceiling       float64       `json:"ceiling,omitzero"`        // the load it is kept below, 0: unknown
	CeilingLearnt float64       `json:"ceiling_learnt,omitzero"` // the load that broke it; below Ceiling while that is tested
	CeilingAt     time.Time     `json:"ceiling_at,omitzero"`
	CeilingWait   time.Duration `json:"ceiling_wait,omitzero"` // age at which it may be tested, 0: a suspicion
	Mark          float64       `json:"mark,omitzero"`         // the load at the latest opening that had to do with it
	MarkAt        time.Time     `json:"mark_at,omitzero"`
}

// HostLearnt is what has broken a host, found by all of its lanes. Each of them saves
// it as it was told, and the latest of these counts.
type HostLearnt struct {
	Address string    `json:"address"` // the endpoint may have moved since
	At      time.Time `json:"at"`
	Breakage
}

// moved is a change that matters.
func (b *Breakage) moved(since *Breakage) bool {
	return moved(b.Ceiling, since.Ceiling) || moved(b.CeilingWait.Seconds(), since.CeilingWait.Seconds()) || moved(b.Mark, since.Mark)
}

// moved is a change that matters; both may be nil.
func (h *HostLearnt) moved(since *HostLearnt) bool {
	if h == nil || since == nil {
		return h != since
	}
	return h.Address != since.Address || h.Breakage.moved(&since.Breakage)
}

// Checkpoint returns what of the lane must outlive its owner.
func (l *Lane) Checkpoint() Checkpoint {
	limit := l.ramp.limit
	if !l.ramp.probeUntil.IsZero() { // a base probe runs: the limit is cut for a moment only
		limit = l.ramp.probeSaved
	}
	c := Checkpoint{
		Open: l.state != Closed, OpenReason: l.openedBy,
		OpenedAt: l.openedAt, ClosedAt: l.closedAt, BlockedAt: l.blocked, LastBadAt: l.lastBad,
		NextProbeAt: l.probeAt, HoldUntil: l.hold,
		Limit: limit, SlowStart: l.ramp.slowStart, BaseLatency: seconds(l.ramp.base), BaseWeight: l.ramp.baseWeight,
		SRTT: seconds(l.ramp.srtt), HealthyPeak: l.ramp.healthyPeak,
		FailingSince: l.failing.since, FailingAttempts: l.failing.attempts, FailingWarned: l.failing.warned,
	}
	l.flow.save(&c)
	return c
}

// HasLearnt reports whether anything paces the lane, or may do so after the next
// failure.
func (c Checkpoint) HasLearnt() bool {
	return c.Pace > 0 || c.Recovery > 0 || c.Ceiling > 0 || c.Mark > 0
}

// hasFailed reports whether the endpoint was ever seen down, or broken by a load.
func (c *Checkpoint) hasFailed() bool {
	return !c.ClosedAt.IsZero() || c.Ceiling > 0 || c.Mark > 0
}

// LatestNews is when the breaker last moved, or something was learnt.
func (c Checkpoint) LatestNews() time.Time {
	at := later(c.OpenedAt, c.ClosedAt)
	if c.Ceiling > 0 {
		at = later(at, c.CeilingAt)
	}
	if c.Pace > 0 {
		at = later(at, c.ThrottledAt.Add(-c.RetryAfter))
	}
	return later(at, c.MarkAt)
}

// Moved reports whether the learnt numbers differ enough from those of an
// earlier checkpoint to be saved again.
func (c Checkpoint) Moved(since Checkpoint) bool {
	return c.SlowStart != since.SlowStart || c.failingMoved(since) || c.ratesMoved(since) || moved(c.Limit, since.Limit) || moved(c.HealthyPeak, since.HealthyPeak) ||
		moved(c.BaseLatency.Seconds(), since.BaseLatency.Seconds())
}

// ratesMoved is a change of a rate that matters. The usual load comes and goes,
// and is worth a row only now and then.
func (c Checkpoint) ratesMoved(since Checkpoint) bool {
	return moved(c.Pace, since.Pace) || c.Breakage.moved(&since.Breakage) || c.HostLearnt.moved(since.HostLearnt) || moved(c.Recovery, since.Recovery) || c.Held > 0 != (since.Held > 0) ||
		max(c.Usual, since.Usual) > 2*min(c.Usual, since.Usual)
}

// Recovered reports whether an earlier checkpoint tells of failures that a
// success has ended. It is saved at once: read back, the old one would disable
// an endpoint that works.
func (c Checkpoint) Recovered(since Checkpoint) bool {
	return c.FailingSince.IsZero() && !since.FailingSince.IsZero()
}

// failingMoved is a change of the failures that matters: how many there were
// beyond the number that disables an endpoint does not.
func (c Checkpoint) failingMoved(since Checkpoint) bool {
	return !c.FailingSince.Equal(since.FailingSince) || c.FailingWarned != since.FailingWarned ||
		min(c.FailingAttempts, failingAttempts) != min(since.FailingAttempts, failingAttempts)
}

// moved is a change by a tenth.
func moved(a, b float64) bool { return math.Abs(a-b) >= 0.1*max(math.Abs(a), math.Abs(b)) && a != b }

// Restore returns the lane of a checkpoint at now. An open lane stays open: a
// crash never closes a breaker, and never cuts a Retry-After short. A probe
// whose time has passed is put one gap ahead, because the old owner may just
// have sent one. Under a new owner the limit is halved, which covers what the
// old one may still have in flight.
func Restore(cfg Config, c Checkpoint, now time.Time, u float64, newOwner bool) *Lane {
	l := New(cfg, now)
	l.openedBy, l.openedAt, l.closedAt = c.OpenReason, c.OpenedAt, c.ClosedAt
	l.blocked, l.lastBad, l.hold = c.BlockedAt, c.LastBadAt, c.HoldUntil
	l.failing = failing{since: c.FailingSince, attempts: c.FailingAttempts, warned: c.FailingWarned}
	l.flow.restore(now, &c, newOwner)
	l.restoreRamp(c, now, newOwner)
	if c.Open {
		l.state = Open
		l.probeAt = c.NextProbeAt
		if !l.probeAt.After(now) {
			l.probeAt = now.Add(l.gap(now, u))
		}
	}
	return l
}

func (l *Lane) restoreRamp(c Checkpoint, now time.Time, newOwner bool) {
	r := &l.ramp
	r.base, r.baseWeight, r.srtt = c.BaseLatency.Seconds(), c.BaseWeight, c.SRTT.Seconds()
	r.healthyPeak = max(c.HealthyPeak, 1)
	r.baseAt = now
	if !l.cfg.Fixed && c.Limit >= 1 && r.base > 0 { // without a base nobody knows what the limit is worth
		r.limit, r.slowStart = min(c.Limit, l.cfg.most()), c.SlowStart
		if newOwner {
			r.limit = max(1, r.limit/2)
		}
	}
	l.newRound(now)
}
