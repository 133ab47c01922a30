package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// retryDepth counts the retry queue of one endpoint. Up to upto everything
// counts, because it is held; beyond it only what has failed before. The first
// count reads deliveries_due alone, however long the backlog is; the second one
// looks at rows, at most as many as the limit says.
const retryDepth = `
WITH lane(upto) AS (
  SELECT CASE WHEN e.state <> 0 OR l.state = 1 OR l.hold_until > ?2 THEN ?2 ELSE -1 END
  FROM (SELECT ?1 AS id) w LEFT JOIN endpoints e ON e.id = w.id LEFT JOIN lanes l ON l.endpoint_id = w.id)
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at <= (SELECT upto FROM lane) LIMIT ?3)),
  r.retrying, r.seen
FROM (SELECT coalesce(sum(attempts > 0), 0) AS retrying, count(*) AS seen FROM (
    SELECT attempts FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at > (SELECT upto FROM lane) LIMIT ?3)) r`

// RetryDepths implements store.DepthReader.
func (d *DB) RetryDepths(ctx context.Context, endpoints []hook.ID, now time.Time, limit int) ([]store.RetryDepth, error) {
	out := make([]store.RetryDepth, 0, len(endpoints))
	for _, id := range endpoints {
		depth, err := first(list(ctx, d, func(r sqlstore.Row, depth *store.RetryDepth) error {
			var held, retrying, seen int64
			err := r.Scan(&held, &retrying, &seen)
			*depth = store.NewRetryDepth(id, held, retrying, seen, int64(limit))
			return err
		}, retryDepth, id, now, limit))
		if err != nil {
			return nil, d.readErr("measure retry queue", err)
		}
		out = append(out, depth)
	}
	return out, nil
}
