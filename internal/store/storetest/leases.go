package storetest

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// leaseTests check what one node sees. What several nodes see of each other
// needs a shared database and its clock, and is tested beside that dialect.
var leaseTests = []test{
	{"a node keeps id and slot over restarts", joinAgain},
	{"two names get two slots", joinOther},
	{"a heartbeat sees the node itself", heartbeat},
	{"shards are taken once", takeOnce},
	{"a restarted node takes its shards back with new epochs", takeMine},
	{"only current epochs are renewed", renew},
	{"a released shard is free", release},
	{"an old epoch releases nothing", releaseOld},
	{"a node can leave and come back", leave},
	{"all nodes are told, gone ones too", nodesTold},
}

func nodesTold(w *world) {
	other := w.join("a-node")
	w.check(w.db.Leave(w.ctx(), w.node), "Leave")
	rows, err := w.db.Nodes(w.ctx())
	w.check(err, "Nodes")
	if len(rows) != 2 || rows[0].ID != other.ID || rows[1].ID != w.node.ID || rows[1].Version != "v1.2.3" || !rows[1].StartedAt.Equal(w.node.StartedAt) {
		w.t.Fatalf("nodes %+v, want %d and %d", rows, other.ID, w.node.ID)
	}
	if !w.db.Shared() {
		return
	}
	if left := rows[0].Left; left <= 0 || left > leaseTTL {
		w.t.Errorf("%v left of the lease of a node that lives, of %v", left, leaseTTL)
	}
	if left := rows[1].Left; left > 0 {
		w.t.Errorf("%v left of the lease of a node that left", left)
	}
}

func joinAgain(w *world) {
	w.pass(1000)
	again := w.join("node-a")
	if again.ID != w.node.ID || again.Slot != w.node.Slot {
		w.t.Errorf("joined as %d in slot %d, want %d in slot %d", again.ID, again.Slot, w.node.ID, w.node.Slot)
	}
	if again.Name != "node-a" || again.Version != "v1.2.3" || again.Addr != "127.0.0.1:8080" {
		w.t.Errorf("joined as %+v, want the node as it was given", again)
	}
}

func joinOther(w *world) {
	other := w.join("node-b")
	if other.ID == w.node.ID || other.Slot == w.node.Slot || other.Slot < 0 || other.Slot > hook.MaxSlot {
		w.t.Errorf("joined as %d in slot %d beside %d in slot %d", other.ID, other.Slot, w.node.ID, w.node.Slot)
	}
}

func heartbeat(w *world) {
	live, err := w.db.Heartbeat(w.ctx(), w.node, leaseTTL)
	w.check(err, "Heartbeat")
	if len(live) != 1 || live[0].ID != w.node.ID || live[0].Slot != w.node.Slot || live[0].Name != w.node.Name {
		w.t.Errorf("live nodes = %+v, want %+v alone", live, w.node)
	}
}

func takeOnce(w *world) {
	if len(w.epochs) != hook.Shards {
		w.t.Fatalf("%d shards taken at the start, want all %d", len(w.epochs), hook.Shards)
	}
	if got := w.take(w.node, allShards(), false); len(got) != 0 {
		w.t.Errorf("taken again: %v, want nothing", got)
	}
	leases, err := w.db.Shards(w.ctx(), leaseTTL)
	w.check(err, "Shards")
	if len(leases) != hook.Shards {
		w.t.Fatalf("%d shards, want %d", len(leases), hook.Shards)
	}
	for _, l := range leases {
		if l.Owner != w.node.ID || l.Epoch != w.epochs[l.Shard] || l.Free {
			w.t.Errorf("shard %d: owner %d, epoch %d, free %v; want %d, %d, false",
				l.Shard, l.Owner, l.Epoch, l.Free, w.node.ID, w.epochs[l.Shard])
		}
	}
}

func takeMine(w *world) {
	before := w.epochs[3]
	got := w.take(w.node, []int{3, 200}, true)
	if len(got) != 2 || w.epochs[3] <= before {
		w.t.Errorf("taken %v, want shards 3 and 200 with epochs above %d", got, before)
	}
}

func renew(w *world) {
	old := store.Held{Shard: 5, Epoch: w.epochs[5]}
	w.take(w.node, []int{5}, true)
	current := store.Held{Shard: 6, Epoch: w.epochs[6]}
	got, err := w.db.RenewShards(w.ctx(), w.node.ID, []store.Held{old, current}, leaseTTL)
	w.check(err, "RenewShards")
	w.same(got, []store.Held{current}, "still held")
}

func (w *world) lease(shard int) store.ShardLease {
	w.t.Helper()
	all, err := w.db.Shards(w.ctx(), leaseTTL)
	w.check(err, "Shards")
	for _, l := range all {
		if l.Shard == shard {
			return l
		}
	}
	w.t.Fatalf("no shard %d", shard)
	return store.ShardLease{}
}

func release(w *world) {
	held := store.Held{Shard: 9, Epoch: w.epochs[9]}
	w.check(w.db.ReleaseShards(w.ctx(), w.node.ID, []store.Held{held}), "ReleaseShards")
	if l := w.lease(9); !l.Free || l.Owner != 0 {
		w.t.Errorf("released shard: %+v, want it free", l)
	}
	got, err := w.db.RenewShards(w.ctx(), w.node.ID, []store.Held{held}, leaseTTL)
	w.check(err, "RenewShards")
	w.same(got, []store.Held{}, "still held after the release")
	if taken := w.take(w.node, []int{9}, false); len(taken) != 1 || taken[0].Epoch <= held.Epoch {
		w.t.Errorf("taken %v, want shard 9 with an epoch above %d", taken, held.Epoch)
	}
}

func releaseOld(w *world) {
	old := store.Held{Shard: 9, Epoch: w.epochs[9]}
	w.take(w.node, []int{9}, true)
	w.check(w.db.ReleaseShards(w.ctx(), w.node.ID, []store.Held{old}), "ReleaseShards")
	if l := w.lease(9); l.Free || l.Owner != w.node.ID {
		w.t.Errorf("after the release of an old epoch: %+v, want it held", l)
	}
}

func leave(w *world) {
	w.check(w.db.Leave(w.ctx(), w.node), "Leave")
	again := w.join("node-a")
	if again.ID != w.node.ID {
		w.t.Errorf("came back as %d, want %d", again.ID, w.node.ID)
	}
}
