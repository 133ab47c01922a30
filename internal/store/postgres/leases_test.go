package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestLeaseExpiresAndIsTaken(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := join(t, dsn, "a"), join(t, dsn, "b")
	const ttl = 300 * time.Millisecond
	held, err := a.db.TakeShards(t.Context(), a.me.ID, []int{1, 2, 3}, false, ttl)
	a.check(err, "TakeShards")
	_, err = a.db.RenewShards(t.Context(), a.me.ID, held[2:], time.Minute) // keeps shard 3
	a.check(err, "RenewShards")
	_, err = a.db.TakeShards(t.Context(), a.me.ID, []int{4}, false, time.Minute)
	a.check(err, "TakeShards")
	if got, err := b.db.TakeShards(t.Context(), b.me.ID, []int{3, 4}, true, time.Minute); err != nil || len(got) != 0 {
		t.Fatalf("a live lease was taken: %v, %v", got, err)
	}
	var stolen []store.Held
	eventually(t, "take-over of an expired lease", func() bool {
		got, err := b.db.TakeShards(t.Context(), b.me.ID, []int{1, 2, 3}, false, time.Minute)
		b.check(err, "TakeShards")
		stolen = append(stolen, got...)
		return len(stolen) >= 2
	})
	want := []store.Held{{Shard: 1, Epoch: held[0].Epoch + 1}, {Shard: 2, Epoch: held[1].Epoch + 1}}
	if !slices.Equal(stolen, want) {
		t.Errorf("taken %v, want %v", stolen, want)
	}
	still, err := a.db.RenewShards(t.Context(), a.me.ID, held, ttl)
	a.check(err, "RenewShards")
	if !slices.Equal(still, held[2:]) {
		t.Errorf("still held %v, want %v", still, held[2:])
	}
}

func TestLeaseBeyondOneTTLIsExpired(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := join(t, dsn, "a"), join(t, dsn, "b")
	a.take(false, 1, 2)
	// As if the database's clock had been set back by an hour.
	exec(t, dsn, "UPDATE shards SET expires_at = expires_at + interval '1 hour' WHERE shard = 1")
	leases, err := b.db.Shards(t.Context(), leaseTTL)
	b.check(err, "Shards")
	if !leases[1].Free || leases[2].Free {
		t.Errorf("free: %v, %v; want shard 1 alone", leases[1].Free, leases[2].Free)
	}
	if n := b.take(false, 1, 2); n != 1 {
		t.Errorf("taken %d shards, want 1", n)
	}
}

func TestNodesJoinAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	db := open(t, dsn)
	const nodes = 20
	slots := make([]int, nodes)
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			n, err := db.Join(t.Context(), hook.Node{Name: fmt.Sprintf("n%d", i), StartedAt: time.Now()}, hook.ID(1000+i), leaseTTL)
			if err != nil {
				t.Errorf("Join: %v", err)
			}
			slots[i] = n.Slot
		})
	}
	wg.Wait()
	slices.Sort(slots)
	for i, slot := range slots {
		if slot != i {
			t.Fatalf("slots %v, want 0 to %d once each", slots, nodes-1)
		}
	}
}

func TestSlotsOfNodesLongGoneAreReused(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := join(t, dsn, "a"), join(t, dsn, "b")
	a.check(a.db.Leave(t.Context(), a.me), "Leave")
	if c := join(t, dsn, "c"); c.me.Slot != 2 {
		t.Errorf("a node got slot %d, want 2: slot 0 was in use a moment ago", c.me.Slot)
	}
	exec(t, dsn, "UPDATE nodes SET expires_at = now() - interval '25 hours' WHERE name = 'a'")
	if d := join(t, dsn, "d"); d.me.Slot != 0 {
		t.Errorf("a node got slot %d, want 0", d.me.Slot)
	}
	if _, err := a.db.Heartbeat(t.Context(), a.me, leaseTTL); !errors.Is(err, store.ErrSuperseded) {
		t.Errorf("Heartbeat of the forgotten node = %v, want %v", err, store.ErrSuperseded)
	}
	live, err := b.db.Heartbeat(t.Context(), b.me, leaseTTL)
	b.check(err, "Heartbeat")
	var names []string
	for _, n := range live {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"b", "c", "d"}) {
		t.Errorf("live nodes %v, want b, c and d", names)
	}
}

func TestNewerProcessSupersedes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	first := join(t, dsn, "same")
	first.take(false, 7)
	// The second process runs on a machine whose clock is behind.
	second, err := first.db.Join(t.Context(), hook.Node{Name: "same", StartedAt: first.me.StartedAt.Add(-time.Hour)}, 1, leaseTTL)
	first.check(err, "Join")
	if second.ID != first.me.ID || second.Slot != first.me.Slot {
		t.Errorf("joined as %d in slot %d, want %d in %d", second.ID, second.Slot, first.me.ID, first.me.Slot)
	}
	if _, err := first.db.Heartbeat(t.Context(), first.me, leaseTTL); !errors.Is(err, store.ErrSuperseded) {
		t.Errorf("Heartbeat of the older process = %v, want %v", err, store.ErrSuperseded)
	}
	if _, err := first.db.Heartbeat(t.Context(), second, leaseTTL); err != nil {
		t.Errorf("Heartbeat of the newer process: %v", err)
	}
	held, err := first.db.TakeShards(t.Context(), second.ID, []int{7}, true, leaseTTL)
	first.check(err, "TakeShards")
	if len(held) != 1 || held[0].Epoch <= first.epochs[7] {
		t.Errorf("taken back %v, want shard 7 in a new epoch", held)
	}
}

// TestRenewalHasItsOwnConnection renews while every connection for people and
// for lanes and both writers wait for a lock.
func TestRenewalHasItsOwnConnection(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	tx, err := connect(t, dsn).Begin(t.Context())
	n.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "LOCK TABLE tenants IN ACCESS EXCLUSIVE MODE")
	n.check(err, "lock")
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() { _, _ = n.db.TenantByID(t.Context(), ten.ID) }) // times out after 2 s
		wg.Go(func() { _, _ = n.db.Destinations(t.Context(), []hook.ID{e.ID}) })
	}
	for range 40 {
		wg.Go(func() { _ = n.tryCommit(&store.Batch{Accepts: []*store.Accept{n.accept(ten.ID, 2, e.ID)}}) })
	}
	eventually(t, "busy pools", func() bool { return waitingForLocks(t, dsn) >= 12 })
	begin := time.Now()
	held, err := n.db.RenewShards(t.Context(), n.me.ID, []store.Held{{Shard: 9, Epoch: n.epochs[9]}}, leaseTTL)
	n.check(err, "RenewShards")
	_, err = n.db.Heartbeat(t.Context(), n.me, leaseTTL)
	n.check(err, "Heartbeat")
	// In line with the others it would wait until most of them have timed out, six
	// or fewer at a time: a hundred seconds.
	if took := time.Since(begin); len(held) != 1 || took > 45*time.Second {
		t.Errorf("renewed %v in %v, want one shard at once", held, took)
	}
	n.check(tx.Rollback(t.Context()), "unlock")
	wg.Wait()
}

// TestRestartFindsWhatItsNodeDeferred: events that come while a restarted node takes
// its shards back do not hide what the process before it had deferred. The take-over
// has to wait for a connection, behind reads that stand still, just before it looks.
func TestRestartFindsWhatItsNodeDeferred(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old := join(t, dsn, "n")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	d := old.accepted(ten, e)
	again := join(t, dsn, "n")
	next := again.accept(ten.ID, again.configRev(ten.ID), e.ID)

	blocker, keys := connect(t, dsn), connect(t, dsn)
	for _, s := range []struct {
		conn *pgx.Conn
		sql  string
	}{{blocker, "BEGIN"}, {blocker, "SELECT FROM unwritten FOR UPDATE"}, {keys, "BEGIN"}, {keys, "LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE"}} {
		_, err := s.conn.Exec(t.Context(), s.sql)
		again.check(err, s.sql)
	}
	taken := make(chan error, 1)
	go func() {
		_, err := again.db.TakeShards(t.Context(), again.me.ID, []int{hook.ShardOf(e.ID)}, true, leaseTTL)
		taken <- err
	}()
	eventually(t, "take-over waits", func() bool { return waitingForLocks(t, dsn) == 1 })
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	var reads sync.WaitGroup
	for range 12 { // more than there are connections
		reads.Go(func() {
			for reading.Err() == nil { // a read that waits too long is ended by the server
				_, _ = again.db.CountAdminKeys(reading, time.Now())
			}
		})
	}
	eventually(t, "all connections wait", func() bool { return waitingForLocks(t, dsn) == 6 })
	time.Sleep(150 * time.Millisecond) // the floor is far enough behind to be moved
	next.Event.ID = again.id()
	next.Deliveries[0].ID, next.Deliveries[0].EventID = again.id(), next.Event.ID
	_, err := blocker.Exec(t.Context(), "COMMIT")
	again.check(err, "let the take-over go on")
	epoch := old.epochs[hook.ShardOf(e.ID)] + 1
	eventually(t, "the shard is taken", func() bool {
		return value[int64](t, dsn, "SELECT epoch FROM shards WHERE shard = $1", hook.ShardOf(e.ID)) == epoch
	})
	again.commit(&store.Batch{Accepts: []*store.Accept{next}})
	stop()
	_, err = keys.Exec(t.Context(), "COMMIT")
	again.check(err, "let the reads end")
	reads.Wait()
	again.check(<-taken, "TakeShards")
	if n := value[int](t, dsn, "SELECT count(*) FROM deliveries WHERE id = $1", d.ID); n != 1 {
		t.Errorf("%d rows of the delivery that the process before had deferred, want 1", n)
	}
}

// TestClockOffset: two clocks of one machine differ by no more than it takes to ask.
func TestClockOffset(t *testing.T) {
	t.Parallel()
	var db store.Clock = open(t, pgtest.DSN(t))
	asked := time.Now()
	got, err := db.ClockOffset(t.Context())
	if took := time.Since(asked); err != nil || got.Abs() > took {
		t.Errorf("ClockOffset = %v, %v after %v", got, err, took)
	}
}
