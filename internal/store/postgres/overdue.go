package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// lentFor is how long the row of a delivery that another node sends may be
	// missing. Nearly always it has come by then: it only remains to see that it
	// has.
	lentFor = 250 * time.Millisecond
	// ownFor is that time for a delivery of a lane of this node, whose commits
	// write it sooner unless there are none.
	ownFor = 2 * time.Second
	// maxLent bounds how many deliveries may be lent. Others get their row at once.
	maxLent = 32768

	// lateWait is how long such a write waits for whoever is writing the same row.
	lateWait = "200ms"
	// idleCall is how long a commit may wait until since has moved.
	idleCall = time.Second
)

const waitShortly = `SELECT set_config('lock_timeout', $1, true)`

// InsertDeferred implements store.DeferredInserter. It has a transaction of its own: should
// another node stand still while it writes the same row, no commit of this one
// waits for it.
func (d *DB) InsertDeferred(ctx context.Context, now time.Time) error {
	for _, u := range d.everyUnwritten() {
		if err := d.writeOverdue(ctx, u, now); err != nil {
			return failed("write late deliveries", err)
		}
		if err := d.moveIdleSince(ctx, u, now); err != nil {
			return failed("note that all deliveries are written", err)
		}
	}
	return nil
}

// writeOverdue writes the rows that should have come. Only other nodes have to be
// told of them: lanes of this one hold what they send.
func (d *DB) writeOverdue(ctx context.Context, u *unwritten, now time.Time) error {
	lent, _ := store.Older(u.lent.Matching(store.Scope{}), now.Add(-lentFor))
	endpoints, err := d.writeThose(ctx, u, lent)
	d.tellAll(ctx, endpoints)
	if err != nil {
		return err
	}
	own, _ := store.Older(u.Matching(store.Scope{}), now.Add(-ownFor))
	_, err = d.writeThose(ctx, u, own)
	return err
}

// writeThose writes the rows of targets of u that have none, and returns their
// endpoints.
func (d *DB) writeThose(ctx context.Context, u *unwritten, late []store.Target) (endpoints []hook.ID, err error) {
	for chunk := range slices.Chunk(late, catchUpChunk) {
		ids := idsOf(chunk)
		there, err := collect(ctx, d.lanes, &query{withRow, []any{ids}}, "look for rows", scanID)
		if err != nil {
			return endpoints, err
		}
		u.committed(nil, nil, there)
		written, err := d.insertApart(ctx, u, without(chunk, there))
		endpoints = append(endpoints, written...)
		if err != nil {
			return endpoints, err
		}
	}
	return endpoints, nil
}

// insertApart writes rows. Those that somebody else is writing, and does not come
// to an end with, are left for later and keep no other waiting.
func (d *DB) insertApart(ctx context.Context, u *unwritten, missing []store.Target) ([]hook.ID, error) {
	endpoints, err := d.insertShortly(ctx, missing)
	switch {
	case err == nil:
		u.committed(nil, nil, idsOf(missing))
		return endpoints, nil
	case !isCode(err, codeLockTimeout):
		return nil, err
	case len(missing) == 1:
		return nil, nil
	}
	half := len(missing) / 2
	younger, err := d.insertApart(ctx, u, missing[half:]) // what is stuck gets old
	if err != nil {
		return younger, err
	}
	older, err := d.insertApart(ctx, u, missing[:half])
	return append(younger, older...), err
}

// insertShortly is insertMissing that waits for nobody for long.
func (d *DB) insertShortly(ctx context.Context, missing []store.Target) (endpoints []hook.ID, err error) {
	if len(missing) == 0 {
		return nil, nil
	}
	b := &pgx.Batch{}
	b.Queue(waitShortly, lateWait)
	b.Queue(insertLate, lateColumns(missing)...).Query(func(rows pgx.Rows) error {
		return eachRow(rows, scanID, func(id hook.ID) { endpoints = append(endpoints, id) })
	})
	err = d.pool.SendBatch(ctx, b).Close()
	return endpoints, err
}

// moveIdleSince moves since of a node that commits nothing: whoever looks for
// missing rows would otherwise look at all that others have accepted meanwhile.
func (d *DB) moveIdleSince(ctx context.Context, u *unwritten, now time.Time) error {
	if _, _, idle := u.idleSince(now); !idle {
		return nil
	}
	conn, err := d.pool.Acquire(ctx) // before a commit has to wait
	if err != nil {
		return err
	}
	defer conn.Release()
	if !u.commits.TryLock() {
		return nil // a commit does it
	}
	defer u.commits.Unlock()
	since, anchor, idle := u.idleSince(now)
	if !idle || u.uncertain.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, idleCall)
	defer cancel()
	shard, _ := shardOf(anchor)
	b := &pgx.Batch{}
	b.Queue(waitShortly, lateWait)
	b.Queue(lockShards, []int32{int32(shard)}, lockNumber(u.node))
	b.Queue(moveSince, u.node, since, anchor)
	u.pass(since)
	err = conn.SendBatch(ctx, b).Close()
	if isCode(err, codeLockTimeout) || ctx.Err() != nil {
		return nil // somebody is in the way; nothing depends on this, and there is another look soon
	}
	return err
}
