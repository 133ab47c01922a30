package hook

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// OperationalEvent is something an operator wants to know of: a storm began, a
// breaker opened. It is not delivered to endpoints.
type OperationalEvent struct {
	ID         ID
	TenantID   ID // 0: the whole server
	EndpointID ID // 0: none
	Type       OperationalType
	At         time.Time
	Detail     json.RawMessage // an object; its members depend on the type
}

// OperationalPrefix is the prefix of shown ids of operational events.
const OperationalPrefix Prefix = "ope_"

// OperationalType names what happened. The names are stored and are part of
// the API: they are never changed.
type OperationalType string

// The types of operational events.
const (
	StormStarted       OperationalType = "storm.started"
	StormEnded         OperationalType = "storm.ended"
	RetryQueueGrowing  OperationalType = "retry_queue.growing"
	RetryQueueSettled  OperationalType = "retry_queue.settled"
	BreakerOpened      OperationalType = "breaker.opened"
	BreakerClosed      OperationalType = "breaker.closed"
	EndpointFailing    OperationalType = "endpoint.failing"
	EndpointDisabled   OperationalType = "endpoint.disabled"
	SystemQueueGrowing OperationalType = "system.retry_queue.growing"
	SystemQueueSettled OperationalType = "system.retry_queue.settled"
	BreakersMany       OperationalType = "system.breakers.many"
	BreakersSettled    OperationalType = "system.breakers.settled"
	StoreDamaged       OperationalType = "store.damaged"
	StoreLogGrowing    OperationalType = "store.log.growing"
	StoreLogSettled    OperationalType = "store.log.settled"

	// What happens on a lane beside its breaker.
	EndpointRecovered    OperationalType = "endpoint.recovered"
	BreakerProbeFailed   OperationalType = "breaker.probe_failed"
	LaneThrottled        OperationalType = "lane.throttled"
	LaneSlowStartDone    OperationalType = "lane.slow_start_done"
	DeliveryDeadLettered OperationalType = "delivery.dead_lettered"

	// What happens to nodes.
	NodeJoined    OperationalType = "node.joined"
	NodeLeft      OperationalType = "node.left"
	NodeLeaseLost OperationalType = "node.lease_lost"

	// What people change, and what follows from it.
	EndpointCreated       OperationalType = "endpoint.created"
	EndpointUpdated       OperationalType = "endpoint.updated"
	EndpointDeleted       OperationalType = "endpoint.deleted"
	EndpointPaused        OperationalType = "endpoint.paused"
	EndpointResumed       OperationalType = "endpoint.resumed"
	EndpointSecretRotated OperationalType = "endpoint.secret_rotated"
	BreakerReset          OperationalType = "breaker.reset"
	ReplayStarted         OperationalType = "replay.started"
	ReplayPausing         OperationalType = "replay.paused"
	ReplayResumed         OperationalType = "replay.resumed"
	ReplayFinished        OperationalType = "replay.finished"
	ReplayWithdrawn       OperationalType = "replay.cancelled"
	TenantCreated         OperationalType = "tenant.created"
	TenantDeleted         OperationalType = "tenant.deleted"
	KeyCreated            OperationalType = "key.created"
	KeyRevoked            OperationalType = "key.revoked"

	// What alerts have found out about dead letters.
	DeadLettersGrowing  OperationalType = "dead_letters.growing"
	DeadLettersExpiring OperationalType = "dead_letters.expiring"
)

var operationalTypes = []OperationalType{
	StormStarted, StormEnded, RetryQueueGrowing, RetryQueueSettled, BreakerOpened, BreakerClosed,
	EndpointFailing, EndpointDisabled, SystemQueueGrowing, SystemQueueSettled, BreakersMany, BreakersSettled,
	StoreDamaged, StoreLogGrowing, StoreLogSettled,
	EndpointRecovered, BreakerProbeFailed, LaneThrottled, LaneSlowStartDone, DeliveryDeadLettered,
	NodeJoined, NodeLeft, NodeLeaseLost,
	EndpointCreated, EndpointUpdated, EndpointDeleted, EndpointPaused, EndpointResumed, EndpointSecretRotated, BreakerReset,
	ReplayStarted, ReplayPausing, ReplayResumed, ReplayFinished, ReplayWithdrawn,
	TenantCreated, TenantDeleted, KeyCreated, KeyRevoked,
	DeadLettersGrowing, DeadLettersExpiring,
}

// OperationalTypes returns all types.
func OperationalTypes() []OperationalType { return slices.Clone(operationalTypes) }

// MatchOperational returns the types that a pattern selects: a name, or the
// beginning of names and a star. No match is an error, since a misspelt filter
// must not look like "nothing happened".
func MatchOperational(pattern string) ([]OperationalType, error) {
	var out []OperationalType
	for _, t := range operationalTypes {
		if MatchType(pattern, string(t)) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		known := make([]string, len(operationalTypes))
		for i, t := range operationalTypes {
			known[i] = string(t)
		}
		return nil, fmt.Errorf("unknown type %q; known: %s", pattern, strings.Join(known, ", "))
	}
	return out, nil
}

// LaneWatch is what the owner of a lane has seen of its retries, as it was last
// saved.
type LaneWatch struct {
	EndpointID ID
	TenantID   ID
	Storm      Storm
	Queue      RetryQueue
	UpdatedAt  time.Time
}

// Active reports whether the lane needs attention: a storm or a warning.
func (w *LaneWatch) Active() bool { return w.Storm.Active() || w.Queue.Growing() }

// Storm compares the retries of the last 15 minutes with the first attempts.
type Storm struct {
	Since   time.Time // zero: no storm
	First   int64     // first attempts
	Retries int64
}

// Active reports whether there is a storm.
func (s Storm) Active() bool { return !s.Since.IsZero() }

// Ratio is retries over first attempts, to the hundredth. Without first attempts
// it is the number of retries, so that it is a number and never falls silent.
func (s Storm) Ratio() float64 {
	return math.Round(100*float64(s.Retries)/float64(max(s.First, 1))) / 100
}

// RetryQueue is what waits for another attempt: pending deliveries that have
// had one, and those that are held.
type RetryQueue struct {
	Depth          int64
	AtLeast        bool      // counting stopped: the true depth is at least Depth
	Since          time.Time // of the early warning; zero: none
	DrainPerMinute float64   // over the last minute; negative when it grows
}

// Growing reports whether the early warning is raised.
func (q RetryQueue) Growing() bool { return !q.Since.IsZero() }

// EmptyIn estimates when the queue is empty if it goes on draining like this.
// ok is false when it does not drain, or when its depth is not known.
func (q RetryQueue) EmptyIn() (d time.Duration, ok bool) {
	if q.DrainPerMinute <= 0 || q.AtLeast {
		return 0, false
	}
	minutes := float64(q.Depth) / q.DrainPerMinute
	if minutes > maxForecast.Minutes() {
		return 0, false
	}
	return time.Duration(minutes * float64(time.Minute)), true
}

// maxForecast is where a forecast says no more than "not draining".
const maxForecast = 365 * 24 * time.Hour

// NodeWatch is what one node sees of all its lanes together.
type NodeWatch struct {
	NodeID    ID
	Lanes     int64 // with traffic in the last 15 minutes, or open
	Opened    int64 // of them, within the last 5 minutes
	Depth     int64 // of all retry queues
	Health    NodeHealth
	UpdatedAt time.Time
}

// NodeHealth is what only the node itself knows of how it does. It is stored as
// one JSON document; durations are nanoseconds.
type NodeHealth struct {
	Name string `json:"name,omitempty"`
	// CommitP99 is what one commit in a hundred of the last minute took or is
	// taking, and OldestResult how long the oldest result has waited to be stored.
	CommitP99    time.Duration `json:"commit_p99,omitempty"`
	OldestResult time.Duration `json:"oldest_result,omitempty"`
	// ClockOffset is how far the node's clock is ahead of the database's.
	ClockOffset time.Duration `json:"clock_offset,omitempty"`
	// DiskFree is what the disk of an embedded store has left, DiskReserve what it
	// keeps back; 0: no disk is watched.
	DiskFree    int64 `json:"disk_free,omitempty"`
	DiskReserve int64 `json:"disk_reserve,omitempty"`
}

// LaneFigures are what a node last saw of its lanes.
type LaneFigures struct {
	Storms        int     // endpoints in a storm
	Warnings      int     // retry queues that grow
	Open          int     // breakers
	Closed        int     // breakers of lanes with traffic in the last 15 minutes
	MaxRatio      float64 // greatest retry ratio of lanes with at least 20 attempts
	EventsDropped uint64  // operational events that were not stored
	Worst         []WorstLane
}

// WorstLane is one of the lanes that are in the worst state.
type WorstLane struct {
	LaneWatch
	Open bool
}

// QueueFigures are what waits for the lanes of a node, as last counted.
type QueueFigures struct {
	At                             time.Time // zero: not counted yet
	Ready, Delayed, Retrying, Held int64
	// Since when the oldest waits; zero: none does.
	ReadySince, RetryingSince, HeldSince time.Time

	Lanes int // in memory
	Holds int // told to wait by their destinations

	Fleet *FleetFigures // nil: another node counts for the fleet
}

// FleetFigures are what is stored for all nodes together.
type FleetFigures struct {
	Pending, PendingBytes, StoredBytes int64
	Dead                               map[EndReason]int64
}

// SystemSignal is a state of the whole fleet that needs attention.
type SystemSignal uint8

// The numbers of system signals are stored.
const (
	QueuesGrowing   SystemSignal = 1 // retry queues grow faster than they drain
	BreakersOpening SystemSignal = 2 // many breakers opened at about the same time
)

// SystemWatch is a system signal that is raised.
type SystemWatch struct {
	Signal SystemSignal
	Since  time.Time
}
