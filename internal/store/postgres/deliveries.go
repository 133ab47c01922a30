package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// deliveryFields are in the order of deliveryScan.
const deliveryFields = `d.id, d.tenant_id, d.event_id, d.endpoint_id, d.state, d.due_at, d.attempts, d.size, d.run, d.run_due_at, d.charged,
  d.failures, d.fails, d.throttles, coalesce(d.prev_delay_ms, 0), d.limited, coalesce(d.replay_id, 0), coalesce(d.reason, 0),
  d.restore_state, d.restore_due_at, coalesce(d.restore_reason, 0), coalesce(d.last_attempt_id, 0), coalesce(d.last_class, 0),
  coalesce(d.last_reason, 0), coalesce(d.last_status, 0), coalesce(d.last_latency_us, 0), d.last_at, d.settled_at, d.first_delivered_at`

// deliveryScan holds what of a row needs work before it is a delivery.
type deliveryScan struct {
	prevDelay, latency int64
	restoreState       pgtype.Int2
	restore            hook.Restore
}

// targets are the places to scan deliveryFields into.
func (s *deliveryScan) targets(d *hook.Delivery) []any {
	p, l := &d.Progress, &d.Last
	return []any{
		&d.ID, &d.TenantID, &d.EventID, &d.EndpointID, &d.State, (*moment)(&d.DueAt), &d.Attempts, &d.Size, &p.Run, (*moment)(&p.RunDueAt), &p.Charged,
		&p.BackoffSteps, &p.FailedAttempts, &p.Throttles, &s.prevDelay, &p.Limited, &d.ReplayID, &d.Reason,
		&s.restoreState, (*moment)(&s.restore.DueAt), &s.restore.Reason, &l.AttemptID, &l.Class,
		&l.Reason, &l.Status, &s.latency, (*moment)(&l.At), (*moment)(&d.SettledAt), (*moment)(&d.FirstDeliveredAt),
	}
}

func (s *deliveryScan) finish(d *hook.Delivery) {
	d.Progress.PrevDelay = time.Duration(s.prevDelay) * time.Millisecond
	d.Last.Latency = time.Duration(s.latency) * time.Microsecond
	if s.restoreState.Valid {
		s.restore.State = hook.DeliveryState(s.restoreState.Int16)
		d.Restore = &s.restore
	}
}

func scanDelivery(row pgx.Row) (d hook.Delivery, err error) {
	var s deliveryScan
	err = row.Scan(s.targets(&d)...)
	s.finish(&d)
	return d, err
}

func scanDeliveryRow(row pgx.Row) (d store.DeliveryRow, err error) {
	var s deliveryScan
	err = row.Scan(append(s.targets(&d.Delivery), &d.Type)...)
	s.finish(&d.Delivery)
	return d, err
}

// deliveryRow adds the event's type. The event is found in one partition.
const deliveryRow visible.SQL = `SELECT ` + deliveryFields + `, coalesce(e.type, '') FROM deliveries d LEFT JOIN events e ON e.id = d.event_id`

const deliveryByID = deliveryRow + ` WHERE d.id = $1 AND ($2::bigint = 0 OR d.tenant_id = $2)`

// DeliveryByID returns a delivery.
func (d *DB) DeliveryByID(ctx context.Context, tenant, id hook.ID) (store.DeliveryRow, error) {
	seen, err := d.makeVisibleToShow(ctx, deferred.Scope{Delivery: id})
	if err != nil {
		return store.DeliveryRow{}, err
	}
	row, err := scanDeliveryRow(d.pool.QueryRow(ctx, seen.Text(deliveryByID), id, int64(tenant)))
	if err != nil {
		return store.DeliveryRow{}, failed("read delivery", err)
	}
	return row, nil
}

// ListDeliveries returns a page of the deliveries that match.
func (d *DB) ListDeliveries(ctx context.Context, f store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, hook.ID, error) {
	return find(ctx, d, &f, p, deliveryFields+", "+typeOf, "list deliveries", scanDeliveryRow, func(r store.DeliveryRow) hook.ID { return r.ID })
}

// CountMatching counts the deliveries that match.
func (d *DB) CountMatching(ctx context.Context, f store.DeliveryFilter, p store.Page) (store.Counted, error) {
	n, err := d.countMatching(ctx, &f, p)
	if err != nil {
		return store.Counted{}, failed("count deliveries", err)
	}
	return n, nil
}

func (d *DB) countMatching(ctx context.Context, f *store.DeliveryFilter, p store.Page) (store.Counted, error) {
	seen, err := d.makeMatchingVisible(ctx, f)
	if err != nil {
		return store.Counted{}, err
	}
	if f.CountsDue() {
		endpoints, all, err := d.endpointsOf(ctx, f)
		if err != nil {
			return store.Counted{}, err
		}
		if all {
			n, err := d.countDue(ctx, seen, endpoints, f.DueBy, p.Limit+1)
			return store.AtMost(n, p.Limit), err
		}
	}
	w, err := d.chooseWalk(ctx, seen, f, p)
	if err != nil {
		return store.Counted{}, err
	}
	return looker(ctx, d, seen, f, w, p, "", "", scanDeliveryRow).Counted(f, w, p)
}

const attemptsOf = `
SELECT id, tenant_id, delivery_id, endpoint_id, event_id, node_id, n, run, kind, class, reason, charged, coalesce(status, 0), latency_us,
  started_at, policy_hash, coalesce(retry_n, 0), coalesce(ceiling_ms, 0), coalesce(u, 0), coalesce(delay_ms, 0), coalesce(delay_source, 0),
  next_due_at, coalesce(error, ''), coalesce(detail, '{}'), excerpt
FROM attempts WHERE delivery_id = $1 AND id >= $1 AND ($2::bigint = 0 OR tenant_id = $2) ORDER BY id`

// firstAttempt is the attempt that the row of a delivery was inserted with.
const firstAttempt visible.SQL = `
SELECT id, tenant_id, endpoint_id, event_id, first_attempt, first_excerpt FROM deliveries
WHERE id = $1 AND ($2::bigint = 0 OR tenant_id = $2) AND first_attempt IS NOT NULL`

// AttemptsOf returns the attempts of a delivery, oldest first. An attempt is
// younger than its delivery, which spares the partitions before it.
func (d *DB) AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error) {
	first, err := collect(ctx, d.pool, &query{visible.NeedsAttempt.Text(firstAttempt), []any{delivery, int64(tenant)}}, "read first attempt", scanFirstAttempt)
	if err != nil {
		return nil, err
	}
	others, err := collect(ctx, d.pool, &query{attemptsOf, []any{delivery, int64(tenant)}}, "read attempts", scanAttempt)
	return append(first, others...), err
}

func scanFirstAttempt(row pgx.Row) (a hook.Attempt, err error) {
	var document string
	if err := row.Scan(&a.DeliveryID, &a.TenantID, &a.EndpointID, &a.EventID, &document, &a.Excerpt); err != nil {
		return hook.Attempt{}, err
	}
	err = store.ParseAttempt([]byte(document), &a)
	return a, err
}

func scanAttempt(row pgx.Row) (a hook.Attempt, err error) {
	var latency, ceiling, delay int64
	var hash []byte
	err = row.Scan(&a.ID, &a.TenantID, &a.DeliveryID, &a.EndpointID, &a.EventID, &a.NodeID, &a.Number, &a.Run, &a.Kind, &a.Class,
		&a.Reason, &a.Charged, &a.Status, &latency, (*moment)(&a.StartedAt), &hash, &a.RetryN, &ceiling, &a.U, &delay, &a.DelaySource,
		(*moment)(&a.NextDueAt), &a.Error, &a.Detail, &a.Excerpt)
	a.Latency = time.Duration(latency) * time.Microsecond
	a.Ceiling = time.Duration(ceiling) * time.Millisecond
	a.Delay = time.Duration(delay) * time.Millisecond
	copy(a.PolicyHash[:], hash)
	return a, err
}
