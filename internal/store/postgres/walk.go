package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// walk adds the source of a walk with the conditions that lead into its index.
// There are no hints, so the text leaves one index to choose: a range of rows
// (key, id) can be read by the index on the two only, never by the primary key
// past the rows of others, and a condition of a partial index is written out
// here and nowhere else.
func (q *query) walk(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs) {
	switch w {
	case store.WalkTenant:
		q.within(seen, "tenant_id", f.Tenant, r)
	case store.WalkDead:
		q.within(seen, "tenant_id", f.Tenant, r)
		q.and("d.state = 2")
	case store.WalkEndpoint:
		q.within(seen, "endpoint_id", f.Endpoints[0], r)
	case store.WalkEndpointDead:
		q.within(seen, "endpoint_id", f.Endpoints[0], r)
		q.and("d.state = 2")
	case store.WalkDue:
		q.sql += strings.NewReplacer("$endpoints", q.arg(f.Endpoints), "$by", q.arg(at(f.DueBy))).Replace(seen.Text(dueOf))
		q.and("d.id >= ? AND d.id < ?", r.From, r.To)
	case store.WalkEvent:
		q.sql += seen.Text(fromDeliveries) + "(d.event_id, d.endpoint_id) >= (" + q.arg(f.Event) + ", 0)"
		q.and("(d.event_id, d.endpoint_id) < (?, 0)", f.Event+1)
		q.and("d.id + 0 >= ? AND d.id + 0 < ?", r.From, r.To)
	case store.WalkIDs:
		q.sql += seen.Text(fromDeliveries) + "d.id = ANY(" + q.arg(f.IDs) + ")"
		q.and("d.id + 0 >= ? AND d.id + 0 < ?", r.From, r.To)
	default: // store.WalkAll
		q.sql += seen.Text(fromDeliveries) + "d.id >= " + q.arg(r.From)
		q.and("d.id < ?", r.To)
	}
}

// dueOf is what is pending for some endpoints, by deliveries_due alone: no
// other index has its order, and OFFSET 0 keeps the planner from joining in
// another way.
const dueOf visible.SQL = `(SELECT DISTINCT id FROM unnest($endpoints::bigint[]) AS id) ep CROSS JOIN LATERAL (
  SELECT * FROM deliveries p
  WHERE p.endpoint_id = ep.id AND p.due_at <= coalesce($by::timestamptz, 'infinity') AND p.state = 0 ORDER BY p.due_at, p.id OFFSET 0) d
WHERE true`

const fromDeliveries visible.SQL = "deliveries d WHERE "

// within reads a range of an index on (key, id).
func (q *query) within(seen visible.Rows, key string, value hook.ID, r store.IDs) {
	q.sql += seen.Text(fromDeliveries) + "(d." + key + ", d.id) >= (" + q.arg(value) + ", " + q.arg(r.From) + ")"
	q.and("(d."+key+", d.id) < (?, ?)", value, r.To)
}

// orderOf is the order of ids in the words of the walk's index. What a short
// walk finds is sorted: the planner must not take the order of the primary key
// for a way to find it.
func orderOf(w store.Walk, asc bool) string {
	down := ""
	if !asc {
		down = " DESC"
	}
	switch w {
	case store.WalkTenant, store.WalkDead:
		return "\nORDER BY d.tenant_id" + down + ", d.id" + down
	case store.WalkEndpoint, store.WalkEndpointDead:
		return "\nORDER BY d.endpoint_id" + down + ", d.id" + down
	case store.WalkAll:
		return "\nORDER BY d.id" + down
	default:
		return "\nORDER BY d.id + 0" + down
	}
}

// matching adds everything but the window, which is a range of ids. It leads
// into no index: columns of keys are hidden in a sum, and states are parameters
// that no partial index can be proven to match.
func (q *query) matching(f *store.DeliveryFilter) {
	if f.Tenant != 0 {
		q.and("d.tenant_id + 0 = ?", f.Tenant)
	}
	if len(f.Endpoints) > 0 {
		q.and("d.endpoint_id + 0 = ANY(?)", f.Endpoints)
	}
	if f.Event != 0 {
		q.and("d.event_id + 0 = ?", f.Event)
	}
	if len(f.States) > 0 {
		q.and("d.state = ANY(?::smallint[])", enums(f.States))
	}
	if f.Retrying {
		q.and("d.state = ANY(?::smallint[]) AND d.attempts > 0", enums([]hook.DeliveryState{hook.Pending}))
	}
	if !f.DueBy.IsZero() {
		q.and("d.state = ANY(?::smallint[]) AND d.due_at <= ?", enums([]hook.DeliveryState{hook.Pending}), at(f.DueBy))
	}
	if len(f.Reasons) > 0 {
		q.and("d.reason = ANY(?::smallint[])", enums(f.Reasons))
	}
	if len(f.IDs) > 0 {
		q.and("d.id + 0 = ANY(?)", f.IDs)
	}
	switch {
	case f.SettledBy.IsZero():
	case len(f.States) > 0 && !slices.Contains(f.States, hook.Pending):
		q.and("d.settled_at <= ?", at(f.SettledBy))
	default:
		q.and("(d.state = 0 OR d.settled_at <= ?)", at(f.SettledBy))
	}
	if filtersTypes(f.Types) {
		condition, exact, below := typed(f.Types)
		q.and("(SELECT "+condition+" FROM events e WHERE e.id = d.event_id)", exact, below)
	}
}

// enums are enum members as a parameter.
func enums[E ~uint8](members []E) []int16 {
	out := make([]int16, len(members))
	for i, m := range members {
		out[i] = int16(m)
	}
	return out
}

// typeOf is the type of a delivery's event, found in one partition. As a
// subquery it is looked up for each delivery that a walk comes to: a join could
// be turned around, and begin with all events.
const typeOf = `coalesce((SELECT e.type FROM events e WHERE e.id = d.event_id), '')`

// walkQuery reads up to p.Limit of what matches of a range of a walk. Where not
// all of it does, the walk is a query of its own with a limit: conditions that
// seem to leave little would otherwise lead the planner to gather it by any
// index, and sort it.
func walkQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, p store.Page, columns string) *query {
	q := &query{sql: "SELECT " + columns + " FROM "}
	switch {
	case f.Covers(w):
		q.walk(seen, w, f, r)
	case w.Short():
		q.walk(seen, w, f, r)
		q.matching(f)
	default:
		q.sql += "(SELECT d.* FROM "
		q.walk(seen, w, f, r)
		q.sql += orderOf(w, p.Asc) + "\nLIMIT " + q.arg(f.ScanLimit(p)) + ") d WHERE true"
		q.matching(f)
	}
	q.sql += orderOf(w, p.Asc) + "\nLIMIT " + q.arg(p.Limit)
	return q
}

// stopQuery steps over the first n of a walk.
func stopQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, asc bool, n int) *query {
	q := &query{sql: "SELECT d.id FROM "}
	q.walk(seen, w, f, r)
	q.sql += orderOf(w, asc) + "\nLIMIT 1 OFFSET " + q.arg(n)
	return q
}

// looker looks at a walk.
func looker[R any](ctx context.Context, d *DB, seen visible.Rows, f *store.DeliveryFilter, w store.Walk, p store.Page,
	columns, doing string, scan func(pgx.Row) (R, error),
) *store.Scanner[R] {
	return &store.Scanner[R]{
		Stop: func(r store.IDs, n int) (id hook.ID, err error) {
			q := stopQuery(seen, w, f, r, p.Asc, n)
			if err = d.pool.QueryRow(ctx, q.sql, q.args...).Scan(&id); errors.Is(err, pgx.ErrNoRows) {
				return 0, nil
			}
			return id, err
		},
		Read: func(r store.IDs) ([]R, error) {
			return collect(ctx, d.pool, walkQuery(seen, w, f, r, p, columns), doing, scan)
		},
		Count: func(r store.IDs, limit int) (n int, err error) {
			q := walkQuery(seen, w, f, r, store.Page{Limit: limit, Asc: p.Asc, ScanLimit: p.ScanLimit}, "")
			err = d.pool.QueryRow(ctx, "SELECT count(*) FROM ("+q.sql+") matching", q.args...).Scan(&n)
			return n, err
		},
	}
}

// find reads a page of deliveries.
func find[R any](ctx context.Context, d *DB, f *store.DeliveryFilter, p store.Page,
	columns, doing string, scan func(pgx.Row) (R, error), id func(R) hook.ID,
) ([]R, hook.ID, error) {
	seen, err := d.makeMatchingVisible(ctx, f)
	if err != nil {
		return nil, 0, failed(doing, err)
	}
	p.Limit = max(p.Limit, 1)
	w, err := d.chooseWalk(ctx, seen, f, p)
	if err != nil {
		return nil, 0, failed(doing, err)
	}
	rows, next, err := looker(ctx, d, seen, f, w, p, columns, doing, scan).Find(f, w, p, id)
	if err != nil {
		return nil, 0, failed(doing, err)
	}
	return rows, next, nil
}

const (
	endpointsOfTenant = `SELECT id FROM endpoints WHERE tenant_id = $1 LIMIT $2`

	countDue visible.SQL = `
SELECT count(*) FROM (SELECT FROM (SELECT DISTINCT id FROM unnest($1::bigint[]) AS id) ep CROSS JOIN LATERAL (
  SELECT FROM deliveries p
  WHERE p.endpoint_id = ep.id AND p.due_at <= coalesce($3::timestamptz, 'infinity') AND p.state = 0
  ORDER BY p.due_at, p.id LIMIT $2) d LIMIT $2) due`
)

// countDue counts up to limit deliveries that are pending for some endpoints,
// and due by a moment unless that is zero.
func (d *DB) countDue(ctx context.Context, seen visible.Rows, endpoints []hook.ID, by time.Time, limit int) (n int, err error) {
	err = d.pool.QueryRow(ctx, seen.Text(countDue), endpoints, limit, at(by)).Scan(&n)
	return n, err
}

// endpointsOf returns the endpoints of the filter that are the tenant's, or all
// of the tenant; false when it has too many to ask for each.
func (d *DB) endpointsOf(ctx context.Context, f *store.DeliveryFilter) ([]hook.ID, bool, error) {
	endpoints, err := collect(ctx, d.pool, &query{endpointsOfTenant, []any{f.Tenant, store.MaxDueEndpoints + 1}}, "read endpoints", scanID)
	if err != nil || len(endpoints) > store.MaxDueEndpoints {
		return nil, false, err
	}
	return f.Among(endpoints), true, nil
}

// chooseWalk returns the walk of a filter. What is pending is counted first
// where that may spare a long one; then f names all endpoints of the tenant.
func (d *DB) chooseWalk(ctx context.Context, seen visible.Rows, f *store.DeliveryFilter, p store.Page) (store.Walk, error) {
	if !f.AsksDue() {
		return f.Walk(), nil
	}
	endpoints := f.Endpoints
	if len(endpoints) == 0 {
		var all bool
		var err error
		if endpoints, all, err = d.endpointsOf(ctx, f); err != nil || !all {
			return f.Walk(), err
		}
	}
	n, err := d.countDue(ctx, seen, endpoints, f.DueBy, f.ScanLimit(p)+1)
	if err != nil || n > f.ScanLimit(p) {
		return f.Walk(), err
	}
	f.Endpoints = endpoints
	return store.WalkDue, nil
}
