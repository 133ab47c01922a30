package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// readDue is ReadAhead and then NextDue for each of several endpoints, without
// the deliveries that are known. Those are hashed once: a busy lane knows many.
const readDue visible.SQL = `
SELECT ` + sqlstore.DeliveryColumns + ` FROM unnest($1::bigint[]) AS wanted(id)
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
	rows, err := list(ctx, d.lanes, "read due deliveries", sqlstore.ScanDelivery, seen.Text(readDue), w.Endpoints, w.Now, w.Limit, w.Known)
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
	var all []store.PendingEndpoint
	err = d.slowly(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, seen.Text(pendingEndpoints))
		if err != nil {
			return err
		}
		var p store.PendingEndpoint
		_, err = pgx.ForEachRow(rows, []any{&p.ID, sqlstore.Time(&p.Due)}, func() error {
			all = append(all, p)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, failed("read pending endpoints", err)
	}
	return store.InShards(all, shards), nil
}

const acceptedSince visible.SQL = `SELECT DISTINCT endpoint_id FROM deliveries WHERE id >= $1`

// AcceptedSince returns the endpoints that got deliveries with ids from since
// on.
func (d *DB) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	endpoints, err := list(ctx, d.lanes, "read accepted since", sqlstore.ScanValue[hook.ID], visible.AddsDeferred.Text(acceptedSince), since)
	if err != nil {
		return nil, err
	}
	for _, n := range d.everyNode() {
		endpoints = append(endpoints, n.Since(since)...)
	}
	slices.Sort(endpoints)
	return slices.Compact(endpoints), nil
}
