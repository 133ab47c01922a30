package storetest

import (
	"errors"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// A dialect may remove whole days or single events, so the tests ask only for
// what both promise: what must leave is alone on its day, and what must stay
// stays.
var pruneTests = []test{
	{"old events leave with all that belongs to them", pruneOld},
	{"pending deliveries never leave", prunePending},
	{"the recently dead stay", pruneDead},
	{"expired keys and secrets leave", pruneKeys},
	{"old audit records leave", pruneAudit},
	{"an empty store is done at once", pruneNothing},
}

const day = 24 * time.Hour

// prune runs steps until nothing is left to do and sums them up.
func (w *world) prune(before, deadAfter time.Time) (sum store.Pruned) {
	w.t.Helper()
	for range 1000 {
		got, err := w.db.Prune(w.ctx(), store.PruneStep{Now: w.now, Before: before, DeadAfter: deadAfter, Limit: 3})
		w.check(err, "Prune")
		sum.Events += got.Events
		sum.Deliveries += got.Deliveries
		sum.Attempts += got.Attempts
		sum.Keys += got.Keys
		if got.Done {
			sum.Done = true
			return sum
		}
	}
	w.t.Fatal("Prune is never done")
	return sum
}

// nextDay moves on to the next day and gets the store ready for it.
func (w *world) nextDay() {
	w.t.Helper()
	w.pass(day)
	w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
}

func (w *world) gone(id hook.ID) bool {
	w.t.Helper()
	_, err := w.db.Event(w.ctx(), 0, id)
	if err != nil && !errors.Is(err, hook.ErrNotFound) {
		w.t.Fatalf("Event: %v", err)
	}
	return err != nil
}

func pruneOld(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 2)
	var old []*store.Accept
	for range 7 {
		a := w.stored(ten, targets...)
		w.written(w.success(a.Deliveries[0]), w.retry(a.Deliveries[1], time.Minute))
		w.written(w.dead(w.delivery(a.Deliveries[1].ID)))
		old = append(old, a)
	}
	bare := w.stored(ten)
	w.nextDay()
	newer := w.stored(ten, targets...)
	w.written(w.success(newer.Deliveries[0]), w.success(newer.Deliveries[1]))
	w.pass(10 * day)

	midnight := newer.Event.CreatedAt.Truncate(day)
	got := w.prune(midnight, w.now)
	if got.Events != 8 || got.Deliveries != 14 {
		w.t.Errorf("pruned %+v, want 8 events and 14 deliveries", got)
	}
	for _, a := range append(old, bare) {
		if !w.gone(a.Event.ID) {
			w.t.Errorf("event %d is still there", a.Event.ID)
		}
	}
	for _, d := range old[0].Deliveries {
		_, err := w.db.DeliveryByID(w.ctx(), 0, d.ID)
		w.wantErr(err, hook.ErrNotFound, "DeliveryByID")
		if attempts, err := w.db.AttemptsOf(w.ctx(), 0, d.ID); err == nil && len(attempts) > 0 {
			w.t.Errorf("attempts of delivery %d are still there", d.ID)
		}
	}
	if w.gone(newer.Event.ID) || len(w.attempts(newer.Deliveries[0].ID)) != 1 {
		w.t.Error("a newer event or its attempt left")
	}
	w.same(w.prune(midnight, w.now), store.Pruned{Done: true}, "second run")
}

func prunePending(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 2)
	a := w.stored(ten, targets...)
	w.written(w.success(a.Deliveries[0]), w.retry(a.Deliveries[1], 90*day))
	w.nextDay()
	w.pass(60 * day)
	w.prune(w.now.Truncate(day), w.now)
	if w.gone(a.Event.ID) {
		w.t.Fatal("an event with a pending delivery left")
	}
	w.same(len(w.attempts(a.Deliveries[0].ID)), 1, "attempts of its delivered sibling")
	w.wantUsage(ten.ID, 1, 7, "after pruning")

	w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
	w.written(w.success(w.delivery(a.Deliveries[1].ID)))
	w.prune(w.now.Truncate(day), w.now)
	if !w.gone(a.Event.ID) {
		w.t.Error("the event stayed after its last delivery had ended")
	}
}

func pruneDead(w *world) {
	ten := w.tenant()
	a := w.stored(ten, w.endpoint(ten))
	w.nextDay()
	w.pass(40 * day)
	w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
	w.written(w.dead(a.Deliveries[0]))
	died := w.now
	w.pass(time.Hour)
	w.prune(w.now.Truncate(day), died.Add(-time.Microsecond))
	if w.gone(a.Event.ID) {
		w.t.Fatal("an event that died recently left")
	}
	w.prune(w.now.Truncate(day), died.Add(time.Microsecond))
	if !w.gone(a.Event.ID) {
		w.t.Error("an event that died long ago stayed")
	}
}

func pruneKeys(w *world) {
	ten := w.tenant()
	var batch []*store.Accept
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		batch = append(batch, w.keyed(ten, key, 1))
	}
	batch[4].KeyExpires = w.now.Add(48 * time.Hour)
	w.store(batch...)
	e := w.endpoint(ten)
	w.check(w.rotate(w.secret(e), 0), "RotateSecret")
	w.check(w.rotate(w.secret(e), time.Hour), "RotateSecret")

	w.pass(2 * time.Hour)
	got := w.prune(start.Add(-day), start)
	w.same(got, store.Pruned{Keys: 4, Done: true}, "pruned")
	w.same(w.expiries(e), []time.Time{{}}, "secrets left")
	id, err := w.db.EventOfKey(w.ctx(), ten.ID, "e", w.now)
	w.check(err, "EventOfKey")
	w.same(id, batch[4].Event.ID, "event of the key that lives")
}

func pruneAudit(w *world) {
	for range 10 {
		w.check(w.db.WriteAudit(w.ctx(), w.audit(0, "old")), "WriteAudit")
	}
	w.pass(time.Hour)
	since := w.now
	newer := w.audit(0, "new")
	w.check(w.db.WriteAudit(w.ctx(), newer), "WriteAudit")
	w.pass(time.Hour)
	step := store.PruneStep{Now: w.now, Before: start.Add(-day), DeadAfter: w.now, Limit: 6}
	got, err := w.db.Prune(w.ctx(), step)
	w.check(err, "Prune")
	w.same(got, store.Pruned{Done: true}, "pruned without an age")
	step.AuditBefore = since
	var audit []int64
	for range 3 {
		got, err := w.db.Prune(w.ctx(), step)
		w.check(err, "Prune")
		audit = append(audit, got.Audit)
	}
	w.same(audit, []int64{6, 4, 0}, "audit records removed in each step")
	if err := w.db.WriteAudit(w.ctx(), newer); err == nil {
		w.t.Error("a record that is younger has left")
	}
}

func pruneNothing(w *world) {
	got, err := w.db.Prune(w.ctx(), store.PruneStep{Now: w.now, Before: w.now, DeadAfter: w.now, Limit: 10})
	w.check(err, "Prune")
	w.same(got, store.Pruned{Done: true}, "pruned")
}
