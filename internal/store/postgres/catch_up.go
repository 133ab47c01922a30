package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	findSince = `SELECT coalesce(min(since), $1) FROM unwritten`

	// eventsSince are the events some of whose deliveries may have no row.
	eventsSince = `
SELECT id, tenant_id, created_at, targets FROM events
WHERE id >= $1 AND targets IS NOT NULL AND ($2::bigint = 0 OR tenant_id = $2) AND ($3::bigint = 0 OR id = $3)
ORDER BY id LIMIT $4`

	withRow = `SELECT id FROM deliveries WHERE id = ANY($1)`

	lockUnwritten = `SELECT pg_advisory_xact_lock(7009, 0)`

	// endDead says that nobody without shards owes rows: such a node leaves none
	// out, and those it has left out are written by now.
	endDead = `UPDATE unwritten u SET since = $1 WHERE since <> $1 AND NOT EXISTS (SELECT FROM shards s WHERE s.owner_id = u.node_id)`

	// passOld is for nodes that have been without work for as long as events are
	// kept: since moves with what they accept.
	passOld = `UPDATE unwritten SET since = $1 WHERE since < $1`
)

// nowhere is the since of a node that owes no row.
const nowhere = math.MaxInt64

// catchUpChunk is how many events are looked at together.
const catchUpChunk = 2000

// catchUp writes the rows of the deliveries in the scope that have none, on
// whatever node they were accepted, so that a read sees them all. Often there
// are none, and nothing is locked.
func (d *DB) catchUp(ctx context.Context, s store.Scope) error {
	err := eachMissing(ctx, d.pool, s, func(missing []store.Target) error {
		if err := d.writeLate(ctx, missing); err != nil {
			return err
		}
		for _, u := range d.everyUnwritten() {
			u.Committed(nil, idsOf(missing))
		}
		return nil
	})
	if err != nil {
		return failed("write deliveries", err)
	}
	return nil
}

// catchUpToShow is catchUp for those who look. With a full disk they see what
// there is.
func (d *DB) catchUpToShow(ctx context.Context, s store.Scope) error {
	if err := d.catchUp(ctx, s); err != nil && !isCode(err, codeDiskFull) {
		return err
	}
	return nil
}

// catchUpToFind is catchUpToShow for what a filter may match.
func (d *DB) catchUpToFind(ctx context.Context, f *store.DeliveryFilter) error {
	if s, ok := f.Scope(); ok {
		return d.catchUpToShow(ctx, s)
	}
	return nil
}

// catchUpAll writes all rows that are missing and runs note, which may move
// since. No batch runs meanwhile: one that came between the look and the note
// would never be looked for.
func (d *DB) catchUpAll(ctx context.Context, note string, args ...any) error {
	return d.slowly(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockUnwritten); err != nil {
			return err
		}
		err := eachMissing(ctx, tx, store.Scope{}, func(missing []store.Target) error { return insertMissing(ctx, tx, missing) })
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, note, args...)
		return err
	})
}

// catchUpBefore makes sure that nobody looks for rows of events before the given
// one any more: their deliveries are about to leave, and would come back.
func (d *DB) catchUpBefore(ctx context.Context, event hook.ID) error {
	var since hook.ID
	if err := d.pool.QueryRow(ctx, findSince, int64(nowhere)).Scan(&since); err != nil || since >= event {
		return err
	}
	return d.catchUpAll(ctx, passOld, event)
}

// catchUpOwn writes the rows that lanes of this process lack; no endpoint means
// all. The lanes of other nodes are not read here, and what other nodes accept
// for these has its row at once.
func (d *DB) catchUpOwn(ctx context.Context, endpoints ...hook.ID) error {
	for _, u := range d.everyUnwritten() {
		if err := d.writeKnown(ctx, u, u.Unknown(endpoints, nil)); err != nil {
			return err
		}
	}
	return nil
}

// writeKnown writes the rows of targets that u holds.
func (d *DB) writeKnown(ctx context.Context, u *unwritten, late []store.Target) error {
	if err := d.writeLate(ctx, late); err != nil {
		return failed("write deliveries", err)
	}
	u.Committed(nil, idsOf(late))
	return nil
}

func idsOf(targets []store.Target) []hook.ID {
	ids := make([]hook.ID, len(targets))
	for i := range targets {
		ids[i] = targets[i].ID
	}
	return ids
}

// justNow is how long a delivery is on its way from its commit to its lane, and
// from there to its result, as a rule.
const justNow = 250 * time.Millisecond

// catchUpUnknown writes the rows that lanes of this process lack and do not hold
// in memory. What was accepted just now is in memory in a moment and settled in
// the next, so its row is not written for a lane that reads all the time; its
// endpoint is returned instead, to be looked at again.
func (d *DB) catchUpUnknown(ctx context.Context, endpoints, known []hook.ID, now time.Time) (again []hook.ID, err error) {
	for _, u := range d.everyUnwritten() {
		late, young := store.Older(u.Unknown(endpoints, known), now.Add(-justNow))
		if err := d.writeKnown(ctx, u, late); err != nil {
			return nil, err
		}
		for _, t := range young {
			again = append(again, t.Endpoint)
		}
	}
	return again, nil
}

// namedEvent is what the row of an event tells of its deliveries.
type namedEvent struct {
	event   hook.Event
	targets []byte
}

// eachMissing hands the targets in the scope that have no row to write, some at
// a time.
func eachMissing(ctx context.Context, db querier, s store.Scope, write func([]store.Target) error) error {
	var from hook.ID
	if err := db.QueryRow(ctx, findSince, int64(nowhere)).Scan(&from); err != nil {
		return err
	}
	for from < nowhere {
		q := &query{eventsSince, []any{from, int64(s.Tenant), int64(s.Event), catchUpChunk}}
		events, err := collect(ctx, db, q, "read events", scanNamed)
		if err != nil {
			return err
		}
		missing, err := missingOf(ctx, db, events, s)
		if err != nil {
			return err
		}
		if err := write(missing); err != nil || len(events) < catchUpChunk {
			return err
		}
		from = events[len(events)-1].event.ID + 1
	}
	return nil
}

func scanNamed(row pgx.Row) (e namedEvent, err error) {
	err = row.Scan(&e.event.ID, &e.event.TenantID, (*moment)(&e.event.CreatedAt), &e.targets)
	return e, err
}

// missingOf returns the targets of the events that are in the scope and have no
// row.
func missingOf(ctx context.Context, db querier, events []namedEvent, s store.Scope) ([]store.Target, error) {
	var wanted []store.Target
	for i := range events {
		targets, err := store.ParseTargets(events[i].targets, &events[i].event)
		if err != nil {
			return nil, err
		}
		for _, t := range targets {
			if s.Holds(&t) {
				wanted = append(wanted, t)
			}
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	there, err := collect(ctx, db, &query{withRow, []any{idsOf(wanted)}}, "look for rows", scanID)
	if err != nil {
		return nil, err
	}
	return without(wanted, there), nil
}

// without returns the targets of the deliveries that are not among the given.
func without(targets []store.Target, ids []hook.ID) []store.Target {
	among := make(map[hook.ID]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	return slices.DeleteFunc(targets, func(t store.Target) bool { return among[t.ID] })
}

// writeLate writes the rows of the given targets. Batches wait meanwhile.
func (d *DB) writeLate(ctx context.Context, targets []store.Target) error {
	if len(targets) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockUnwritten); err != nil {
			return err
		}
		return insertMissing(ctx, tx, targets)
	})
}

// insertMissing runs insertLate.
func insertMissing(ctx context.Context, tx pgx.Tx, targets []store.Target) error {
	n := len(targets)
	if n == 0 {
		return nil
	}
	slices.SortFunc(targets, func(a, b store.Target) int { return cmp.Compare(a.ID, b.ID) })
	ids, tenants, events, endpoints := make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n)
	due, sizes := make([]pgtype.Timestamptz, n), make([]int32, n)
	for i := range targets {
		t := &targets[i]
		ids[i], tenants[i], events[i], endpoints[i] = t.ID, t.Tenant, t.Event, t.Endpoint
		due[i], sizes[i] = at(t.Due), int32(t.Size)
	}
	_, err := tx.Exec(ctx, insertLate, ids, tenants, events, endpoints, due, sizes)
	return err
}
