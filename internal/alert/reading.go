package alert

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Reading is what is known of a subject at a moment. What is not known stays zero:
// no rule fires on it.
type Reading struct {
	At      time.Time
	Subject hook.AlertSubject // an endpoint with its tenant, a tenant, or nothing: the system
	Name    string            // what people call it, such as host and path of the URL; empty: its id

	// Figures of the last 15 minutes, hour and day.
	Quarter, Hour, Day stats.Counts

	Lane   Lane   // of an endpoint
	Tenant Tenant // of a tenant
	System System // of the system
}

// Level is the level of the subject.
func (r *Reading) Level() hook.AlertLevel {
	switch {
	case r.Subject.Endpoint != 0:
		return hook.LevelEndpoint
	case r.Subject.Tenant != 0:
		return hook.LevelTenant
	default:
		return hook.LevelSystem
	}
}

// Lane is what is known of an endpoint beside its figures.
type Lane struct {
	Open     bool
	OpenedAt time.Time // last, also when it is closed again
	ClosedAt time.Time // last
	Held     int64     // deliveries held: now, or when it last closed

	Failures   int // failed attempts in a row
	LastStatus int // of the last failure; 0: no answer
	LastError  string

	// Storm counts the attempts of the last 15 minutes as the lane's owner did.
	// Without it the figures do.
	Storm hook.Storm

	// Depth is how many wait for another attempt or are held, DepthBefore how
	// many did 5 minutes before. AtLeast: counting stopped there, so the depth
	// may have grown.
	Depth, DepthBefore int64
	AtLeast            bool

	OldestHeld time.Duration // time that the oldest held delivery has been held
	MaxHold    time.Duration // of the endpoint's policy

	Disabled       bool   // the endpoint is
	DisabledReason string // "gone", "failing"; by hand it is no alert
}

// Tenant is what is known of a tenant beside its figures.
type Tenant struct {
	PendingLong int64 // deliveries pending for longer than the threshold age of LongRetry
	Expiring    int64 // dead letters that go within the threshold of LettersExpire
	Disabled    int64 // endpoints that are disabled because they are gone or failing
	Replays     []PausedReplay
}

// PausedReplay is a replay that is paused.
type PausedReplay struct {
	ID      hook.ID
	Reason  hook.PauseReason
	Fed     int64
	Total   int64 // -1: not known
	Because string
}

// System is what is known of the fleet beside its figures.
type System struct {
	PendingLong  int64         // as of a tenant, of all
	CommitP99    time.Duration // in the last minute, of the slowest node
	DiskFree     int64
	DiskReserve  int64           // 0: the store watches no disk
	Unowned      []UnownedShard  // shards without an owner
	Nodes        []NodeClock     // living nodes
	OldestResult time.Duration   // time that the oldest result waits to be stored
	LocalErrors  int64           // attempts that ended with local_error, in the last full minute
	LanesOpened  int64           // within 5 minutes
	LanesActive  int64           // with traffic within 15 minutes, or open
	Depths       []int64         // sums of retry queues by the minute, the latest last
	Channels     []FailedChannel // whose latest notice failed in all its tries
}

// UnownedShard is a shard that no node owns.
type UnownedShard struct {
	Shard int
	Age   time.Duration
}

// NodeClock is how far a node's clock is ahead of the database's.
type NodeClock struct {
	Node   hook.ID
	Name   string
	Offset time.Duration
}

// FailedChannel is a channel that did not take its latest notice.
type FailedChannel struct {
	ID     hook.ID
	Name   string
	Error  string
	Tenant hook.ID // whose it is; 0: the operator's
}
