package metric

import (
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The counters of the hot paths are plain numbers in tables, one for each
// combination of labels, and become metrics only when somebody reads them. All
// labels are closed lists, so the tables are small.
//
// The sizes of the tables: powers of two above the greatest member of each list.
const (
	kinds   = 8
	classes = 8
	reasons = 32
	states  = 4
	ends    = 16
)

// counts is what this process has counted since it began.
type counts struct {
	attempts       [kinds][classes][reasons]atomic.Uint64
	took           [classes]histogram
	settled        [states][4]atomic.Uint64
	latency        histogram
	dead           [ends]atomic.Uint64
	accepted       atomic.Uint64
	refused        [refusals]atomic.Uint64
	replayed       [replayResults]atomic.Uint64
	opened, closed atomic.Uint64
	commits        histogram
	rows           histogram
}

// setUp gives the histograms their bounds.
func (c *counts) setUp() {
	for i := range c.took {
		c.took[i].setUp(Lookup(attemptDuration))
	}
	c.latency.setUp(Lookup(deliveryLatency))
	c.commits.setUp(Lookup(commitDuration))
	c.rows.setUp(Lookup(commitRows))
}

// tries are the values of the label attempts, by number of attempts; a delivery
// that was held until it expired may have had none.
var tries = []string{"0", "1", "2", "3+"}

// Refusal is why an event was refused: a closed list.
type Refusal uint8

// The reasons of refusals.
const (
	RefusedInvalid Refusal = iota
	RefusedTooLarge
	RefusedFanout
	RefusedKeyReused
	RefusedRate
	RefusedBacklog
	RefusedTenantFull
	RefusedStoreFull
	RefusedOverloaded
	RefusedStopping
	RefusedStore
	RefusedGone // the publisher did not wait
	refusals
)

func (r Refusal) String() string {
	return [...]string{
		"invalid", "too_large", "fanout_too_large", "key_reused", "rate_limited", "backlog_full", "tenant_full", "store_full",
		"overloaded", "shutting_down", "store_unavailable", "publisher_gone",
	}[r]
}

// ReplayResult is what became of a delivery of a replay.
type ReplayResult uint8

// The results of replays.
const (
	ReplayDelivered ReplayResult = iota
	ReplayFailed
	ReplaySkipped
	replayResults
)

func (r ReplayResult) String() string { return [...]string{"delivered", "failed", "skipped"}[r] }

// What follows is called on the hot paths. It allocates nothing and never waits.

// Attempted counts an attempt that has ended.
func (m *Metrics) Attempted(kind hook.AttemptKind, class hook.Class, reason hook.Reason, took time.Duration) {
	if kind < kinds && class < classes && reason < reasons {
		m.counts.attempts[kind][class][reason].Add(1)
		m.counts.took[class].observe(int64(took))
	}
}

// Delivered counts a delivery that arrived after so many attempts, so long after
// it was due.
func (m *Metrics) Delivered(attempts int, latency time.Duration) {
	m.settled(hook.Delivered, attempts)
	m.counts.latency.observe(int64(max(latency, 0)))
}

// Dead counts a delivery that was given up after so many attempts.
func (m *Metrics) Dead(reason hook.EndReason, attempts int) {
	m.settled(hook.Dead, attempts)
	if reason < ends {
		m.counts.dead[reason].Add(1)
	}
}

// Cancelled counts a delivery that was cancelled while its last attempt was under
// way.
func (m *Metrics) Cancelled(attempts int) { m.settled(hook.Cancelled, attempts) }

func (m *Metrics) settled(state hook.DeliveryState, attempts int) {
	m.counts.settled[state][min(max(attempts, 0), len(tries)-1)].Add(1)
}

// Accepted counts events that are stored.
func (m *Metrics) Accepted(n int) { m.counts.accepted.Add(uint64(n)) }

// Refused counts an event that was refused.
func (m *Metrics) Refused(why Refusal) { m.counts.refused[why].Add(1) }

// Replayed counts deliveries of replays that came to an end.
func (m *Metrics) Replayed(r ReplayResult, n int) { m.counts.replayed[r].Add(uint64(n)) }

// BreakerOpened counts a lane that opened.
func (m *Metrics) BreakerOpened() { m.counts.opened.Add(1) }

// BreakerClosed counts a lane that closed.
func (m *Metrics) BreakerClosed() { m.counts.closed.Add(1) }

// Committed counts a commit of so many rows.
func (m *Metrics) Committed(rows int, took time.Duration) {
	m.counts.commits.observe(int64(took))
	m.counts.rows.observe(int64(rows))
}
