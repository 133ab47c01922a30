package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// rows counts the deliveries that have a row, without asking a node, which
// would write the others first.
func rows(t *testing.T, dsn string) int {
	t.Helper()
	return value[int](t, dsn, "SELECT count(*) FROM deliveries")
}

// TestDeliveryIsWrittenOnce: the row of a delivery that succeeds at once comes
// with its result, if it is in a lane of the node that accepts it.
func TestDeliveryIsWrittenOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	ten := n.tenant()
	e := n.endpoint(ten)
	n.accepted(ten, e)
	if n := rows(t, dsn); n != 1 {
		t.Fatalf("%d rows after an accept for a lane of nobody, want 1", n)
	}
	n.own(false)
	d := n.accepted(ten, e)
	n.accepted(ten, e)
	if n := rows(t, dsn); n != 1 {
		t.Errorf("%d rows after accepts for a lane of the node, want 1 as before", n)
	}
	s := n.success(d)
	n.commit(&store.Batch{Settles: []*store.Settle{s}})
	if n := rows(t, dsn); n != 2 || s.Outcome != store.SettleWritten {
		t.Errorf("%d rows after the settle, outcome %v; want 2, written", n, s.Outcome)
	}
}

// TestSettleIsTheSameWithAndWithoutRow compares what is left of a delivery that
// had its row before it was settled with one that had not.
func TestSettleIsTheSameWithAndWithoutRow(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	now := time.Now().Truncate(time.Microsecond)
	for name, change := range map[string]func(*store.Settle){
		"success": func(*store.Settle) {},
		"retry": func(s *store.Settle) {
			s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Pending, time.Time{}, time.Time{}
			s.Delivery.DueAt, s.Delivery.Progress.BackoffSteps = now.Add(time.Minute), 1
			s.Attempt.Error, s.Attempt.Delay, s.Attempt.NextDueAt = "refused", time.Minute, s.Delivery.DueAt
		},
		"success with a delay": func(s *store.Settle) { s.Attempt.DelaySource = 1 },
		"dead":                 func(s *store.Settle) { s.Delivery.State, s.Delivery.Reason = hook.Dead, 1 },
		"held too long": func(s *store.Settle) {
			s.Attempt, s.Delivery.Attempts, s.Delivery.State, s.Delivery.Reason = nil, 0, hook.Dead, 2
			s.Delivery.Last = hook.LastResult{}
		},
		"too late":  func(s *store.Settle) { s.Prev = 3 },
		"other run": func(s *store.Settle) { s.Delivery.Progress.Run = 2 },
		"fenced":    func(s *store.Settle) { s.Epoch++ },
	} {
		settle := func(accepted func(hook.Tenant, hook.Endpoint) hook.Delivery) settled {
			ten := n.tenant()
			s := n.success(accepted(ten, n.endpoint(ten)))
			s.Attempt.StartedAt, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt, s.Delivery.Last.At = now, now, now, now
			change(s)
			n.commit(&store.Batch{Settles: []*store.Settle{s}})
			n.delivery(s.Delivery.ID)
			return n.settledOf(dsn, s)
		}
		if diff := cmp.Diff(settle(n.stored), settle(n.accepted)); diff != "" {
			t.Errorf("%s: with its row (-), without (+): %s", name, diff)
		}
	}
}

// TestTakeOverFindsDeliveriesWithoutRow: what a node has accepted and not
// settled when it died is pending for the next owner, whatever happened around
// it, and nobody has to look for it again.
func TestTakeOverFindsDeliveriesWithoutRow(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old, taker := join(t, dsn, "old"), join(t, dsn, "taker")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	var waiting int
	for range 12 { // the floor moves on, and rows get overdue
		for i := range 5 {
			if d := old.accepted(ten, e); i < 3 {
				old.commit(&store.Batch{Settles: []*store.Settle{old.success(d)}})
			} else {
				waiting++
			}
		}
		time.Sleep(110 * time.Millisecond)
	}
	if n := rows(t, dsn); n <= 36 || n >= 60 {
		t.Errorf("%d rows of 60 deliveries: want the 36 that were settled and those that are overdue, but not all", n)
	}
	if n := value[int](t, dsn, "SELECT count(*) FROM events WHERE id >= (SELECT since FROM unwritten)"); n < 2 || n >= 60 {
		t.Errorf("%d of 60 events are to be looked at, want the last ones", n)
	}
	exec(t, dsn, "UPDATE shards SET expires_at = now() - interval '1 s'")
	if n := taker.take(false, hook.ShardOf(e.ID)); n != 1 {
		t.Fatalf("%d shards taken, want 1", n)
	}
	due, err := taker.db.ReadAhead(t.Context(), e.ID, time.Now(), 100)
	if err != nil || len(due) != waiting {
		t.Errorf("the new owner finds %d deliveries, %v; want %d", len(due), err, waiting)
	}
	owed := "SELECT count(*) FROM unwritten WHERE since < 9223372036854775807"
	if n := value[int](t, dsn, owed); n != 2 {
		t.Errorf("%d nodes may owe rows, want both: the old one still has shards", n)
	}
	taker.own(false)
	if n := value[int](t, dsn, owed); n != 1 {
		t.Errorf("%d nodes may owe rows, want 1", n)
	}
}

// TestAcceptSeesTakeOver: a node that does not know yet that it has lost a lane
// gives what it accepts for it a row, so that the new owner finds it.
func TestAcceptSeesTakeOver(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old := join(t, dsn, "old")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	rev := old.configRev(ten.ID)
	tx, err := connect(t, dsn).Begin(t.Context())
	old.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7001, $1)", hook.ShardOf(e.ID))
	old.check(err, "lock the shard")
	_, err = tx.Exec(t.Context(), "UPDATE shards SET owner_id = 1, epoch = epoch + 1 WHERE shard = $1", hook.ShardOf(e.ID))
	old.check(err, "take the shard")

	a := old.accept(ten.ID, rev, e.ID)
	done := make(chan error, 1)
	go func() { done <- old.tryCommit(&store.Batch{Accepts: []*store.Accept{a}}) }()
	eventually(t, "accept waits for the take-over", func() bool { return value[int](t, dsn, waitingForShards) == 1 })
	old.check(tx.Commit(t.Context()), "commit the take-over")
	old.check(<-done, "Commit")
	if n := rows(t, dsn); n != 1 || a.Outcome != store.AcceptStored {
		t.Errorf("%d rows, outcome %v; want 1, stored", n, a.Outcome)
	}
	if n := value[int](t, dsn, "SELECT sum(pending)::int FROM tenant_usage"); n != 1 {
		t.Errorf("%d pending by the counters, want 1", n)
	}
}

// TestOthersSeeDeliveriesWithoutRow: what one node has accepted without a row
// is there for everybody else.
func TestOthersSeeDeliveriesWithoutRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		see  func(other *node, d hook.Delivery) (int, error)
		rows int
	}{
		"delivery": {func(other *node, d hook.Delivery) (int, error) {
			got, err := other.db.DeliveryByID(t.Context(), d.TenantID, d.ID)
			return got.Progress.Run, err
		}, 1},
		"counts of an event": {func(other *node, d hook.Delivery) (int, error) {
			n, err := other.db.CountDeliveries(t.Context(), d.TenantID, d.EventID)
			return n.Pending, err
		}, 1},
		"list": {func(other *node, d hook.Delivery) (int, error) {
			list, _, err := other.db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: d.TenantID}, store.Page{Limit: 10})
			return len(list) - 2, err
		}, 3},
		"count": {func(other *node, d hook.Delivery) (int, error) {
			n, err := other.db.CountMatching(t.Context(), store.DeliveryFilter{Tenant: d.TenantID, Event: d.EventID}, store.Page{Limit: 10})
			return n.N, err
		}, 1},
		"dead letters": {func(other *node, d hook.Delivery) (int, error) {
			dead := store.DeliveryFilter{Tenant: d.TenantID, States: []hook.DeliveryState{hook.Dead}}
			list, _, err := other.db.ListDeliveries(t.Context(), dead, store.Page{Limit: 10})
			return len(list) + 1, err
		}, 0},
		"cancel": {func(other *node, d hook.Delivery) (int, error) {
			got, err := other.db.CancelDelivery(t.Context(), d.TenantID, d.ID, time.Now(), other.audit())
			return got.Progress.Run, err
		}, 1},
		"deletion of the endpoint": {func(other *node, d hook.Delivery) (int, error) {
			n, err := other.db.DeleteEndpoint(t.Context(), d.TenantID, d.EndpointID, time.Now(), other.audit())
			return int(n) - 2, err
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := pgtest.DSN(t)
			owner, other := join(t, dsn, "owner"), join(t, dsn, "other")
			owner.own(false)
			ten := owner.tenant()
			e := owner.endpoint(ten)
			began := time.Now()
			owner.accepted(ten, e)
			d := owner.accepted(ten, e)
			owner.accepted(ten, e)
			if n, err := c.see(other, d); err != nil || n != 1 {
				t.Errorf("sees %d, %v", n, err)
			}
			// A commit inserts what is a second old, which it may be by then.
			if n := rows(t, dsn); n < c.rows || n > c.rows && time.Since(began) < time.Second {
				t.Errorf("%d rows, want %d", n, c.rows)
			}
		})
	}
}

// TestLaneReadsWhatItDoesNotKnow: a lane that reads has the rows written of
// deliveries that it dropped, and not of those that it holds, or will in a moment.
func TestLaneReadsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	held, dropped := n.accepted(ten, e), n.accepted(ten, e)
	read := func(now time.Time) store.Due {
		due, _, err := n.db.ReadDue(t.Context(), store.Wanted{Endpoints: []hook.ID{e.ID}, Known: []hook.ID{held.ID}, Now: now, Limit: 10})
		n.check(err, "ReadDue")
		return due[e.ID]
	}
	now := dropped.DueAt
	due := read(now)
	if soon := due.Next.Sub(now); len(due.Deliveries) != 0 || soon <= 0 || soon > time.Minute || rows(t, dsn) != 0 {
		t.Errorf("read %d deliveries, next after %v, %d rows; want none so soon, and to look again", len(due.Deliveries), soon, rows(t, dsn))
	}
	for range 100 { // on a slow machine it was committed some looks after it was due
		if due = read(due.Next); len(due.Deliveries) > 0 {
			break
		}
	}
	if got := due.Deliveries; len(got) != 1 || got[0].ID != dropped.ID || rows(t, dsn) != 1 {
		t.Errorf("read %d deliveries, %d rows; want the one that was dropped, and its row", len(got), rows(t, dsn))
	}
}

// TestRepetitionCountsDeliveriesWithoutRow: the answer to a repeated key tells
// how many deliveries the first event has.
func TestRepetitionCountsDeliveriesWithoutRow(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n, other := join(t, dsn, "n"), join(t, dsn, "other")
	n.own(false)
	ten := n.tenant()
	endpoints := []hook.ID{n.endpoint(ten).ID, n.endpoint(ten).ID}
	rev := n.configRev(ten.ID)
	first, again := n.accept(ten.ID, rev, endpoints...), other.accept(ten.ID, rev, endpoints...)
	for _, a := range []*store.Accept{first, again} {
		a.Key, a.KeyExpires = "k", time.Now().Add(time.Hour)
	}
	n.commit(&store.Batch{Accepts: []*store.Accept{first}})
	n.delivery(first.Deliveries[0].ID) // one of them has a row
	other.commit(&store.Batch{Accepts: []*store.Accept{again}})
	if again.Outcome != store.AcceptReplayed || again.EventID != first.Event.ID || again.Count != 2 || rows(t, dsn) != 1 {
		t.Errorf("outcome %v, %d deliveries, %d rows; want a repetition with 2, one with a row", again.Outcome, again.Count, rows(t, dsn))
	}
}

// TestRowsAreWrittenOnceBesideReaders accepts and settles on one node while
// another one looks all the time, and has the rows written that are missing.
func TestRowsAreWrittenOnceBesideReaders(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	owner, other := join(t, dsn, "owner"), join(t, dsn, "other")
	owner.own(false)
	ten := owner.tenant()
	e := owner.endpoint(ten)
	rev := owner.configRev(ten.ID)
	const rounds, each = 60, 20
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, n := range []*node{owner, other} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, _, err := n.db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: ten.ID}, store.Page{Limit: 5}); err != nil {
					t.Errorf("ListDeliveries: %v", err)
				}
			}
		})
	}
	var flying []*store.Accept
	for range rounds {
		b := &store.Batch{}
		for i, a := range flying {
			settle := owner.success
			if i%4 == 0 {
				settle = owner.failure // whose row comes without it
			}
			b.Settles = append(b.Settles, settle(a.Deliveries[0]))
		}
		flying = nil
		for range each {
			flying = append(flying, owner.accept(ten.ID, rev, e.ID))
		}
		b.Accepts = flying
		owner.commit(b)
		for _, s := range b.Settles {
			if s.Outcome != store.SettleWritten {
				t.Errorf("outcome %v, want written", s.Outcome)
			}
		}
	}
	close(stop)
	readers.Wait()
	owner.delivery(flying[0].Deliveries[0].ID)
	_, err := owner.db.MaxID(t.Context())
	owner.check(err, "MaxID")
	for what, want := range map[string]int{
		"deliveries":                    rounds * each,
		"deliveries WHERE state = 0":    each + (rounds-1)*each/4,
		"deliveries WHERE attempts = 1": (rounds - 1) * each,
		// Each attempt is told once: in the row that came with it, or, where a reader
		// had the row written first, beside it.
		`deliveries d WHERE d.attempts <> (d.first_attempt IS NOT NULL)::int + (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id)`: 0,
		"(SELECT id FROM attempts UNION ALL SELECT last_attempt_id FROM deliveries WHERE first_attempt IS NOT NULL) told":                    (rounds - 1) * each,
	} {
		if n := value[int](t, dsn, "SELECT count(*) FROM "+what); n != want {
			t.Errorf("%d %s, want %d", n, what, want)
		}
	}
	if n := value[int](t, dsn, "SELECT sum(pending)::int FROM tenant_usage"); n != each+(rounds-1)*each/4 {
		t.Errorf("%d pending by the counters", n)
	}
	time.Sleep(1100 * time.Millisecond) // sessions tell what they have seen once a second
	if n := value[int](t, dsn, "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestPrunedDeliveriesDoNotComeBack: while the deliveries of a day leave, their
// events still name them.
func TestPrunedDeliveriesDoNotComeBack(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	for range 3 {
		n.commit(&store.Batch{Settles: []*store.Settle{n.success(n.accepted(ten, e))}})
	}
	waits := n.accepted(ten, e)
	kept := time.Now().Add(48 * time.Hour)
	step := store.PruneStep{Before: kept, DeadAfter: kept, Limit: 2}
	if removed, err := n.db.Prune(t.Context(), step); err != nil || removed.Deliveries != 0 {
		t.Fatalf("%d deliveries left beside one that waits without a row, %v", removed.Deliveries, err)
	}
	n.commit(&store.Batch{Settles: []*store.Settle{n.success(waits)}})
	removed, err := n.db.Prune(t.Context(), step)
	if err != nil || removed.Deliveries != 2 || removed.Attempts != 2 || removed.Events != 0 {
		t.Fatalf("removed %+v, %v; want two deliveries with their attempts", removed, err)
	}
	list, _, err := n.db.ListDeliveries(t.Context(), store.DeliveryFilter{Tenant: ten.ID}, store.Page{Limit: 10})
	if err != nil || len(list) != 2 || rows(t, dsn) != 2 {
		t.Errorf("%d deliveries listed, %d rows, %v; want the 2 that are left", len(list), rows(t, dsn), err)
	}
}

// TestStuckBatchHoldsNobodyUp: a node that stands still in the middle of a batch
// keeps its locks, and others go on: they see what it has accepted before, take
// shards, and commit.
func TestStuckBatchHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	stuck, other := join(t, dsn, "stuck"), join(t, dsn, "other")
	ten := stuck.tenant()
	e, free := stuck.endpoint(ten), stuck.endpoint(ten)
	for hook.ShardOf(free.ID) == hook.ShardOf(e.ID) {
		free = stuck.endpoint(ten)
	}
	if stuck.take(false, hook.ShardOf(e.ID)) != 1 {
		t.Fatal("the shard was not taken")
	}
	held, late := stuck.stored(ten, e), stuck.accepted(ten, e)
	tx, err := connect(t, dsn).Begin(t.Context())
	stuck.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", held.ID)
	stuck.check(err, "lock the delivery")
	settled := make(chan error, 1)
	go func() { settled <- stuck.tryCommit(&store.Batch{Settles: []*store.Settle{stuck.success(held)}}) }()
	eventually(t, "batch waits for the row", func() bool { return waitingForLocks(t, dsn) == 1 })

	other.delivery(late.ID)
	if other.take(false, hook.ShardOf(free.ID)) != 1 {
		t.Error("the shard was not taken")
	}
	d := other.accepted(ten, free)
	other.commit(&store.Batch{Settles: []*store.Settle{other.success(d)}})
	if n := waitingForLocks(t, dsn); n != 1 {
		t.Errorf("%d sessions wait for locks, want the stuck one", n)
	}
	stuck.check(tx.Rollback(t.Context()), "release the delivery")
	stuck.check(<-settled, "Commit")
}

// TestLateEventHasItsRowAtOnce: an event whose id was drawn long before its
// commit is not one that a take-over would look at.
func TestLateEventHasItsRowAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old, taker := join(t, dsn, "old"), join(t, dsn, "taker")
	old.own(false)
	ten := old.tenant()
	e := old.endpoint(ten)
	rev := old.configRev(ten.ID)
	late := old.accept(ten.ID, rev, e.ID)
	time.Sleep(150 * time.Millisecond)
	old.accepted(ten, e) // the floor moves up to it
	old.commit(&store.Batch{Accepts: []*store.Accept{late}})
	if n := rows(t, dsn); n != 1 {
		t.Errorf("%d rows, want that of the late event", n)
	}
	exec(t, dsn, "UPDATE shards SET expires_at = now() - interval '1 s'")
	taker.own(false)
	due, err := taker.db.ReadAhead(t.Context(), e.ID, time.Now(), 10)
	if err != nil || len(due) != 2 {
		t.Errorf("the new owner finds %d deliveries, %v; want 2", len(due), err)
	}
}

// TestFencedResultLeavesDeliveryToBeFound: a node that has lost a lane goes on
// with others. What it accepted for that lane stays where the new owner looks,
// however soon that is.
func TestFencedResultLeavesDeliveryToBeFound(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	old, taker := join(t, dsn, "old"), join(t, dsn, "taker")
	old.own(false)
	ten := old.tenant()
	lost, kept := old.endpoint(ten), old.endpoint(ten)
	for hook.ShardOf(kept.ID) == hook.ShardOf(lost.ID) {
		kept = old.endpoint(ten)
	}
	d := old.accepted(ten, lost)
	exec(t, dsn, "UPDATE shards SET owner_id = $1, epoch = epoch + 1 WHERE shard = $2", taker.me.ID, hook.ShardOf(lost.ID))
	s := old.success(d)
	old.commit(&store.Batch{Settles: []*store.Settle{s}})
	if s.Outcome != store.SettleFenced {
		t.Fatalf("outcome %v, want fenced", s.Outcome)
	}
	for range 3 { // the floor moves on
		time.Sleep(120 * time.Millisecond)
		old.commit(&store.Batch{Settles: []*store.Settle{old.success(old.accepted(ten, kept))}})
	}
	if got := taker.delivery(d.ID); got.State != hook.Pending {
		t.Errorf("the delivery is %v, want pending", got.State)
	}
}

// TestIdleNodeDoesNotComplain: somebody is in the way of what a node without work
// does to keep others from looking at too much. It does it another time.
func TestIdleNodeDoesNotComplain(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	n.commit(&store.Batch{Settles: []*store.Settle{n.success(n.accepted(ten, n.endpoint(ten)))}})
	const since = "SELECT since FROM unwritten WHERE node_id = $1"
	before := value[int64](t, dsn, since, n.me.ID)
	blocker := connect(t, dsn)
	for _, sql := range []string{"BEGIN", "SELECT FROM unwritten FOR UPDATE"} {
		if _, err := blocker.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	n.check(n.db.InsertDeferred(t.Context(), time.Now().Add(time.Hour)), "InsertDeferred with somebody in the way")
	if err := blocker.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.check(n.db.InsertDeferred(t.Context(), time.Now().Add(2*time.Hour)), "InsertDeferred")
	if after := value[int64](t, dsn, since, n.me.ID); after <= before {
		t.Errorf("floor is %d, was %d: the second call did not do what the first one could not", after, before)
	}
}

// TestRerunKnowsWhatTheFirstRunLeftOut: the lane may have been lost between a run
// without known outcome and the next one.
func TestRerunKnowsWhatTheFirstRunLeftOut(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	a := n.accept(ten.ID, n.configRev(ten.ID), e.ID)
	n.commit(&store.Batch{Accepts: []*store.Accept{a}})
	n.db = open(t, dsn) // knows nothing of it, and holds no shard
	n.commit(&store.Batch{Accepts: []*store.Accept{a}, Rerun: true})
	n.check(n.db.InsertDeferred(t.Context(), time.Now().Add(time.Second)), "InsertDeferred")
	due, err := n.db.ReadAhead(t.Context(), e.ID, time.Now(), 10)
	if err != nil || len(due) != 1 || a.Outcome != store.AcceptStored {
		t.Errorf("%d deliveries, %v, outcome %v; want the one that was stored", len(due), err, a.Outcome)
	}
}
