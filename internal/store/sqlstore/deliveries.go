package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// DeliveryColumns are in the order of ScanDelivery.
const DeliveryColumns = `d.id, d.tenant_id, d.event_id, d.endpoint_id, d.state, d.due_at, d.attempts, d.size, d.run, d.run_due_at, d.charged,
  d.failures, d.fails, d.throttles, d.prev_delay_ms, d.limited, coalesce(d.replay_id, 0), coalesce(d.reason, 0),
  d.restore_state, d.restore_due_at, coalesce(d.restore_reason, 0), coalesce(d.last_attempt_id, 0), coalesce(d.last_class, 0),
  coalesce(d.last_reason, 0), coalesce(d.last_status, 0), d.last_latency_us, d.last_at, d.settled_at, d.first_delivered_at`

// ScanDelivery reads DeliveryColumns.
func ScanDelivery(r Row, d *hook.Delivery) error { return scanDeliveryAnd(r, d) }

// scanDeliveryAnd reads DeliveryColumns and what follows them.
func scanDeliveryAnd(r Row, d *hook.Delivery, more ...any) error {
	p, last := &d.Progress, &d.Last
	var state *int64
	var restore hook.Restore
	columns := append([]any{
		&d.ID, &d.TenantID, &d.EventID, &d.EndpointID, &d.State, Time(&d.DueAt), &d.Attempts, &d.Size, &p.Run, Time(&p.RunDueAt), &p.Charged,
		&p.BackoffSteps, &p.FailedAttempts, &p.Throttles, Span(&p.PrevDelay, time.Millisecond), Document(&p.Limited), &d.ReplayID, &d.Reason,
		&state, Time(&restore.DueAt), &restore.Reason, &last.AttemptID, &last.Class,
		&last.Reason, &last.Status, Span(&last.Latency, time.Microsecond), Time(&last.At), Time(&d.SettledAt), Time(&d.FirstDeliveredAt),
	}, more...)
	if err := r.Scan(columns...); err != nil {
		return err
	}
	if state != nil {
		restore.State = hook.DeliveryState(*state)
		d.Restore = &restore
	}
	return nil
}

// scanDeliveryRow reads DeliveryColumns and the type of the event.
func scanDeliveryRow(r Row, d *store.DeliveryRow) error {
	return scanDeliveryAnd(r, &d.Delivery, &d.Type)
}

// deliveryByID reads a delivery with its event's type.
const deliveryByID visible.SQL = `
SELECT ` + DeliveryColumns + `, coalesce(e.type, '') FROM deliveries d LEFT JOIN events e ON e.id = d.event_id
WHERE d.id = $1 AND (d.tenant_id = $2 OR $2 = 0)`

// DeliveryByID implements store.DeliveryLog.
func (t *Tables) DeliveryByID(ctx context.Context, tenant, id hook.ID) (store.DeliveryRow, error) {
	seen, err := t.dialect.MakeVisible(ctx, &store.DeliveryFilter{IDs: []hook.ID{id}})
	if err != nil {
		return store.DeliveryRow{}, err
	}
	return get(ctx, t, "read delivery", scanDeliveryRow, seen.Text(deliveryByID), id, tenant)
}

// attemptsOf looks at attempts that are younger than their delivery, which they
// all are: that spares the partitions before it, where there are any.
const attemptsOf = `
SELECT id, tenant_id, delivery_id, endpoint_id, event_id, n, run, kind, class, reason, charged, coalesce(status, 0), latency_us, policy_hash,
  coalesce(retry_n, 0), ceiling_ms, coalesce(u, 0.0), delay_ms, coalesce(delay_source, 0), next_due_at, node_id, started_at,
  coalesce(error, ''), detail, excerpt
FROM attempts WHERE delivery_id = $1 AND id >= $1 AND (tenant_id = $2 OR $2 = 0) ORDER BY id`

// AttemptsOf implements store.DeliveryLog.
func (t *Tables) AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error) {
	firstAttempt := visible.NeedsAttempt.Text(t.dialect.FirstAttempt())
	first, err := list(ctx, t, "read first attempt", scanFirstAttempt, &Query{SQL: firstAttempt, Args: []any{delivery, tenant}})
	if err != nil {
		return nil, err
	}
	others, err := list(ctx, t, "read attempts", scanAttempt, &Query{SQL: attemptsOf, Args: []any{delivery, tenant}})
	return append(first, others...), err
}

func scanFirstAttempt(r Row, a *hook.Attempt) error {
	var document string
	if err := r.Scan(&a.DeliveryID, &a.TenantID, &a.EndpointID, &a.EventID, &document, &a.Excerpt); err != nil {
		return err
	}
	return store.ParseAttempt([]byte(document), a)
}

func scanAttempt(r Row, a *hook.Attempt) error {
	return r.Scan(&a.ID, &a.TenantID, &a.DeliveryID, &a.EndpointID, &a.EventID, &a.Number, &a.Run, &a.Kind, &a.Class, &a.Reason,
		&a.Charged, &a.Status, Span(&a.Latency, time.Microsecond), Fixed(a.PolicyHash[:]), &a.RetryN,
		Span(&a.Ceiling, time.Millisecond), &a.U, Span(&a.Delay, time.Millisecond), &a.DelaySource, Time(&a.NextDueAt),
		&a.NodeID, Time(&a.StartedAt), &a.Error, Document(&a.Detail), &a.Excerpt)
}
