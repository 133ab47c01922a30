package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
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
func (db *DB) RetryDepths(ctx context.Context, endpoints []hook.ID, now time.Time, limit int) ([]store.RetryDepth, error) {
	out := make([]store.RetryDepth, 0, len(endpoints))
	for _, id := range endpoints {
		var held, retrying, seen int64
		if err := db.row(ctx, retryDepth, id, now.UnixMicro(), limit).Scan(&held, &retrying, &seen); err != nil {
			return nil, db.readErr("measure retry queue", err)
		}
		full := int64(limit)
		out = append(out, store.RetryDepth{
			EndpointID: id, Depth: min(held+retrying, full), AtLeast: held == full || seen == full || held+retrying > full,
		})
	}
	return out, nil
}

const (
	laneWatchColumns = `w.endpoint_id, w.tenant_id, w.storm_since, w.firsts, w.retries, w.growing_since, w.depth, w.at_least,
  w.drain_per_minute, w.updated_at`

	// saveLaneWatch lets the later of two owners win.
	saveLaneWatch = `
INSERT INTO lane_watch (endpoint_id, tenant_id, storm_since, firsts, retries, growing_since, depth, at_least, drain_per_minute, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (endpoint_id) DO UPDATE SET storm_since = ?3, firsts = ?4, retries = ?5, growing_since = ?6, depth = ?7, at_least = ?8,
  drain_per_minute = ?9, updated_at = ?10
WHERE lane_watch.updated_at <= ?10`

	deleteLaneWatch = `DELETE FROM lane_watch WHERE endpoint_id = ?1`

	saveNodeWatch = `
INSERT INTO node_watch (node_id, lanes, opened, depth, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (node_id) DO UPDATE SET lanes = ?2, opened = ?3, depth = ?4, updated_at = ?5 WHERE node_watch.updated_at <= ?5`
)

// SaveWatch implements store.Watch.
func (db *DB) SaveWatch(ctx context.Context, s store.WatchSave) error {
	return db.update(ctx, "save watch", func(t tx) error {
		for i := range s.Lanes {
			w := &s.Lanes[i]
			if _, err := t.exec(saveLaneWatch, w.EndpointID, w.TenantID, stamp(w.Storm.Since), w.Storm.First, w.Storm.Retries,
				stamp(w.Queue.Since), w.Queue.Depth, bit(w.Queue.AtLeast), w.Queue.DrainPerMinute, w.UpdatedAt.UnixMicro()); err != nil {
				return err
			}
		}
		for _, id := range s.Gone {
			if _, err := t.exec(deleteLaneWatch, id); err != nil {
				return err
			}
		}
		if s.Node == nil {
			return nil
		}
		_, err := t.exec(saveNodeWatch, s.Node.NodeID, s.Node.Lanes, s.Node.Opened, s.Node.Depth, s.Node.UpdatedAt.UnixMicro())
		return err
	})
}

func scanLaneWatch(r scannable, w *hook.LaneWatch) error {
	return r.Scan(&w.EndpointID, &w.TenantID, when(&w.Storm.Since), &w.Storm.First, &w.Storm.Retries, when(&w.Queue.Since),
		&w.Queue.Depth, &w.Queue.AtLeast, &w.Queue.DrainPerMinute, when(&w.UpdatedAt))
}

const (
	activeLaneWatches = `
SELECT ` + laneWatchColumns + ` FROM lane_watch w INDEXED BY lane_watch_active
WHERE w.storm_since IS NOT NULL OR w.growing_since IS NOT NULL ORDER BY w.updated_at LIMIT ?1`

	laneWatches = `
SELECT ` + laneWatchColumns + ` FROM json_each(?1) AS wanted JOIN lane_watch w ON w.endpoint_id = wanted.value`
)

// ActiveLaneWatches implements store.Watch.
func (db *DB) ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error) {
	out, err := list(ctx, db, scanLaneWatch, activeLaneWatches, limit)
	return out, db.readErr("list active watches", err)
}

// LaneWatches implements store.LaneLog.
func (db *DB) LaneWatches(ctx context.Context, endpoints []hook.ID) ([]hook.LaneWatch, error) {
	out, err := list(ctx, db, scanLaneWatch, laneWatches, idList(endpoints))
	return out, db.readErr("read watches", err)
}

const nodeWatches = `SELECT node_id, lanes, opened, depth, updated_at FROM node_watch WHERE updated_at >= ?1`

// NodeWatches implements store.Watch.
func (db *DB) NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error) {
	out, err := list(ctx, db, func(r scannable, n *hook.NodeWatch) error {
		return r.Scan(&n.NodeID, &n.Lanes, &n.Opened, &n.Depth, when(&n.UpdatedAt))
	}, nodeWatches, since.UnixMicro())
	return out, db.readErr("read node watches", err)
}

// SystemWatches implements store.Watch.
func (db *DB) SystemWatches(ctx context.Context) ([]hook.SystemWatch, error) {
	out, err := list(ctx, db, func(r scannable, w *hook.SystemWatch) error {
		return r.Scan(&w.Signal, when(&w.Since))
	}, `SELECT signal, since FROM system_watch ORDER BY signal`)
	return out, db.readErr("read system signals", err)
}

// SetSystemWatch implements store.Watch.
func (db *DB) SetSystemWatch(ctx context.Context, w hook.SystemWatch) error {
	return db.update(ctx, "save system signal", func(t tx) (err error) {
		if w.Since.IsZero() {
			_, err = t.exec(`DELETE FROM system_watch WHERE signal = ?1`, int64(w.Signal))
		} else {
			_, err = t.exec(`INSERT INTO system_watch (signal, since) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET since = ?2`,
				int64(w.Signal), w.Since.UnixMicro())
		}
		return err
	})
}

// laneQuery drives the list by what is rarest: storms and warnings, then open
// lanes. CROSS JOIN keeps that order.
func laneQuery(lf store.LaneFilter, p store.Page) (query string, args []any) {
	f := new(filter)
	from := `endpoints e LEFT JOIN lane_watch w ON w.endpoint_id = e.id LEFT JOIN lanes l ON l.endpoint_id = e.id`
	switch {
	case isTrue(lf.Storm) || isTrue(lf.Growing):
		from = `lane_watch w INDEXED BY lane_watch_active CROSS JOIN endpoints e ON e.id = w.endpoint_id LEFT JOIN lanes l ON l.endpoint_id = e.id`
		f.and("(w.storm_since IS NOT NULL OR w.growing_since IS NOT NULL)")
	case isTrue(lf.Open):
		from = `lanes l INDEXED BY lanes_open CROSS JOIN endpoints e ON e.id = l.endpoint_id LEFT JOIN lane_watch w ON w.endpoint_id = e.id`
		f.and("l.state = 1")
	}
	f.and("e.deleted_at IS NULL")
	if lf.Tenant != 0 {
		f.and("e.tenant_id = ?", lf.Tenant)
	}
	for _, c := range []struct {
		wanted    *bool
		condition string
	}{
		{lf.Storm, "(w.storm_since IS NOT NULL) = ?"},
		{lf.Growing, "(w.growing_since IS NOT NULL) = ?"},
		{lf.Open, "coalesce(l.state, 0) = ?"},
		{lf.Paused, "(e.state <> 0) = ?"},
	} {
		if c.wanted != nil {
			f.and(c.condition, bit(*c.wanted))
		}
	}
	f.page("e.id", p)
	return `SELECT ` + endpointColumns + ` FROM ` + from + f.text(), f.args
}

func isTrue(b *bool) bool { return b != nil && *b }

// ListLanes implements store.LaneLog.
func (db *DB) ListLanes(ctx context.Context, lf store.LaneFilter, p store.Page) ([]hook.Endpoint, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	query, args := laneQuery(lf, p)
	out, err := search(ctx, db.read, scanEndpoint, query, args...)
	return out, db.readErr("list lanes", err)
}

const insertOperational = `
INSERT INTO operational_events (id, tenant_id, endpoint_id, type, at, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING`

// WriteOperational implements store.OperationalLog.
func (db *DB) WriteOperational(ctx context.Context, events []hook.OperationalEvent) error {
	return db.update(ctx, "write operational events", func(t tx) error {
		for i := range events {
			e := &events[i]
			if _, err := t.exec(insertOperational, e.ID, orNull(e.TenantID), orNull(e.EndpointID), string(e.Type),
				e.At.UnixMicro(), rawText(e.Detail)); err != nil {
				return err
			}
		}
		return nil
	})
}

// operationalQuery walks the index of the endpoint, of the tenant, or the
// primary key.
func operationalQuery(of store.OperationalFilter, p store.Page) (query string, args []any) {
	f := new(filter)
	switch {
	case len(of.Endpoints) == 1:
		f.and("endpoint_id = ?", of.Endpoints[0])
	case len(of.Endpoints) > 1:
		f.and("endpoint_id IN (SELECT value FROM json_each(?))", idList(of.Endpoints))
	}
	if of.Tenant != 0 {
		column := "tenant_id"
		if len(of.Endpoints) > 0 {
			column = "+tenant_id" // its index would be the worse one
		}
		f.and(column+" = ?", of.Tenant)
	}
	if len(of.Types) > 0 {
		var types []string
		for _, t := range of.Types {
			types = append(types, string(t))
		}
		names, _ := jsonText(types, "[]") // strings always encode
		f.and("type IN (SELECT value FROM json_each(?))", names)
	}
	f.window("id", of.Since, of.Until)
	f.page("id", p)
	return `SELECT id, tenant_id, endpoint_id, type, at, detail FROM operational_events` + f.text(), f.args
}

// ListOperational implements store.OperationalLog.
func (db *DB) ListOperational(ctx context.Context, of store.OperationalFilter, p store.Page) ([]hook.OperationalEvent, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	query, args := operationalQuery(of, p)
	out, err := search(ctx, db.read, func(r scannable, e *hook.OperationalEvent) error {
		return r.Scan(&e.ID, number(&e.TenantID), number(&e.EndpointID), &e.Type, when(&e.At), document(&e.Detail))
	}, query, args...)
	return out, db.readErr("list operational events", err)
}

const (
	deleteOldOperational = `
DELETE FROM operational_events WHERE id IN (SELECT id FROM operational_events WHERE id < ?1 ORDER BY id LIMIT ?2)`

	// deleteLostWatches removes rows that no owner has saved or removed for
	// long: their endpoints, or nodes, are gone.
	deleteLostLanes = `
DELETE FROM lane_watch WHERE updated_at < ?1 AND storm_since IS NULL AND growing_since IS NULL`
	deleteLostNodes = `DELETE FROM node_watch WHERE updated_at < ?1`
)

// pruneWatch removes old operational events; more tells that some may be left.
func (t tx) pruneWatch(p store.PruneStep) (more bool, err error) {
	n, err := t.exec(deleteOldOperational, hook.IDFloor(p.Before), p.Limit)
	if err != nil {
		return false, fmt.Errorf("remove old operational events: %w", err)
	}
	lost := p.Now.Add(-store.WatchLostAfter).UnixMicro()
	for _, statement := range []string{deleteLostLanes, deleteLostNodes} {
		if _, err := t.exec(statement, lost); err != nil {
			return false, fmt.Errorf("remove lost watches: %w", err)
		}
	}
	return n == int64(p.Limit), nil
}
