// Package store defines what Breakwater asks of a database: small roles that
// its consumers take, the batch that is committed at once, and the writer that
// groups what is waiting into such batches.
//
// The dialects (store/sqlite, store/postgres) implement DB, with the statements
// that both understand in store/sqlstore; store/storetest holds the contract both
// must pass. No statement reads the database's clock: every method takes the time
// it needs, leases on Postgres excepted, where the database's clock is the only
// one that all nodes share.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// DB is everything a dialect provides. Consumers take the roles they need.
type DB interface {
	Committer
	LaneReader
	Leases
	Tenants
	Endpoints
	Policies
	EventTypes
	Keys
	EventLog
	DeliveryLog
	AttemptLog
	DeadLetters
	AuditLog
	NodeLog
	Replays
	ReplayFeeder
	Watch
	LaneLog
	OperationalLog
	Maintenance
	StatsReader
	StatsKeeper
	Overview
	Alerting
	QueueReader
	Logouts
	Answers
	Seals

	// Shared reports whether several nodes may work on this database. When it
	// is false there is one owner, leases never expire and no hints are needed.
	Shared() bool
	// MaxID returns the greatest id stored, 0 in an empty store. A shared
	// database may return 0: there the slot keeps ids apart.
	MaxID(ctx context.Context) (hook.ID, error)
	// Ping checks that the store answers and that its schema is current.
	Ping(ctx context.Context) error
	Close() error
}

// ErrFatal marks an error after which the store must not be used again: a
// failed write or fsync of the embedded store may not be retried, because the
// kernel may have dropped the dirty pages and would report success next time.
var ErrFatal error = &unusableError{"store failed for good"}

// ErrDamaged marks a read that met a part of the store that cannot be read. The
// rest of the store goes on working.
var ErrDamaged error = &unusableError{"a part of the store is damaged and cannot be read"}

// unusableError is a hook.ErrStoreUnavailable that has a cause of its own:
// whoever asked may try again, and must not be told of a mistake.
type unusableError struct{ text string }

func (e *unusableError) Error() string { return e.text }

func (e *unusableError) Unwrap() error { return hook.ErrStoreUnavailable }

// ErrRefused marks a batch that the database will refuse every time because of
// what is in it. Nothing was written. The writer then looks for the culprit
// instead of running the batch again.
var ErrRefused = errors.New("store refuses the data")

// Committer writes.
type Committer interface {
	// Commit writes the whole batch in one transaction and returns once it is
	// durable. It fills in the outcome of every item. On an error nothing may
	// be acknowledged; the same batch with the same ids can then be committed
	// again with Rerun set, which is harmless if the first one did succeed.
	// Errors: hook.ErrStoreFull (nothing written, may work later), ErrRefused
	// (nothing written, never will), ErrFatal, or anything else (outcome
	// unknown, run it again).
	Commit(ctx context.Context, b *Batch) error
}

// DeferredInserter is a store that defers the rows of new deliveries: most of them
// are inserted with their result.
type DeferredInserter interface {
	// InsertDeferred inserts the rows that did not come in time, whatever this
	// process commits meanwhile, and tells all nodes whose lanes got some. It is
	// called a few times a second.
	InsertDeferred(ctx context.Context, now time.Time) error
}

// Tidier is a Committer that leaves work for the time between two commits. It
// must not depend on being asked.
type Tidier interface {
	// Tidy fails with ErrFatal when the store is lost. Other errors mean that
	// the work is left for later.
	Tidy(ctx context.Context) error
}

// Clock is a store with a clock of its own, which all nodes share.
type Clock interface {
	// ClockOffset returns how far this machine's clock is ahead, as exact as the
	// way there and back is short.
	ClockOffset(ctx context.Context) (time.Duration, error)
}

// Mortal is a store that can fail for good, also while nobody commits.
type Mortal interface {
	// AwaitLoss returns why the store has failed for good, once it has, or nil
	// when ctx ends before.
	AwaitLoss(ctx context.Context) error
}

// Logged is a store that keeps a log beside its file. Whoever else reads the
// file, and does not end, keeps the log from being shortened.
type Logged interface {
	// TrimLog shortens a log that is longer than it should be, unless somebody
	// is in the way, and returns how many bytes it has.
	TrimLog(ctx context.Context) (int64, error)
	// LogWritten returns how many bytes this process has written to the log.
	LogWritten() int64
}

// Batch is what one transaction writes.
type Batch struct {
	Node    hook.ID   // who writes; fences the settles
	Now     time.Time // for idempotency keys and lane checkpoints
	Rerun   bool      // an earlier commit of this batch may have succeeded
	Accepts []*Accept
	Settles []*Settle
	Lanes   []*LaneSave

	// Uncounted: no figures are kept of the batch.
	Uncounted bool
}

// Accept is one event with its deliveries and, when the publisher gave one, its
// idempotency key.
type Accept struct {
	Event      hook.Event
	Deliveries []hook.Delivery
	// ConfigRev is the tenant's configuration the event was matched against.
	// The commit refuses the event as Stale when it has moved on.
	ConfigRev  int64
	Key        string // empty: none
	KeyHash    [32]byte
	KeyExpires time.Time

	// Set by Commit.
	Outcome AcceptOutcome
	EventID hook.ID // of the stored event: the first one's on AcceptReplayed
	Count   int     // deliveries of the stored event
}

// AcceptOutcome is what became of one Accept.
type AcceptOutcome uint8

// The outcomes of an accept. Only AcceptStored wrote anything.
const (
	AcceptStored   AcceptOutcome = 1 + iota
	AcceptReplayed               // same key, same content: the first answer again
	AcceptConflict               // same key, other content
	AcceptStale                  // the tenant's endpoints changed: match again
)

// Settle is the new state of a delivery and the attempt that led to it.
type Settle struct {
	Shard int
	Epoch int64
	// Prev is Delivery.Attempts before the attempt. The row is written only
	// while it still has this number, so a settle happens once.
	Prev int
	// Due is Delivery.DueAt as the sender knew it. A row with a request for a
	// manual send and another due time got that request after the sender had read
	// it. Such a request outlives an attempt that fails: what the result makes of the
	// delivery is what the request restores. Without an attempt the settle is then SettleGone.
	Due      time.Time
	Delivery hook.Delivery
	// Attempt is nil when a delivery ends without one (held too long).
	Attempt *hook.Attempt
	// Restored: a manual send was in vain, of a delivery that had ended before. It is
	// again what it was, which is no new end of it.
	Restored bool

	// Set by Commit.
	Outcome SettleOutcome
}

// FirstSuccess reports whether s is the success of the first attempt that its
// delivery ever had, as nearly all are: nothing of its progress has to be stored.
func (s *Settle) FirstSuccess() bool {
	d, p := &s.Delivery, &s.Delivery.Progress
	return s.Attempt != nil && d.State == hook.Delivered && s.Prev == 0 && p.Run == 1 && d.Reason == 0 && d.ReplayID == 0 && d.Restore == nil &&
		p.BackoffSteps == 0 && p.FailedAttempts == 0 && p.Throttles == 0 && p.PrevDelay == 0 && len(p.Limited) == 0
}

// SettleOutcome is what became of one Settle.
type SettleOutcome uint8

// The outcomes of a settle.
const (
	// SettleWritten: row and attempt are stored. When the delivery had been
	// cancelled meanwhile its state stayed cancelled.
	SettleWritten SettleOutcome = 1 + iota
	// SettleFenced: this node does not own the shard in that epoch any more.
	// Nothing was written; the node must drop the shard's lanes.
	SettleFenced
	// SettleGone: the row is not there or has moved on. Nothing was written.
	SettleGone
)

// LaneSave is the checkpoint of one lane, fenced like a settle.
type LaneSave struct {
	Endpoint   hook.ID
	Tenant     hook.ID
	Shard      int
	Epoch      int64
	Checkpoint lane.Checkpoint

	// Set by Commit: SettleWritten or SettleFenced.
	Outcome SettleOutcome
}

// HostLearnt is what the lane was told of its host as it is stored, "" for nothing. So
// is what no document can hold: it is not worth a commit that fails.
func (l *LaneSave) HostLearnt() string {
	if l.Checkpoint.HostLearnt == nil {
		return ""
	}
	text, err := json.Marshal(l.Checkpoint.HostLearnt)
	if err != nil {
		return ""
	}
	return string(text)
}

// LaneReader serves the owner of lanes.
type LaneReader interface {
	// ReadAhead returns up to limit pending deliveries of one endpoint that are
	// due at now, oldest due first. It locks nothing: only the owner of the
	// lane may call it, and the caller skips what it already holds.
	ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error)
	// NewestDue returns up to limit pending deliveries due at now, newest due
	// first: the candidates for a probe.
	NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error)
	// NextDue returns when the first pending delivery after now falls due; zero
	// when there is none.
	NextDue(ctx context.Context, endpoint hook.ID, now time.Time) (time.Time, error)
	// PendingEndpoints returns every endpoint of the given shards that has
	// pending deliveries, with its earliest due time. Its cost grows with the
	// number of such endpoints, not with their backlogs.
	PendingEndpoints(ctx context.Context, shards []int) ([]PendingEndpoint, error)
	// AcceptedSince returns the endpoints that got deliveries with ids from
	// since on: the safety net for hints that were lost.
	AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error)
	// Destinations returns what is needed to send to the given endpoints,
	// deleted ones left out.
	Destinations(ctx context.Context, endpoints []hook.ID) ([]Destination, error)
	// Event returns an event with its payload.
	Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error)
	// Events returns those of the given events that there are, in any order,
	// with their payloads.
	Events(ctx context.Context, ids []hook.ID) ([]hook.Event, error)
	// SavePolicy stores an expanded policy under its hash, once.
	SavePolicy(ctx context.Context, hash hook.PolicyHash, body []byte, now time.Time) error
}

// DueReader reads for several lanes at once. A store that is a network away
// has it.
type DueReader interface {
	// ReadDue is ReadAhead for several endpoints, and NextDue for those that have
	// fewer than the limit. What this process accepted a moment ago may be left
	// out; Next then says to look again soon. Some events of the deliveries may
	// come along.
	ReadDue(ctx context.Context, w Wanted) (map[hook.ID]Due, []hook.Event, error)
}

// Wanted is what a read of several lanes asks for.
type Wanted struct {
	Endpoints []hook.ID
	Known     []hook.ID   // deliveries that are in memory
	Announced []Announced // deliveries that other nodes told of
	Now       time.Time
	Limit     int // deliveries of each endpoint, those that were announced aside
}

// Due is what is due for one endpoint, oldest first, and when more will be.
// Deliveries that were announced come last.
type Due struct {
	Deliveries []hook.Delivery
	Next       time.Time
}

// PendingEndpoint is an endpoint with work on disk.
type PendingEndpoint struct {
	ID  hook.ID
	Due time.Time
}

// InShards keeps the endpoints of the given shards.
func InShards(all []PendingEndpoint, shards []int) []PendingEndpoint {
	var wanted [hook.Shards]bool
	for _, s := range shards {
		wanted[s] = true
	}
	return slices.DeleteFunc(all, func(p PendingEndpoint) bool { return !wanted[hook.ShardOf(p.ID)] })
}

// Destination is an endpoint as its lane needs it.
type Destination struct {
	Endpoint    hook.Endpoint
	TenantLevel hook.PolicyLevel
	Secrets     []hook.Secret // newest first, expired ones included
	Lane        *lane.Checkpoint
	LaneEpoch   int64 // of the owner that saved it
}

// Pacing returns what keeps the requests of its lane apart at now, also of one
// that was never saved. limit is the policy's own rate, 0: none.
func (d *Destination) Pacing(now time.Time, limit float64) lane.Pacing {
	if d.Lane == nil {
		return lane.Checkpoint{}.Pacing(now, limit)
	}
	return d.Lane.Pacing(now, limit)
}

// Leases keep one owner per shard. On a database that is not shared the one
// node owns everything and the ttl is ignored.
type Leases interface {
	// Join registers the node under its name, taking over the row, id and slot
	// of an earlier process of that name. newID is used for a new row. The
	// result carries the id and slot to use.
	Join(ctx context.Context, n hook.Node, newID hook.ID, ttl time.Duration) (hook.Node, error)
	// Heartbeat keeps the node's row alive and returns the live nodes, itself
	// included. It fails with ErrSuperseded when a newer process of the same
	// name has joined.
	Heartbeat(ctx context.Context, n hook.Node, ttl time.Duration) ([]hook.Node, error)
	// Shards returns all shards with owner and whether they may be taken.
	Shards(ctx context.Context, ttl time.Duration) ([]ShardLease, error)
	// TakeShards takes those of the given shards that are free, expired or, when
	// mine is set, still marked as owned by this node (an earlier process of
	// its name), with new epochs. It waits for settles that are running, so
	// that after it no settle of an earlier epoch can commit.
	TakeShards(ctx context.Context, node hook.ID, shards []int, mine bool, ttl time.Duration) ([]Held, error)
	// RenewShards extends the leases and returns those still held.
	RenewShards(ctx context.Context, node hook.ID, held []Held, ttl time.Duration) ([]Held, error)
	// ReleaseShards gives shards up at once.
	ReleaseShards(ctx context.Context, node hook.ID, held []Held) error
	// Leave marks the node as gone.
	Leave(ctx context.Context, n hook.Node) error
}

// ErrSuperseded means that a newer process runs under this node's name.
var ErrSuperseded = errors.New("a newer process runs under this node name")

// Held is a shard owned in one epoch.
type Held struct {
	Shard int
	Epoch int64
}

// ShardLease is the public state of a shard.
type ShardLease struct {
	Shard int
	Owner hook.ID // 0: nobody
	Epoch int64
	Free  bool // no owner, or its lease has ended (or lies in the future beyond any lease)
}

// Hints tell other nodes of new work. They may be lost: they save time, and
// nothing depends on them. Only a shared database has them.
type Hints interface {
	// Hint tells the other nodes. It must not run inside a transaction.
	Hint(ctx context.Context, h Hint) error
	// Listen calls fn for every hint of another node until ctx ends.
	Listen(ctx context.Context, fn func(Hint)) error
}

// HintKind says what a hint is about.
type HintKind uint8

// The kinds of hints.
const (
	HintDue       HintKind = 1 + iota // endpoints with new work
	HintEndpoint                      // endpoints that were changed, commanded or deleted
	HintTenant                        // tenants whose policy or endpoints changed
	HintShards                        // shards were released, or members changed
	HintAnnounced                     // deliveries that were just accepted
	HintDelivery                      // endpoints of which a delivery was cancelled or asked for by hand
)

// Hint is one message to the other nodes.
type Hint struct {
	Kind      HintKind
	IDs       []hook.ID
	Announced []Announced // of HintAnnounced, which has no IDs
}

// Announced names a delivery that was just accepted. Its row may be deferred: its
// event tells the rest.
type Announced struct{ Endpoint, Event, Delivery hook.ID }
