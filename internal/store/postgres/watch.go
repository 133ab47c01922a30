package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
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
	return collect(ctx, d.pool, &query{seen.Text(retryDepths), []any{endpoints, at(now), limit}}, "measure retry queues",
		func(row pgx.Row) (r store.RetryDepth, err error) {
			var held, retrying, seen int64
			err = row.Scan(&r.EndpointID, &held, &retrying, &seen)
			full := int64(limit)
			r.Depth, r.AtLeast = min(held+retrying, full), held == full || seen == full || held+retrying > full
			return r, err
		})
}

const (
	laneWatchColumns = `w.endpoint_id, w.tenant_id, w.storm_since, w.firsts, w.retries, w.growing_since, w.depth, w.at_least,
  w.drain_per_minute, w.updated_at`

	// saveLaneWatch lets the later of two owners win.
	saveLaneWatch = `
INSERT INTO lane_watch AS w (endpoint_id, tenant_id, storm_since, firsts, retries, growing_since, depth, at_least, drain_per_minute, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (endpoint_id) DO UPDATE SET storm_since = excluded.storm_since, firsts = excluded.firsts, retries = excluded.retries,
  growing_since = excluded.growing_since, depth = excluded.depth, at_least = excluded.at_least,
  drain_per_minute = excluded.drain_per_minute, updated_at = excluded.updated_at
WHERE w.updated_at <= excluded.updated_at`

	deleteLaneWatches = `DELETE FROM lane_watch WHERE endpoint_id = ANY($1)`

	saveNodeWatch = `
INSERT INTO node_watch AS n (node_id, lanes, opened, depth, updated_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (node_id) DO UPDATE SET lanes = excluded.lanes, opened = excluded.opened, depth = excluded.depth, updated_at = excluded.updated_at
WHERE n.updated_at <= excluded.updated_at`
)

// SaveWatch stores what a node has seen, in one transaction.
func (d *DB) SaveWatch(ctx context.Context, s store.WatchSave) error {
	batch := &pgx.Batch{}
	for i := range s.Lanes {
		w := &s.Lanes[i]
		batch.Queue(saveLaneWatch, w.EndpointID, w.TenantID, at(w.Storm.Since), w.Storm.First, w.Storm.Retries, at(w.Queue.Since),
			w.Queue.Depth, w.Queue.AtLeast, w.Queue.DrainPerMinute, at(w.UpdatedAt))
	}
	if len(s.Gone) > 0 {
		batch.Queue(deleteLaneWatches, s.Gone)
	}
	if n := s.Node; n != nil {
		batch.Queue(saveNodeWatch, n.NodeID, n.Lanes, n.Opened, n.Depth, at(n.UpdatedAt))
	}
	err := d.slowly(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return failed("save watch", err)
	}
	return nil
}

func scanLaneWatch(row pgx.Row) (w hook.LaneWatch, err error) {
	err = row.Scan(&w.EndpointID, &w.TenantID, (*moment)(&w.Storm.Since), &w.Storm.First, &w.Storm.Retries, (*moment)(&w.Queue.Since),
		&w.Queue.Depth, &w.Queue.AtLeast, &w.Queue.DrainPerMinute, (*moment)(&w.UpdatedAt))
	return w, err
}

const (
	// activeLaneWatches sorts what is active, which is little. An index in that
	// order would have to be written at every save.
	activeLaneWatches = `
SELECT ` + laneWatchColumns + ` FROM lane_watch w
WHERE w.storm_since IS NOT NULL OR w.growing_since IS NOT NULL ORDER BY w.updated_at LIMIT $1`

	laneWatches = `SELECT ` + laneWatchColumns + ` FROM lane_watch w WHERE w.endpoint_id = ANY($1)`
)

// ActiveLaneWatches returns rows with a storm or a warning, of any node.
func (d *DB) ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error) {
	return collect(ctx, d.pool, &query{activeLaneWatches, []any{limit}}, "list active watches", scanLaneWatch)
}

// LaneWatches returns what was saved of the given endpoints.
func (d *DB) LaneWatches(ctx context.Context, endpoints []hook.ID) ([]hook.LaneWatch, error) {
	return collect(ctx, d.pool, &query{laneWatches, []any{endpoints}}, "read watches", scanLaneWatch)
}

const nodeWatches = `SELECT node_id, lanes, opened, depth, updated_at FROM node_watch WHERE updated_at >= $1`

// NodeWatches returns what nodes have saved at since or later.
func (d *DB) NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error) {
	return collect(ctx, d.pool, &query{nodeWatches, []any{at(since)}}, "read node watches", func(row pgx.Row) (n hook.NodeWatch, err error) {
		err = row.Scan(&n.NodeID, &n.Lanes, &n.Opened, &n.Depth, (*moment)(&n.UpdatedAt))
		return n, err
	})
}

// SystemWatches returns the signals that are raised.
func (d *DB) SystemWatches(ctx context.Context) ([]hook.SystemWatch, error) {
	return collect(ctx, d.pool, &query{sql: `SELECT signal, since FROM system_watch ORDER BY signal`}, "read system signals",
		func(row pgx.Row) (w hook.SystemWatch, err error) {
			err = row.Scan(&w.Signal, (*moment)(&w.Since))
			return w, err
		})
}

// SetSystemWatch stores a raised signal, or removes it when Since is zero.
func (d *DB) SetSystemWatch(ctx context.Context, w hook.SystemWatch) (err error) {
	if w.Since.IsZero() {
		_, err = d.pool.Exec(ctx, `DELETE FROM system_watch WHERE signal = $1`, w.Signal)
	} else {
		_, err = d.pool.Exec(ctx, `
INSERT INTO system_watch (signal, since) VALUES ($1, $2) ON CONFLICT (signal) DO UPDATE SET since = excluded.since`, w.Signal, at(w.Since))
	}
	if err != nil {
		return failed("save system signal", err)
	}
	return nil
}

// lanesMatching drives the list by what is rarest: storms and warnings, then
// open lanes, each by its partial index; else by the endpoints themselves.
func lanesMatching(f store.LaneFilter, p store.Page) *query {
	q := &query{sql: `SELECT ` + endpointColumns + `
FROM endpoints e LEFT JOIN lane_watch w ON w.endpoint_id = e.id LEFT JOIN lanes l ON l.endpoint_id = e.id
WHERE e.deleted_at IS NULL`}
	switch {
	case isTrue(f.Storm) || isTrue(f.Growing):
		q.and("e.id IN (SELECT endpoint_id FROM lane_watch WHERE storm_since IS NOT NULL OR growing_since IS NOT NULL)")
	case isTrue(f.Open):
		q.and("e.id IN (SELECT endpoint_id FROM lanes WHERE state = 1)")
	}
	if f.Tenant != 0 {
		q.and("e.tenant_id = ?", f.Tenant)
	}
	for _, c := range []struct {
		wanted    *bool
		condition string
	}{
		{f.Storm, "(w.storm_since IS NOT NULL) = ?"},
		{f.Growing, "(w.growing_since IS NOT NULL) = ?"},
		{f.Open, "(coalesce(l.state, 0) = 1) = ?"},
		{f.Paused, "(e.state <> 0) = ?"},
	} {
		if c.wanted != nil {
			q.and(c.condition, *c.wanted)
		}
	}
	q.page("e.id", p)
	return q
}

func isTrue(b *bool) bool { return b != nil && *b }

// ListLanes returns the endpoints whose lanes match.
func (d *DB) ListLanes(ctx context.Context, f store.LaneFilter, p store.Page) ([]hook.Endpoint, error) {
	return collect(ctx, d.pool, lanesMatching(f, p), "list lanes", scanEndpoint)
}

const insertOperational = `
INSERT INTO operational_events (id, tenant_id, endpoint_id, type, at, detail) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`

// WriteOperational stores events in one transaction.
func (d *DB) WriteOperational(ctx context.Context, events []hook.OperationalEvent) error {
	batch := &pgx.Batch{}
	for i := range events {
		e := &events[i]
		batch.Queue(insertOperational, e.ID, orNull(e.TenantID), orNull(e.EndpointID), string(e.Type), at(e.At), orEmpty(e.Detail))
	}
	err := d.slowly(ctx, func(tx pgx.Tx) error { return tx.SendBatch(ctx, batch).Close() })
	if err != nil {
		return failed("write operational events", err)
	}
	return nil
}

func operationalMatching(f store.OperationalFilter, p store.Page) *query {
	q := &query{sql: `
SELECT id, coalesce(tenant_id, 0), coalesce(endpoint_id, 0), type, at, detail FROM operational_events WHERE true`}
	if len(f.Endpoints) > 0 {
		q.and("endpoint_id = ANY(?)", f.Endpoints)
	}
	if f.Tenant != 0 {
		q.and("tenant_id = ?", f.Tenant)
	}
	if len(f.Types) > 0 {
		var types []string
		for _, t := range f.Types {
			types = append(types, string(t))
		}
		q.and("type = ANY(?)", types)
	}
	q.between("id", f.Since, f.Until)
	q.page("id", p)
	return q
}

// ListOperational returns operational events.
func (d *DB) ListOperational(ctx context.Context, f store.OperationalFilter, p store.Page) ([]hook.OperationalEvent, error) {
	return collect(ctx, d.pool, operationalMatching(f, p), "list operational events", func(row pgx.Row) (e hook.OperationalEvent, err error) {
		err = row.Scan(&e.ID, &e.TenantID, &e.EndpointID, &e.Type, (*moment)(&e.At), &e.Detail)
		return e, err
	})
}

const (
	deleteOldOperational = `
DELETE FROM operational_events WHERE id IN (SELECT id FROM operational_events WHERE id < $1 ORDER BY id LIMIT $2)`

	// The next two remove rows that no owner has saved or removed for long:
	// their endpoints, or nodes, are gone.
	deleteLostLanes = `DELETE FROM lane_watch WHERE updated_at < $1 AND storm_since IS NULL AND growing_since IS NULL`
	deleteLostNodes = `DELETE FROM node_watch WHERE updated_at < $1`
)

// watch removes old operational events; more tells that some may be left.
func (s *pruning) watch(ctx context.Context) (more bool, err error) {
	tag, err := s.conn.Exec(ctx, deleteOldOperational, hook.IDFloor(s.step.Before), s.limit)
	if err != nil {
		return false, failed("remove old operational events", err)
	}
	lost := at(s.step.Now.Add(-store.WatchLostAfter))
	for _, statement := range []string{deleteLostLanes, deleteLostNodes} {
		if _, err := s.conn.Exec(ctx, statement, lost); err != nil {
			return false, failed("remove lost watches", err)
		}
	}
	return tag.RowsAffected() == int64(s.limit), nil
}
