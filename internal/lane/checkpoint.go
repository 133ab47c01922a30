package lane

import "time"

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

	Pace          float64 // requests per second, 0: not paced
	PaceSlowStart bool
	ThrottledAt   time.Time
	RetryAfter    time.Duration
}

// Checkpoint returns what of the lane must outlive its owner.
func (l *Lane) Checkpoint() Checkpoint {
	return Checkpoint{
		Open: l.state != Closed, OpenReason: l.openedBy,
		OpenedAt: l.openedAt, ClosedAt: l.closedAt, BlockedAt: l.blocked, LastBadAt: l.lastBad,
		NextProbeAt: l.probeAt, HoldUntil: l.hold,
		Limit: l.limit, SRTT: l.srtt,
		ThrottledAt: l.throttledAt, RetryAfter: l.retryAfter,
	}
}

// Restore returns the lane of a checkpoint under a new owner at now. An open
// lane stays open: a crash never closes a breaker, and never cuts a Retry-After
// short. A probe whose time has passed is put one gap ahead, because the old
// owner may just have sent one.
func Restore(cfg Config, c Checkpoint, now time.Time, u float64) *Lane {
	l := New(cfg)
	l.openedBy, l.openedAt, l.closedAt = c.OpenReason, c.OpenedAt, c.ClosedAt
	l.blocked, l.lastBad, l.hold = c.BlockedAt, c.LastBadAt, c.HoldUntil
	l.srtt, l.throttledAt, l.retryAfter = c.SRTT, c.ThrottledAt, c.RetryAfter
	if c.Open {
		l.state = Open
		l.probeAt = c.NextProbeAt
		if !l.probeAt.After(now) {
			l.probeAt = now.Add(l.gap(now, u))
		}
	}
	return l
}
