package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	// eventsFrom are the events some of whose deliveries may be deferred.
	eventsFrom = `
SELECT id, tenant_id, created_at, targets FROM events
WHERE id >= $1 AND targets IS NOT NULL AND ($2::bigint = 0 OR tenant_id = $2) AND ($3::bigint = 0 OR id = $3)
ORDER BY id LIMIT $4`

	// withRow looks for rows in the order of the primary key. With = alone the
	// planner would take any index that has the id somewhere, and read all of it,
	// as long as the statistics say that the table is empty.
	withRow visible.SQL = `
SELECT n.id FROM unnest($1::bigint[]) AS n(id)
WHERE (SELECT w.id FROM deliveries w WHERE w.id >= n.id ORDER BY w.id LIMIT 1) = n.id`

	// insertDeferred inserts rows as they were accepted, in the order of ids, and
	// returns their endpoints. One that is there already is the one that is wanted.
	// It names no index: a row that somebody else inserts at the same moment may be
	// met in any of them.
	insertDeferred visible.SQL = `
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, size, run_due_at)
SELECT n.id, n.tenant_id, n.event_id, n.endpoint_id, n.due_at, n.size, n.due_at
FROM (
  SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS tenant_id, unnest($3::bigint[]) AS event_id,
    unnest($4::bigint[]) AS endpoint_id, unnest($5::timestamptz[]) AS due_at, unnest($6::int[]) AS size) AS n
ON CONFLICT DO NOTHING RETURNING endpoint_id`
)

// lookChunk is how many events are looked at together.
const lookChunk = 2000

// makeVisible makes the deliveries in the scope visible: it inserts the rows of
// those that are deferred, on whatever node they were accepted. It waits for no
// batch but one that is inserting the same row. The lanes of the rows are told.
func (d *DB) makeVisible(ctx context.Context, s deferred.Scope) (visible.Rows, error) {
	var told []hook.ID
	nodes := d.deferring()
	err := eachDeferred(ctx, d.pool, s, func(missing []deferred.Delivery) error {
		endpoints, err := insertAll(ctx, d.pool, missing)
		if err != nil {
			return err
		}
		told = append(told, nodes.ToAnnounce(endpoints, missing)...)
		nodes.Inserted(deferred.IDs(missing))
		return nil
	})
	d.hints.TellAll(ctx, told)
	if err != nil {
		return visible.Rows{}, failed("insert deferred deliveries", err)
	}
	return visible.Made(), nil
}

// makeVisibleToShow is makeVisible for those who look. With a full disk they see
// what there is.
func (d *DB) makeVisibleToShow(ctx context.Context, s deferred.Scope) (visible.Rows, error) {
	if _, err := d.makeVisible(ctx, s); err != nil && !isCode(err, codeDiskFull) {
		return visible.Rows{}, err
	}
	return visible.Made(), nil
}

// makeMatchingVisible is makeVisibleToShow for what a filter may match.
func (d *DB) makeMatchingVisible(ctx context.Context, f *store.DeliveryFilter) (visible.Rows, error) {
	if s, ok := deferred.ScopeOf(f); ok {
		return d.makeVisibleToShow(ctx, s)
	}
	return visible.Made(), nil
}

// justNow is how long a delivery is on its way from its commit to its lane, and
// from there to its result, as a rule.
const justNow = 250 * time.Millisecond

// makeLanesVisible makes the deliveries of lanes of this process visible; no endpoint
// means all lanes. The lanes of other nodes are not read here, and what
// other nodes accept for these they insert themselves if it is not sent at once.
func (d *DB) makeLanesVisible(ctx context.Context, endpoints ...hook.ID) (visible.Rows, error) {
	seen, _, err := d.makeUnknownVisible(ctx, &store.Wanted{Endpoints: endpoints})
	return seen, err
}

// makeUnknownVisible is makeLanesVisible but for what the lanes know. What was
// accepted just now is in memory in a moment and settled in the next, so its row is
// not inserted for a lane that reads all the time; its endpoint is returned instead,
// to be looked at again.
func (d *DB) makeUnknownVisible(ctx context.Context, w *store.Wanted) (seen visible.Rows, again []hook.ID, err error) {
	for _, n := range d.everyNode() {
		late, young := n.OfLanes(w.Endpoints, w.Known), []deferred.Delivery(nil)
		if !w.Now.IsZero() {
			late, young = deferred.Older(late, w.Now.Add(-justNow))
		}
		if _, err := insertAll(ctx, d.pool, late); err != nil {
			return visible.Rows{}, nil, failed("insert deferred deliveries", err)
		}
		n.Inserted(deferred.IDs(late))
		for _, d := range young {
			again = append(again, d.Endpoint)
		}
	}
	return visible.Made(), again, nil
}

// namingEvent is what the row of an event tells of its deliveries.
type namingEvent struct {
	event hook.Event
	names []byte
}

// eachDeferred hands the deliveries in the scope that have no row to insert, some
// at a time.
func eachDeferred(ctx context.Context, db querier, s deferred.Scope, insert func([]deferred.Delivery) error) error {
	var from hook.ID
	if err := db.QueryRow(ctx, leastFloor, int64(nowhere)).Scan(&from); err != nil {
		return err
	}
	for from < nowhere {
		events, err := list(ctx, db, "read events", scanNaming, eventsFrom, from, int64(s.Tenant), int64(s.Event), lookChunk)
		if err != nil {
			return err
		}
		missing, err := missingOf(ctx, db, events, s)
		if err != nil {
			return err
		}
		if err := insert(missing); err != nil || len(events) < lookChunk {
			return err
		}
		from = events[len(events)-1].event.ID + 1
	}
	return nil
}

func scanNaming(r sqlstore.Row, e *namingEvent) error {
	return r.Scan(&e.event.ID, &e.event.TenantID, sqlstore.Time(&e.event.CreatedAt), &e.names)
}

// missingOf returns the deliveries of the events that are in the scope and have no
// row.
func missingOf(ctx context.Context, db querier, events []namingEvent, s deferred.Scope) ([]deferred.Delivery, error) {
	var wanted []deferred.Delivery
	for i := range events {
		named, err := deferred.ParseNames(events[i].names, &events[i].event)
		if err != nil {
			return nil, err
		}
		for _, d := range named {
			if s.Holds(&d) {
				wanted = append(wanted, d)
			}
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	there, err := list(ctx, db, "look for rows", sqlstore.ScanValue[hook.ID], visible.Inserts.Text(withRow), deferred.IDs(wanted))
	if err != nil {
		return nil, err
	}
	return deferred.Without(wanted, there), nil
}

// insertAll runs insertDeferred.
func insertAll(ctx context.Context, db querier, deliveries []deferred.Delivery) (endpoints []hook.ID, err error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	return list(ctx, db, "insert deliveries", sqlstore.ScanValue[hook.ID], visible.Inserts.Text(insertDeferred), deferredColumns(deliveries)...)
}

// deferredColumns returns the parameters of insertDeferred.
func deferredColumns(deliveries []deferred.Delivery) []any {
	n := len(deliveries)
	slices.SortFunc(deliveries, func(a, b deferred.Delivery) int { return cmp.Compare(a.ID, b.ID) })
	ids, tenants, events, endpoints := make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n)
	due, sizes := make([]pgtype.Timestamptz, n), make([]int32, n)
	for i := range deliveries {
		d := &deliveries[i]
		ids[i], tenants[i], events[i], endpoints[i] = d.ID, d.Tenant, d.Event, d.Endpoint
		due[i], sizes[i] = at(d.Due), int32(d.Size)
	}
	return []any{ids, tenants, events, endpoints, due, sizes}
}
