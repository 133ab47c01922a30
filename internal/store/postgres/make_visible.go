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

	// withRow looks for rows in the order of the primary key. With = alone the
	// planner would take any index that has the id somewhere, and read all of it,
	// as long as the statistics say that the table is empty.
	withRow = `
SELECT n.id FROM unnest($1::bigint[]) AS n(id)
WHERE (SELECT w.id FROM deliveries w WHERE w.id >= n.id ORDER BY w.id LIMIT 1) = n.id`

	// insertLate writes rows as they were accepted, in the order of ids, and
	// returns their endpoints. One that is there already is the one that is wanted.
	// It names no index: a row that somebody else writes at the same moment may be
	// met in any of them.
	insertLate = `
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, size, run_due_at)
SELECT n.id, n.tenant_id, n.event_id, n.endpoint_id, n.due_at, n.size, n.due_at
FROM (
  SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS tenant_id, unnest($3::bigint[]) AS event_id,
    unnest($4::bigint[]) AS endpoint_id, unnest($5::timestamptz[]) AS due_at, unnest($6::int[]) AS size) AS n
ON CONFLICT DO NOTHING RETURNING endpoint_id`

	lockSince = `SELECT pg_try_advisory_xact_lock(7009, $1)`

	// shardless are nodes without shards whose since would be looked at for ever:
	// such a node leaves no rows out.
	shardless = `
SELECT u.node_id FROM unwritten u WHERE u.since < $1 AND NOT EXISTS (SELECT FROM shards s WHERE s.owner_id = u.node_id)`

	endSince = `
UPDATE unwritten u SET since = $2 WHERE u.node_id = $1 AND NOT EXISTS (SELECT FROM shards s WHERE s.owner_id = u.node_id)`

	// outdated are nodes that have stood still for as long as events are kept.
	outdated = `SELECT node_id FROM unwritten WHERE since < $1`

	raiseSince = `UPDATE unwritten SET since = greatest(since, $2) WHERE node_id = $1`
)

// nowhere is the since of a node that owes no row.
const nowhere = math.MaxInt64

// catchUpChunk is how many events are looked at together.
const catchUpChunk = 2000

// catchUp writes the rows of the deliveries in the scope that have none, on
// whatever node they were accepted, so that a read sees them all. It waits for no
// batch but one that is writing the same row. The lanes of the rows are told:
// whoever accepted them may be gone, or sees that they are there and keeps silent.
func (d *DB) catchUp(ctx context.Context, s store.Scope) error {
	var told []hook.ID
	err := eachMissing(ctx, d.pool, s, func(missing []store.Target) error {
		endpoints, err := insertMissing(ctx, d.pool, missing)
		if err != nil {
			return err
		}
		told = append(told, d.strangers(endpoints, missing)...)
		for _, u := range d.everyUnwritten() {
			u.committed(nil, nil, idsOf(missing))
		}
		return nil
	})
	d.tellAll(ctx, told)
	if err != nil {
		return failed("write deliveries", err)
	}
	return nil
}

// strangers returns the endpoints but for those of which this process owns the lane
// and knows all of the targets: their lanes have them in memory.
func (d *DB) strangers(endpoints []hook.ID, targets []store.Target) []hook.ID {
	unknown := make(map[hook.ID]bool)
	for i := range targets {
		u := d.holderOf(targets[i].Endpoint)
		if u != nil {
			if _, known := u.Get(targets[i].ID); known {
				continue
			}
		}
		unknown[targets[i].Endpoint] = true
	}
	return slices.DeleteFunc(endpoints, func(id hook.ID) bool { return !unknown[id] })
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

// endDead notes that nodes without shards owe no row: those they had left out are
// written now.
func (d *DB) endDead(ctx context.Context) error {
	return d.passSince(ctx, shardless, endSince, nowhere)
}

// catchUpBefore makes sure that nobody looks for rows of events before the given
// one any more: their deliveries are about to leave, and would come back. It
// reports false when it has to be tried again.
func (d *DB) catchUpBefore(ctx context.Context, event hook.ID) (bool, error) {
	if err := d.passSince(ctx, outdated, raiseSince, event); err != nil {
		return false, err
	}
	var since hook.ID
	err := d.pool.QueryRow(ctx, findSince, int64(nowhere)).Scan(&since)
	return since >= event, err
}

// passSince moves the since of the nodes that find returns up to an event, after
// all rows before it are written. No batch of the node runs meanwhile: one that
// came between would never be looked for. A node that is busy is passed over.
func (d *DB) passSince(ctx context.Context, find, move string, event hook.ID) error {
	nodes, err := collect(ctx, d.pool, &query{find, []any{event}}, "look for nodes", scanID)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		var told []hook.ID
		err := d.slowly(ctx, func(tx pgx.Tx) error {
			var free bool
			if err := tx.QueryRow(ctx, lockSince, lockNumber(node)).Scan(&free); err != nil || !free {
				return err
			}
			err := eachMissing(ctx, tx, store.Scope{}, func(missing []store.Target) error {
				endpoints, err := insertMissing(ctx, tx, missing)
				told = append(told, endpoints...)
				return err
			})
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, move, node, event)
			return err
		})
		if err != nil {
			return err
		}
		d.tellAll(ctx, told)
	}
	return nil
}

// catchUpOwn writes the rows that lanes of this process lack; no endpoint means
// all. The lanes of other nodes are not read here, and what other nodes accept
// for these they write themselves if it is not sent at once.
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
	if _, err := insertMissing(ctx, d.pool, late); err != nil {
		return failed("write deliveries", err)
	}
	u.committed(nil, nil, idsOf(late))
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

// insertMissing runs insertLate.
func insertMissing(ctx context.Context, db querier, targets []store.Target) (endpoints []hook.ID, err error) {
	if len(targets) == 0 {
		return nil, nil
	}
	return collect(ctx, db, &query{insertLate, lateColumns(targets)}, "write deliveries", scanID)
}

// lateColumns returns the parameters of insertLate.
func lateColumns(targets []store.Target) []any {
	n := len(targets)
	slices.SortFunc(targets, func(a, b store.Target) int { return cmp.Compare(a.ID, b.ID) })
	ids, tenants, events, endpoints := make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n), make([]hook.ID, n)
	due, sizes := make([]pgtype.Timestamptz, n), make([]int32, n)
	for i := range targets {
		t := &targets[i]
		ids[i], tenants[i], events[i], endpoints[i] = t.ID, t.Tenant, t.Event, t.Endpoint
		due[i], sizes[i] = at(t.Due), int32(t.Size)
	}
	return []any{ids, tenants, events, endpoints, due, sizes}
}
