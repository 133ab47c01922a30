package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// walk names the index of a walk and adds the conditions that lead into it. The
// states are written out: they must match those of the partial indexes. Without
// statistics, which the store never gathers, the planner would have to guess;
// INDEXED BY leaves it nothing to choose.
func (f *filter) walk(w store.Walk, df *store.DeliveryFilter) (index string) {
	switch w {
	case store.WalkTenant:
		f.and("d.tenant_id = ?", df.Tenant)
		return "INDEXED BY deliveries_tenant"
	case store.WalkDead:
		f.and("d.tenant_id = ? AND d.state = 2", df.Tenant)
		return "INDEXED BY deliveries_dead_tenant"
	case store.WalkEndpoint:
		f.and("d.endpoint_id = ?", df.Endpoints[0])
		return "INDEXED BY deliveries_log"
	case store.WalkEndpointDead:
		f.and("d.endpoint_id = ? AND d.state = 2", df.Endpoints[0])
		return "INDEXED BY deliveries_dead"
	case store.WalkDue:
		f.and("d.endpoint_id IN (SELECT value FROM json_each(?)) AND d.state = 0", idList(df.Endpoints))
		if !df.DueBy.IsZero() {
			f.and("d.due_at <= ?", df.DueBy.UnixMicro())
		}
		return "INDEXED BY deliveries_due"
	case store.WalkEvent:
		f.and("d.event_id = ?", df.Event)
		return "INDEXED BY deliveries_event"
	case store.WalkIDs:
		f.and("d.id IN (SELECT value FROM json_each(?))", idList(df.IDs))
		return "NOT INDEXED" // the primary key counts as none
	default: // store.WalkAll
		return "NOT INDEXED"
	}
}

// matching adds everything but the window, which is a range of ids.
func (f *filter) matching(df *store.DeliveryFilter) {
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
	if len(df.States) > 0 {
		f.and("d.state IN (SELECT value FROM json_each(?))", idList(df.States))
	}
	if df.Retrying {
		f.and("d.state = 0 AND d.attempts > 0")
	}
	if !df.DueBy.IsZero() {
		f.and("d.state = 0 AND d.due_at <= ?", df.DueBy.UnixMicro())
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
}

// walkQuery reads what matches of a range of a walk. The walk is the outer loop
// of the join: types have no index.
func walkQuery(w store.Walk, df *store.DeliveryFilter, r store.IDs, columns, order string, args ...any) (string, []any) {
	f := &filter{order: order}
	index, join := f.walk(w, df), " LEFT JOIN"
	f.and("d.id >= ? AND d.id < ?", r.From, r.To)
	if !df.Covers(w) {
		f.matching(df)
	}
	if len(df.Types) > 0 {
		join = " CROSS JOIN"
	}
	return "SELECT " + columns + " FROM deliveries d " + index + join + " events e ON e.id = d.event_id" + f.text(), append(f.args, args...)
}

// stopQuery steps over the first n of a walk, in its index alone.
func stopQuery(w store.Walk, df *store.DeliveryFilter, r store.IDs, asc bool, n int) (string, []any) {
	f := &filter{order: " ORDER BY d.id" + direction(asc) + " LIMIT 1 OFFSET ?"}
	index := f.walk(w, df)
	f.and("d.id >= ? AND d.id < ?", r.From, r.To)
	return "SELECT d.id FROM deliveries d " + index + f.text(), append(f.args, n)
}

func direction(asc bool) string {
	if asc {
		return ""
	}
	return " DESC"
}

// looker looks at a walk.
func looker[R any](ctx context.Context, db *DB, df *store.DeliveryFilter, w store.Walk, p store.Page,
	columns string, scan func(scannable, *R) error,
) *store.Scanner[R] {
	return &store.Scanner[R]{
		Stop: func(r store.IDs, n int) (id hook.ID, err error) {
			text, args := stopQuery(w, df, r, p.Asc, n)
			if err = db.row(ctx, text, args...).Scan(&id); errors.Is(err, sql.ErrNoRows) {
				return 0, nil
			}
			return id, err
		},
		Read: func(r store.IDs) ([]R, error) {
			text, args := walkQuery(w, df, r, columns, " ORDER BY d.id"+direction(p.Asc)+" LIMIT ?", p.Limit)
			return search(ctx, db.read, scan, text, args...)
		},
		Count: func(r store.IDs, limit int) (n int, err error) {
			text, args := walkQuery(w, df, r, "1", " LIMIT ?", limit)
			err = db.read.QueryRowContext(ctx, "SELECT count(*) FROM ("+text+")", args...).Scan(&n)
			return n, err
		},
	}
}

// find reads a page of deliveries.
func find[R any](ctx context.Context, db *DB, df *store.DeliveryFilter, p store.Page,
	columns string, scan func(scannable, *R) error, id func(R) hook.ID,
) (rows []R, next hook.ID, err error) {
	w, err := db.chooseWalk(ctx, df, p)
	if err != nil {
		return nil, 0, err
	}
	return looker(ctx, db, df, w, p, columns, scan).Find(df, w, p, id)
}

func (db *DB) countMatching(ctx context.Context, df *store.DeliveryFilter, p store.Page) (store.Counted, error) {
	if df.CountsDue() {
		endpoints, all, err := db.endpointsOf(ctx, df)
		if err != nil {
			return store.Counted{}, err
		}
		if all {
			n, err := db.countDue(ctx, endpoints, df.DueBy, p.Limit+1)
			return store.AtMost(n, p.Limit), err
		}
	}
	w, err := db.chooseWalk(ctx, df, p)
	if err != nil {
		return store.Counted{}, err
	}
	return looker(ctx, db, df, w, p, "", scanDeliveryRow).Counted(df, w, p)
}

const (
	endpointsOfTenant = `SELECT id FROM endpoints WHERE tenant_id = ? LIMIT ?`

	countDue = `
SELECT count(*) FROM (
  SELECT 1 FROM deliveries INDEXED BY deliveries_due WHERE endpoint_id IN (SELECT value FROM json_each(?1)) AND state = 0 AND due_at <= ?2 LIMIT ?3)`
)

// countDue counts up to limit deliveries that are pending for some endpoints,
// and due by a moment unless that is zero.
func (db *DB) countDue(ctx context.Context, endpoints []hook.ID, by time.Time, limit int) (n int, err error) {
	latest := int64(math.MaxInt64)
	if !by.IsZero() {
		latest = by.UnixMicro()
	}
	err = db.row(ctx, countDue, idList(endpoints), latest, limit).Scan(&n)
	return n, err
}

// endpointsOf returns the endpoints of the filter that are the tenant's, or all
// of the tenant; false when it has too many to ask for each.
func (db *DB) endpointsOf(ctx context.Context, df *store.DeliveryFilter) ([]hook.ID, bool, error) {
	if err := db.usable(); err != nil {
		return nil, false, err
	}
	endpoints, err := list(ctx, db, func(r scannable, id *hook.ID) error { return r.Scan(id) }, endpointsOfTenant, df.Tenant, store.MaxDueEndpoints+1)
	if err != nil || len(endpoints) > store.MaxDueEndpoints {
		return nil, false, err
	}
	return df.Among(endpoints), true, nil
}

// chooseWalk returns the walk of a filter. What is pending is counted first
// where that may spare a long one; then df names all endpoints of the tenant.
func (db *DB) chooseWalk(ctx context.Context, df *store.DeliveryFilter, p store.Page) (store.Walk, error) {
	if err := db.usable(); err != nil {
		return 0, err
	}
	if !df.AsksDue() {
		return df.Walk(), nil
	}
	endpoints := df.Endpoints
	if len(endpoints) == 0 {
		var all bool
		var err error
		if endpoints, all, err = db.endpointsOf(ctx, df); err != nil || !all {
			return df.Walk(), err
		}
	}
	n, err := db.countDue(ctx, endpoints, df.DueBy, df.ScanLimit(p)+1)
	if err != nil || n > df.ScanLimit(p) {
		return df.Walk(), err
	}
	df.Endpoints = endpoints
	return store.WalkDue, nil
}
