package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// A person asks for a manual send while a request of the delivery is under way.
var manualMeanwhileTests = []test{
	{"a manual request outlives an attempt that fails", manualBeforeRetry},
	{"a manual request outlives an attempt that ends the delivery", manualBeforeEnd},
	{"an attempt that succeeds is what was asked for", manualBeforeSuccess},
	{"a request during a manual send is one more send", manualAgain},
	{"nothing ends over a manual request", manualBeforeExpiry},
	{"a replay counts the end that a manual request postpones", manualInReplay},
	{"settled again by a batch that runs twice, the manual request stands once", manualRerun},
}

func manualBeforeRetry(w *world) {
	ten := w.tenant()
	s := w.retry(w.one(ten), time.Hour) // on its way
	w.pass(time.Second)
	request := w.manual(s.Delivery)
	w.written(s)

	want := s.Delivery
	want.DueAt, want.Restore = request.DueAt, &hook.Restore{State: hook.Pending, DueAt: s.Delivery.DueAt}
	w.same(w.delivery(want.ID), want, "delivery that waits for its manual send")
	due, err := w.db.ReadAhead(w.ctx(), want.EndpointID, w.now, 5)
	w.check(err, "ReadAhead")
	w.same(due, []hook.Delivery{want}, "read ahead")
	w.wantUsage(ten.ID, 1, 7, "while it waits")

	w.pass(time.Second)
	failed := w.failedManual(want)
	w.written(failed)
	w.same(w.delivery(want.ID).DueAt, s.Delivery.DueAt, "due after the manual send has failed, too")
	if got := w.delivery(want.ID).Restore; got != nil {
		w.t.Errorf("restore = %+v, want none", got)
	}
}

// failedManual prepares the settle of a manual send that fails.
func (w *world) failedManual(d hook.Delivery) *store.Settle {
	s := w.attempt(d, hook.Down, hook.ServerError, 500)
	s.Attempt.Kind = hook.Manual
	was := d.Restore
	s.Delivery.State, s.Delivery.DueAt, s.Delivery.Reason, s.Delivery.Restore = was.State, was.DueAt, was.Reason, nil
	s.Restored = was.State != hook.Pending
	return s
}

func manualBeforeEnd(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.pass(time.Second)
	request := w.manual(s.Delivery)
	w.written(s)
	want := s.Delivery
	want.State, want.Reason, want.DueAt = hook.Pending, 0, request.DueAt
	want.Restore = &hook.Restore{State: hook.Dead, DueAt: s.Delivery.DueAt, Reason: hook.DeadPermanent}
	w.same(w.delivery(want.ID), want, "delivery that waits for its manual send")
	w.wantUsage(ten.ID, 1, 7, "while it waits")

	w.pass(time.Second)
	failed := w.failedManual(want)
	w.written(failed)
	w.same(w.delivery(want.ID), failed.Delivery, "delivery after the manual send has failed, too")
	w.wantUsage(ten.ID, 0, 0, "after the end")
}

func manualBeforeSuccess(w *world) {
	ten := w.tenant()
	first := w.one(ten)
	later := w.one(ten)
	w.written(w.retry(later, 0))
	later = w.delivery(later.ID)
	settles := []*store.Settle{w.success(first), w.success(later)}
	w.pass(time.Second)
	for _, s := range settles {
		w.manual(s.Delivery)
	}
	w.written(settles...)
	for _, s := range settles {
		if got := w.delivery(s.Delivery.ID); got.State != hook.Delivered || got.Restore != nil {
			w.t.Errorf("state %v, restore %+v, want delivered and no request left", got.State, got.Restore)
		}
	}
	w.wantUsage(ten.ID, 0, 0, "after success")
}

func manualAgain(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	w.pass(time.Second)
	failed := w.failedManual(w.manual(s.Delivery).Delivery)
	w.pass(time.Second)
	again := w.manual(s.Delivery)
	w.written(failed)
	got := w.delivery(s.Delivery.ID)
	w.same(got.State, hook.Pending, "state")
	w.same(got.DueAt, again.DueAt, "due")
	w.same(got.Restore, &hook.Restore{State: hook.Dead, DueAt: s.Delivery.DueAt, Reason: hook.DeadPermanent}, "restore")
	w.wantUsage(ten.ID, 1, 7, "while it waits")
	w.written(w.failedManual(got))
	w.same(w.delivery(s.Delivery.ID).State, hook.Dead, "state after the second send")
	w.wantUsage(ten.ID, 0, 0, "after the second send")
}

func manualBeforeExpiry(w *world) {
	ten := w.tenant()
	s := w.expired(w.one(ten))
	w.pass(time.Second)
	request := w.manual(s.Delivery)
	if got := w.settle(s); got != store.SettleGone {
		w.t.Errorf("outcome %d, want gone", got)
	}
	w.same(w.delivery(s.Delivery.ID), request.Delivery, "delivery")
}

func manualInReplay(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 2)
	ends, goesOn := w.dead(d[0]), w.retry(d[1], time.Minute)
	w.pass(time.Second)
	w.manual(d[0])
	w.manual(d[1])
	w.written(ends, goesOn)
	want := hook.ReplayCounts{Fed: 2, Failed: 1, Answers: 2, Errors: 1, Refused: 1}
	w.wantCounts(j, want, "after the results")
	w.same(w.delivery(d[0].ID).ReplayID, hook.ID(0), "replay of the one that has ended")
	w.same(w.delivery(d[1].ID).ReplayID, j.ID, "replay of the other one")
	w.written(w.success(w.delivery(d[0].ID)))
	w.wantCounts(j, want, "after the manual send")
}

func manualRerun(w *world) {
	ten := w.tenant()
	s := w.retry(w.one(ten), time.Hour)
	w.pass(time.Second)
	w.manual(s.Delivery)
	b := &store.Batch{Settles: []*store.Settle{s}}
	w.commit(b)
	before := w.delivery(s.Delivery.ID)
	w.again(b)
	if s.Outcome != store.SettleWritten {
		w.t.Errorf("outcome %d, want written", s.Outcome)
	}
	w.same(w.delivery(s.Delivery.ID), before, "delivery")
	w.same(len(w.attempts(s.Delivery.ID)), 1, "attempts")
}
