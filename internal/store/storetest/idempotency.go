package storetest

import (
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var idempotencyTests = []test{
	{"the same content again gets the first answer", keyReplayed},
	{"other content under the same key is a conflict", keyConflict},
	{"keys of two tenants do not meet", keyPerTenant},
	{"an expired key is free again", keyExpires},
	{"equal keys in one batch make one event", keyTwiceInBatch},
	{"a repetition is answered even when the endpoints changed", keyReplayBeatsStale},
	{"a hundred concurrent equal posts make one event", keyConcurrent},
}

// keyed prepares an accept under a key that lives for an hour.
func (w *world) keyed(ten hook.Tenant, key string, content byte, targets ...hook.Endpoint) *store.Accept {
	w.t.Helper()
	a := w.accept(ten, targets...)
	a.Key, a.KeyHash, a.KeyExpires = key, [32]byte{content}, w.now.Add(time.Hour)
	return a
}

func (w *world) wantReplay(a, of *store.Accept) {
	w.t.Helper()
	if a.Outcome != store.AcceptReplayed || a.EventID != of.Event.ID || a.Count != len(of.Deliveries) {
		w.t.Errorf("outcome %d, event %d, %d deliveries; want replayed, %d, %d",
			a.Outcome, a.EventID, a.Count, of.Event.ID, len(of.Deliveries))
	}
	_, err := w.db.Event(w.ctx(), a.Event.TenantID, a.Event.ID)
	w.wantErr(err, hook.ErrNotFound, "Event of the repetition")
}

func keyReplayed(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 3)
	first := w.keyed(ten, "k", 1, targets...)
	w.store(first)
	again := w.keyed(ten, "k", 1, targets[:1]...)
	w.commit(&store.Batch{Accepts: []*store.Accept{again}})
	w.wantReplay(again, first)

	got, err := w.db.EventOfKey(w.ctx(), ten.ID, "k", w.now)
	w.check(err, "EventOfKey")
	w.same(got, first.Event.ID, "event of the key")
	_, err = w.db.EventOfKey(w.ctx(), ten.ID, "k", w.now.Add(time.Hour))
	w.wantErr(err, hook.ErrNotFound, "EventOfKey after it expired")
	w.wantUsage(ten.ID, 3, 21, "after a repetition")
}

func keyConflict(w *world) {
	ten := w.tenant()
	w.store(w.keyed(ten, "k", 1))
	other := w.keyed(ten, "k", 2)
	w.commit(&store.Batch{Accepts: []*store.Accept{other}})
	if other.Outcome != store.AcceptConflict {
		w.t.Errorf("outcome = %d, want conflict", other.Outcome)
	}
	_, err := w.db.Event(w.ctx(), ten.ID, other.Event.ID)
	w.wantErr(err, hook.ErrNotFound, "Event of the conflict")
}

func keyPerTenant(w *world) {
	a, b := w.tenant(), w.tenant()
	w.store(w.keyed(a, "k", 1), w.keyed(b, "k", 2))
	for _, ten := range []hook.Tenant{a, b} {
		id, err := w.db.EventOfKey(w.ctx(), ten.ID, "k", w.now)
		w.check(err, "EventOfKey")
		_, err = w.db.Event(w.ctx(), ten.ID, id)
		w.check(err, "Event under its own tenant")
	}
}

func keyExpires(w *world) {
	ten := w.tenant()
	w.store(w.keyed(ten, "k", 1))
	w.pass(time.Hour)
	other := w.keyed(ten, "k", 2)
	w.store(other)
	got, err := w.db.EventOfKey(w.ctx(), ten.ID, "k", w.now)
	w.check(err, "EventOfKey")
	w.same(got, other.Event.ID, "event of the key")
}

func keyTwiceInBatch(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	first, again, other := w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 2, e)
	plain, second := w.accept(ten, e), w.keyed(ten, "l", 1, e)
	w.commit(&store.Batch{Accepts: []*store.Accept{plain, first, again, other, second}})
	w.same([]store.AcceptOutcome{plain.Outcome, first.Outcome, again.Outcome, other.Outcome, second.Outcome},
		[]store.AcceptOutcome{store.AcceptStored, store.AcceptStored, store.AcceptReplayed, store.AcceptConflict, store.AcceptStored},
		"outcomes")
	w.wantReplay(again, first)
	w.wantUsage(ten.ID, 3, 21, "after three events")
}

func keyReplayBeatsStale(w *world) {
	ten := w.tenant()
	first := w.keyed(ten, "k", 1)
	w.store(first)
	again, other, fresh := w.keyed(ten, "k", 1), w.keyed(ten, "k", 2), w.keyed(ten, "l", 1)
	w.endpoint(ten)
	w.commit(&store.Batch{Accepts: []*store.Accept{again, other, fresh}})
	w.wantReplay(again, first)
	w.same([]store.AcceptOutcome{other.Outcome, fresh.Outcome},
		[]store.AcceptOutcome{store.AcceptConflict, store.AcceptStale}, "outcomes")
}

// keyConcurrent commits from several goroutines, as several nodes do.
func keyConcurrent(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	const batches, perBatch = 20, 5
	all := make([]*store.Accept, 0, batches*perBatch)
	for range batches * perBatch {
		all = append(all, w.keyed(ten, "k", 1, e))
	}
	var wg sync.WaitGroup
	errs := make([]error, batches)
	for i := range batches {
		wg.Go(func() {
			b := &store.Batch{Node: w.node.ID, Now: w.now, Accepts: all[i*perBatch : (i+1)*perBatch]}
			errs[i] = w.db.Commit(w.ctx(), b)
		})
	}
	wg.Wait()
	for _, err := range errs {
		w.check(err, "Commit")
	}

	stored := 0
	for _, a := range all {
		if a.Outcome == store.AcceptStored {
			stored++
		}
		if a.EventID != all[0].EventID || a.Count != 1 {
			w.t.Errorf("answer = event %d with %d deliveries, want %d with 1", a.EventID, a.Count, all[0].EventID)
		}
	}
	events, err := w.db.ListEvents(w.ctx(), store.EventFilter{Tenant: ten.ID}, store.Page{Limit: 10})
	w.check(err, "ListEvents")
	if stored != 1 || len(events) != 1 {
		w.t.Errorf("%d accepts stored, %d events; want one of each", stored, len(events))
	}
}
