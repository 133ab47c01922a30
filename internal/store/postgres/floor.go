package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// The floor of each node is unwritten.since in the database: a name is not worth a
// migration.
const (
	leastFloor = `SELECT coalesce(min(since), $1) FROM unwritten`

	// moveFloor is fenced: a newer process of the node may have deferred other rows.
	moveFloor = `
UPDATE unwritten SET since = $2
WHERE node_id = $1 AND EXISTS (SELECT FROM shards s WHERE s.owner_id = $1 AND s.epoch * 256 + s.shard = $3)`

	tryFloor = `SELECT pg_try_advisory_xact_lock(7009, $1)`

	// shardless are nodes without shards whose floor would be looked at for ever:
	// such a node defers nothing.
	shardless = `
SELECT u.node_id FROM unwritten u WHERE u.since < $1 AND NOT EXISTS (SELECT FROM shards s WHERE s.owner_id = u.node_id)`

	endFloor = `
UPDATE unwritten u SET since = $2 WHERE u.node_id = $1 AND NOT EXISTS (SELECT FROM shards s WHERE s.owner_id = u.node_id)`

	// outdated are nodes that have stood still for as long as events are kept.
	outdated = `SELECT node_id FROM unwritten WHERE since < $1`

	raiseFloor = `UPDATE unwritten SET since = greatest(since, $2) WHERE node_id = $1`
)

// nowhere is the floor of a node that has deferred nothing.
const nowhere = math.MaxInt64

// idleCall is how long a commit may wait until the floor has moved.
const idleCall = time.Second

// queueFloor adds the move of the floor to a batch.
func (r *run) queueFloor() {
	floor, moves := r.deferred.Floor()
	if !moves {
		return
	}
	r.Query(moveFloor, nil)
	r.ID(int64(r.batch.Node))
	r.ID(int64(floor))
	r.ID(r.deferred.Anchor)
}

// moveIdleFloor moves the floor of a node that commits nothing: whoever looks for
// deferred deliveries would otherwise look at all that others have accepted
// meanwhile.
func (d *DB) moveIdleFloor(ctx context.Context, n *node, now time.Time) error {
	if _, _, idle := n.IdleFloor(now); !idle {
		return nil
	}
	conn, err := d.pool.Acquire(ctx) // before a commit has to wait
	if err != nil {
		return err
	}
	defer conn.Release()
	if !n.commits.TryLock() {
		return nil // a commit does it
	}
	defer n.commits.Unlock()
	floor, anchor, idle := n.IdleFloor(now)
	if !idle || n.uncertain.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, idleCall)
	defer cancel()
	shard, _ := deferred.ShardOf(anchor)
	b := &pgx.Batch{}
	b.Queue(waitShortly, overdueWait)
	b.Queue(lockShards, []int32{int32(shard)}, lockNumber(n.ID))
	b.Queue(moveFloor, n.ID, floor, anchor)
	n.Pass(floor)
	err = conn.SendBatch(ctx, b).Close()
	if isCode(err, codeLockTimeout) || ctx.Err() != nil {
		return nil // somebody is in the way; nothing depends on this, and there is another look soon
	}
	return err
}

// endDead notes that nodes without shards have deferred nothing: what they had is
// visible now.
func (d *DB) endDead(ctx context.Context) error {
	return d.passFloor(ctx, shardless, endFloor, nowhere)
}

// passBefore makes sure that nobody looks for deferred deliveries of events before
// the given one any more: their rows are about to leave, and would come back. It
// reports false when it has to be tried again.
func (d *DB) passBefore(ctx context.Context, event hook.ID) (seen visible.Rows, ready bool, err error) {
	if err := d.passFloor(ctx, outdated, raiseFloor, event); err != nil {
		return visible.Rows{}, false, err
	}
	var floor hook.ID
	err = d.pool.QueryRow(ctx, leastFloor, int64(nowhere)).Scan(&floor)
	return visible.Made(), floor >= event, err
}

// passFloor moves the floor of the nodes that find returns up to an event, after
// all rows before it are inserted. No batch of the node runs meanwhile: one that
// came between would never be looked for. A node that is busy is passed over.
func (d *DB) passFloor(ctx context.Context, find, move string, event hook.ID) error {
	nodes, err := list(ctx, d.pool, "look for nodes", sqlstore.ScanValue[hook.ID], find, event)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		var told []hook.ID
		err := d.slowly(ctx, func(tx pgx.Tx) error {
			var free bool
			if err := tx.QueryRow(ctx, tryFloor, lockNumber(node)).Scan(&free); err != nil || !free {
				return err
			}
			err := eachDeferred(ctx, tx, deferred.Scope{}, func(missing []deferred.Delivery) error {
				endpoints, err := insertAll(ctx, tx, missing)
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
		d.hints.TellAll(ctx, told)
	}
	return nil
}
