package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// QueueReader counts what is stored for those who run the server. Its cost is
// bounded, not small: it is asked now and then, and never on the way of an event.
type QueueReader interface {
	// WaitingEndpoints returns the endpoints of the given shards that have pending
	// deliveries: LaneReader.PendingEndpoints for those who only look. A store that
	// cannot be read there is not lost because of it.
	WaitingEndpoints(ctx context.Context, shards []int) ([]hook.ID, error)
	// Queues counts the pending deliveries of endpoints by what they wait for.
	Queues(ctx context.Context, endpoints []hook.ID, now time.Time, b QueueBounds) ([]Queue, error)
	// DeadLetters counts the dead letters of all tenants by reason, and no more
	// than limit of them.
	DeadLetters(ctx context.Context, limit int) (map[hook.EndReason]int64, error)
}

// QueueBounds bound what is spent on one endpoint.
type QueueBounds struct {
	Count int // deliveries that are counted, of those due and of those not
	Look  int // of these, how many are looked at: whether they were tried before
}

// Queue is what waits for one endpoint. What was counted and not looked at is
// taken to be untried.
type Queue struct {
	EndpointID hook.ID
	TenantID   hook.ID // 0 when nothing waits
	Ready      int64   // due and never tried; the lane sends
	Delayed    int64   // not due yet and never tried
	Retrying   int64   // tried before
	Held       int64   // due, but the lane is open or told to wait, the endpoint paused or disabled

	// Since when the oldest waits; zero: there is none. What is retrying waits
	// since it was first due.
	ReadySince, RetryingSince, HeldSince time.Time
}

// QueueCounts are what a dialect counts of one endpoint.
type QueueCounts struct {
	Tenant hook.ID
	Held   bool // the lane sends nothing

	Due, DueTried     int64
	Later, LaterTried int64 // not due yet

	// The earliest due time of all that are due and of those untried, and when the
	// earliest of those tried was first due.
	DueAt, UntriedAt, TriedAt, LaterTriedAt time.Time
}

// Queue says what the counts mean.
func (c *QueueCounts) Queue(endpoint hook.ID) Queue {
	q := Queue{EndpointID: endpoint, Delayed: c.Later - c.LaterTried, Retrying: c.LaterTried, RetryingSince: c.LaterTriedAt}
	if c.Due+c.Later > 0 {
		q.TenantID = c.Tenant
	}
	if c.Held {
		q.Held, q.HeldSince = c.Due, c.DueAt
		return q
	}
	q.Ready, q.ReadySince = c.Due-c.DueTried, c.UntriedAt
	q.Retrying += c.DueTried
	q.RetryingSince = earlier(q.RetryingSince, c.TriedAt)
	return q
}

// EndpointIDs returns the ids of endpoints.
func EndpointIDs(all []PendingEndpoint) []hook.ID {
	ids := make([]hook.ID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// earlier is the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
