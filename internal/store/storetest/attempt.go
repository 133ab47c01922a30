package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// attempt prepares the settle of one more attempt at d with the given answer.
// The delivery stays as it was but for the counters and the last result; the
// caller sets what the answer made of it.
func (w *world) attempt(d hook.Delivery, class hook.Class, reason hook.Reason, status int) *store.Settle {
	a := &hook.Attempt{
		ID: w.id(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID,
		NodeID: w.node.ID, Number: d.Attempts + 1, Run: d.Progress.Run, Kind: hook.First,
		Class: class, Reason: reason, Charged: class != hook.Success, Status: status,
		Latency: 12345 * time.Microsecond, StartedAt: w.now, PolicyHash: hook.PolicyHash{9, 8, 7},
	}
	s := w.settleOf(d)
	s.Attempt = a
	s.Delivery.Attempts++
	s.Delivery.Last = hook.LastResult{
		AttemptID: a.ID, Class: class, Reason: reason, Status: status, Latency: a.Latency, At: w.now,
	}
	return s
}

// settleOf prepares a settle without an attempt.
func (w *world) settleOf(d hook.Delivery) *store.Settle {
	shard := hook.ShardOf(d.EndpointID)
	return &store.Settle{Shard: shard, Epoch: w.epochs[shard], Prev: d.Attempts, Due: d.DueAt, Delivery: d}
}

// success prepares the settle of a 200.
func (w *world) success(d hook.Delivery) *store.Settle {
	s := w.attempt(d, hook.Success, hook.OK, 200)
	s.Delivery.State = hook.Delivered
	s.Delivery.SettledAt = w.now
	if s.Delivery.FirstDeliveredAt.IsZero() {
		s.Delivery.FirstDeliveredAt = w.now
	}
	s.Delivery.Restore = nil
	return s
}

// retry prepares the settle of a 503 that is tried again after wait.
func (w *world) retry(d hook.Delivery, wait time.Duration) *store.Settle {
	s := w.attempt(d, hook.Down, hook.ServerError, 503)
	p := &s.Delivery.Progress
	p.Charged++
	p.BackoffSteps++
	p.FailedAttempts++
	s.Delivery.DueAt = w.now.Add(wait)
	a := s.Attempt
	a.RetryN, a.Ceiling, a.U = p.BackoffSteps, 2*wait, 0.5
	a.Delay, a.DelaySource, a.NextDueAt = wait, hook.DelayBackoff, s.Delivery.DueAt
	return s
}

// dead prepares the settle of a 404 that ends the delivery.
func (w *world) dead(d hook.Delivery) *store.Settle {
	s := w.attempt(d, hook.Permanent, hook.ClientError, 404)
	s.Delivery.State = hook.Dead
	s.Delivery.Reason = hook.DeadPermanent
	s.Delivery.SettledAt = w.now
	return s
}

// expired prepares the settle of a delivery that was held too long.
func (w *world) expired(d hook.Delivery) *store.Settle {
	s := w.settleOf(d)
	s.Delivery.State = hook.Dead
	s.Delivery.Reason = hook.DeadExpired
	s.Delivery.SettledAt = w.now
	return s
}

// one stores an event with one delivery to a new endpoint and returns the
// delivery as it was read back.
func (w *world) one(ten hook.Tenant) hook.Delivery {
	w.t.Helper()
	return w.delivery(w.stored(ten, w.endpoint(ten)).Deliveries[0].ID)
}
