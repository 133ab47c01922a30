package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// overdueWait is how long an insert waits for whoever is inserting the same row.
const overdueWait = "200ms"

const waitShortly = `SELECT set_config('lock_timeout', $1, true)`

// InsertDeferred implements store.DeferredInserter. It has a transaction of its
// own: should another node stand still while it inserts the same row, no commit of
// this one waits for it.
func (d *DB) InsertDeferred(ctx context.Context, now time.Time) error {
	for _, n := range d.everyNode() {
		if err := d.insertOverdue(ctx, n, now); err != nil {
			return failed("insert deferred deliveries", err)
		}
		if err := d.moveIdleFloor(ctx, n, now); err != nil {
			return failed("note that all deliveries are inserted", err)
		}
	}
	return nil
}

// insertOverdue inserts the rows that should have come. Only other nodes have to be
// told of them: lanes of this one hold what they send.
func (d *DB) insertOverdue(ctx context.Context, n *node, now time.Time) error {
	handedOff, own := n.Overdue(now)
	endpoints, err := d.insertMissing(ctx, n, handedOff)
	d.hints.TellAll(ctx, endpoints)
	if err != nil {
		return err
	}
	_, err = d.insertMissing(ctx, n, own)
	return err
}

// insertMissing inserts the rows of deliveries of n that have none, and returns
// their endpoints.
func (d *DB) insertMissing(ctx context.Context, n *node, late []deferred.Delivery) (endpoints []hook.ID, err error) {
	for chunk := range slices.Chunk(late, lookChunk) {
		there, err := list(ctx, d.lanes, "look for rows", sqlstore.ScanValue[hook.ID], visible.Inserts.Text(withRow), deferred.IDs(chunk))
		if err != nil {
			return endpoints, err
		}
		n.Inserted(there)
		inserted, err := d.insertApart(ctx, n, deferred.Without(chunk, there))
		endpoints = append(endpoints, inserted...)
		if err != nil {
			return endpoints, err
		}
	}
	return endpoints, nil
}

// insertApart inserts rows. Those that somebody else is inserting, and does not
// come to an end with, are left for later and keep no other waiting.
func (d *DB) insertApart(ctx context.Context, n *node, missing []deferred.Delivery) ([]hook.ID, error) {
	endpoints, err := d.insertShortly(ctx, missing)
	switch {
	case err == nil:
		n.Inserted(deferred.IDs(missing))
		return endpoints, nil
	case !isCode(err, codeLockTimeout):
		return nil, err
	case len(missing) == 1:
		return nil, nil
	}
	half := len(missing) / 2
	younger, err := d.insertApart(ctx, n, missing[half:]) // what is stuck gets old
	if err != nil {
		return younger, err
	}
	older, err := d.insertApart(ctx, n, missing[:half])
	return append(younger, older...), err
}

// insertShortly is insertAll that waits for nobody for long.
func (d *DB) insertShortly(ctx context.Context, missing []deferred.Delivery) (endpoints []hook.ID, err error) {
	if len(missing) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(waitShortly, overdueWait)
	b.Queue(visible.Inserts.Text(insertDeferred), deferredColumns(missing)...).Query(func(rows pgx.Rows) error {
		return read(sqlstore.Collect(&endpoints, sqlstore.ScanValue[hook.ID]))(rows, nil)
	})
	err = d.pool.SendBatch(ctx, b).Close()
	return endpoints, err
}
