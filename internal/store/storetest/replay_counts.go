package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var replayCountTests = []test{
	{"every result counts once", countResults},
	{"several replays share a batch", countSeveral},
	{"a batch that runs again counts once", countRerun},
	{"a settle that was not written counts nothing", countUnwritten},
	{"what a person ends has failed", countCancelled},
	{"what goes with its endpoint has failed", countDeleted},
	{"a manual send after the end counts nothing", countManualAfter},
	{"a manual send before the end counts it", countManualBefore},
	{"a result of an earlier run comes too late", countEarlierRun},
}

// fedLetters returns n deliveries that a replay has just fed.
func (w *world) fedLetters(ten hook.Tenant, e hook.Endpoint, n int) (hook.ReplayJob, []hook.Delivery) {
	w.t.Helper()
	letters := w.deadLetters(ten, e, n)
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: onlyDead})
	w.feed(j.ID, n+1)
	for i, d := range letters {
		letters[i] = w.delivery(d.ID)
	}
	return w.job(j.ID), letters
}

func (w *world) wantCounts(j hook.ReplayJob, want hook.ReplayCounts, when string) {
	w.t.Helper()
	w.same(w.job(j.ID).Counts, want, "counts "+when)
}

func countResults(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	j, d := w.fedLetters(ten, e, 8)
	untouched, _ := w.fedLetters(ten, w.endpoint(ten), 1)
	throttled := w.retry(d[3], time.Minute)
	throttled.Attempt.Class = hook.Throttle
	retryable := w.retry(d[4], time.Minute)
	retryable.Attempt.Class = hook.Retryable
	local := w.retry(d[5], time.Minute)
	local.Attempt.Class = hook.Local
	exhausted := w.dead(d[7])
	exhausted.Attempt.Class = hook.Limited
	plain := w.success(w.one(ten))
	w.written(w.success(d[0]), w.dead(d[1]), w.retry(d[2], time.Minute), throttled, retryable, local, w.expired(d[6]), exhausted, plain)
	want := hook.ReplayCounts{Fed: 8, Delivered: 1, Failed: 3, Answers: 6, Errors: 4, Refused: 1}
	w.wantCounts(j, want, "after a mixed batch")
	if got := w.job(j.ID).Counts.Outstanding(); got != 4 {
		w.t.Errorf("%d are outstanding, want 4", got)
	}

	w.written(w.success(w.delivery(d[2].ID)))
	want.Delivered, want.Answers = 2, 7
	w.wantCounts(j, want, "after the retry of one")
	w.wantCounts(untouched, hook.ReplayCounts{Fed: 1}, "of another replay")
	if now := w.job(j.ID); now.Version != j.Version {
		w.t.Errorf("counting made version %d of %d", now.Version, j.Version)
	}
}

func countSeveral(w *world) {
	ten := w.tenant()
	a, first := w.fedLetters(ten, w.endpoint(ten), 2)
	b, second := w.fedLetters(ten, w.endpoint(ten), 2)
	w.written(w.success(second[0]), w.success(first[0]), w.dead(second[1]), w.retry(first[1], time.Minute))
	w.wantCounts(a, hook.ReplayCounts{Fed: 2, Delivered: 1, Answers: 2, Errors: 1}, "of the first")
	w.wantCounts(b, hook.ReplayCounts{Fed: 2, Delivered: 1, Failed: 1, Answers: 2, Refused: 1}, "of the second")
}

func countRerun(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 4)
	b := &store.Batch{Settles: []*store.Settle{w.success(d[0]), w.retry(d[1], time.Minute), w.dead(d[2]), w.expired(d[3])}}
	w.commit(b)
	want := hook.ReplayCounts{Fed: 4, Delivered: 1, Failed: 2, Answers: 3, Errors: 1, Refused: 1}
	w.wantCounts(j, want, "after the batch")
	for range 2 {
		w.again(b)
		w.wantCounts(j, want, "after the same batch again")
	}
}

func countUnwritten(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 2)
	fenced, gone := w.success(d[0]), w.success(d[1])
	fenced.Epoch--
	gone.Prev++
	w.commit(&store.Batch{Settles: []*store.Settle{fenced, gone}})
	w.same([]store.SettleOutcome{fenced.Outcome, gone.Outcome}, []store.SettleOutcome{store.SettleFenced, store.SettleGone}, "outcomes")
	w.wantCounts(j, hook.ReplayCounts{Fed: 2}, "after refused settles")
}

func countCancelled(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 2)
	inFlight := w.success(d[0]) // sent before the person cancelled
	for _, x := range d {
		_, err := w.db.CancelDelivery(w.ctx(), ten.ID, x.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
		w.check(err, "CancelDelivery")
	}
	w.wantCounts(j, hook.ReplayCounts{Fed: 2, Failed: 2}, "after the cancellation")
	w.written(inFlight)
	w.wantCounts(j, hook.ReplayCounts{Fed: 2, Failed: 2, Answers: 1}, "after a late answer")
}

func countDeleted(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	j, d := w.fedLetters(ten, e, 3)
	w.stored(ten, e)
	w.written(w.success(d[0]))
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	w.wantCounts(j, hook.ReplayCounts{Fed: 3, Delivered: 1, Failed: 2, Answers: 1}, "after the deletion")
	w.wantUsage(ten.ID, 0, 0, "after the deletion")
}

func countManualAfter(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 1)
	w.written(w.dead(d[0]))
	want := hook.ReplayCounts{Fed: 1, Failed: 1, Answers: 1, Refused: 1}
	w.wantCounts(j, want, "after the end")
	w.manual(d[0])
	w.written(w.success(w.delivery(d[0].ID)))
	w.wantCounts(j, want, "after a manual send")
}

func countManualBefore(w *world) {
	ten := w.tenant()
	j, d := w.fedLetters(ten, w.endpoint(ten), 1)
	w.manual(d[0])
	w.written(w.success(w.delivery(d[0].ID)))
	w.wantCounts(j, hook.ReplayCounts{Fed: 1, Delivered: 1, Answers: 1}, "after a manual send")
}

// countEarlierRun cancels a delivery with a request in flight and replays it
// before the answer is there.
func countEarlierRun(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	d := w.delivery(w.stored(ten, e).Deliveries[0].ID)
	late, expiry := w.retry(d, time.Minute), w.expired(d)
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	w.pass(time.Second)
	j := w.running(ten, hook.ReplayFilter{Endpoint: e.ID, States: endedStates})
	w.same(w.feed(j.ID, 5).Fed, 1, "fed")
	fresh := w.delivery(d.ID)

	w.commit(&store.Batch{Settles: []*store.Settle{late, expiry}})
	w.same([]store.SettleOutcome{late.Outcome, expiry.Outcome}, []store.SettleOutcome{store.SettleGone, store.SettleGone}, "outcomes")
	w.same(w.delivery(d.ID), fresh, "delivery")
	w.wantUsage(ten.ID, 1, 7, "after the late result")
	w.written(w.success(fresh))
	w.wantCounts(j, hook.ReplayCounts{Fed: 1, Delivered: 1, Answers: 1}, "after the run")
}
