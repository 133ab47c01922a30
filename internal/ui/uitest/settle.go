package uitest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Deliveries returns the deliveries of a tenant, newest first.
func (w *World) Deliveries(t Tenant) []store.DeliveryRow {
	w.T.Helper()
	rows, _, err := w.DB.ListDeliveries(w.T.Context(), store.DeliveryFilter{Tenant: t.ID}, store.Page{Limit: 250})
	w.OK(err)
	return rows
}

// Settle ends an attempt of a delivery now, with 500 unless change says otherwise, and
// returns the delivery.
func (w *World) Settle(row store.DeliveryRow, state hook.DeliveryState, reason hook.EndReason, change func(*hook.Delivery, *hook.Attempt)) store.DeliveryRow {
	w.T.Helper()
	now := w.Clock.Now()
	d := row.Delivery
	d.State, d.Reason, d.Attempts = state, reason, d.Attempts+1
	if state != hook.Pending {
		d.SettledAt = now
	}
	a := hook.Attempt{
		ID: w.ID(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, NodeID: w.node.ID,
		Number: d.Attempts, Run: d.Progress.Run, Kind: hook.First, Class: hook.Retryable, Reason: hook.ServerError, Charged: true,
		Status: 500, Latency: 1500 * time.Microsecond, StartedAt: now, Excerpt: []byte("oops"),
		Detail: hook.AttemptDetail{URL: "https://hooks.example.com/in"},
	}
	if d.Attempts > 1 {
		a.Kind = hook.Retry
	}
	if change != nil {
		change(&d, &a)
	}
	d.Last = hook.LastResult{AttemptID: a.ID, Class: a.Class, Reason: a.Reason, Status: a.Status, Latency: a.Latency, At: now}
	shard := hook.ShardOf(d.EndpointID)
	s := &store.Settle{Shard: shard, Epoch: w.epochs[shard], Prev: d.Attempts - 1, Delivery: d, Attempt: &a}
	w.OK(w.DB.Commit(w.T.Context(), &store.Batch{Node: w.node.ID, Now: now, Settles: []*store.Settle{s}}))
	if s.Outcome != store.SettleWritten {
		w.T.Fatalf("settle outcome = %v", s.Outcome)
	}
	row.Delivery = d
	return row
}
