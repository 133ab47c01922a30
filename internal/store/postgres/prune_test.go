package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const day = 24 * time.Hour

// prune runs steps until nothing is left to do.
func (n *node) prune(before time.Time) (sum store.Pruned) {
	n.t.Helper()
	for range 100 {
		got, err := n.db.Prune(n.t.Context(), store.PruneStep{Now: time.Now(), Before: before, DeadAfter: time.Now(), Limit: 7})
		n.check(err, "Prune")
		sum.Events += got.Events
		sum.Deliveries += got.Deliveries
		sum.Attempts += got.Attempts
		if got.Done {
			return sum
		}
	}
	n.t.Fatal("Prune is never done")
	return sum
}

// old stores events as if they had been accepted at the given time.
func (n *node) old(ten hook.Tenant, e hook.Endpoint, at time.Time, events int) []*store.Settle {
	n.t.Helper()
	ids, err := hook.NewIDSource(900, 0)
	n.check(err, "NewIDSource")
	rev := n.configRev(ten.ID)
	var accepts []*store.Accept
	var settles []*store.Settle
	for range events {
		a := n.accept(ten.ID, rev, e.ID)
		a.Event.ID, a.Deliveries[0].ID = ids.Next(at), ids.Next(at)
		a.Deliveries[0].EventID = a.Event.ID
		s := n.success(a.Deliveries[0])
		s.Attempt.ID = ids.Next(at)
		accepts, settles = append(accepts, a), append(settles, s)
	}
	n.commit(&store.Batch{Accepts: accepts})
	return settles
}

// partitions returns those of 2025.
func partitions(t *testing.T, dsn string) []string {
	t.Helper()
	return value[[]string](t, dsn, `
SELECT coalesce(array_agg(relname::text ORDER BY relname), '{}') FROM pg_class WHERE relkind = 'r' AND relname ~ '^(events|attempts)_2025'`)
}

func TestPruneDropsWholeDays(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	for i := range 3 {
		n.commit(&store.Batch{Settles: n.old(ten, e, first.Add(time.Duration(i)*day), 10)})
	}
	// The days are 1, 2 and 3 May; the bound lies inside the third.
	got := n.prune(time.Date(2025, 5, 3, 12, 0, 0, 0, time.UTC))
	if got.Events != 20 || got.Deliveries != 20 || got.Attempts != 20 {
		t.Errorf("pruned %+v, want 20 of each", got)
	}
	if want := []string{"attempts_20250503", "events_20250503"}; !slices.Equal(partitions(t, dsn), want) {
		t.Errorf("partitions %v, want %v", partitions(t, dsn), want)
	}
	if left := value[int](t, dsn, "SELECT count(*) FROM deliveries"); left != 10 {
		t.Errorf("%d deliveries left, want 10", left)
	}
}

func TestPruneStopsAtPendingDay(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	blocked := n.old(ten, e, first, 20)
	n.commit(&store.Batch{Settles: blocked[:19]})
	n.commit(&store.Batch{Settles: n.old(ten, e, first.Add(day), 5)})
	if got := n.prune(first.Add(10 * day)); got != (store.Pruned{}) {
		t.Errorf("pruned %+v behind a pending delivery, want nothing", got)
	}
	n.commit(&store.Batch{Settles: blocked[19:]})
	if got := n.prune(first.Add(10 * day)); got.Events != 25 || got.Deliveries != 25 {
		t.Errorf("pruned %+v, want 25 of each", got)
	}
	_, err := n.db.DeliveryByID(t.Context(), 0, blocked[19].Delivery.ID)
	if !errors.Is(err, hook.ErrNotFound) {
		t.Errorf("DeliveryByID = %v, want %v", err, hook.ErrNotFound)
	}
}

// TestPruneFinishesWhatWasInterrupted starts from a partition that an earlier
// run has detached but not dropped.
func TestPruneFinishesWhatWasInterrupted(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	n.commit(&store.Batch{Settles: n.old(ten, n.endpoint(ten), first, 3)})
	exec(t, dsn, "ALTER TABLE attempts DETACH PARTITION attempts_20250501 CONCURRENTLY")
	if got := n.prune(first.Add(10 * day)); got.Events != 3 || got.Attempts != 3 {
		t.Errorf("pruned %+v, want 3 events and 3 attempts", got)
	}
	if left := partitions(t, dsn); len(left) != 0 {
		t.Errorf("partitions %v are left", left)
	}
}

func TestOneNodePrunesAtATime(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	n.commit(&store.Batch{Settles: n.old(ten, n.endpoint(ten), first, 3)})
	other := connect(t, dsn)
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock(7004, 0)"); err != nil {
		t.Fatal(err)
	}
	if got := n.prune(first.Add(10 * day)); got != (store.Pruned{}) {
		t.Errorf("pruned %+v beside another node, want nothing", got)
	}
	// A closed connection's lock is freed only some time later.
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_unlock(7004, 0)"); err != nil {
		t.Fatal(err)
	}
	if got := n.prune(first.Add(10 * day)); got.Events != 3 {
		t.Errorf("pruned %+v, want 3 events", got)
	}
}

// missingStep prepares a step that creates deliveries of e for the events of settles.
func (n *node) missingStep(ten hook.Tenant, e hook.Endpoint, of []*store.Settle) store.Feed {
	n.t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	j := hook.ReplayJob{
		ID: n.id(), TenantID: ten.ID, EndpointID: e.ID, State: hook.ReplayQueued, PerMinute: 1, CurrentPerMinute: 1, Ramp: 1, MaxMultiple: 1,
		Filter: hook.ReplayFilter{
			Endpoint: e.ID, States: []hook.DeliveryState{hook.Dead}, Since: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
			Missing: &hook.MissingFilter{Types: []string{"*"}},
		},
		EndID: store.ReplayEnd(now), CreatedBy: "test", CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	audit := hook.Audit{ID: n.id(), TenantID: ten.ID, Actor: "test", Action: "test", Subject: "test", At: now}
	n.check(n.db.CreateReplay(n.t.Context(), j, audit), "CreateReplay")
	audit.ID = n.id()
	if started, err := n.db.StartReplay(n.t.Context(), j.ID, now, audit); err != nil || !started {
		n.t.Fatalf("StartReplay = %v, %v", started, err)
	}
	j, err := n.db.ReplayByID(n.t.Context(), 0, j.ID)
	n.check(err, "ReplayByID")
	f := store.Feed{Replay: j, Limit: 100, Now: now, PacedAt: now, Missing: store.Missing{Upto: j.EndID}}
	for _, s := range of {
		f.Missing.Events = append(f.Missing.Events, store.MissingEvent{ID: s.Delivery.EventID, Size: 7, Delivery: n.ids.Next(j.EndID.Time())})
	}
	return f
}

// TestNothingIsCreatedInADayThatLeaves: where deliveries have begun to leave, an
// event without one may have had one.
func TestNothingIsCreatedInADayThatLeaves(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	e := n.endpoint(ten)
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	leaving, staying := n.old(ten, e, first, 20), n.old(ten, e, first.Add(5*day), 1)
	n.commit(&store.Batch{Settles: slices.Concat(leaving, staying)})
	got, err := n.db.Prune(t.Context(), store.PruneStep{Now: time.Now(), Before: first.Add(2 * day), DeadAfter: time.Now(), Limit: 7})
	n.check(err, "Prune")
	if got.Deliveries != 7 || got.Events != 0 {
		t.Fatalf("pruned %+v in one step, want 7 deliveries", got)
	}
	fed, err := n.db.FeedReplay(t.Context(), n.missingStep(ten, n.endpoint(ten), slices.Concat(leaving, staying)))
	n.check(err, "FeedReplay")
	if fed.Fed != 1 || fed.Skipped != 20 {
		t.Errorf("fed %+v, want the one of a day that stays", fed)
	}
	if got := n.prune(first.Add(2 * day)); got.Events != 20 {
		t.Errorf("pruned %+v, want the 20 events", got)
	}
}

// TestPruneWaitsForWhoeverCreates: a day is not dropped under a delivery that is
// being created.
func TestPruneWaitsForWhoeverCreates(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	n := join(t, dsn, "n")
	n.own(false)
	ten := n.tenant()
	first := time.Date(2025, 5, 1, 13, 0, 0, 0, time.UTC)
	old := n.old(ten, n.endpoint(ten), first, 3)
	n.commit(&store.Batch{Settles: old})
	e := n.endpoint(ten)

	// Somebody holds what FeedReplay holds, with its row written and not committed.
	creator := connect(t, dsn)
	tx, err := creator.Begin(t.Context())
	n.check(err, "Begin")
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock_shared(7013, 0)")
	n.check(err, "lock")
	_, err = tx.Exec(t.Context(), "INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, run_due_at) VALUES ($1, $2, $3, $4, now(), now())",
		n.id(), ten.ID, old[0].Delivery.EventID, e.ID)
	n.check(err, "insert")
	pruned := make(chan store.Pruned, 1)
	go func() { pruned <- n.prune(first.Add(10 * day)) }()
	waiting := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7013 AND NOT granted"
	for deadline := time.Now().Add(time.Minute); value[int](t, dsn, waiting) == 0; time.Sleep(10 * time.Millisecond) {
		if len(pruned) > 0 || time.Now().After(deadline) {
			t.Fatal("nobody waits for the one who creates")
		}
	}
	n.check(tx.Commit(t.Context()), "Commit")
	if got := <-pruned; got.Events != 0 || got.Deliveries != 0 {
		t.Errorf("pruned %+v, want nothing of a day with a pending delivery", got)
	}
	if _, err := n.db.Event(t.Context(), ten.ID, old[0].Delivery.EventID); err != nil {
		t.Errorf("the event of the new delivery: %v", err)
	}
}
