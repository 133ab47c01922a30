package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// Leases are judged by the database's clock, the only one that all nodes
// share. A lease that ends more than one TTL ahead counts as expired: the
// clock was set back after it was taken.

const free = `(owner_id IS NULL OR expires_at < clock_timestamp() OR expires_at > clock_timestamp() + $1::interval)`

const allShards = `SELECT shard, coalesce(owner_id, 0), epoch, ` + free + ` FROM shards ORDER BY shard`

// Shards returns all shards with owner and whether they may be taken.
func (d *DB) Shards(ctx context.Context, ttl time.Duration) ([]store.ShardLease, error) {
	return list(ctx, d.pool, "read shards", func(r sqlstore.Row, l *store.ShardLease) error {
		return r.Scan(&l.Shard, &l.Owner, &l.Epoch, &l.Free)
	}, allShards, ttl)
}

// takeOverWait is how long a take-over waits for settles that are running
// before it ends their sessions.
const takeOverWait = 5 * time.Second

// TakeShards takes what is free of the given shards. The exclusive locks make
// it wait for settles that are running; those that come later see the new
// epoch.
func (d *DB) TakeShards(ctx context.Context, node hook.ID, shards []int, mine bool, ttl time.Duration) ([]store.Held, error) {
	held, floor, err := d.takeShards(ctx, node, shards, mine, ttl)
	if isCode(err, codeLockTimeout) {
		// A settle normally takes milliseconds. One that is still running is
		// that of a node that stands still with its batch half sent, which no
		// timeout of the server covers.
		if err := d.endStuckSettles(ctx, shards); err != nil {
			return nil, err
		}
		held, floor, err = d.takeShards(ctx, node, shards, mine, ttl)
	}
	if err != nil {
		return nil, failed("take shards", err)
	}
	if len(held) == 0 {
		return nil, nil
	}
	// What the owner before has deferred can be seen now: an accept
	// that comes later finds that the shard is taken.
	seen, err := d.makeVisible(ctx, deferred.Scope{})
	if err := errors.Join(err, d.endDead(ctx)); err != nil {
		return nil, failed("take shards", err)
	}
	d.nodeOf(node).Took(seen, held, floor)
	return held, nil
}

const (
	waitForSettles = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true)`

	// lockFree locks only what can be taken, so that settles of healthy owners
	// are not held up. In order: two nodes cannot wait for each other.
	lockFree = `
SELECT shard, pg_advisory_xact_lock(7001, shard) FROM (
  SELECT shard FROM shards WHERE shard = ANY($2) AND (` + free + ` OR ($3 AND owner_id = $4)) ORDER BY shard) s`

	lockTaking = `SELECT pg_advisory_xact_lock_shared(7009, $1)`

	// takeFloor prepares the node for deferring rows from now on. Its floor never
	// rises here: it may have deferred rows before.
	takeFloor = `
INSERT INTO unwritten AS u (node_id, since)
SELECT $1, coalesce(max(id), 0) + 1 FROM events WHERE id <= ` + idBound + `
ON CONFLICT (node_id) DO UPDATE SET since = least(u.since, excluded.since) RETURNING since`

	// takeLocked looks again: the shard may have been taken or renewed while
	// this node waited for its lock.
	takeLocked = `
WITH mine AS (SELECT shard FROM shards WHERE shard = ANY($2) AND (` + free + ` OR ($3 AND owner_id = $4)) ORDER BY shard FOR UPDATE)
UPDATE shards s SET owner_id = $4, epoch = s.epoch + 1, expires_at = clock_timestamp() + $1::interval
FROM mine WHERE s.shard = mine.shard RETURNING s.shard, s.epoch`
)

func (d *DB) takeShards(ctx context.Context, node hook.ID, shards []int, mine bool, ttl time.Duration) (held []store.Held, floor hook.ID, err error) {
	err = pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, waitForSettles, fmt.Sprintf("%dms", takeOverWait.Milliseconds())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, lockFree, ttl, smallints(shards), mine, node)
		if err != nil {
			return err
		}
		var locked []int16
		var shard int16
		if _, err := pgx.ForEachRow(rows, []any{&shard, nil}, func() error {
			locked = append(locked, shard)
			return nil
		}); err != nil || len(locked) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, lockTaking, lockNumber(node)); err != nil {
			return err
		}
		if held, err = listHeld(ctx, tx, "take locked shards", takeLocked, ttl, locked, mine, node); err != nil {
			return err
		}
		return tx.QueryRow(ctx, takeFloor, node).Scan(&floor)
	})
	return held, floor, err
}

// stuckSettles ends the sessions that have held a lock of these shards for too
// long. Their transactions roll back: nothing they wrote was confirmed.
const stuckSettles = `
SELECT a.pid, pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE a.xact_start < clock_timestamp() - $1::interval AND a.pid <> pg_backend_pid()
  AND a.pid IN (SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ShareLock'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.classid = 7001 AND l.objid = ANY($2::int[]::oid[]))`

func (d *DB) endStuckSettles(ctx context.Context, shards []int) error {
	ids := make([]int32, len(shards))
	for i, s := range shards {
		ids[i] = int32(s)
	}
	rows, err := d.pool.Query(ctx, stuckSettles, takeOverWait, ids)
	if err != nil {
		return failed("end stuck settles", err)
	}
	var pid int
	var ended bool
	if _, err := pgx.ForEachRow(rows, []any{&pid, &ended}, func() error {
		d.log.Warn("ended a session that blocked a take-over", "pid", pid, "ended", ended)
		return nil
	}); err != nil {
		return failed("end stuck settles", err)
	}
	return nil
}

const renewShards = `
WITH mine AS (
  SELECT s.shard FROM shards s JOIN unnest($2::smallint[], $3::bigint[]) AS h(shard, epoch) ON s.shard = h.shard AND s.epoch = h.epoch
  WHERE s.owner_id = $4 ORDER BY s.shard FOR UPDATE OF s)
UPDATE shards s SET expires_at = clock_timestamp() + $1::interval FROM mine WHERE s.shard = mine.shard RETURNING s.shard, s.epoch`

// RenewShards extends the leases and returns those still held. It has a
// connection of its own, so that a busy pool cannot delay it.
func (d *DB) RenewShards(ctx context.Context, node hook.ID, held []store.Held, ttl time.Duration) ([]store.Held, error) {
	shards, epochs := heldColumns(held)
	still, err := listHeld(ctx, d.renewals, "renew shards", renewShards, ttl, shards, epochs, node)
	if err != nil {
		return nil, err
	}
	d.nodeOf(node).Keeps(held, still)
	return still, nil
}

const releaseShards = `
WITH mine AS (
  SELECT s.shard FROM shards s JOIN unnest($1::smallint[], $2::bigint[]) AS h(shard, epoch) ON s.shard = h.shard AND s.epoch = h.epoch
  WHERE s.owner_id = $3 ORDER BY s.shard FOR UPDATE OF s)
UPDATE shards s SET owner_id = NULL, expires_at = '-infinity' FROM mine WHERE s.shard = mine.shard`

// ReleaseShards gives shards up at once.
func (d *DB) ReleaseShards(ctx context.Context, node hook.ID, held []store.Held) error {
	d.nodeOf(node).Keeps(held, nil)
	shards, epochs := heldColumns(held)
	_, err := d.renewals.Exec(ctx, releaseShards, shards, epochs, node)
	return failed("release shards", err)
}

func heldColumns(held []store.Held) (shards []int16, epochs []int64) {
	shards, epochs = make([]int16, len(held)), make([]int64, len(held))
	for i, h := range held {
		shards[i], epochs[i] = int16(h.Shard), h.Epoch
	}
	return shards, epochs
}

// listHeld reads shards and epochs, by shard.
func listHeld(ctx context.Context, db querier, doing, sql string, args ...any) ([]store.Held, error) {
	held, err := list(ctx, db, doing, func(r sqlstore.Row, h *store.Held) error { return r.Scan(&h.Shard, &h.Epoch) }, sql, args...)
	slices.SortFunc(held, func(a, b store.Held) int { return a.Shard - b.Shard })
	return held, err
}

func smallints(shards []int) []int16 {
	out := make([]int16, len(shards))
	for i, s := range shards {
		out[i] = int16(s)
	}
	return out
}
