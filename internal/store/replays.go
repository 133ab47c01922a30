package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Replays keeps replays for people.
type Replays interface {
	// CreateReplay stores a new replay.
	CreateReplay(ctx context.Context, j hook.ReplayJob, a hook.Audit) error
	ReplayByID(ctx context.Context, tenant, id hook.ID) (hook.ReplayJob, error)
	// ListReplays returns replays in one of the given states; none: in any.
	ListReplays(ctx context.Context, tenant hook.ID, states []hook.ReplayState, p Page) ([]hook.ReplayJob, error)
	// UpdateReplay stores the state, the pace and the times of j if the stored
	// Version is j.Version, else it fails with hook.ErrVersionMismatch. Filter,
	// cursor and counters stay as they are, but for Total and Skipped of a
	// replay that is done: the two are settled then. A nil record writes none.
	UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (hook.ReplayJob, error)
	// MissingReader finds what a replay creates deliveries for.
	MissingReader
	// CountByEndpoint counts up to limit deliveries by endpoint.
	CountByEndpoint(ctx context.Context, f DeliveryFilter, limit int) (map[hook.ID]int64, error)
}

// ReplayFeeder serves whoever runs replays.
type ReplayFeeder interface {
	// ActiveReplays returns up to limit replays that have not ended, oldest
	// first.
	ActiveReplays(ctx context.Context, limit int) ([]hook.ReplayJob, error)
	// UpdateReplay is that of Replays.
	UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (hook.ReplayJob, error)
	// StartReplay makes a queued replay run at its first pace, unless another
	// one of its endpoint (or of its tenant, when either spans endpoints) is
	// being fed or has waited longer. It reports whether it did.
	StartReplay(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) (bool, error)
	// FeedReplay makes the next deliveries of a running replay pending and due
	// at f.Now, creates those that are missing, both in the order of the ids of
	// deliveries and events, and moves its cursor and counters with them in one
	// transaction. It fails with hook.ErrStateConflict, and nothing written,
	// when the cursor is not where the caller saw it or the replay does not run
	// any more: of two that feed the same page one wins.
	FeedReplay(ctx context.Context, f Feed) (Fed, error)
	// NextOfReplay returns the endpoints of the next n deliveries of a replay.
	NextOfReplay(ctx context.Context, j *hook.ReplayJob, n int) ([]hook.ID, error)
}

// MissingReader finds events that an endpoint has no delivery of.
type MissingReader interface {
	// MissingEvents returns up to p.Limit events behind p.After that a replay is
	// about and that its endpoint has no delivery of, neither a row nor one whose
	// row is deferred, oldest first: those whose type its filter and the endpoint
	// ask for. Whether their content does is for the caller to see. Events that
	// were published for named endpoints are not among them. next is the After of
	// what is behind p.ScanLimit events, MissingScanLimit by default; 0 at the end.
	MissingEvents(ctx context.Context, j *hook.ReplayJob, p Page) (page []MissingEvent, next hook.ID, err error)
}

// MissingEvent is an event that an endpoint has no delivery of.
type MissingEvent struct {
	ID       hook.ID
	Size     int     // of the payload
	Delivery hook.ID // that is to be created; it must be at least ReplayJob.EndID
}

// Missing is what a step of a replay creates deliveries for: all of its events with
// ids up to Upto and behind the cursor.
type Missing struct {
	Events []MissingEvent
	Upto   hook.ID
}

// MissingScanLimit is how many events one read of MissingEvents looks at.
const MissingScanLimit = 2 * ScanLimit

// MissingRange returns the ids of the events that a replay may create deliveries
// for, behind a page's After.
func MissingRange(j *hook.ReplayJob, p Page) IDs {
	f := DeliveryFilter{Since: j.Filter.Since, Until: j.Filter.Until}
	p.Asc = true
	r := f.Range(p)
	r.To = min(r.To, j.EndID)
	return r
}

// Feed is one step of a replay.
type Feed struct {
	Replay    hook.ReplayJob // as it was read
	Limit     int            // deliveries to look at, at least 1
	Missing   Missing        // of a replay with Filter.Missing, behind Replay.Cursor
	Now       time.Time
	PacedAt   time.Time // how far the pace is used up after this step
	ScanLimit int       // deliveries to look at in search of those, 0 for ReplayScanLimit
}

// Fed is what a step did.
type Fed struct {
	Fed       int // pending again, or created
	Skipped   int // looked at, but pending, changed or without a destination
	Cursor    hook.ID
	Endpoints []hook.ID // with deliveries that are due now
}

// ReplayScanLimit is how many deliveries one step of a replay looks at. Nobody waits
// for it, so it may look at more than a list.
const ReplayScanLimit = 10 * ScanLimit

// MatchOf returns the filter of the deliveries that a replay is about. Pending
// ones match only when they are named one by one, to be counted as skipped.
func MatchOf(j *hook.ReplayJob) DeliveryFilter {
	f := DeliveryFilter{
		Tenant: j.TenantID, States: j.Filter.States, Reasons: j.Filter.Reasons, Types: j.Filter.Types,
		IDs: j.Filter.Deliveries, Since: j.Filter.Since, Until: replayBound(j.CreatedAt), SettledBy: j.CreatedAt,
	}
	if j.EndpointID != 0 {
		f.Endpoints = []hook.ID{j.EndpointID}
		if len(f.IDs) == 0 {
			f.Tenant = 0 // the endpoint says it all, and leaves one index to choose
		}
	}
	if !j.Filter.Until.IsZero() && j.Filter.Until.Before(f.Until) {
		f.Until = j.Filter.Until
	}
	if len(f.IDs) > 0 {
		f.States = append([]hook.DeliveryState{hook.Pending}, f.States...)
	}
	return f
}

// ReplayEnd returns the upper bound of a replay that is created at t: ids from
// there on are younger.
func ReplayEnd(t time.Time) hook.ID { return hook.IDFloor(replayBound(t)) }

// replayBound takes in deliveries of the same millisecond: ids know no less.
func replayBound(t time.Time) time.Time { return t.Add(time.Millisecond) }

// ReplayTally is what one settle, or all of a batch, add to a replay.
type ReplayTally struct {
	Answers, Errors, Refused, Delivered, Failed int64
}

// Add counts one settle. ended tells that the settle ended the delivery, and
// not somebody else before it.
func (t *ReplayTally) Add(s *Settle, ended bool) {
	if s.Attempt != nil {
		switch s.Attempt.Class {
		case hook.Success:
			t.Answers++
		case hook.Down, hook.Throttle, hook.Retryable, hook.Limited:
			t.Answers++
			t.Errors++
		case hook.Permanent:
			t.Answers++
			t.Refused++
		case hook.Local: // not the destination's doing
		}
	}
	switch {
	case !ended:
	case s.Delivery.State == hook.Delivered:
		t.Delivered++
	default:
		t.Failed++
	}
}

// ReplayTallies is what the settles of a batch mean to replays; nil when to none.
type ReplayTallies map[hook.ID]ReplayTally

// Add counts one settle for the replay that its delivery belongs to. Nearly no
// delivery belongs to one.
func (t *ReplayTallies) Add(s *Settle, ended bool) {
	id := s.Delivery.ReplayID
	if id == 0 {
		return
	}
	if *t == nil {
		*t = make(ReplayTallies, 1)
	}
	tally := (*t)[id]
	tally.Add(s, ended)
	(*t)[id] = tally
}
