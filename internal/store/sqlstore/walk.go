package sqlstore

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// TypeOfEvent is the type of a delivery's event. As a subquery it is looked up for
// each delivery that a walk comes to: a join could be turned around, and begin
// with all events.
const TypeOfEvent = `coalesce((SELECT e.type FROM events e WHERE e.id = d.event_id), '')`

// Match adds everything of a filter but its window, which is a range of ids. It
// leads into no index: columns of keys are hidden in a sum, and states are
// parameters that no partial index can be proven to match.
func (q *Query) Match(d Dialect, f *store.DeliveryFilter) {
	pending := []hook.DeliveryState{hook.Pending}
	if f.Tenant != 0 {
		q.And("d.tenant_id + 0 = ?", f.Tenant)
	}
	if len(f.Endpoints) > 0 {
		q.And(d.Among("d.endpoint_id + 0", "?"), f.Endpoints)
	}
	if f.Event != 0 {
		q.And("d.event_id + 0 = ?", f.Event)
	}
	if len(f.States) > 0 {
		q.And(d.Among("d.state", "?"), f.States)
	}
	if f.Retrying {
		q.And(d.Among("d.state", "?")+" AND d.attempts > 0", pending)
	}
	if !f.DueBy.IsZero() {
		q.And(d.Among("d.state", "?")+" AND d.due_at <= ?", pending, f.DueBy)
	}
	if len(f.Reasons) > 0 {
		q.And(d.Among("d.reason", "?"), f.Reasons)
	}
	if len(f.IDs) > 0 {
		q.And(d.Among("d.id + 0", "?"), f.IDs)
	}
	if !f.EventsUntil.IsZero() {
		q.And("d.event_id + 0 < ?", hook.IDFloor(f.EventsUntil))
	}
	switch {
	case f.SettledBy.IsZero():
	case len(f.States) > 0 && !slices.Contains(f.States, hook.Pending):
		q.And("d.settled_at <= ?", f.SettledBy)
	default:
		q.And("(d.state = 0 OR d.settled_at <= ?)", f.SettledBy)
	}
	if condition := q.TypeIn("e.type", f.Types); condition != "" {
		q.And("(SELECT " + condition + " FROM events e WHERE e.id = d.event_id)")
	}
}

const (
	endpointsOfTenant = `SELECT id FROM endpoints WHERE tenant_id = $1 LIMIT $2`
	someEndpoints     = `SELECT id FROM endpoints LIMIT $1`
)

// scan is how the deliveries of a filter are looked at.
func scan[R any](ctx context.Context, t *Tables, seen visible.Rows, doing string, f *store.DeliveryFilter, p store.Page,
	columns string, read func(Row, *R) error,
) *store.Scanner[R] {
	number := func(q *Query) (n int, err error) {
		err = t.dialect.Read(ctx, doing, q, func(r Row) error { return r.Scan(&n) })
		return n, err
	}
	return &store.Scanner[R]{
		Stop: func(w store.Walk, r store.IDs, n int) (hook.ID, error) {
			id, err := number(t.dialect.StopQuery(seen, w, f, r, p.Asc, n))
			return hook.ID(id), err
		},
		Read: func(w store.Walk, r store.IDs, limit int) ([]R, error) {
			return list(ctx, t, doing, read, t.dialect.WalkQuery(seen, w, f, r, store.Page{Limit: limit, Asc: p.Asc, ScanLimit: p.ScanLimit}, columns))
		},
		Count: func(w store.Walk, r store.IDs, limit int) (int, error) {
			q := t.dialect.WalkQuery(seen, w, f, r, store.Page{Limit: limit, Asc: p.Asc, ScanLimit: p.ScanLimit}, "1")
			q.SQL = "SELECT count(*) FROM (" + q.SQL + ") matching"
			return number(q)
		},
		CountDue: func(endpoints []hook.ID, by time.Time, limit int) (int, error) {
			return number(t.dialect.CountDue(seen, endpoints, by, limit))
		},
		Endpoints: func(tenant hook.ID, limit int) ([]hook.ID, error) {
			q := &Query{SQL: endpointsOfTenant, Args: []any{tenant, limit}}
			if tenant == 0 {
				q = &Query{SQL: someEndpoints, Args: []any{limit}}
			}
			return list(ctx, t, doing, ScanValue[hook.ID], q)
		},
	}
}

// find reads a page of deliveries.
func find[R any](ctx context.Context, t *Tables, doing string, f *store.DeliveryFilter, p store.Page,
	columns string, read func(Row, *R) error, id func(R) hook.ID,
) ([]R, hook.ID, error) {
	seen, err := t.dialect.MakeVisible(ctx, f)
	if err != nil {
		return nil, 0, err
	}
	p.Limit = max(p.Limit, 1)
	return scan(ctx, t, seen, doing, f, p, columns, read).Find(f, p, id)
}

// ListDeliveries implements store.DeliveryLog.
func (t *Tables) ListDeliveries(ctx context.Context, f store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, hook.ID, error) {
	return find(ctx, t, "list deliveries", &f, p, DeliveryColumns+", "+TypeOfEvent, scanDeliveryRow,
		func(r store.DeliveryRow) hook.ID { return r.ID })
}

// CountMatching implements store.DeliveryLog.
func (t *Tables) CountMatching(ctx context.Context, f store.DeliveryFilter, p store.Page) (store.Counted, error) {
	seen, err := t.dialect.MakeVisible(ctx, &f)
	if err != nil {
		return store.Counted{}, err
	}
	return scan(ctx, t, seen, "count deliveries", &f, p, "", scanDeliveryRow).Counted(&f, p)
}

// CountByEndpoint implements store.Replays.
func (t *Tables) CountByEndpoint(ctx context.Context, f store.DeliveryFilter, limit int) (map[hook.ID]int64, error) {
	seen, err := t.dialect.MakeVisible(ctx, &f)
	if err != nil {
		return nil, err
	}
	q := t.dialect.WalkQuery(seen, f.Walk(), &f, f.Range(store.Page{}), store.Page{Limit: limit, ScanLimit: math.MaxInt32}, "d.endpoint_id")
	counts := map[hook.ID]int64{}
	err = t.dialect.Snapshot(ctx, "count deliveries by endpoint", func(tx Tx) error {
		return tx.Query("SELECT endpoint_id, count(*) FROM ("+q.SQL+") matching GROUP BY endpoint_id", q.Args, func(r Row) error {
			var endpoint hook.ID
			var n int64
			err := r.Scan(&endpoint, &n)
			counts[endpoint] = n
			return err
		})
	})
	return counts, err
}
