package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// queueOf counts what waits for one endpoint. The counts of all that are due and
// of all that are not read deliveries_due alone; the others look at rows, at most
// as many as the bound says.
const queueOf = `
WITH lane(held) AS (
  SELECT coalesce(e.state <> 0, 0) + coalesce(l.state = 1, 0) + coalesce(l.hold_until > ?2, 0) > 0
  FROM (SELECT ?1 AS id) w LEFT JOIN endpoints e ON e.id = w.id LEFT JOIN lanes l ON l.endpoint_id = w.id)
SELECT lane.held,
  (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at <= ?2 LIMIT ?3)),
  (SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at > ?2 LIMIT ?3)),
  due.tried, due.at, due.untried_at, due.tried_at, later.tried, later.tried_at
FROM lane,
  (SELECT coalesce(sum(attempts > 0), 0) AS tried, min(due_at) AS at, min(CASE attempts WHEN 0 THEN due_at END) AS untried_at,
     min(CASE WHEN attempts > 0 THEN run_due_at END) AS tried_at FROM (
    SELECT attempts, due_at, run_due_at FROM deliveries
    WHERE endpoint_id = ?1 AND state = 0 AND due_at <= ?2 ORDER BY due_at LIMIT ?4)) AS due,
  (SELECT coalesce(sum(attempts > 0), 0) AS tried, min(CASE WHEN attempts > 0 THEN run_due_at END) AS tried_at FROM (
    SELECT attempts, run_due_at FROM deliveries
    WHERE endpoint_id = ?1 AND state = 0 AND due_at > ?2 ORDER BY due_at LIMIT ?4)) AS later`

// Queues implements store.QueueReader.
func (d *DB) Queues(ctx context.Context, endpoints []hook.ID, now time.Time, b store.QueueBounds) ([]store.Queue, error) {
	out := make([]store.Queue, 0, len(endpoints))
	for _, id := range endpoints {
		q, err := first(list(ctx, d, func(r sqlstore.Row, q *store.Queue) error {
			var c store.QueueCounts
			err := r.Scan(&c.Held, &c.Due, &c.Later, &c.DueTried, sqlstore.Time(&c.DueAt), sqlstore.Time(&c.UntriedAt), sqlstore.Time(&c.TriedAt),
				&c.LaterTried, sqlstore.Time(&c.LaterTriedAt))
			*q = c.Queue(id)
			return err
		}, queueOf, id, now, b.Count, b.Look))
		if err != nil {
			return nil, d.readErr("count queue", err)
		}
		out = append(out, q)
	}
	return out, nil
}

// deadLetters walks deliveries_dead, as far as the limit.
const deadLetters = `
SELECT reason, count(*) FROM (
  SELECT coalesce(reason, 0) AS reason FROM deliveries INDEXED BY deliveries_dead WHERE state = 2 ORDER BY endpoint_id LIMIT ?1)
GROUP BY reason`

// DeadLetters implements store.QueueReader.
func (d *DB) DeadLetters(ctx context.Context, limit int) (map[hook.EndReason]int64, error) {
	out := map[hook.EndReason]int64{}
	err := d.each(ctx, &sqlstore.Query{SQL: deadLetters, Args: []any{limit}}, func(r sqlstore.Row) error {
		var reason hook.EndReason
		var n int64
		err := r.Scan(&reason, &n)
		out[reason] = n
		return err
	})
	return out, d.readErr("count dead letters", err)
}
