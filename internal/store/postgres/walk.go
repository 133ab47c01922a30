package postgres

import (
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// walkOf adds the source of a walk with the conditions that lead into its index.
// There are no hints, so the text leaves one index to choose: a range of rows
// (key, id) can be read by the index on the two only, never by the primary key
// past the rows of others, and a condition of a partial index is written out
// here and nowhere else.
func walkOf(q *sqlstore.Query, seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs) {
	switch w {
	case store.WalkTenant:
		within(q, seen, "tenant_id", f.Tenant, r)
	case store.WalkDead:
		within(q, seen, "tenant_id", f.Tenant, r)
		q.And("d.state = 2")
	case store.WalkEndpoint:
		within(q, seen, "endpoint_id", f.Endpoints[0], r)
	case store.WalkEndpointDead:
		within(q, seen, "endpoint_id", f.Endpoints[0], r)
		q.And("d.state = 2")
	case store.WalkDue:
		q.SQL += strings.NewReplacer("$endpoints", q.Arg(f.Endpoints), "$by", q.Arg(f.DueBy)).Replace(seen.Text(dueOf))
		q.And("d.id >= ? AND d.id < ?", r.From, r.To)
	case store.WalkEvent:
		q.SQL += seen.Text(fromDeliveries) + "(d.event_id, d.endpoint_id) >= (" + q.Arg(f.Event) + ", 0)"
		q.And("(d.event_id, d.endpoint_id) < (?, 0)", f.Event+1)
		q.And("d.id + 0 >= ? AND d.id + 0 < ?", r.From, r.To)
	case store.WalkIDs:
		q.SQL += seen.Text(fromDeliveries) + "d.id = ANY(" + q.Arg(f.IDs) + ")"
		q.And("d.id + 0 >= ? AND d.id + 0 < ?", r.From, r.To)
	case store.WalkAllDead:
		q.SQL += seen.Text(fromDeliveries) + "(d.state, d.id) >= (2, " + q.Arg(r.From) + ")"
		q.And("(d.state, d.id) < (2, ?) AND d.state = 2", r.To)
	default: // store.WalkAll
		q.SQL += seen.Text(fromDeliveries) + "d.id >= " + q.Arg(r.From)
		q.And("d.id < ?", r.To)
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
func within(q *sqlstore.Query, seen visible.Rows, key string, value hook.ID, r store.IDs) {
	q.SQL += seen.Text(fromDeliveries) + "(d." + key + ", d.id) >= (" + q.Arg(value) + ", " + q.Arg(r.From) + ")"
	q.And("(d."+key+", d.id) < (?, ?)", value, r.To)
}

// orderOf is the order of ids in the words of the walk's index. What a short
// walk finds is sorted: the planner must not take the order of the primary key
// for a way to find it.
func orderOf(w store.Walk, asc bool) string {
	down := sqlstore.Direction(asc)
	switch w {
	case store.WalkTenant, store.WalkDead:
		return "\nORDER BY d.tenant_id" + down + ", d.id" + down
	case store.WalkEndpoint, store.WalkEndpointDead:
		return "\nORDER BY d.endpoint_id" + down + ", d.id" + down
	case store.WalkAllDead:
		return "\nORDER BY d.state" + down + ", d.id" + down
	case store.WalkAll:
		return "\nORDER BY d.id" + down
	default:
		return "\nORDER BY d.id + 0" + down
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

// WalkQuery implements sqlstore.Dialect. Where not all of the walk matches, it is
// a query of its own with a limit: conditions that seem to leave little would
// otherwise lead the planner to gather it by any index, and sort it.
func (d dialect) WalkQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, p store.Page,
	columns string,
) *sqlstore.Query {
	q := &sqlstore.Query{SQL: "SELECT " + columns + " FROM "}
	switch {
	case f.Covers(w):
		walkOf(q, seen, w, f, r)
	case w.Short():
		walkOf(q, seen, w, f, r)
		q.Match(d, f)
	default:
		q.SQL += "(SELECT d.* FROM "
		walkOf(q, seen, w, f, r)
		q.SQL += orderOf(w, p.Asc) + "\nLIMIT " + q.Arg(f.ScanLimit(p)) + ") d WHERE true"
		q.Match(d, f)
	}
	q.SQL += orderOf(w, p.Asc) + "\nLIMIT " + q.Arg(p.Limit)
	return q
}

// StopQuery implements sqlstore.Dialect.
func (dialect) StopQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, asc bool, n int) *sqlstore.Query {
	q := &sqlstore.Query{SQL: "SELECT d.id FROM "}
	walkOf(q, seen, w, f, r)
	q.SQL += orderOf(w, asc) + "\nLIMIT 1 OFFSET " + q.Arg(n)
	return q
}

// EventsOf implements sqlstore.Dialect. The rows lead into events_tenant alone, the
// ids tell which partitions to leave alone.
func (dialect) EventsOf(q *sqlstore.Query, tenant hook.ID, r store.IDs) string {
	q.SQL += "events e WHERE (e.tenant_id, e.id) >= (" + q.Arg(tenant) + ", " + q.Arg(r.From) + ")"
	q.And("(e.tenant_id, e.id) < (?, ?)", tenant, r.To)
	q.And("e.id >= ? AND e.id < ?", r.From, r.To)
	return "\nORDER BY e.tenant_id, e.id"
}

// withoutRow looks for the one row by deliveries_event: a condition on rows leaves no
// other index, and a value that is read for each event no other way to join.
const withoutRow visible.SQL = `(SELECT d.id FROM deliveries d
    WHERE (d.event_id, d.endpoint_id) >= (e.id, ?) AND (d.event_id, d.endpoint_id) <= (e.id, ?) LIMIT 1) IS NULL`

// WithoutDelivery implements sqlstore.Dialect. An event and the rows of its
// deliveries come with one commit, or its row names those that are deferred, and goes
// on naming them. So one look tells, whatever is being inserted meanwhile.
func (dialect) WithoutDelivery(q *sqlstore.Query, endpoint hook.ID) {
	q.And(visible.AddsDeferred.Text(withoutRow), endpoint, endpoint)
	q.And("(e.targets IS NULL OR position(?::bytea IN e.targets) = 0)", deferred.NameOf(endpoint))
}

// Pairs implements sqlstore.Dialect.
func (dialect) Pairs() string { return "unnest($1::bigint[], $2::bigint[]) AS p(id, event_id)" }

const countDue visible.SQL = `
SELECT count(*) FROM (SELECT FROM (SELECT DISTINCT id FROM unnest($1::bigint[]) AS id) ep CROSS JOIN LATERAL (
  SELECT FROM deliveries p
  WHERE p.endpoint_id = ep.id AND p.due_at <= coalesce($3::timestamptz, 'infinity') AND p.state = 0
  ORDER BY p.due_at, p.id LIMIT $2) d LIMIT $2) due`

// CountDue implements sqlstore.Dialect.
func (dialect) CountDue(seen visible.Rows, endpoints []hook.ID, by time.Time, limit int) *sqlstore.Query {
	return &sqlstore.Query{SQL: seen.Text(countDue), Args: []any{endpoints, limit, by}}
}
