package sqlite

import (
	"context"
	"slices"
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
  due.tried, due.at, due.untried_at, due.tried_at, later.tried, later.tried_at,
  coalesce((SELECT tenant_id FROM endpoints WHERE id = ?1), 0)
FROM lane,
  (SELECT coalesce(sum(attempts > 0), 0) AS tried, min(due_at) AS at, min(CASE attempts WHEN 0 THEN due_at END) AS untried_at,
     min(CASE WHEN attempts > 0 THEN run_due_at END) AS tried_at FROM (
    SELECT attempts, due_at, run_due_at FROM deliveries
    WHERE endpoint_id = ?1 AND state = 0 AND due_at <= ?2 ORDER BY due_at LIMIT ?4)) AS due,
  (SELECT coalesce(sum(attempts > 0), 0) AS tried, min(CASE WHEN attempts > 0 THEN run_due_at END) AS tried_at FROM (
    SELECT attempts, run_due_at FROM deliveries
    WHERE endpoint_id = ?1 AND state = 0 AND due_at > ?2 ORDER BY due_at LIMIT ?4)) AS later`

// queuesOf counts what waits for the endpoints of a range in one walk over their
// part of deliveries_due, as far as the bound. The last endpoint of a walk that
// ended there may have more.
const queuesOf = `
SELECT q.endpoint_id, q.seen,
  coalesce((SELECT e.state <> 0 FROM endpoints e WHERE e.id = q.endpoint_id), 0)
    + coalesce((SELECT l.state = 1 OR coalesce(l.hold_until > ?3, 0) FROM lanes l WHERE l.endpoint_id = q.endpoint_id), 0) > 0,
  q.due, q.seen - q.due, q.due_tried, q.at, q.untried_at, q.tried_at, q.later_tried, q.later_tried_at, q.tenant_id
FROM (
  SELECT endpoint_id, count(*) AS seen, sum(due_at <= ?3) AS due, sum(due_at <= ?3 AND attempts > 0) AS due_tried,
    min(CASE WHEN due_at <= ?3 THEN due_at END) AS at,
    min(CASE WHEN due_at <= ?3 AND attempts = 0 THEN due_at END) AS untried_at,
    min(CASE WHEN due_at <= ?3 AND attempts > 0 THEN run_due_at END) AS tried_at,
    sum(due_at > ?3 AND attempts > 0) AS later_tried, min(CASE WHEN due_at > ?3 AND attempts > 0 THEN run_due_at END) AS later_tried_at,
    min(tenant_id) AS tenant_id
  FROM (SELECT endpoint_id, due_at, attempts, run_due_at, tenant_id FROM deliveries
    WHERE state = 0 AND endpoint_id BETWEEN ?1 AND ?2 ORDER BY endpoint_id, due_at LIMIT ?4)
  GROUP BY endpoint_id) AS q`

// counted is a queue and how many deliveries the walk saw of it.
type counted struct {
	store.Queue
	seen int
}

func scanCounted(r sqlstore.Row, q *counted) error {
	var id hook.ID
	var c store.QueueCounts
	err := r.Scan(&id, &q.seen, &c.Held, &c.Due, &c.Later, &c.DueTried, sqlstore.Time(&c.DueAt), sqlstore.Time(&c.UntriedAt), sqlstore.Time(&c.TriedAt),
		&c.LaterTried, sqlstore.Time(&c.LaterTriedAt), &c.Tenant)
	q.Queue = c.Queue(id)
	return err
}

// Queues implements store.QueueReader. Most queues are short: they are counted many
// at a time. One that a walk does not get to the end of is counted by itself.
func (d *DB) Queues(ctx context.Context, endpoints []hook.ID, now time.Time, b store.QueueBounds) ([]store.Queue, error) {
	ids := slices.Sorted(slices.Values(endpoints))
	found := make(map[hook.ID]store.Queue, len(ids))
	for len(ids) > 0 {
		some, err := list(ctx, d, scanCounted, queuesOf, ids[0], ids[len(ids)-1], now, b.Look)
		if err != nil {
			return nil, d.readErr("count queues", err)
		}
		seen, last := 0, hook.ID(0)
		for i := range some {
			found[some[i].EndpointID] = some[i].Queue
			seen, last = seen+some[i].seen, max(last, some[i].EndpointID)
		}
		if seen < b.Look {
			break
		}
		if found[last], err = d.queue(ctx, last, now, b); err != nil {
			return nil, err
		}
		i, _ := slices.BinarySearch(ids, last+1)
		ids = ids[i:]
	}
	out := make([]store.Queue, len(endpoints))
	for i, id := range endpoints {
		out[i] = found[id]
		out[i].EndpointID = id
	}
	return out, nil
}

// queue counts what waits for one endpoint, however much that is.
func (d *DB) queue(ctx context.Context, id hook.ID, now time.Time, b store.QueueBounds) (store.Queue, error) {
	q, err := first(list(ctx, d, func(r sqlstore.Row, q *store.Queue) error {
		var c store.QueueCounts
		err := r.Scan(&c.Held, &c.Due, &c.Later, &c.DueTried, sqlstore.Time(&c.DueAt), sqlstore.Time(&c.UntriedAt), sqlstore.Time(&c.TriedAt),
			&c.LaterTried, sqlstore.Time(&c.LaterTriedAt), &c.Tenant)
		*q = c.Queue(id)
		return err
	}, queueOf, id, now, b.Count, b.Look))
	return q, d.readErr("count queue", err)
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
