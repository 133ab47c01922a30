package postgres_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// waitingForShards counts who waits for a shard of this database.
const waitingForShards = `
SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.classid = 7001 AND NOT l.granted`

// TestTakeOverWaitsForRunningSettle holds a settle up in the middle and checks
// that the take-over neither passes it nor is passed by it.
func TestTakeOverWaitsForRunningSettle(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old, taker := join(t, dsn, "old"), join(t, dsn, "taker")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	d := old.stored(ten, e)
	shard := hook.ShardOf(e.ID)

	// A lock on the row stops the settle after it has its shard lock.
	blocker := connect(t, dsn)
	tx, err := blocker.Begin(t.Context())
	old.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", d.ID)
	old.check(err, "lock the delivery")
	s := old.success(d)
	settled := make(chan error, 1)
	go func() { settled <- old.tryCommit(&store.Batch{Settles: []*store.Settle{s}}) }()
	eventually(t, "settle waits for the row", func() bool { return waitingForLocks(t, dsn) == 1 })

	exec(t, dsn, "UPDATE shards SET expires_at = now() - interval '1 s'")
	taken := make(chan int, 1)
	go func() { taken <- taker.take(false, shard) }()
	eventually(t, "take-over waits for the settle", func() bool {
		return value[int](t, dsn, waitingForShards) == 1
	})
	select {
	case <-taken:
		t.Fatal("the take-over passed a running settle")
	default:
	}

	old.check(tx.Rollback(t.Context()), "release the delivery")
	old.check(<-settled, "Commit")
	if n := <-taken; n != 1 || s.Outcome != store.SettleWritten {
		t.Fatalf("taken %d shards, settle outcome %d; want 1 and written", n, s.Outcome)
	}
	late := old.success(old.delivery(d.ID))
	late.Prev = 1
	old.commit(&store.Batch{Settles: []*store.Settle{late}})
	if late.Outcome != store.SettleFenced {
		t.Errorf("settle in the old epoch: outcome %d, want fenced", late.Outcome)
	}
}

// TestSettleSeesTakeOverItWaitedFor is the other order: the settle waits for
// the lock of a take-over and must then write nothing.
func TestSettleSeesTakeOverItWaitedFor(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old := join(t, dsn, "old")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	d := old.stored(ten, e)
	shard := hook.ShardOf(e.ID)

	tx, err := connect(t, dsn).Begin(t.Context())
	old.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7001, $1)", shard)
	old.check(err, "lock the shard")
	_, err = tx.Exec(t.Context(), "UPDATE shards SET owner_id = 1, epoch = epoch + 1 WHERE shard = $1", shard)
	old.check(err, "take the shard")

	s := old.success(d)
	settled := make(chan error, 1)
	go func() { settled <- old.tryCommit(&store.Batch{Settles: []*store.Settle{s}}) }()
	eventually(t, "settle waits for the take-over", func() bool {
		return value[int](t, dsn, waitingForShards) == 1
	})
	old.check(tx.Commit(t.Context()), "commit the take-over")
	old.check(<-settled, "Commit")
	if s.Outcome != store.SettleFenced {
		t.Errorf("outcome %d, want fenced", s.Outcome)
	}
	if got := old.delivery(d.ID); got.Attempts != 0 || got.State != hook.Pending {
		t.Errorf("a fenced settle wrote: %d attempts, state %v", got.Attempts, got.State)
	}
}

// TestTakeOverEndsStuckSettle: a node stopped with its batch half sent keeps
// its lock, and no timeout of the server ends it.
func TestTakeOverEndsStuckSettle(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	taker := join(t, dsn, "taker")
	stuck := connect(t, dsn) // without the limits of our own connections
	tx, err := stuck.Begin(t.Context())
	taker.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared(7001, 5)")
	taker.check(err, "lock the shard")

	// It is waited for, five seconds, and then ended.
	begin := time.Now()
	if n := taker.take(false, 4, 5, 6); n != 3 {
		t.Errorf("taken %d shards, want 3", n)
	}
	if took := time.Since(begin); took < 4*time.Second {
		t.Errorf("the take-over took %v, want some patience", took)
	}
	if err := stuck.Ping(t.Context()); err == nil {
		t.Error("the stuck session is still there")
	}
}
