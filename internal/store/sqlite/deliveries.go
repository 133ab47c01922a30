package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const deliveryColumns = `d.id, d.tenant_id, d.event_id, d.endpoint_id, d.state, d.due_at, d.attempts, d.size, d.run, d.run_due_at, d.charged,
  d.failures, d.fails, d.throttles, d.prev_delay_ms, d.limited, d.replay_id, d.reason, d.last_attempt_id, d.last_class, d.last_reason,
  d.last_status, d.last_latency_us, d.last_at, d.settled_at, d.first_delivered_at, d.restore_state, d.restore_due_at, d.restore_reason`

func scanDelivery(r scannable, d *hook.Delivery) error { return scanDeliveryAnd(r, d) }

// scanDeliveryAnd reads deliveryColumns and what follows them.
func scanDeliveryAnd(r scannable, d *hook.Delivery, more ...any) error {
	p, last := &d.Progress, &d.Last
	var restore struct {
		state  *int64
		due    time.Time
		reason hook.EndReason
	}
	columns := append([]any{
		&d.ID, &d.TenantID, &d.EventID, &d.EndpointID, &d.State, when(&d.DueAt), &d.Attempts, &d.Size, &p.Run, when(&p.RunDueAt), &p.Charged,
		&p.BackoffSteps, &p.FailedAttempts, &p.Throttles, span(&p.PrevDelay, time.Millisecond), document(&p.Limited), number(&d.ReplayID), number(&d.Reason),
		number(&last.AttemptID), number(&last.Class), number(&last.Reason), number(&last.Status), span(&last.Latency, time.Microsecond),
		when(&last.At), when(&d.SettledAt), when(&d.FirstDeliveredAt), &restore.state, when(&restore.due), number(&restore.reason),
	}, more...)
	if err := r.Scan(columns...); err != nil {
		return err
	}
	if restore.state != nil {
		d.Restore = &hook.Restore{State: hook.DeliveryState(*restore.state), DueAt: restore.due, Reason: restore.reason}
	}
	return nil
}

func scanDeliveryRow(r scannable, d *store.DeliveryRow) error {
	return scanDeliveryAnd(r, &d.Delivery, text(&d.Type))
}

// deliveryRows reads deliveries with their event's type.
const deliveryRows = `
SELECT ` + deliveryColumns + `, e.type FROM deliveries d LEFT JOIN events e ON e.id = d.event_id`

// ListDeliveries implements store.DeliveryLog.
func (db *DB) ListDeliveries(ctx context.Context, df store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, hook.ID, error) {
	rows, next, err := find(ctx, db, &df, p, deliveryColumns+", e.type", scanDeliveryRow, func(r store.DeliveryRow) hook.ID { return r.ID })
	return rows, next, db.readErr("list deliveries", err)
}

// CountMatching implements store.DeliveryLog.
func (db *DB) CountMatching(ctx context.Context, df store.DeliveryFilter, p store.Page) (store.Counted, error) {
	n, err := db.countMatching(ctx, &df, p)
	return n, db.readErr("count deliveries", err)
}

const deliveryByID = deliveryRows + ` WHERE d.id = ?1 AND (?2 = 0 OR d.tenant_id = ?2)`

// DeliveryByID implements store.DeliveryLog.
func (db *DB) DeliveryByID(ctx context.Context, tenant, id hook.ID) (d store.DeliveryRow, err error) {
	err = scanDeliveryRow(db.row(ctx, deliveryByID, id, tenant), &d)
	return d, db.readErr("read delivery", err)
}

// firstAttemptOf reads the attempt that its delivery names.
const firstAttemptOf = `
SELECT d.id, d.tenant_id, d.endpoint_id, d.event_id, a.document, a.excerpt FROM deliveries d JOIN first_attempts a ON a.id = d.first_attempt_id
WHERE d.id = ?1 AND (?2 = 0 OR d.tenant_id = ?2)`

const attemptsOf = `
SELECT id, tenant_id, delivery_id, endpoint_id, event_id, n, run, kind, class, reason, charged, status, latency_us, policy_hash,
  retry_n, ceiling_ms, u, delay_ms, delay_source, next_due_at, node_id, started_at, error, detail, excerpt
FROM attempts WHERE delivery_id = ?1 AND (?2 = 0 OR tenant_id = ?2) ORDER BY id`

// AttemptsOf implements store.DeliveryLog.
func (db *DB) AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error) {
	out, err := list(ctx, db, scanFirstAttempt, firstAttemptOf, delivery, tenant)
	if err != nil {
		return nil, db.readErr("read first attempt", err)
	}
	others, err := list(ctx, db, scanAttempt, attemptsOf, delivery, tenant)
	return append(out, others...), db.readErr("read attempts", err)
}

func scanFirstAttempt(r scannable, a *hook.Attempt) error {
	var document string
	if err := r.Scan(&a.DeliveryID, &a.TenantID, &a.EndpointID, &a.EventID, &document, &a.Excerpt); err != nil {
		return err
	}
	return store.ParseAttempt([]byte(document), a)
}

func scanAttempt(r scannable, a *hook.Attempt) error {
	return r.Scan(&a.ID, &a.TenantID, &a.DeliveryID, &a.EndpointID, &a.EventID, &a.Number, &a.Run, &a.Kind, &a.Class, &a.Reason,
		&a.Charged, &a.Status, span(&a.Latency, time.Microsecond), fixed(a.PolicyHash[:]), &a.RetryN,
		span(&a.Ceiling, time.Millisecond), &a.U, span(&a.Delay, time.Millisecond), &a.DelaySource, when(&a.NextDueAt),
		&a.NodeID, when(&a.StartedAt), text(&a.Error), document(&a.Detail), &a.Excerpt)
}
