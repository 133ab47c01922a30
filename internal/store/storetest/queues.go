package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var queueTests = []test{
	{"what waits is counted by what it waits for", queueStates},
	{"a lane that sends nothing holds what is due", queueHeld},
	{"counting and looking stop at their bounds", queueBounds},
	{"long and short queues are counted together", queueMixed},
	{"dead letters are counted by reason", deadByReason},
	{"endpoints with pending deliveries are found by shard", waitingEndpoints},
}

var wideBounds = store.QueueBounds{Count: 1000, Look: 1000}

func (w *world) queue(e hook.Endpoint, b store.QueueBounds) store.Queue {
	w.t.Helper()
	got, err := w.db.Queues(w.ctx(), []hook.ID{e.ID}, w.now, b)
	w.check(err, "Queues")
	if len(got) != 1 || got[0].EndpointID != e.ID {
		w.t.Fatalf("queues = %v", got)
	}
	q := got[0]
	if waits := q.Ready+q.Delayed+q.Retrying+q.Held > 0; waits != (q.TenantID != 0) || waits && q.TenantID != e.TenantID {
		w.t.Errorf("tenant of the queue is %d, want %d if anything waits", q.TenantID, e.TenantID)
	}
	q.TenantID = 0
	return q
}

// waiting makes deliveries of an endpoint that wait: one is ready, one is
// scheduled, one retry is due and one is not. It returns when the first of each is
// due.
func (w *world) waiting(ten hook.Tenant, e hook.Endpoint) (retried, fresh time.Time) {
	w.t.Helper()
	retried = w.now
	due, later := w.stored(ten, e), w.stored(ten, e)
	w.pass(time.Second)
	w.written(w.retry(due.Deliveries[0], time.Second), w.retry(later.Deliveries[0], time.Hour))
	w.written(w.success(w.stored(ten, e).Deliveries[0]), w.dead(w.stored(ten, e).Deliveries[0]))
	fresh = w.now
	w.stored(ten, e)
	w.store(dueAt(w.accept(ten, e), w.now.Add(time.Hour)))
	w.pass(time.Minute)
	return retried, fresh
}

func queueStates(w *world) {
	ten := w.tenant()
	e, empty := w.endpoint(ten), w.endpoint(ten)
	retried, fresh := w.waiting(ten, e)
	w.same(w.queue(e, wideBounds), store.Queue{
		EndpointID: e.ID, Ready: 1, Delayed: 1, Retrying: 2, ReadySince: fresh, RetryingSince: retried,
	}, "queue")
	w.same(w.queue(empty, wideBounds), store.Queue{EndpointID: empty.ID}, "queue of an endpoint without deliveries")
	none := hook.Endpoint{ID: w.id()}
	w.same(w.queue(none, wideBounds), store.Queue{EndpointID: none.ID}, "queue of an endpoint that is not there")
	got, err := w.db.Queues(w.ctx(), []hook.ID{e.ID, empty.ID}, w.now, wideBounds)
	w.check(err, "Queues")
	if len(got) != 2 {
		w.t.Errorf("queues of two endpoints = %v", got)
	}
	got, err = w.db.Queues(w.ctx(), nil, w.now, wideBounds)
	w.check(err, "Queues of none")
	w.same(len(got), 0, "queues of none")
}

func queueHeld(w *world) {
	for name, block := range map[string]func(e hook.Endpoint){
		"open": func(e hook.Endpoint) {
			save := w.laneSave(e.ID, 0)
			save.Checkpoint.Open, save.Checkpoint.OpenedAt, save.Checkpoint.HoldUntil = true, w.now, time.Time{}
			w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
		},
		"told to wait": func(e hook.Endpoint) {
			save := w.laneSave(e.ID, 0)
			save.Checkpoint.Open, save.Checkpoint.HoldUntil = false, w.now.Add(time.Hour)
			w.commit(&store.Batch{Lanes: []*store.LaneSave{save}})
		},
		"paused": func(e hook.Endpoint) {
			e.State = hook.Paused
			_, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(e.TenantID, "endpoint.pause"))
			w.check(err, "UpdateEndpoint")
		},
	} {
		ten := w.tenant()
		e := w.endpoint(ten)
		retried, fresh := w.waiting(ten, e)
		block(e)
		w.same(w.queue(e, wideBounds), store.Queue{
			EndpointID: e.ID, Held: 2, Delayed: 1, Retrying: 1, HeldSince: fresh, RetryingSince: retried,
		}, "queue of a lane that is "+name)
	}
}

func queueBounds(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	var settles []*store.Settle
	for _, a := range w.accepts(3, ten, e) {
		w.store(a)
		settles = append(settles, w.retry(a.Deliveries[0], time.Second))
	}
	w.written(settles...)
	w.pass(time.Minute)
	got := w.queue(e, store.QueueBounds{Count: 1000, Look: 2})
	if got.Ready != 1 || got.Retrying != 2 {
		w.t.Errorf("of three, two looked at: %+v", got)
	}
	got = w.queue(e, store.QueueBounds{Count: 2, Look: 2})
	if got.Ready != 0 || got.Retrying != 2 {
		w.t.Errorf("of three, two counted: %+v", got)
	}
}

func deadByReason(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	count := func(limit int) map[hook.EndReason]int64 {
		got, err := w.db.DeadLetters(w.ctx(), limit)
		w.check(err, "DeadLetters")
		return got
	}
	w.same(count(10), map[hook.EndReason]int64{}, "dead letters of an empty store")
	w.stored(ten, e)
	w.written(w.dead(w.stored(ten, e).Deliveries[0]), w.dead(w.one(w.tenant())),
		w.expired(w.stored(ten, e).Deliveries[0]), w.success(w.stored(ten, e).Deliveries[0]))
	w.same(count(10), map[hook.EndReason]int64{hook.DeadPermanent: 2, hook.DeadExpired: 1}, "dead letters")
	sum := int64(0)
	for _, n := range count(2) {
		sum += n
	}
	w.same(sum, int64(2), "dead letters up to two")
}

// queueMixed counts endpoints some of which have more than one walk sees.
func queueMixed(w *world) {
	ten := w.tenant()
	var ids []hook.ID
	want := map[hook.ID]int64{}
	for _, n := range []int{1, 0, 7, 2, 5, 6, 0, 1} {
		e := w.endpoint(ten)
		if n > 0 {
			w.store(w.accepts(n, ten, e)...)
		}
		ids = append([]hook.ID{e.ID}, ids...) // in any order
		want[e.ID] = int64(n)
	}
	for _, look := range []int{1, 2, 5, 6, 100} {
		got, err := w.db.Queues(w.ctx(), ids, w.now, store.QueueBounds{Count: 100, Look: look})
		w.check(err, "Queues")
		found := map[hook.ID]int64{}
		for _, q := range got {
			found[q.EndpointID] = q.Ready
		}
		w.same(found, want, "queues")
	}
}

func waitingEndpoints(w *world) {
	ten := w.tenant()
	busy, done := w.endpoint(ten), w.endpoint(ten)
	w.endpoint(ten)
	w.stored(ten, busy)
	w.written(w.success(w.stored(ten, done).Deliveries[0]))
	shard := hook.ShardOf(busy.ID)
	for _, c := range []struct {
		shards []int
		want   int
	}{{[]int{shard}, 1}, {[]int{(shard + 1) % hook.Shards}, 0}, {nil, 0}} {
		got, err := w.db.WaitingEndpoints(w.ctx(), c.shards)
		w.check(err, "WaitingEndpoints")
		if len(got) != c.want || c.want == 1 && got[0] != busy.ID {
			w.t.Errorf("endpoints of shards %v: %v", c.shards, got)
		}
	}
}
