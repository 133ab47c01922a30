package deferred

import (
	"cmp"
	"maps"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Commit is what one run of a batch defers, inserts and changes.
type Commit struct {
	node   *Node
	batch  *store.Batch
	floor  hook.ID // of the node when the run began
	Anchor int64   // the fence of what depends on no lane of the node
	// added are the deliveries that the batch accepts and may defer.
	added map[hook.ID]added
	// inserted are the deliveries that get their row in this run, if they have none.
	inserted map[hook.ID]struct{}
}

// added is a delivery that is deferred as long as the node owns the shard of the
// fence in that epoch.
type added struct {
	Delivery
	fence     int64
	handedOff bool // its lane is another node's
}

// Row is a row to insert, with its result if it comes with one.
type Row struct {
	Delivery
	Settle *store.Settle
}

// Begin decides which deliveries of the batch are deferred: those that are due
// now. Whether the node still owns the shard that this depends on the transaction
// tells.
func (n *Node) Begin(b *store.Batch) *Commit {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &Commit{
		node: n, batch: b, floor: n.floor, Anchor: n.anchor(),
		added: make(map[hook.ID]added, len(b.Accepts)), inserted: make(map[hook.ID]struct{}, len(b.Settles)),
	}
	handsOff := c.Anchor != NoFence && len(n.handedOff.byID) < maxHandedOff
	for _, a := range b.Accepts {
		if a.Event.ID < c.floor { // nobody would look for them there
			continue
		}
		for i := range a.Deliveries {
			d, ok := Of(&a.Deliveries[i], b.Now)
			if !ok {
				continue
			}
			shard := hook.ShardOf(d.Endpoint)
			if epoch, own := n.held[shard]; own {
				c.added[d.ID] = added{d, Fence(shard, epoch), false}
			} else if handsOff {
				c.added[d.ID] = added{d, c.Anchor, true}
			} else if b.Rerun { // an earlier run may have deferred it
				c.added[d.ID] = added{d, NoFence, true}
			}
		}
	}
	return c
}

// Names returns what the row of the event keeps of its deliveries.
func (c *Commit) Names(a *store.Accept) []byte {
	named := make([]Delivery, 0, 8)
	for i := range a.Deliveries {
		if d, ok := c.added[a.Deliveries[i].ID]; ok {
			named = append(named, d.Delivery)
		}
	}
	return AppendNames(nil, &a.Event, named)
}

// Fence returns the fence under which the row of a delivery may be deferred.
func (c *Commit) Fence(d *hook.Delivery) int64 {
	if added, ok := c.added[d.ID]; ok {
		return added.fence
	}
	return NoFence
}

// Shards marks the shards that the node has to own for rows to be deferred.
func (c *Commit) Shards(seen *[hook.Shards]bool) {
	if shard, ok := ShardOf(c.Anchor); ok {
		seen[shard] = true
	}
	for _, d := range c.added {
		if shard, ok := ShardOf(d.fence); ok {
			seen[shard] = true
		}
	}
}

// Insert returns the rows to insert now, in the order of their ids, and the
// results that do not come with one of them. A result that is complete comes with
// its row; for any other one the row is inserted as it was accepted, and changed
// like other rows. So are rows that nobody has settled in time.
func (c *Commit) Insert(settles []*store.Settle, complete func(*store.Settle) bool) (rows []Row, rest []*store.Settle) {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	for _, s := range settles {
		d, ok := c.take(s.Delivery.ID)
		if ok && complete(s) {
			rows = append(rows, Row{d, s})
			continue
		}
		if ok {
			rows = append(rows, Row{d, nil})
		}
		rest = append(rest, s)
	}
	for _, d := range c.node.own.overdue(c.batch.Now) {
		if _, ok := c.take(d.ID); ok {
			rows = append(rows, Row{d, nil})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.ID, b.ID) })
	return rows, rest
}

// take returns a delivery that may have no row, once: whoever asks inserts it.
func (c *Commit) take(id hook.ID) (Delivery, bool) {
	if _, done := c.inserted[id]; done {
		return Delivery{}, false
	}
	d, ok := c.node.get(id)
	if added, now := c.added[id]; now {
		d, ok = added.Delivery, true
	}
	if ok {
		c.inserted[id] = struct{}{}
	}
	return d, ok
}

// Floor returns where the floor moves with this run: up to the first event that
// lacks a row. False: it stays.
func (c *Commit) Floor() (hook.ID, bool) {
	newest := max(c.floor, hook.IDFloor(c.batch.Now.Add(-floorLag)))
	for _, a := range c.batch.Accepts {
		newest = max(newest, a.Event.ID)
	}
	if c.floor == 0 || c.Anchor == NoFence || newest-c.floor < floorStep {
		return 0, false
	}
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	oldest := n.oldest(newest)
	for _, d := range c.added {
		oldest = min(oldest, d.Event)
	}
	if oldest <= c.floor {
		return 0, false
	}
	n.floor = max(n.floor, oldest)
	return oldest, true
}

// Done notes what the run has deferred, and what has a row now, by the outcomes
// of its batch.
func (c *Commit) Done() {
	n := c.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range c.batch.Settles {
		if s.Outcome == store.SettleFenced {
			delete(c.inserted, s.Delivery.ID) // it has no row, and the new owner may not have looked yet
			n.lost(s.Shard, s.Epoch)
		}
	}
	for _, l := range c.batch.Lanes {
		if l.Outcome == store.SettleFenced {
			n.lost(l.Shard, l.Epoch)
		}
	}
	for _, a := range c.batch.Accepts {
		if a.Outcome != store.AcceptStored {
			continue
		}
		for i := range a.Deliveries {
			d, ok := c.added[a.Deliveries[i].ID]
			switch {
			case !ok:
			case d.handedOff:
				n.handedOff.add(d.Delivery)
			default:
				n.own.add(d.Delivery)
			}
		}
	}
	n.inserted(slices.Collect(maps.Keys(c.inserted)))
}
