package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// WaitingEndpoints returns the endpoints of the given shards that have pending
// deliveries.
func (d *DB) WaitingEndpoints(ctx context.Context, shards []int) ([]hook.ID, error) {
	all, err := d.PendingEndpoints(ctx, shards)
	return store.EndpointIDs(all), err
}

// queuesOf counts what waits for endpoints. All parts walk deliveries_due and end
// at their bounds. Scalar subqueries, and not joins: those would be hashed over
// whole tables.
const queuesOf visible.SQL = `
SELECT w.id,
  coalesce((SELECT e.state <> 0 FROM endpoints e WHERE e.id = w.id), false)
    OR coalesce((SELECT l.state = 1 OR coalesce(l.hold_until > $2, false) FROM lanes l WHERE l.endpoint_id = w.id), false),
  (SELECT count(*) FROM (
    SELECT FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at <= $2 ORDER BY d.due_at, d.id LIMIT $3) AS n),
  (SELECT count(*) FROM (
    SELECT FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at > $2 ORDER BY d.due_at, d.id LIMIT $3) AS n),
  due.tried, due.at, due.untried_at, due.tried_at, later.tried, later.tried_at,
  coalesce((SELECT e.tenant_id FROM endpoints e WHERE e.id = w.id), 0)
FROM unnest($1::bigint[]) AS w(id)
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE n.attempts > 0) AS tried, min(n.due_at) AS at, min(n.due_at) FILTER (WHERE n.attempts = 0) AS untried_at,
    min(n.run_due_at) FILTER (WHERE n.attempts > 0) AS tried_at FROM (
    SELECT d.attempts, d.due_at, d.run_due_at FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at <= $2
    ORDER BY d.due_at, d.id LIMIT $4) AS n) AS due
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE n.attempts > 0) AS tried, min(n.run_due_at) FILTER (WHERE n.attempts > 0) AS tried_at FROM (
    SELECT d.attempts, d.run_due_at FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at > $2
    ORDER BY d.due_at, d.id LIMIT $4) AS n) AS later`

// Queues counts what waits for endpoints.
func (d *DB) Queues(ctx context.Context, endpoints []hook.ID, now time.Time, b store.QueueBounds) ([]store.Queue, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	seen, err := d.makeLanesVisible(ctx, endpoints...)
	if err != nil {
		return nil, err
	}
	var out []store.Queue
	err = d.slowly(ctx, func(t pgx.Tx) (err error) {
		out, err = list(ctx, t, "count queues", scanQueue, seen.Text(queuesOf), endpoints, now, b.Count, b.Look)
		return err
	})
	return out, err
}

func scanQueue(r sqlstore.Row, q *store.Queue) error {
	var id hook.ID
	var c store.QueueCounts
	err := r.Scan(&id, &c.Held, &c.Due, &c.Later, &c.DueTried, sqlstore.Time(&c.DueAt), sqlstore.Time(&c.UntriedAt), sqlstore.Time(&c.TriedAt),
		&c.LaterTried, sqlstore.Time(&c.LaterTriedAt), &c.Tenant)
	*q = c.Queue(id)
	return err
}

// deadLetters walks deliveries_dead, as far as the limit.
const deadLetters visible.SQL = `
SELECT n.reason, count(*) FROM (
  SELECT coalesce(reason, 0) AS reason FROM deliveries WHERE state = 2 ORDER BY endpoint_id, id LIMIT $1) AS n
GROUP BY n.reason`

// DeadLetters counts dead letters by reason.
func (d *DB) DeadLetters(ctx context.Context, limit int) (map[hook.EndReason]int64, error) {
	seen, err := d.makeLanesVisible(ctx)
	if err != nil {
		return nil, err
	}
	out := map[hook.EndReason]int64{}
	err = d.slowly(ctx, func(t pgx.Tx) error {
		return read(func(r sqlstore.Row) error {
			var reason hook.EndReason
			var n int64
			err := r.Scan(&reason, &n)
			out[reason] = n
			return err
		})(t.Query(ctx, seen.Text(deadLetters), limit))
	})
	return out, failed("count dead letters", err)
}
