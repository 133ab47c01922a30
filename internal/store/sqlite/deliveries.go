package sqlite

import (
	"context"
	"slices"
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
		&p.Failures, &p.Fails, &p.Throttles, span(&p.PrevDelay, time.Millisecond), document(&p.Limited), number(&d.ReplayID), number(&d.Reason),
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

// deliveryFilter translates the filter of a list.
func deliveryFilter(df store.DeliveryFilter) *filter {
	f := new(filter)
	if df.Tenant != 0 {
		f.and("d.tenant_id = ?", df.Tenant)
	}
	switch len(df.Endpoints) {
	case 0:
	case 1:
		f.and("d.endpoint_id = ?", df.Endpoints[0])
	default:
		f.and("d.endpoint_id IN (SELECT value FROM json_each(?))", idList(df.Endpoints))
	}
	if df.Event != 0 {
		f.and("d.event_id = ?", df.Event)
	}
	switch {
	case len(df.States) == 1 && df.States[0] == hook.Dead:
		f.and("d.state = 2") // written out: it must match the partial indexes
	case len(df.States) > 0:
		f.and("d.state IN (SELECT value FROM json_each(?))", idList(df.States))
	}
	if df.Retrying {
		f.and("d.state = 0 AND d.attempts > 0")
	}
	if len(df.Reasons) > 0 {
		f.and("d.reason IN (SELECT value FROM json_each(?))", idList(df.Reasons))
	}
	if len(df.IDs) > 0 {
		f.and("d.id IN (SELECT value FROM json_each(?))", idList(df.IDs))
	}
	switch {
	case df.SettledBy.IsZero():
	case len(df.States) > 0 && !slices.Contains(df.States, hook.Pending):
		f.and("d.settled_at <= ?", df.SettledBy.UnixMicro())
	default:
		f.and("(d.state = 0 OR d.settled_at <= ?)", df.SettledBy.UnixMicro())
	}
	f.types("e.type", df.Types)
	f.window("d.id", df.Since, df.Until)
	return f
}

// ListDeliveries implements store.DeliveryLog.
func (db *DB) ListDeliveries(ctx context.Context, df store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	f := deliveryFilter(df)
	f.page("d.id", p)
	out, err := search(ctx, db.read, scanDeliveryRow, deliveryRows+f.text(), f.args...)
	return out, db.readErr("list deliveries", err)
}

// CountMatching implements store.DeliveryLog.
func (db *DB) CountMatching(ctx context.Context, df store.DeliveryFilter, limit int) (n int, err error) {
	if err := db.usable(); err != nil {
		return 0, err
	}
	f := deliveryFilter(df)
	f.order = " LIMIT ?"
	f.args = append(f.args, limit)
	query := `SELECT count(*) FROM (SELECT 1 FROM deliveries d LEFT JOIN events e ON e.id = d.event_id` + f.text() + `)`
	err = db.read.QueryRowContext(ctx, query, f.args...).Scan(&n)
	return n, db.readErr("count deliveries", err)
}

const deliveryByID = deliveryRows + ` WHERE d.id = ?1 AND (?2 = 0 OR d.tenant_id = ?2)`

// DeliveryByID implements store.DeliveryLog.
func (db *DB) DeliveryByID(ctx context.Context, tenant, id hook.ID) (d store.DeliveryRow, err error) {
	err = scanDeliveryRow(db.row(ctx, deliveryByID, id, tenant), &d)
	return d, db.readErr("read delivery", err)
}

const attemptsOf = `
SELECT id, tenant_id, delivery_id, endpoint_id, event_id, n, run, kind, class, reason, charged, status, latency_us, policy_hash,
  retry_n, ceiling_ms, u, delay_ms, delay_source, next_due_at, node_id, started_at, error, detail, excerpt
FROM attempts WHERE delivery_id = ?1 AND (?2 = 0 OR tenant_id = ?2) ORDER BY id`

// AttemptsOf implements store.DeliveryLog.
func (db *DB) AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error) {
	out, err := list(ctx, db, scanAttempt, attemptsOf, delivery, tenant)
	return out, db.readErr("read attempts", err)
}

func scanAttempt(r scannable, a *hook.Attempt) error {
	return r.Scan(&a.ID, &a.TenantID, &a.DeliveryID, &a.EndpointID, &a.EventID, &a.Number, &a.Run, &a.Kind, &a.Class, &a.Reason,
		&a.Charged, &a.Status, span(&a.Latency, time.Microsecond), fixed(a.PolicyHash[:]), &a.RetryN,
		span(&a.Ceiling, time.Millisecond), &a.U, span(&a.Delay, time.Millisecond), &a.DelaySource, when(&a.NextDueAt),
		&a.NodeID, when(&a.StartedAt), text(&a.Error), document(&a.Detail), &a.Excerpt)
}
