package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// After an error the outcome of a commit is unknown: the same batch runs again,
// and it must end as if it had run once.
var rerunTests = []test{
	{"accepts that were stored are stored once", rerunAccepts},
	{"accepts that were not stored are stored now", rerunAcceptsFresh},
	{"a stored event does not become stale", rerunNotStale},
	{"settles that were written are written once", rerunSettles},
	{"settles that were not written are written now", rerunSettlesFresh},
	{"the settle of another attempt is not taken for this one", rerunOtherAttempt},
	{"an end without an attempt happens once", rerunWithoutAttempt},
	{"a settle of a cancelled delivery is written once", rerunCancelled},
}

// again commits b for the second time, with every outcome forgotten.
func (w *world) again(b *store.Batch) {
	w.t.Helper()
	for _, a := range b.Accepts {
		a.Outcome, a.EventID, a.Count = 0, 0, 0
	}
	for _, s := range b.Settles {
		s.Outcome = 0
	}
	for _, l := range b.Lanes {
		l.Outcome = 0
	}
	b.Rerun = true
	w.commit(b)
}

func rerunBatch(w *world, ten hook.Tenant, e hook.Endpoint) *store.Batch {
	w.t.Helper()
	return &store.Batch{Accepts: []*store.Accept{
		w.accept(ten, e), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 2, e), w.accept(ten),
	}}
}

func (w *world) wantRerunOutcomes(b *store.Batch) {
	w.t.Helper()
	var outcomes []store.AcceptOutcome
	var counts []int
	var events []hook.ID
	for i, a := range b.Accepts {
		outcomes = append(outcomes, a.Outcome)
		if i != 3 { // a conflict has no answer
			counts = append(counts, a.Count)
			events = append(events, a.EventID)
		}
	}
	w.same(outcomes, []store.AcceptOutcome{
		store.AcceptStored, store.AcceptStored, store.AcceptReplayed, store.AcceptConflict, store.AcceptStored,
	}, "outcomes")
	w.same(counts, []int{1, 1, 1, 0}, "counts")
	w.same(events, []hook.ID{
		b.Accepts[0].Event.ID, b.Accepts[1].Event.ID, b.Accepts[1].Event.ID, b.Accepts[4].Event.ID,
	}, "event ids")
}

func rerunAccepts(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	b := rerunBatch(w, ten, e)
	w.commit(b)
	w.wantRerunOutcomes(b)
	for range 2 {
		w.again(b)
		w.wantRerunOutcomes(b)
	}
	w.wantUsage(ten.ID, 2, 14, "after the same batch three times")
	w.same(w.counted(store.DeliveryFilter{Tenant: ten.ID}, 100), 2, "deliveries")

	// A delivery that was settled between the runs stays settled.
	w.written(w.success(b.Accepts[0].Deliveries[0]))
	w.again(b)
	w.wantRerunOutcomes(b)
	w.same(w.delivery(b.Accepts[0].Deliveries[0].ID).State, hook.Delivered, "state")
	w.wantUsage(ten.ID, 1, 7, "after a run behind a settle")
}

func rerunAcceptsFresh(w *world) {
	ten := w.tenant()
	b := rerunBatch(w, ten, w.endpoint(ten))
	w.again(b)
	w.wantRerunOutcomes(b)
	w.wantUsage(ten.ID, 2, 14, "after the batch")
}

func rerunNotStale(w *world) {
	ten := w.tenant()
	b := rerunBatch(w, ten, w.endpoint(ten))
	w.commit(b)
	w.endpoint(ten)
	w.again(b)
	w.wantRerunOutcomes(b)
}

func rerunSettles(w *world) {
	ten := w.tenant()
	d, r, x := w.one(ten), w.one(ten), w.one(ten)
	l := w.laneSave(d.EndpointID, 7)
	b := &store.Batch{
		Settles: []*store.Settle{w.success(d), w.retry(r, time.Minute), w.dead(x)},
		Lanes:   []*store.LaneSave{l},
	}
	w.commit(b)
	for range 2 {
		w.again(b)
		for _, s := range b.Settles {
			if s.Outcome != store.SettleWritten {
				w.t.Errorf("outcome = %d, want written", s.Outcome)
			}
			w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
			w.same(w.attempts(s.Delivery.ID), []hook.Attempt{*s.Attempt}, "attempts")
		}
		if l.Outcome != store.SettleWritten {
			w.t.Errorf("lane: outcome = %d, want written", l.Outcome)
		}
		w.wantUsage(ten.ID, 1, 7, "after the same batch again")
	}
}

func rerunSettlesFresh(w *world) {
	ten := w.tenant()
	s := w.success(w.one(ten))
	b := &store.Batch{Settles: []*store.Settle{s}}
	w.again(b)
	if s.Outcome != store.SettleWritten {
		w.t.Errorf("outcome = %d, want written", s.Outcome)
	}
	w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
	w.wantUsage(ten.ID, 0, 0, "after the settle")
}

func rerunOtherAttempt(w *world) {
	d := w.one(w.tenant())
	w.written(w.retry(d, time.Minute))
	other := w.success(d) // same count, another attempt
	w.again(&store.Batch{Settles: []*store.Settle{other}})
	if other.Outcome != store.SettleGone {
		w.t.Errorf("outcome = %d, want gone", other.Outcome)
	}
}

func rerunWithoutAttempt(w *world) {
	ten := w.tenant()
	s := w.expired(w.one(ten))
	b := &store.Batch{Settles: []*store.Settle{s}}
	w.commit(b)
	w.again(b)
	if s.Outcome != store.SettleWritten {
		w.t.Errorf("outcome = %d, want written", s.Outcome)
	}
	w.same(w.delivery(s.Delivery.ID), s.Delivery, "delivery")
	w.wantUsage(ten.ID, 0, 0, "after the same batch again")
}

func rerunCancelled(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	s := w.success(d)
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	b := &store.Batch{Settles: []*store.Settle{s}}
	w.commit(b)
	before := w.delivery(d.ID)
	w.again(b)
	if s.Outcome != store.SettleWritten {
		w.t.Errorf("outcome = %d, want written", s.Outcome)
	}
	w.same(w.delivery(d.ID), before, "delivery")
	w.same(len(w.attempts(d.ID)), 1, "attempts")
	w.wantUsage(ten.ID, 0, 0, "after the same batch again")
}
