package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestKeyRaceOverNodes posts the same content a hundred times through two
// nodes at once: exactly one event is stored and everybody gets its id.
func TestKeyRaceOverNodes(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	nodes := []*node{join(t, dsn, "a"), join(t, dsn, "b")}
	ten := nodes[0].tenant()
	e := nodes[0].endpoint(ten)
	rev := nodes[0].configRev(ten.ID)

	const posts = 100
	accepts := make([]*store.Accept, posts)
	var wg sync.WaitGroup
	for i := range posts {
		n := nodes[i%2]
		a := n.accept(ten.ID, rev, e.ID)
		a.Key, a.KeyExpires = "same", time.Now().Add(time.Hour)
		accepts[i] = a
		other := n.accept(ten.ID, rev, e.ID)
		other.Key, other.KeyExpires = fmt.Sprintf("other-%d", i%7), time.Now().Add(time.Hour)
		wg.Go(func() {
			if err := n.tryCommit(&store.Batch{Accepts: []*store.Accept{other, a}}); err != nil {
				t.Errorf("Commit: %v", err)
			}
		})
	}
	wg.Wait()
	stored := 0
	for _, a := range accepts {
		if a.Outcome == store.AcceptStored {
			stored++
		} else if a.Outcome != store.AcceptReplayed {
			t.Errorf("outcome %d, want stored or replayed", a.Outcome)
		}
		if a.EventID != accepts[0].EventID || a.Count != 1 {
			t.Errorf("answer: event %d with %d deliveries, want %d with 1", a.EventID, a.Count, accepts[0].EventID)
		}
	}
	if stored != 1 {
		t.Errorf("%d posts were stored, want 1", stored)
	}
	if events := value[int](t, dsn, "SELECT count(*) FROM events"); events != 8 {
		t.Errorf("%d events for 8 keys", events)
	}
}

// TestAcceptMeetsDeletion: whatever the order, a deleted endpoint keeps no
// pending delivery.
func TestAcceptMeetsDeletion(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := join(t, dsn, "a"), join(t, dsn, "b")
	ten := a.tenant()
	for range 10 {
		e := a.endpoint(ten)
		rev := a.configRev(ten.ID)
		var wg sync.WaitGroup
		for range 4 {
			accepts := make([]*store.Accept, 20)
			for i := range accepts {
				accepts[i] = a.accept(ten.ID, rev, e.ID)
			}
			wg.Go(func() {
				if err := a.tryCommit(&store.Batch{Accepts: accepts}); err != nil {
					t.Errorf("Commit: %v", err)
				}
			})
		}
		wg.Go(func() {
			if _, err := b.db.DeleteEndpoint(t.Context(), ten.ID, e.ID, time.Now(), b.audit()); err != nil {
				t.Errorf("DeleteEndpoint: %v", err)
			}
		})
		wg.Wait()
	}
	if n := value[int](t, dsn, "SELECT count(*) FROM deliveries WHERE state = 0"); n != 0 {
		t.Errorf("%d deliveries of deleted endpoints are pending", n)
	}
	used, err := a.db.Usage(t.Context())
	a.check(err, "Usage")
	for _, u := range used { // what was stored stays
		if u.Pending != 0 || u.Bytes != 0 {
			t.Errorf("usage = %+v, want nothing pending", u)
		}
	}
}

// TestRerunBesideFirstRun runs a batch again while the first run is still going
// on in the server, as after a timeout of the client.
func TestRerunBesideFirstRun(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	d := n.stored(ten, e)
	rev := n.configRev(ten.ID)
	keyed := n.accept(ten.ID, rev, e.ID)
	keyed.Key, keyed.KeyExpires = "k", time.Now().Add(time.Hour)
	first := &store.Batch{
		Accepts: []*store.Accept{n.accept(ten.ID, rev, e.ID), keyed},
		Settles: []*store.Settle{n.success(d)},
	}

	// The lock stops the first run at its settle, its events written but not
	// committed.
	tx, err := connect(t, dsn).Begin(t.Context())
	n.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", d.ID)
	n.check(err, "lock the delivery")
	again := &store.Batch{Rerun: true}
	for _, a := range first.Accepts {
		repeat := *a
		again.Accepts = append(again.Accepts, &repeat)
	}
	settle := *first.Settles[0]
	again.Settles = []*store.Settle{&settle}

	errs := make(chan error, 2)
	waiting := func(n int) {
		t.Helper()
		eventually(t, "waiting runs", func() bool {
			return waitingForLocks(t, dsn) == n
		})
	}
	go func() { errs <- n.tryCommit(first) }()
	waiting(1)
	go func() { errs <- n.tryCommit(again) }()
	waiting(2)
	n.check(tx.Rollback(t.Context()), "release the delivery")
	n.check(errors.Join(<-errs, <-errs), "Commit")

	for _, b := range []*store.Batch{first, again} {
		for _, a := range b.Accepts {
			if a.Outcome != store.AcceptStored || a.EventID != a.Event.ID || a.Count != 1 {
				t.Errorf("rerun %v: outcome %d, event %d, %d deliveries", b.Rerun, a.Outcome, a.EventID, a.Count)
			}
		}
		if b.Settles[0].Outcome != store.SettleWritten {
			t.Errorf("rerun %v: outcome of the settle %d, want written", b.Rerun, b.Settles[0].Outcome)
		}
	}
	_, err = n.db.MaxID(t.Context()) // has all rows written
	n.check(err, "MaxID")
	for table, want := range map[string]int{"events": 3, "deliveries": 3, "deliveries WHERE attempts = 1": 1, "idempotency_keys": 1} {
		if got := value[int](t, dsn, "SELECT count(*) FROM "+table); got != want {
			t.Errorf("%d rows in %s, want %d", got, table, want)
		}
	}
	attempts, err := n.db.AttemptsOf(t.Context(), 0, d.ID)
	n.check(err, "AttemptsOf")
	if len(attempts) != 1 || value[int](t, dsn, "SELECT count(*) FROM attempts") > 1 {
		t.Errorf("%d attempts of the delivery, want 1 and no other", len(attempts))
	}
	if pending := value[int](t, dsn, "SELECT sum(pending)::int FROM tenant_usage"); pending != 2 {
		t.Errorf("%d pending by the counters, want 2", pending)
	}
}

// TestSettleMeetsCancellation lets a person cancel a delivery while the settle
// of its attempt waits for the row: the cancellation counts, the attempt is
// recorded, and neither is booked twice.
func TestSettleMeetsCancellation(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	d := n.stored(ten, n.endpoint(ten))
	tx, err := connect(t, dsn).Begin(t.Context())
	n.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "UPDATE deliveries SET state = 3, reason = 7, settled_at = now() WHERE id = $1", d.ID)
	n.check(err, "cancel")
	_, err = tx.Exec(t.Context(), "INSERT INTO tenant_usage VALUES ($1, 0, -1, $2)", ten.ID, -d.Size)
	n.check(err, "book")
	s := n.success(d)
	done := make(chan error, 1)
	go func() { done <- n.tryCommit(&store.Batch{Settles: []*store.Settle{s}}) }()
	eventually(t, "settle waits", func() bool { return waitingForLocks(t, dsn) == 1 })
	n.check(tx.Commit(t.Context()), "commit the cancellation")
	n.check(<-done, "Commit")
	got := n.delivery(d.ID)
	if s.Outcome != store.SettleWritten || got.State != hook.Cancelled || got.Reason != hook.CancelledByUser || got.Attempts != 1 {
		t.Errorf("outcome %d, state %v, reason %v, %d attempts; want written, cancelled, user, 1", s.Outcome, got.State, got.Reason, got.Attempts)
	}
	used, err := n.db.Usage(t.Context())
	n.check(err, "Usage")
	for _, u := range used { // what was stored stays
		if u.Pending != 0 || u.Bytes != 0 {
			t.Errorf("usage = %+v, want nothing pending", u)
		}
	}
}

// TestDeadlockIsInvisible lets two batches meet rows in opposite order, which
// the sorting of Commit normally rules out: one of them holds a row lock from
// outside.
func TestDeadlockIsInvisible(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	a, b := n.stored(ten, e), n.stored(ten, e)
	tx, err := connect(t, dsn).Begin(t.Context())
	n.check(err, "Begin")
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1h'") // the batch is to be the victim
	n.check(err, "set")
	_, err = tx.Exec(t.Context(), "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", b.ID)
	n.check(err, "lock the second delivery")
	settles := []*store.Settle{n.success(a), n.success(b)}
	done := make(chan error, 1)
	go func() { done <- n.tryCommit(&store.Batch{Settles: settles}) }()
	eventually(t, "batch waits", func() bool { return waitingForLocks(t, dsn) == 1 })
	locked := make(chan error, 1)
	go func() {
		_, err := tx.Exec(t.Context(), "SELECT FROM deliveries WHERE id = $1 FOR UPDATE", a.ID)
		locked <- errors.Join(err, tx.Commit(t.Context()))
	}()
	n.check(<-locked, "lock the first delivery")
	n.check(<-done, "Commit")
	for _, s := range settles {
		if s.Outcome != store.SettleWritten {
			t.Errorf("outcome %d, want written", s.Outcome)
		}
	}
}

func TestIDsOfUnpreparedDays(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	d := n.stored(ten, e)
	far := time.Now().Add(100 * 24 * time.Hour)
	a := n.accept(ten.ID, n.configRev(ten.ID))
	a.Event.ID = hook.IDFloor(far) + 1
	s := n.success(d)
	s.Attempt.ID = hook.IDFloor(far.Add(48 * time.Hour))
	n.commit(&store.Batch{Accepts: []*store.Accept{a}, Settles: []*store.Settle{s}})
	if a.Outcome != store.AcceptStored || s.Outcome != store.SettleWritten {
		t.Errorf("outcomes %d, %d; want stored, written", a.Outcome, s.Outcome)
	}
}

func TestHostileTextIsStored(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	s := n.success(n.stored(ten, n.endpoint(ten)))
	s.Attempt.Error = "zero \x00 and broken \xff text"
	s.Attempt.Detail.ResponseHeaders = map[string][]string{"X-\x00": {"\x00\xff\u2028"}}
	s.Attempt.Excerpt = []byte{0, 0xff}
	n.commit(&store.Batch{Settles: []*store.Settle{s}})
	got, err := n.db.AttemptsOf(t.Context(), ten.ID, s.Delivery.ID)
	n.check(err, "AttemptsOf")
	if len(got) != 1 || !strings.Contains(got[0].Error, "broken \uFFFD text") || len(got[0].Detail.ResponseHeaders["X-\x00"]) != 1 {
		t.Errorf("attempt came back as %+v", got)
	}
}

func TestRefusedDataIsNamed(t *testing.T) {
	t.Parallel()
	n := join(t, pgtest.DSN(t), "n")
	ten := n.tenant()
	a := n.accept(ten.ID, n.configRev(ten.ID))
	a.Event.Type = "zero\x00byte"
	if err := n.tryCommit(&store.Batch{Accepts: []*store.Accept{a}}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("Commit of a type with a zero byte = %v, want %v", err, store.ErrRefused)
	}
	a.Event.Type = "fine"
	n.commit(&store.Batch{Accepts: []*store.Accept{a}})
}

// TestTwiceInOneBatch: one statement cannot write a row twice, a batch may.
func TestTwiceInOneBatch(t *testing.T) {
	t.Parallel()
	n := join(t, pgtest.DSN(t), "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	d, neighbour := n.stored(ten, e), n.stored(ten, e)
	first := n.success(d)
	first.Delivery.State, first.Delivery.SettledAt = hook.Pending, time.Time{}
	second := n.success(first.Delivery)
	third := n.success(neighbour)
	shard := hook.ShardOf(e.ID)
	save := func(limit float64) *store.LaneSave {
		return &store.LaneSave{Endpoint: e.ID, Tenant: ten.ID, Shard: shard, Epoch: n.epochs[shard], Checkpoint: lane.Checkpoint{Limit: limit}}
	}
	lanes := []*store.LaneSave{save(1), save(2)}
	n.commit(&store.Batch{Settles: []*store.Settle{second, third, first}, Lanes: lanes})
	for i, s := range []*store.Settle{first, second, third} {
		if s.Outcome != store.SettleWritten {
			t.Errorf("settle %d: outcome %d, want written", i, s.Outcome)
		}
	}
	if got := n.delivery(d.ID); got.Attempts != 2 || got.State != hook.Delivered {
		t.Errorf("%d attempts, state %v; want 2, delivered", got.Attempts, got.State)
	}
	dest, err := n.db.Destinations(t.Context(), []hook.ID{e.ID})
	n.check(err, "Destinations")
	if dest[0].Lane.Limit != 2 || lanes[0].Outcome != store.SettleWritten || lanes[1].Outcome != store.SettleWritten {
		t.Errorf("limit %v, outcomes %d, %d; want the newer checkpoint, written", dest[0].Lane.Limit, lanes[0].Outcome, lanes[1].Outcome)
	}
}

// TestAcknowledgedSurvivesCrash kills the server under load: whatever Commit
// confirmed is there afterwards, and the store works again by itself.
func TestAcknowledgedSurvivesCrash(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	dsn := cluster.Database(t)
	n := join(t, dsn, "n")
	ten := n.tenant()
	e := n.endpoint(ten)
	rev := n.configRev(ten.ID)

	var mu sync.Mutex
	var confirmed []int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				a := n.accept(ten.ID, rev, e.ID)
				if err := n.tryCommit(&store.Batch{Accepts: []*store.Accept{a}}); err != nil {
					return
				}
				mu.Lock()
				confirmed = append(confirmed, int64(a.Event.ID))
				mu.Unlock()
			}
		})
	}
	eventually(t, "some commits", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(confirmed) > 50
	})
	cluster.Crash()
	wg.Wait()
	cluster.Restart(t)
	missing := value[int](t, dsn, "SELECT count(*) FROM unnest($1::bigint[]) AS c(id) WHERE NOT EXISTS (SELECT FROM events WHERE events.id = c.id)", confirmed)
	if missing != 0 {
		t.Errorf("%d of %d confirmed events are lost", missing, len(confirmed))
	}
	eventually(t, "commits after the restart", func() bool {
		return n.tryCommit(&store.Batch{Accepts: []*store.Accept{n.accept(ten.ID, rev, e.ID)}}) == nil
	})
}
