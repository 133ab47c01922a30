package sqlstore

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

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

	deleteLaneWatch = `DELETE FROM lane_watch WHERE endpoint_id = $1`

	saveNodeWatch = `
INSERT INTO node_watch AS n (node_id, lanes, opened, depth, health, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (node_id) DO UPDATE SET lanes = excluded.lanes, opened = excluded.opened, depth = excluded.depth, health = excluded.health,
  updated_at = excluded.updated_at
WHERE n.updated_at <= excluded.updated_at`
)

// SaveWatch implements store.Watch.
func (t *Tables) SaveWatch(ctx context.Context, s store.WatchSave) error {
	lanes, gone := make([][]any, len(s.Lanes)), make([][]any, len(s.Gone))
	for i := range s.Lanes {
		w := &s.Lanes[i]
		lanes[i] = []any{
			w.EndpointID, w.TenantID, w.Storm.Since, w.Storm.First, w.Storm.Retries, w.Queue.Since,
			w.Queue.Depth, w.Queue.AtLeast, w.Queue.DrainPerMinute, w.UpdatedAt,
		}
	}
	for i, id := range s.Gone {
		gone[i] = []any{id}
	}
	return t.dialect.Change(ctx, "save watch", func(tx Tx) error {
		if err := tx.ExecAll(saveLaneWatch, lanes); err != nil {
			return err
		}
		if err := tx.ExecAll(deleteLaneWatch, gone); err != nil || s.Node == nil {
			return err
		}
		health, err := json.Marshal(s.Node.Health)
		if err != nil {
			return err
		}
		_, err = tx.Exec(saveNodeWatch, s.Node.NodeID, s.Node.Lanes, s.Node.Opened, s.Node.Depth, raw(health), s.Node.UpdatedAt)
		return err
	})
}

func scanLaneWatch(r Row, w *hook.LaneWatch) error {
	return r.Scan(&w.EndpointID, &w.TenantID, Time(&w.Storm.Since), &w.Storm.First, &w.Storm.Retries, Time(&w.Queue.Since),
		&w.Queue.Depth, &w.Queue.AtLeast, &w.Queue.DrainPerMinute, Time(&w.UpdatedAt))
}

// ActiveLaneWatchesQuery returns the query of ActiveLaneWatches. It sorts what is
// active, which is little.
func ActiveLaneWatchesQuery(d Dialect, limit int) *Query {
	return &Query{SQL: `SELECT ` + laneWatchColumns + ` FROM lane_watch w` + d.Hint("lane_watch_active") + `
WHERE w.storm_since IS NOT NULL OR w.growing_since IS NOT NULL ORDER BY w.updated_at LIMIT $1`, Args: []any{limit}}
}

// ActiveLaneWatches implements store.Watch.
func (t *Tables) ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error) {
	return list(ctx, t, "list active watches", scanLaneWatch, ActiveLaneWatchesQuery(t.dialect, limit))
}

// LaneWatches implements store.LaneLog.
func (t *Tables) LaneWatches(ctx context.Context, endpoints []hook.ID) ([]hook.LaneWatch, error) {
	q := &Query{SQL: `SELECT ` + laneWatchColumns + ` FROM lane_watch w WHERE ` + t.dialect.Among("w.endpoint_id", "$1"), Args: []any{endpoints}}
	return list(ctx, t, "read watches", scanLaneWatch, q)
}

const nodeWatches = `SELECT node_id, lanes, opened, depth, health, updated_at FROM node_watch WHERE updated_at >= $1`

// NodeWatches implements store.Watch.
func (t *Tables) NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error) {
	return list(ctx, t, "read node watches", func(r Row, n *hook.NodeWatch) error {
		return r.Scan(&n.NodeID, &n.Lanes, &n.Opened, &n.Depth, Document(&n.Health), Time(&n.UpdatedAt))
	}, &Query{SQL: nodeWatches, Args: []any{since}})
}

const (
	systemWatches     = `SELECT signal, since FROM system_watch ORDER BY signal`
	deleteSystemWatch = `DELETE FROM system_watch WHERE signal = $1`
	setSystemWatch    = `INSERT INTO system_watch (signal, since) VALUES ($1, $2) ON CONFLICT (signal) DO UPDATE SET since = excluded.since`
)

// SystemWatches implements store.Watch.
func (t *Tables) SystemWatches(ctx context.Context) ([]hook.SystemWatch, error) {
	return list(ctx, t, "read system signals", func(r Row, w *hook.SystemWatch) error {
		return r.Scan(&w.Signal, Time(&w.Since))
	}, &Query{SQL: systemWatches})
}

// SetSystemWatch implements store.Watch.
func (t *Tables) SetSystemWatch(ctx context.Context, w hook.SystemWatch) error {
	return t.dialect.Change(ctx, "save system signal", func(tx Tx) (err error) {
		if w.Since.IsZero() {
			_, err = tx.Exec(deleteSystemWatch, w.Signal)
		} else {
			_, err = tx.Exec(setSystemWatch, w.Signal, w.Since)
		}
		return err
	})
}

// LanesQuery returns the query of ListLanes.
func LanesQuery(d Dialect, f store.LaneFilter, p store.Page) *Query {
	q := &Query{SQL: `SELECT ` + endpointColumns}
	d.LanesFrom(q, f)
	q.matchLanes(f)
	q.Page("e.id", p)
	return q
}

// CountLanesQuery returns the query of CountLanesLike.
func CountLanesQuery(d Dialect, f store.LaneFilter, limit int) *Query {
	q := &Query{SQL: `SELECT count(*) FROM (SELECT 1`}
	d.LanesFrom(q, f)
	q.matchLanes(f)
	q.SQL += "\nLIMIT " + q.Arg(limit) + ") AS n"
	return q
}

// CountLanesLike implements store.LaneLog.
func (t *Tables) CountLanesLike(ctx context.Context, f store.LaneFilter, limit int) (n int64, err error) {
	err = t.dialect.Read(ctx, "count lanes", CountLanesQuery(t.dialect, f, limit), func(r Row) error { return r.Scan(&n) })
	return n, err
}

// escaped keeps the characters that LIKE gives a meaning.
var escaped = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

func (q *Query) matchLanes(f store.LaneFilter) {
	q.And("e.deleted_at IS NULL")
	if f.Tenant != 0 {
		q.And("e.tenant_id = ?", f.Tenant)
	}
	for _, c := range []struct {
		wanted    *bool
		condition string
	}{
		{f.Storm, "(w.storm_since IS NOT NULL) = ?"},
		{f.Growing, "(w.growing_since IS NOT NULL) = ?"},
		{f.Open, "(coalesce(l.state, 0) = 1) = ?"},
		{f.Paused, "(e.state <> 0) = ?"},
		{f.Recovering, "coalesce(l.recovery_rate > 0, false) = ?"},
	} {
		if c.wanted != nil {
			q.And(c.condition, *c.wanted)
		}
	}
	if f.Hold != nil {
		q.And("coalesce(l.hold_until > ?, false) = ?", f.Now, *f.Hold)
	}
	if len(f.States) > 0 {
		q.And("e.state IN (" + numbers(f.States) + ")")
	}
	if f.Type != "" {
		q.getsType(f.Type)
	}
	if f.Endpoint != 0 {
		q.And("e.id = ?", f.Endpoint)
	}
	if f.Text != "" {
		like := "%" + escaped.Replace(strings.ToLower(f.Text)) + "%"
		q.And("(lower(e.url) LIKE ? ESCAPE '!' OR lower(e.uid) LIKE ? ESCAPE '!' OR lower(e.description) LIKE ? ESCAPE '!')", like, like, like)
	}
}

// getsType adds the condition that an endpoint gets events of a type: one of the
// patterns that match it is in its list. Types need no escapes in JSON. LIKE would
// ignore case on one database, and both have replace.
func (q *Query) getsType(eventType string) {
	patterns := []string{"*", eventType}
	for i, r := range eventType {
		if r == '.' {
			patterns = append(patterns, eventType[:i]+".*")
		}
	}
	var alternatives []string
	for _, p := range patterns {
		alternatives = append(alternatives, "replace(CAST(e.event_types AS text), "+q.Arg(`"`+p+`"`)+", '') <> CAST(e.event_types AS text)")
	}
	q.And("(" + strings.Join(alternatives, " OR ") + ")")
}

// ListLanes implements store.LaneLog.
func (t *Tables) ListLanes(ctx context.Context, f store.LaneFilter, p store.Page) ([]hook.Endpoint, error) {
	return list(ctx, t, "list lanes", scanEndpoint, LanesQuery(t.dialect, f, p))
}

// HaltedEndpointsQuery returns the query of HaltedEndpoints.
func HaltedEndpointsQuery(d Dialect, limit int) *Query {
	return &Query{SQL: `SELECT id, tenant_id, state, state_reason FROM endpoints` + d.Hint("endpoints_halted") + `
WHERE state <> 0 AND deleted_at IS NULL LIMIT $1`, Args: []any{limit}}
}

// HaltedEndpoints implements store.LaneLog.
func (t *Tables) HaltedEndpoints(ctx context.Context, limit int) ([]store.HaltedEndpoint, error) {
	return list(ctx, t, "list halted endpoints", func(r Row, h *store.HaltedEndpoint) error {
		return r.Scan(&h.EndpointID, &h.TenantID, &h.State, &h.Reason)
	}, HaltedEndpointsQuery(t.dialect, limit))
}

const insertOperational = `
INSERT INTO operational_events (id, tenant_id, endpoint_id, type, at, detail) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING`

// WriteOperational implements store.OperationalLog.
func (t *Tables) WriteOperational(ctx context.Context, events []hook.OperationalEvent) error {
	return t.dialect.Change(ctx, "write operational events", func(tx Tx) error {
		return tx.ExecAll(insertOperational, operationalRows(events))
	})
}

func operationalRows(events []hook.OperationalEvent) [][]any {
	rows := make([][]any, len(events))
	for i := range events {
		e := &events[i]
		rows[i] = []any{e.ID, OrNull(e.TenantID), OrNull(e.EndpointID), string(e.Type), e.At, raw(e.Detail)}
	}
	return rows
}

// OperationalQuery returns the query of ListOperational. It walks the index of the
// endpoint, of the tenant, or the primary key.
func OperationalQuery(d Dialect, f store.OperationalFilter, p store.Page) *Query {
	q := &Query{SQL: `
SELECT id, coalesce(tenant_id, 0), coalesce(endpoint_id, 0), type, at, detail FROM operational_events WHERE true`}
	tenant := "tenant_id = ?"
	if len(f.Endpoints) > 0 {
		tenant = "tenant_id + 0 = ?" // its index would be the worse one
	}
	switch len(f.Endpoints) {
	case 0:
	case 1:
		q.And("endpoint_id = ?", f.Endpoints[0])
	default:
		q.And(d.Among("endpoint_id", "?"), f.Endpoints)
	}
	if f.Tenant != 0 {
		q.And(tenant, f.Tenant)
	}
	if len(f.Types) > 0 {
		types := make([]string, len(f.Types))
		for i, t := range f.Types {
			types[i] = string(t)
		}
		q.And(d.Among("type", "?"), types)
	}
	q.Window("id", f.Since, f.Until)
	q.Page("id", p)
	return q
}

// ListOperational implements store.OperationalLog.
func (t *Tables) ListOperational(ctx context.Context, f store.OperationalFilter, p store.Page) ([]hook.OperationalEvent, error) {
	return list(ctx, t, "list operational events", func(r Row, e *hook.OperationalEvent) error {
		return r.Scan(&e.ID, &e.TenantID, &e.EndpointID, &e.Type, Time(&e.At), Document(&e.Detail))
	}, OperationalQuery(t.dialect, f, p))
}
