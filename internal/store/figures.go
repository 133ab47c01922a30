package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Log adds to the figures what it means that the event is stored.
func (a *Accept) Log(l stats.Ledger) {
	tenant := a.Event.TenantID
	l.Begin(a.Event.ID, stats.Owner{Tenant: tenant})
	l.Count(stats.Events, 1)
	l.End()
	for i := range a.Deliveries {
		l.Begin(a.Event.ID, stats.Owner{Tenant: tenant, Endpoint: a.Deliveries[i].EndpointID})
		l.Count(stats.Accepted, 1)
		l.End()
	}
}

// Log adds to the figures what it means that the result is stored, and that the
// delivery ended with it if its state says so. A store that knows that it did not
// end says so.
func (s *Settle) Log(l stats.Ledger, mayEnd bool) {
	d := &s.Delivery
	l.Begin(d.ID, stats.Owner{Tenant: d.TenantID, Endpoint: d.EndpointID})
	if s.Attempt != nil {
		logAttempt(l, s.Attempt)
	}
	if mayEnd && d.State != hook.Pending {
		l.IfEnded()
		s.logEnd(l)
	}
	l.End()
}

// MayReopen reports whether the result, if it is stored, may meet a request for a
// manual send that came meanwhile. With it the delivery ends and is pending again.
func (s *Settle) MayReopen() bool {
	return s.Attempt != nil && s.Attempt.Class != hook.Success && s.Delivery.State != hook.Pending
}

// LogReopened adds to the figures that there was such a request. The entry has the
// negative id of the delivery, which nothing else has.
func (s *Settle) LogReopened(l stats.Ledger) {
	d := &s.Delivery
	l.Begin(-d.ID, stats.Owner{Tenant: d.TenantID, Endpoint: d.EndpointID})
	l.Count(stats.Reopened, 1)
	l.End()
}

func logAttempt(l stats.Ledger, a *hook.Attempt) {
	l.Count(stats.Attempts(a.Kind), 1)
	l.Count(stats.AttemptTook(a.Latency), 1)
	if a.Detail.LaneLimit > 0 {
		logLane(l, &a.Detail)
	}
	if a.Number == 2 {
		l.Count(stats.SecondTries, 1)
	}
	if a.Class == hook.Success {
		return
	}
	l.Count(stats.Failed(a.Reason), 1)
	if a.Kind == hook.First {
		l.Count(stats.FailedFirst, 1)
	}
}

// logLane tells what the lane was like when it sent.
func logLane(l stats.Ledger, d *hook.AttemptDetail) {
	limit := uint64(d.LaneLimit)
	l.Tell(stats.Limit, limit)
	l.Tell(stats.LimitLow, limit)
	l.Tell(stats.InFlight, uint64(max(d.LaneInFlight, 0)))
	open := uint64(0)
	if d.LaneState != "closed" { // a probe is sent by an open lane
		open = 1
	}
	l.Tell(stats.Breaker, open)
}

func (s *Settle) logEnd(l stats.Ledger) {
	if s.Restored {
		l.Count(stats.Restored, 1)
		return
	}
	switch d := &s.Delivery; d.State {
	case hook.Delivered:
		l.Count(stats.Delivered(d.Attempts), 1)
		l.Count(stats.TriesOfDelivered, uint64(s.tries()))
		l.Count(stats.DeliveryTook(s.Took()), 1)
	case hook.Dead:
		l.Count(stats.Dead(d.Reason), 1)
	case hook.Cancelled:
		l.Count(stats.Cancelled, 1)
	case hook.Pending:
	}
}

func (s *Settle) byHand() bool { return s.Attempt != nil && s.Attempt.Kind == hook.Manual }

// Took is how long a delivery took that has arrived: since its run was due, or since
// a person asked for it, which may be long after its run has ended.
func (s *Settle) Took() time.Duration {
	if s.byHand() {
		return s.Delivery.SettledAt.Sub(s.Due)
	}
	return s.Delivery.SettledAt.Sub(s.Delivery.Progress.RunDueAt)
}

// tries is how many attempts a delivery took that has arrived. Those of earlier
// runs failed for reasons of their own.
func (s *Settle) tries() int {
	if s.byHand() {
		return 1
	}
	return s.Delivery.Progress.FailedAttempts + 1
}

// lateFor is how long something must have waited for its queue to be worth telling:
// what is sent at once is no queue.
const lateFor = 10 * time.Second

// QueueCount is what a node has counted of queues.
type QueueCount struct {
	Queues []Queue
	Now    time.Time
	// Since is when they were counted before: for so long they were as they are
	// now, as far as anybody knows.
	Since time.Time
	// Looked: Since to Now is time that was looked at. One node of the fleet says so.
	Looked bool
}

// mostCounted bounds how long one count stands for.
const mostCounted = 10 * time.Minute

// Logs returns what the count adds to the figures of each minute that it stands for,
// the latest first.
func (c *QueueCount) Logs() []stats.Record {
	var out []stats.Record
	sums := c.byTenant()
	for to, since := c.Now, later(c.Since, c.Now.Add(-mostCounted)); len(out) == 0 || to.After(since); {
		from := later(stats.Minutes.Floor(to.Add(-1)), since)
		var l stats.Log
		if len(out) == 0 {
			logQueues(&l, c.Now, c.Queues)
		}
		if seconds := to.Unix() - from.Unix(); seconds > 0 {
			logSums(&l, sums, c.Looked, uint64(seconds))
		}
		out = append(out, stats.Record{At: from, Packed: l.Packed()})
		to = from
	}
	out[0].At = later(out[0].At, stats.Minutes.Floor(c.Now)) // what is now is of this minute
	return slices.DeleteFunc(out, func(r stats.Record) bool { return len(r.Packed) == 0 })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *QueueCount) byTenant() map[hook.ID]Queue {
	sums := make(map[hook.ID]Queue)
	for i := range c.Queues {
		q := &c.Queues[i]
		if sum := sums[q.TenantID]; q.TenantID != 0 {
			sum.Ready += q.Ready
			sum.Delayed += q.Delayed
			sum.Retrying += q.Retrying
			sum.Held += q.Held
			sums[q.TenantID] = sum
		}
	}
	return sums
}

// logSums adds for how long the deliveries of tenants waited.
func logSums(l *stats.Log, sums map[hook.ID]Queue, looked bool, seconds uint64) {
	for _, tenant := range slices.Sorted(maps.Keys(sums)) {
		q := sums[tenant]
		l.Begin(0, stats.Owner{Tenant: tenant})
		for counter, n := range map[stats.Counter]int64{
			stats.ReadySeconds: q.Ready, stats.DelayedSeconds: q.Delayed, stats.RetryingSeconds: q.Retrying, stats.HeldSeconds: q.Held,
		} {
			if n > 0 {
				l.Count(counter, uint64(n)*seconds)
			}
		}
		l.End()
	}
	if looked {
		l.Begin(0, stats.Owner{})
		l.Count(stats.LookedSeconds, seconds)
		l.End()
	}
}

// logQueues adds to the figures what waits for endpoints that are retried, held or
// late.
func logQueues(l *stats.Log, now time.Time, queues []Queue) {
	for i := range queues {
		q := &queues[i]
		oldest := time.Duration(0)
		if since := earlier(q.ReadySince, earlier(q.RetryingSince, q.HeldSince)); !since.IsZero() {
			oldest = now.Sub(since)
		}
		if q.Retrying+q.Held == 0 && oldest < lateFor {
			continue
		}
		l.Begin(0, stats.Owner{Endpoint: q.EndpointID})
		l.Tell(stats.Ready, uint64(q.Ready))
		l.Tell(stats.Delayed, uint64(q.Delayed))
		l.Tell(stats.Retrying, uint64(q.Retrying))
		l.Tell(stats.Held, uint64(q.Held))
		l.Tell(stats.Oldest, uint64(max(oldest, 0).Seconds()))
		l.End()
	}
}

// FigureOptions are how a store keeps figures.
type FigureOptions struct {
	// Uncounted: what people do is not counted, as with Batch.Uncounted.
	Uncounted bool
	// Damaged is told of stored figures that cannot be read, each time. They are left
	// out. It must not block; nil: nobody is told.
	Damaged func(of stats.Subject, at time.Time)
}

// StatsReader reads figures.
type StatsReader interface {
	// Stats returns the figures of a subject between two moments: days, hours and
	// minutes, as they are kept. A piece that has begun before belongs to it. What
	// was committed since the last FoldStats is not in them.
	Stats(ctx context.Context, s stats.Subject, from, to time.Time) ([]stats.Point, error)
	// Troubled returns whose figures tell of trouble in a minute that is not over
	// before since (see stats.Counts.Trouble). Some may be deleted by now.
	Troubled(ctx context.Context, since time.Time) ([]stats.Subject, error)
}

// StatsKeeper adds figures up and keeps them from growing for ever.
type StatsKeeper interface {
	// TellQueues stores what waits for endpoints, as QueueCount.Logs tells it.
	TellQueues(ctx context.Context, c QueueCount) error
	// FoldStats adds logs of commits to the figures of their minutes until it has
	// taken limit, about as many bytes, and returns how much that was: less than
	// limit when there are no more. What is counted in so many bytes also bounds how
	// many figures change and how long that takes, which the number of logs does not.
	FoldStats(ctx context.Context, limit int) (int, error)
	// RollUp makes coarser pieces of those that are over at a moment, of at most
	// limit rows, and returns how many it took.
	RollUp(ctx context.Context, from stats.Step, before time.Time, limit int) (int, error)
	// DropStats removes pieces that began before a moment, at most limit, and
	// returns how many it removed.
	DropStats(ctx context.Context, step stats.Step, before time.Time, limit int) (int, error)
}
