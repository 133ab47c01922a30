package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
)

// commitTries bounds how often a batch is run inside one Commit after the
// server has said that it rolled it back.
const commitTries = 3

// retryPause is how long the next run waits then, longer each time.
const retryPause = 20 * time.Millisecond

// Commit writes the batch in one transaction. All statements travel in one
// write and one round trip, ended by a single sync, which makes them one
// transaction and commits it. A node that stops cannot stand between two
// statements; should it stop in the middle of that write, a take-over ends its
// session (see TakeShards). A node commits one batch after the other: what the
// next one defers depends on it.
func (d *DB) Commit(ctx context.Context, b *store.Batch) error {
	n := d.nodeOf(b.Node)
	n.commits.RLock()
	defer n.commits.RUnlock()
	err := d.commit(ctx, b)
	n.uncertain.Store(err != nil)
	return err
}

func (d *DB) commit(ctx context.Context, b *store.Batch) error {
	conn, err := d.writers.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("commit batch: %w", err)
	}
	defer conn.Release()
	for try := 1; ; try++ {
		committed, err := d.commitOnce(ctx, conn.Conn(), b)
		switch {
		case err == nil:
			return nil
		case committed: // whatever went wrong then, this run must not be repeated
			return fmt.Errorf("commit batch: %w", err)
		case try == commitTries:
			return commitError(err)
		case isCode(err, codeSerialization), isCode(err, codeDeadlock), lostRace(err):
			// Rolled back for sure, so the same run may be tried again, once whoever
			// was in the way has had a moment to go on. A run that is faster takes the
			// same lock before the other has woken up, and is in a deadlock again.
			select {
			case <-time.After(time.Duration(try) * retryPause):
			case <-ctx.Done():
				return commitError(err)
			}
		case lacksPartition(err):
			if err := d.addPartitions(ctx, b); err != nil {
				return err
			}
		default:
			return commitError(err)
		}
	}
}

// run is one run of a batch.
type run struct {
	*pipeline.Pipeline

	batch    *store.Batch
	deferred *deferred.Commit
	accepts  acceptRun
	settles  settleRun
	lanes    laneRun
	figures  *figures
}

// commitOnce sends the batch and fills in the outcomes. What the transaction
// did not write is explained by a read after it; when that read fails, the
// batch counts as unconfirmed and the caller commits it again as a rerun.
func (d *DB) commitOnce(ctx context.Context, conn *pgx.Conn, b *store.Batch) (committed bool, err error) {
	r := &run{Pipeline: pipeline.New(), batch: b, deferred: d.nodeOf(b.Node).Begin(b), figures: usedFigures.Get().(*figures)}
	defer r.Release()
	defer usedFigures.Put(r.figures)
	r.queueTenantLocks()
	shards := r.queueShardLocks()
	r.queueAccepts(shards)
	if err := r.queueSettles(shards); err != nil {
		return false, err
	}
	r.queueLanes()
	r.queueFloor()
	if r.Len() == 0 {
		return true, nil
	}
	if err := r.Prepare(ctx, conn); err != nil {
		return false, failed("prepare", err)
	}
	if err := r.Run(ctx, conn); err != nil {
		return false, err
	}
	r.lanes.report()
	if err := errors.Join(r.explainAccepts(ctx, conn), r.explainSettles(ctx, conn)); err != nil {
		return true, err
	}
	r.deferred.Done()
	return true, nil
}

// lockShards waits for take-overs that are under way, and for whoever moves the
// node's floor. It is a statement of its own because the next one then gets a
// snapshot that sees what they did.
const lockShards = `
SELECT pg_advisory_xact_lock_shared(7001, shard) FROM unnest($1::int[]) AS shard
UNION ALL
SELECT pg_advisory_xact_lock_shared(7009, $2)`

// queueShardLocks locks the shards of all settles and lanes, and those that the
// node has to own for rows to be deferred, in order, and returns them.
func (r *run) queueShardLocks() []int {
	var seen [hook.Shards]bool
	r.deferred.Shards(&seen)
	for _, s := range r.batch.Settles {
		seen[s.Shard] = true
	}
	for _, l := range r.batch.Lanes {
		seen[l.Shard] = true
	}
	shards := make([]int, 0, 32)
	for shard, wanted := range seen {
		if wanted {
			shards = append(shards, shard)
		}
	}
	if len(shards) == 0 {
		return nil
	}
	r.Query(lockShards, nil)
	pipeline.Of(r.Pipeline, shards).Int4s(func(shard int) int { return shard })
	r.Number(lockNumber(r.batch.Node))
	return shards
}

// lostRace reports whether the row of a delivery was written by somebody else at
// the very moment. An upsert minds that in one index only, and may meet the other
// row in another one; the next run finds it there.
func lostRace(err error) bool { return violates(err, "deliveries_event") }

// lacksPartition reports whether a row found no partition for its id.
func lacksPartition(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == codeCheckViolation && strings.Contains(pg.Message, "no partition of relation")
}

// addPartitions makes room for ids of days that nobody has prepared: a node
// with a wrong clock, or maintenance that stood still for two weeks.
func (d *DB) addPartitions(ctx context.Context, b *store.Batch) error {
	var days []day
	for _, a := range b.Accepts {
		days = append(days, dayOf(a.Event.ID))
	}
	for _, s := range b.Settles {
		if s.Attempt != nil {
			days = append(days, dayOf(s.Attempt.ID))
		}
	}
	slices.Sort(days)
	days = slices.Compact(days)
	return d.alone(ctx, func(conn *pgx.Conn) error { return createPartitions(ctx, conn, days) })
}
