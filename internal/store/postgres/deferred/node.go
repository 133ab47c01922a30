package deferred

import (
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	// handedOffFor is how long the row of a delivery that another node sends may be
	// missing. Nearly always it has come by then: it only remains to see that it
	// has.
	handedOffFor = 250 * time.Millisecond
	// idleFor is that time for a delivery of a lane of this node, whose commits
	// insert it sooner unless there are none.
	idleFor = 2 * time.Second
	// maxHandedOff bounds how many may be handed off. Others get their row at once.
	maxHandedOff = 32768

	// floorStep is how far events may run ahead of the floor before it moves: a
	// tenth of a second. Whoever lists deliveries looks at the events from there on.
	floorStep = hook.DayOfIDs / (24 * 60 * 60 * 10)
	// idleStep is that of a node that commits nothing.
	idleStep = 10 * floorStep
	// floorLag is how far the floor stays behind when the node accepts nothing. An
	// event whose id is older than that gets its rows at once.
	floorLag = 2 * time.Second
)

// NoFence is the fence of a delivery whose row is wanted at once.
const NoFence = -1

// Fence puts shard and epoch into one number: one column to send and to hash.
func Fence(shard int, epoch int64) int64 { return epoch*hook.Shards + int64(shard) }

// ShardOf returns the shard whose lock keeps a fence true; false: there is none.
func ShardOf(fence int64) (int, bool) { return int(fence % hook.Shards), fence != NoFence }

// Node is what this process knows of the deliveries that a node has deferred, or
// heard of for lanes of its own.
//
// It may hold a delivery that has a row: every statement that inserts one minds
// that. It must not lack one that has none, because the floor moves past it.
type Node struct {
	ID hook.ID

	mu        sync.Mutex
	own       *set          // of lanes of its own
	handedOff *set          // of lanes of other nodes, which have been told
	held      map[int]int64 // shards whose lanes are the node's, with their epochs
	floor     hook.ID       // what is stored is not more
}

// NewNode returns a node that holds no shard and has deferred nothing.
func NewNode(id hook.ID) *Node {
	return &Node{ID: id, own: newSet(), handedOff: newSet(), held: make(map[int]int64)}
}

// Took notes shards that the node has taken, and the floor that is stored, once all
// rows are visible. A process of the same node may have deferred some before it died:
// of those this one knows nothing, and would move the floor past them.
func (n *Node) Took(_ visible.Rows, held []store.Held, floor hook.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.floor = max(n.floor, floor)
	for _, h := range held {
		n.held[h.Shard] = h.Epoch
	}
}

// Keeps notes that of the given shards the node still holds these.
func (n *Node) Keeps(asked, still []store.Held) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range asked {
		if !slices.Contains(still, h) {
			n.lost(h.Shard, h.Epoch)
		}
	}
}

func (n *Node) lost(shard int, epoch int64) {
	if n.held[shard] == epoch {
		delete(n.held, shard)
	}
}

// holds reports whether the lane of the endpoint is the node's.
func (n *Node) holds(endpoint hook.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, held := n.held[hook.ShardOf(endpoint)]
	return held
}

// anchor returns the fence of what depends on no lane of the node: any of its
// shards, or NoFence when it has none. Whoever takes that shard looks for all rows
// that the node has deferred, so they are found as long as the node owned it when it
// deferred them. A newer process of the same node has another epoch.
func (n *Node) anchor() int64 {
	anchor, least := int64(NoFence), hook.Shards
	for shard, epoch := range n.held {
		if shard < least {
			least, anchor = shard, Fence(shard, epoch)
		}
	}
	return anchor
}

// get returns a delivery that may have no row. A lane that it was handed off to can
// be the node's by now.
func (n *Node) get(id hook.ID) (Delivery, bool) {
	if d, ok := n.own.byID[id]; ok {
		return d, true
	}
	d, ok := n.handedOff.byID[id]
	return d, ok
}

// sends reports whether a lane of the node has the delivery in memory.
func (n *Node) sends(id hook.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.own.byID[id]
	return ok
}

// Inserted notes deliveries that have a row.
func (n *Node) Inserted(ids []hook.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inserted(ids)
}

func (n *Node) inserted(ids []hook.ID) {
	for _, id := range ids {
		n.own.remove(id)
		n.handedOff.remove(id)
	}
	n.own.tidy()
	n.handedOff.tidy()
}

// Overdue returns the deliveries whose rows should have come, whether the node
// commits anything or not: those that it has handed off, and its own.
func (n *Node) Overdue(now time.Time) (handedOff, own []Delivery) {
	n.mu.Lock()
	defer n.mu.Unlock()
	handedOff, _ = Older(n.handedOff.ofLanes(nil, nil), now.Add(-handedOffFor))
	own, _ = Older(n.own.ofLanes(nil, nil), now.Add(-idleFor))
	return handedOff, own
}

// OfLanes returns the deliveries of lanes of the node that have no row and that the
// lanes do not know; no endpoint means all lanes.
func (n *Node) OfLanes(endpoints, known []hook.ID) []Delivery {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.own.ofLanes(endpoints, known)
}

// Since returns the endpoints of lanes of the node with deliveries from the given
// id on.
func (n *Node) Since(id hook.ID) (endpoints []hook.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.own.byID {
		if d.ID >= id && !slices.Contains(endpoints, d.Endpoint) {
			endpoints = append(endpoints, d.Endpoint)
		}
	}
	return endpoints
}

// oldest returns the least event that may lack a row, or the given one if that is
// less.
func (n *Node) oldest(least hook.ID) hook.ID { return n.handedOff.oldest(n.own.oldest(least)) }

// IdleFloor returns how far the floor may move without a commit, and the fence
// that the node needs for that.
func (n *Node) IdleFloor(now time.Time) (floor hook.ID, anchor int64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	floor, anchor = n.oldest(hook.IDFloor(now.Add(-floorLag))), n.anchor()
	return floor, anchor, anchor != NoFence && floor-n.floor >= idleStep
}

// Pass notes that the floor is about to be moved: from now on events below it get
// their rows at once, whether the move is confirmed or not.
func (n *Node) Pass(floor hook.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.floor = max(n.floor, floor)
}

// Nodes are the nodes of this process: there is one, but in tests.
type Nodes []*Node

// Inserted notes deliveries that have a row.
func (ns Nodes) Inserted(ids []hook.ID) {
	for _, n := range ns {
		n.Inserted(ids)
	}
}

// ToAnnounce returns those of the endpoints that got rows whose lanes must be told:
// all but lanes of this process that have all of the deliveries in memory. Whoever
// deferred a delivery may be gone, or sees that the row is there and keeps silent.
func (ns Nodes) ToAnnounce(endpoints []hook.ID, inserted []Delivery) []hook.ID {
	unknown := make(map[hook.ID]bool)
	for i := range inserted {
		if n := ns.holder(inserted[i].Endpoint); n == nil || !n.sends(inserted[i].ID) {
			unknown[inserted[i].Endpoint] = true
		}
	}
	return slices.DeleteFunc(endpoints, func(id hook.ID) bool { return !unknown[id] })
}

// Announced takes in a delivery that another node has deferred for a lane of this
// process, as its event names it, and returns it for the lane. From here on it
// counts as deferred on this node, too, so that its row comes with its result; the
// node that handed it off sees to it that it gets one in any case. False: the lane
// is nobody's here.
//
// It is due: it was on the node that accepted it, and the clock of this one may be
// behind.
func (ns Nodes) Announced(d Delivery, now time.Time) (hook.Delivery, bool) {
	n := ns.holder(d.Endpoint)
	if n == nil {
		return hook.Delivery{}, false
	}
	d.known = now
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.own.byID[d.ID]; !known {
		n.own.add(d)
	}
	due := d.Pending()
	if due.DueAt.After(now) {
		due.DueAt, due.Progress.RunDueAt = now, now
	}
	return due, true
}

// holder returns the node that owns the lane of the endpoint; nil: none does.
func (ns Nodes) holder(endpoint hook.ID) *Node {
	for _, n := range ns {
		if n.holds(endpoint) {
			return n
		}
	}
	return nil
}
