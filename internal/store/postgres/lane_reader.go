package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// The three reads below walk deliveries_due and sort nothing. state = 0 is
// written out, not bound: a parameter cannot be proven to match the partial
// index, and the planner would then sort the whole backlog of the endpoint.
const (
	readAhead visible.SQL = `
SELECT ` + deliveryFields + ` FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at <= $2
ORDER BY d.due_at, d.id LIMIT $3`

	newestDue visible.SQL = `
SELECT ` + deliveryFields + ` FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at <= $2
ORDER BY d.due_at DESC, d.id DESC LIMIT $3`

	nextDue visible.SQL = `
SELECT d.due_at FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at > $2
ORDER BY d.due_at, d.id LIMIT 1`
)

// ReadAhead returns up to limit pending deliveries of one endpoint due at now,
// oldest due first. It locks nothing.
func (d *DB) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	seen, err := d.makeLanesVisible(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return collect(ctx, d.lanes, &query{seen.Text(readAhead), []any{endpoint, at(now), limit}}, "read ahead", scanDelivery)
}

// NewestDue returns up to limit pending deliveries due at now, newest due
// first.
func (d *DB) NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	seen, err := d.makeLanesVisible(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return collect(ctx, d.lanes, &query{seen.Text(newestDue), []any{endpoint, at(now), limit}}, "read newest due", scanDelivery)
}

// NextDue returns when the first pending delivery after now falls due.
func (d *DB) NextDue(ctx context.Context, endpoint hook.ID, now time.Time) (time.Time, error) {
	seen, err := d.makeLanesVisible(ctx, endpoint)
	if err != nil {
		return time.Time{}, err
	}
	due, err := collect(ctx, d.lanes, &query{seen.Text(nextDue), []any{endpoint, at(now)}}, "read next due", scanTime)
	if err != nil || len(due) == 0 {
		return time.Time{}, err
	}
	return due[0], nil
}

// readDue is readAhead and then nextDue for each of several endpoints, without
// the deliveries that are known. Those are hashed once: a busy lane knows many.
const readDue visible.SQL = `
SELECT ` + deliveryFields + ` FROM unnest($1::bigint[]) AS wanted(id)
CROSS JOIN LATERAL (
  (SELECT * FROM deliveries WHERE endpoint_id = wanted.id AND state = 0 AND due_at <= $2 AND id NOT IN (SELECT unnest($4::bigint[]))
   ORDER BY due_at, id LIMIT $3)
  UNION ALL
  (SELECT * FROM deliveries WHERE endpoint_id = wanted.id AND state = 0 AND due_at > $2
   ORDER BY due_at, id LIMIT 1)) d`

// ReadDue implements store.DueReader.
func (d *DB) ReadDue(ctx context.Context, w store.Wanted) (map[hook.ID]store.Due, []hook.Event, error) {
	due := make(map[hook.ID]store.Due, len(w.Endpoints))
	if len(w.Endpoints) > 0 {
		if err := d.readRows(ctx, &w, due); err != nil {
			return nil, nil, err
		}
	}
	events, err := d.readAnnounced(ctx, &w, due)
	if err != nil {
		return nil, nil, err
	}
	return due, events, nil
}

// readRows reads what is due of the wanted endpoints.
func (d *DB) readRows(ctx context.Context, w *store.Wanted, due map[hook.ID]store.Due) error {
	seen, again, err := d.makeUnknownVisible(ctx, w)
	if err != nil {
		return err
	}
	q := &query{seen.Text(readDue), []any{w.Endpoints, at(w.Now), w.Limit, w.Known}}
	rows, err := collect(ctx, d.lanes, q, "read due deliveries", scanDelivery)
	if err != nil {
		return err
	}
	for i := range rows { // those of one endpoint come in order
		r := &rows[i]
		of := due[r.EndpointID]
		if r.DueAt.After(w.Now) {
			of.Next = r.DueAt
		} else {
			of.Deliveries = append(of.Deliveries, *r)
		}
		due[r.EndpointID] = of
	}
	for _, id := range again {
		of := due[id]
		if soon := w.Now.Add(justNow); of.Next.IsZero() || of.Next.After(soon) {
			of.Next = soon
		}
		due[id] = of
	}
	return nil
}

func scanTime(row pgx.Row) (t time.Time, err error) {
	err = row.Scan((*moment)(&t))
	return t, err
}

// pendingEndpoints jumps from endpoint to endpoint in deliveries_due: one
// index probe each, however long their backlogs are.
const pendingEndpoints visible.SQL = `
WITH RECURSIVE walk AS (
  (SELECT endpoint_id, due_at FROM deliveries WHERE state = 0 ORDER BY endpoint_id, due_at, id LIMIT 1)
  UNION ALL
  SELECT next.endpoint_id, next.due_at FROM walk CROSS JOIN LATERAL (
    SELECT d.endpoint_id, d.due_at FROM deliveries d WHERE d.state = 0 AND d.endpoint_id > walk.endpoint_id
    ORDER BY d.endpoint_id, d.due_at, d.id LIMIT 1) next)
SELECT endpoint_id, due_at FROM walk`

// PendingEndpoints returns every endpoint of the given shards that has pending
// deliveries, with its earliest due time.
func (d *DB) PendingEndpoints(ctx context.Context, shards []int) ([]store.PendingEndpoint, error) {
	if len(shards) == 0 {
		return nil, nil
	}
	seen, err := d.makeLanesVisible(ctx)
	if err != nil {
		return nil, err
	}
	var wanted [hook.Shards]bool
	for _, s := range shards {
		wanted[s] = true
	}
	var mine []store.PendingEndpoint
	err = d.slowly(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, seen.Text(pendingEndpoints))
		if err != nil {
			return err
		}
		var p store.PendingEndpoint
		_, err = pgx.ForEachRow(rows, []any{&p.ID, (*moment)(&p.Due)}, func() error {
			if wanted[hook.ShardOf(p.ID)] {
				mine = append(mine, p)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, failed("read pending endpoints", err)
	}
	return mine, nil
}

const acceptedSince visible.SQL = `SELECT DISTINCT endpoint_id FROM deliveries WHERE id >= $1`

// AcceptedSince returns the endpoints that got deliveries with ids from since
// on.
func (d *DB) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	endpoints, err := collect(ctx, d.lanes, &query{visible.AddsDeferred.Text(acceptedSince), []any{since}}, "read accepted since", scanID)
	if err != nil {
		return nil, err
	}
	for _, n := range d.everyNode() {
		endpoints = append(endpoints, n.Since(since)...)
	}
	slices.Sort(endpoints)
	return slices.Compact(endpoints), nil
}

func scanID(row pgx.Row) (id hook.ID, err error) {
	err = row.Scan(&id)
	return id, err
}

// eachRow scans all rows and hands each to fn.
func eachRow[T any](rows pgx.Rows, scan func(pgx.Row) (T, error), fn func(T)) error {
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return err
		}
		fn(v)
	}
	return rows.Err()
}
