package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var fenceTests = []test{
	{"an old epoch writes nothing", fenceOldEpoch},
	{"an old owner writes nothing", fenceOldOwner},
	{"a released shard takes no settle", fenceReleased},
	{"a fenced settle leaves its neighbours alone", fenceMixed},
	{"an accept needs no shard", fenceAccept},
}

func (w *world) laneSave(e hook.ID, limit float64) *store.LaneSave {
	shard := hook.ShardOf(e)
	return &store.LaneSave{
		Endpoint: e, Tenant: w.destination(e).Endpoint.TenantID, Shard: shard, Epoch: w.epochs[shard],
		Checkpoint: lane.Checkpoint{Limit: limit, SlowStart: true},
	}
}

// wantFenced commits a settle and a lane save and checks that neither left a
// trace.
func (w *world) wantFenced(node hook.ID, s *store.Settle, l *store.LaneSave) {
	w.t.Helper()
	before, saved := w.delivery(s.Delivery.ID), w.destination(l.Endpoint).Lane
	w.commit(&store.Batch{Node: node, Settles: []*store.Settle{s}, Lanes: []*store.LaneSave{l}})
	if s.Outcome != store.SettleFenced || l.Outcome != store.SettleFenced {
		w.t.Errorf("outcomes of settle and lane %d, %d; want fenced", s.Outcome, l.Outcome)
	}
	w.same(w.delivery(s.Delivery.ID), before, "delivery after a fenced settle")
	w.same(w.attempts(s.Delivery.ID), []hook.Attempt{}, "attempts after a fenced settle")
	w.same(w.destination(l.Endpoint).Lane, saved, "lane after a fenced save")
}

func fenceOldEpoch(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	first := w.laneSave(d.EndpointID, 3)
	w.commit(&store.Batch{Lanes: []*store.LaneSave{first}})
	s, l, x := w.success(d), w.laneSave(d.EndpointID, 9), w.expired(d)
	w.take(w.node, []int{s.Shard}, true)
	w.wantFenced(w.node.ID, s, l)
	if got := w.settle(x); got != store.SettleFenced {
		w.t.Errorf("end without an attempt: outcome %d, want fenced", got)
	}
	w.wantUsage(ten.ID, 1, 7, "after fenced settles")
	w.written(w.success(d))
}

func fenceOldOwner(w *world) {
	d := w.one(w.tenant())
	s, l := w.success(d), w.laneSave(d.EndpointID, 9)
	other := w.handOver(s.Shard)
	w.wantFenced(w.node.ID, s, l)

	// Not even with the epoch of the new owner.
	s, l = w.success(d), w.laneSave(d.EndpointID, 9)
	s.Epoch, l.Epoch = other.Epoch, other.Epoch
	w.wantFenced(w.node.ID, s, l)
}

// handOver gives one shard to another node.
func (w *world) handOver(shard int) store.Held {
	w.t.Helper()
	other := w.join("node-b")
	w.check(w.db.ReleaseShards(w.ctx(), w.node.ID, []store.Held{{Shard: shard, Epoch: w.epochs[shard]}}), "ReleaseShards")
	held := w.take(other, []int{shard}, false)
	if len(held) != 1 || held[0].Shard != shard || held[0].Epoch <= w.epochs[shard] {
		w.t.Fatalf("taken %v, want shard %d with an epoch above %d", held, shard, w.epochs[shard])
	}
	return held[0]
}

func fenceReleased(w *world) {
	d := w.one(w.tenant())
	s, l := w.success(d), w.laneSave(d.EndpointID, 9)
	w.check(w.db.ReleaseShards(w.ctx(), w.node.ID, []store.Held{{Shard: s.Shard, Epoch: s.Epoch}}), "ReleaseShards")
	w.wantFenced(w.node.ID, s, l)
}

func fenceMixed(w *world) {
	ten := w.tenant()
	a, b := w.one(ten), w.one(ten)
	fenced, fine := w.success(a), w.success(b)
	fenced.Epoch--
	w.commit(&store.Batch{Settles: []*store.Settle{fenced, fine}})
	w.same([]store.SettleOutcome{fenced.Outcome, fine.Outcome},
		[]store.SettleOutcome{store.SettleFenced, store.SettleWritten}, "outcomes")
	w.wantUsage(ten.ID, 1, 7, "after one of two")
}

func fenceAccept(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	w.handOver(hook.ShardOf(e.ID))
	w.pass(time.Second)
	w.stored(ten, e)
}
