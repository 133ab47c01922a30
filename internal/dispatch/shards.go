package dispatch

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch/lease"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// shardLanes connects the leases with the loops.
type shardLanes struct {
	d *Dispatcher

	// What follows belongs to the goroutine that keeps the leases.
	polled, swept time.Time
}

var _ lease.Lanes = (*shardLanes)(nil)

func (n *shardLanes) loopOf(h store.Held) *loop { return n.d.loops[h.Shard%len(n.d.loops)] }

// Acquire implements lease.Lanes.
func (n *shardLanes) Acquire(h store.Held) {
	l := n.loopOf(h)
	l.post(func() { l.acquire(h) })
}

// Release implements lease.Lanes.
func (n *shardLanes) Release(h store.Held, drained func()) {
	l := n.loopOf(h)
	l.post(func() { l.release(h, drained) })
}

// Lose implements lease.Lanes.
func (n *shardLanes) Lose(h store.Held) {
	l := n.loopOf(h)
	l.post(func() { l.lose(h) })
}

// FindWork implements lease.Lanes.
func (n *shardLanes) FindWork(shards []int) { n.d.work.Go(func() { n.findWork(shards) }) }

// MayStartAgain implements lease.Lanes.
func (n *shardLanes) MayStartAgain() {
	for _, l := range n.d.loops {
		l.post(l.touchAll)
	}
}

// Released implements lease.Lanes.
func (n *shardLanes) Released() { n.d.hinter.tell(store.HintShards, n.d.cfg.Node.ID) }

// Joined implements lease.Lanes.
func (n *shardLanes) Joined() { n.tell(NodeNews{Node: n.d.cfg.Node, Type: hook.NodeJoined}) }

// Left implements lease.Lanes.
func (n *shardLanes) Left(node hook.Node) { n.tell(NodeNews{Node: node, Type: hook.NodeLeft}) }

// LeaseLost implements lease.Lanes.
func (n *shardLanes) LeaseLost(shards int) {
	n.tell(NodeNews{Node: n.d.cfg.Node, Type: hook.NodeLeaseLost, Shards: shards})
}

func (n *shardLanes) tell(news NodeNews) { n.d.cfg.Observer.NodeNews(news) }

// acquire makes the loop responsible for a shard in a new epoch.
func (l *loop) acquire(h store.Held) {
	l.dropShard(h.Shard) // of an earlier epoch
	l.shards[h.Shard] = h.Epoch
}

// foundWork brings lanes with pending deliveries into memory.
func (l *loop) foundWork(found []store.PendingEndpoint) {
	for _, p := range found {
		if r := l.runner(p.ID, 0); r != nil {
			r.win.Announced(p.Due)
			l.touch(r)
		}
	}
}

// release stops sending for a shard and calls drained when all its attempts
// are settled, or the shard is lost. Until then it stays this node's.
func (l *loop) release(h store.Held, drained func()) {
	if l.shards[h.Shard] != h.Epoch {
		drained()
		return
	}
	l.leaving[h.Shard] = drained // looked at in the same turn
}

// handOverIfDrained ends a hand-over when nothing of the shard is on its way to
// the store any more, checkpoints included: after the release they would be
// refused.
func (l *loop) handOverIfDrained(shard int) {
	if l.leaving[shard] == nil || l.unsettled[shard] > 0 {
		return
	}
	for _, save := range l.unsaved {
		if save.Shard == shard {
			return
		}
	}
	l.dropShard(shard)
}

// lose drops a shard that another node owns by now.
func (l *loop) lose(h store.Held) {
	if l.shards[h.Shard] == h.Epoch {
		l.dropShard(h.Shard)
	}
}

// fencedOff is lose, found out by a settle that was refused.
func (l *loop) fencedOff(h store.Held) {
	if l.shards[h.Shard] != h.Epoch {
		return
	}
	l.dropShard(h.Shard)
	l.d.owner.Lost(h)
}

func (l *loop) dropShard(shard int) {
	if _, had := l.shards[shard]; had {
		for _, r := range l.runners {
			if r.shard == shard {
				l.drop(r)
			}
		}
	}
	for _, save := range l.unsaved {
		if save.Shard == shard {
			l.forgetSave(save)
		}
	}
	delete(l.shards, shard)
	delete(l.unsettled, shard)
	if drained := l.leaving[shard]; drained != nil {
		delete(l.leaving, shard)
		drained()
	}
}

// touchAll pumps every lane: something that held all of them has ended.
func (l *loop) touchAll() {
	for _, r := range l.runners {
		l.touch(r)
	}
}
