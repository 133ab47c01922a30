package postgres

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// retryDepths counts the retry queues of endpoints. Up to upto everything
// counts, because it is held; beyond it only what has failed before. Both
// counts walk deliveries_due and end at the limit, however long the backlog is.
// Scalar subqueries, and not joins: those would be hashed over whole tables.
const retryDepths visible.SQL = `
SELECT w.id, held.n, retrying.n, retrying.seen
FROM unnest($1::bigint[]) AS w(id)
CROSS JOIN LATERAL (
  SELECT CASE WHEN (SELECT e.state <> 0 FROM endpoints e WHERE e.id = w.id)
    OR (SELECT l.state = 1 OR l.hold_until > $2 FROM lanes l WHERE l.endpoint_id = w.id)
  THEN $2::timestamptz ELSE '-infinity' END AS upto OFFSET 0) AS lane
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM (
    SELECT FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at <= lane.upto
    ORDER BY d.due_at, d.id LIMIT $3) AS due) AS held
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE later.attempts > 0) AS n, count(*) AS seen FROM (
    SELECT d.attempts FROM deliveries d WHERE d.endpoint_id = w.id AND d.state = 0 AND d.due_at > lane.upto
    ORDER BY d.due_at, d.id LIMIT $3) AS later) AS retrying`

// RetryDepths counts what waits for another attempt at each endpoint.
func (d *DB) RetryDepths(ctx context.Context, endpoints []hook.ID, now time.Time, limit int) ([]store.RetryDepth, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	seen, err := d.makeLanesVisible(ctx, endpoints...)
	if err != nil {
		return nil, err
	}
	return list(ctx, d.pool, "measure retry queues", func(r sqlstore.Row, depth *store.RetryDepth) error {
		var id hook.ID
		var held, retrying, seen int64
		err := r.Scan(&id, &held, &retrying, &seen)
		*depth = store.NewRetryDepth(id, held, retrying, seen, int64(limit))
		return err
	}, seen.Text(retryDepths), endpoints, now, limit)
}
