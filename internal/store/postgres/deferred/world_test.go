package deferred_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// nowhere is the floor of a node that has deferred nothing, and cannot.
const nowhere = hook.ID(1<<63 - 1)

// world is a database and the processes of two nodes, with some of the things that
// can happen to them. A commit, a take-over and a read are one step each: in the
// database, locks make them so.
type world struct {
	*rapid.T

	now       time.Time
	ids       hook.ID // drawn so far
	endpoints []hook.ID

	shards map[int]lease
	floors map[hook.ID]hook.ID // by node
	events map[hook.ID]event
	stored []*delivery

	processes []*process
	unseen    bool // shards were taken, and nobody has made all rows visible since
}

type lease struct {
	owner hook.ID // 0: free
	epoch int64
}

type event struct {
	hook.Event

	names []byte
}

// delivery is what is true of a delivery.
type delivery struct {
	hook.Delivery

	by      *process // that accepted it
	row     bool
	results int
}

// process is one process of a node. An older one may go on after a newer one of
// the same node has started.
type process struct {
	*deferred.Node

	held      map[int]int64     // as it thinks
	memory    map[hook.ID]int64 // deliveries that its lanes hold, with the epochs of their shards
	uncertain *store.Batch      // a batch whose outcome it does not know

	taken      []store.Held // by a take-over that has not made rows visible yet
	floor      hook.ID      // of the node when it began
	superseded bool         // by a newer process of the node
}

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, now: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		shards: map[int]lease{}, floors: map[hook.ID]hook.ID{}, events: map[hook.ID]event{},
	}
	for id := hook.ID(1); len(w.endpoints) < 4; id++ {
		if shard := hook.ShardOf(id); w.shards[shard] == (lease{}) {
			w.endpoints, w.shards[shard] = append(w.endpoints, id), lease{0, 1}
		}
	}
	w.start(1)
	w.start(2)
	w.take(w.processes[0], false, hook.ShardOf(w.endpoints[0]), hook.ShardOf(w.endpoints[1]))
	w.take(w.processes[1], false, hook.ShardOf(w.endpoints[2]))
	for _, p := range w.processes {
		w.taken(p)
	}
	return w
}

func (w *world) start(node hook.ID) *process {
	p := &process{Node: deferred.NewNode(node), held: map[int]int64{}, memory: map[hook.ID]int64{}}
	w.processes = append(w.processes, p)
	return p
}

// restart replaces a process; the one before is gone, or stands still for a while.
func (w *world) restart(p *process) {
	if rapid.Bool().Draw(w.T, "gone") {
		w.processes = slices.DeleteFunc(w.processes, func(q *process) bool { return q == p })
	}
	for _, q := range w.processes {
		q.superseded = q.superseded || q.ID == p.ID
	}
	w.take(w.start(p.ID), true, w.allShards()...)
}

func (w *world) allShards() (all []int) {
	for _, e := range w.endpoints {
		all = append(all, hook.ShardOf(e))
	}
	return all
}

func (w *world) process() *process { return rapid.SampledFrom(w.processes).Draw(w.T, "process") }

func (w *world) endpoint() hook.ID { return rapid.SampledFrom(w.endpoints).Draw(w.T, "endpoint") }

func (w *world) pass(by time.Duration) { w.now = w.now.Add(by) }

func (w *world) id(at time.Time) hook.ID {
	w.ids++
	return hook.IDFloor(at) + w.ids
}

// owns is what statements compare: does the node own the shard of the fence in
// that epoch?
func (w *world) owns(node hook.ID, fence int64) bool {
	shard, ok := deferred.ShardOf(fence)
	return ok && w.shards[shard] == lease{node, (fence - int64(shard)) / hook.Shards}
}

// take begins to take shards over: those that are free, or whose owner has not
// renewed, or the node's own.
func (w *world) take(p *process, mine bool, shards ...int) {
	if p.superseded {
		return // its heartbeat has told it
	}
	w.taken(p)
	var held []store.Held
	var newest hook.ID
	for id := range w.events {
		newest = max(newest, id)
	}
	for _, shard := range shards {
		if l := w.shards[shard]; !mine || l.owner == p.ID {
			w.shards[shard] = lease{p.ID, l.epoch + 1}
			held = append(held, store.Held{Shard: shard, Epoch: l.epoch + 1})
		}
	}
	if len(held) == 0 {
		return
	}
	floor, there := w.floors[p.ID]
	if !there {
		floor = nowhere
	}
	w.floors[p.ID] = min(floor, newest+1)
	p.taken, p.floor, w.unseen = held, w.floors[p.ID], true
}

// taken ends a take-over: all rows are made visible, then the lanes read.
func (w *world) taken(p *process) {
	if len(p.taken) == 0 {
		return
	}
	w.look(p, deferred.Scope{})
	p.Took(visible.Made(), p.taken, p.floor)
	w.unseen = false
	for _, h := range p.taken {
		p.held[h.Shard] = h.Epoch
	}
	for node := range w.floors {
		if !w.hasShard(node) {
			w.floors[node] = nowhere
		}
	}
	for _, d := range w.stored { // the lanes read all
		if slices.ContainsFunc(p.taken, func(h store.Held) bool { return h.Shard == hook.ShardOf(d.EndpointID) }) {
			w.load(p, d)
		}
	}
	p.taken = nil
}

func (w *world) hasShard(node hook.ID) bool {
	for _, l := range w.shards {
		if l.owner == node {
			return true
		}
	}
	return false
}

// load puts a delivery into the lane's memory, if the process thinks that it has
// the lane.
func (w *world) load(p *process, d *delivery) {
	if epoch, held := p.held[hook.ShardOf(d.EndpointID)]; held && d.State == hook.Pending {
		p.memory[d.ID] = epoch
	}
}

// lose lets the process drop the lanes of a shard.
func (w *world) lose(p *process, shard int, epoch int64) {
	if p.held[shard] != epoch {
		return
	}
	delete(p.held, shard)
	for id := range p.memory {
		if hook.ShardOf(w.find(id).EndpointID) == shard {
			delete(p.memory, id)
		}
	}
}

// renew lets the process find out which shards it still holds.
func (w *world) renew(p *process) {
	var asked, still []store.Held
	for shard, epoch := range p.held {
		h := store.Held{Shard: shard, Epoch: epoch}
		asked = append(asked, h)
		if w.shards[shard] == (lease{p.ID, epoch}) {
			still = append(still, h)
		} else {
			w.lose(p, shard, epoch)
		}
	}
	p.Keeps(asked, still)
}

// release gives a shard up.
func (w *world) release(p *process, shard int) {
	epoch, held := p.held[shard]
	if !held {
		return
	}
	p.Keeps([]store.Held{{Shard: shard, Epoch: epoch}}, nil)
	w.lose(p, shard, epoch)
	if w.shards[shard] == (lease{p.ID, epoch}) {
		w.shards[shard] = lease{0, epoch}
	}
}

// accept is an event to some endpoints, whose id may have been drawn a while ago.
func (w *world) accept() *store.Accept {
	drawn := w.now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 0, 50, 900, 5000}).Draw(w.T, "ago")) * time.Millisecond)
	a := &store.Accept{Event: hook.Event{ID: w.id(drawn), TenantID: 7, CreatedAt: w.now}}
	for range rapid.IntRange(1, 2).Draw(w.T, "deliveries") {
		a.Deliveries = append(a.Deliveries, hook.Delivery{
			ID: w.id(w.now), TenantID: 7, EventID: a.Event.ID, EndpointID: w.endpoint(), DueAt: w.now,
			Progress: hook.Progress{Run: 1, RunDueAt: w.now},
		})
	}
	return a
}

// settle is the result of some delivery in memory, in order of ids.
func (w *world) settles(p *process) (out []*store.Settle) {
	for _, d := range w.stored {
		epoch, held := p.memory[d.ID]
		if !held || !rapid.Bool().Draw(w.T, "answered") {
			continue
		}
		s := &store.Settle{Shard: hook.ShardOf(d.EndpointID), Epoch: epoch, Prev: d.results, Delivery: d.Delivery, Attempt: &hook.Attempt{}}
		if rapid.Bool().Draw(w.T, "success") {
			s.Delivery.State = hook.Delivered
		}
		out = append(out, s)
	}
	return out
}

func succeeded(s *store.Settle) bool { return s.Delivery.State == hook.Delivered && s.Prev == 0 }

// commit runs a batch. It may be applied or not without the process knowing, and is
// run again then before anything else.
func (w *world) commit(p *process, b *store.Batch) {
	if p.uncertain != nil {
		b = p.uncertain
		b.Rerun = true
	}
	b.Node, b.Now = p.ID, w.now
	c := p.Begin(b)
	fate := rapid.SampledFrom([]string{"fine", "fine", "fine", "fine", "unknown", "lost"}).Draw(w.T, "fate")
	if fate != "lost" {
		w.apply(p, b, c)
	} else {
		c.Insert(b.Settles, succeeded) // the run was prepared
		c.Floor()
	}
	if fate != "fine" {
		p.uncertain = b
		return
	}
	p.uncertain = nil
	c.Done()
	for _, s := range b.Settles {
		delete(p.memory, s.Delivery.ID)
		if s.Outcome == store.SettleFenced {
			w.lose(p, s.Shard, s.Epoch)
		}
	}
	for _, a := range b.Accepts {
		for i := range a.Deliveries {
			d := w.find(a.Deliveries[i].ID)
			if !b.Rerun { // else the run before may have deferred it
				w.checkDeferred(p, d)
			}
			w.load(p, d)
		}
	}
}

// checkDeferred: a delivery that is deferred for a lane of another process has to
// be handed off.
func (w *world) checkDeferred(p *process, d *delivery) {
	shard := hook.ShardOf(d.EndpointID)
	if own := w.shards[shard] == (lease{p.ID, p.held[shard]}); !d.row && !own && !p.HandsOff(d.ID) {
		w.Fatalf("delivery %d is deferred as one of a lane that the process does not have", d.ID)
	}
}

// apply is what the statements of a commit do.
func (w *world) apply(p *process, b *store.Batch, c *deferred.Commit) {
	for _, a := range b.Accepts {
		w.store(p, a, c)
	}
	rows, rest := c.Insert(b.Settles, succeeded)
	w.checkInsert(b.Settles, rows, rest)
	for _, row := range rows {
		d := w.find(row.ID)
		if s := row.Settle; s == nil {
			d.row = true
		} else if w.owns(p.ID, deferred.Fence(s.Shard, s.Epoch)) {
			d.row = true
			w.result(d, s)
		} else {
			s.Outcome = store.SettleFenced
		}
	}
	for _, s := range rest {
		d := w.find(s.Delivery.ID)
		switch {
		case !w.owns(p.ID, deferred.Fence(s.Shard, s.Epoch)):
			s.Outcome = store.SettleFenced
		case !d.row:
			w.Fatalf("the result of delivery %d finds no row and brings none", d.ID)
		default:
			w.result(d, s)
		}
	}
	if floor, moves := c.Floor(); moves && w.owns(p.ID, c.Anchor) {
		w.floors[p.ID] = floor
	}
}

// store writes the event, and the rows of the deliveries that are not deferred.
func (w *world) store(p *process, a *store.Accept, c *deferred.Commit) {
	a.Outcome = store.AcceptStored
	if _, there := w.events[a.Event.ID]; there {
		return // by the run before
	}
	w.events[a.Event.ID] = event{a.Event, c.Names(a)}
	for _, d := range a.Deliveries {
		w.stored = append(w.stored, &delivery{Delivery: d, by: p, row: !w.owns(p.ID, c.Fence(&d))})
	}
	slices.SortFunc(w.stored, func(a, b *delivery) int { return int(a.ID - b.ID) })
}

// result writes a result, once.
func (w *world) result(d *delivery, s *store.Settle) {
	s.Outcome = store.SettleWritten
	if d.results == s.Prev {
		d.results++
		d.State = s.Delivery.State
	}
}

func (w *world) find(id hook.ID) *delivery {
	i := slices.IndexFunc(w.stored, func(d *delivery) bool { return d.ID == id })
	if i < 0 {
		return &delivery{} // the batch was lost
	}
	return w.stored[i]
}

// look makes the deferred deliveries in a scope visible, as a read or a take-over
// does, and tells their lanes.
func (w *world) look(p *process, s deferred.Scope) {
	from := nowhere
	for _, floor := range w.floors {
		from = min(from, floor)
	}
	var missing []deferred.Delivery
	for id, e := range w.events {
		if id < from {
			continue
		}
		named, err := deferred.ParseNames(e.names, &e.Event)
		if err != nil {
			w.Fatal(err)
		}
		for _, d := range named {
			if s.Holds(&d) && !w.find(d.ID).row {
				missing = append(missing, d)
			}
		}
	}
	nodes := deferred.Nodes{p.Node}
	told := nodes.ToAnnounce(w.insert(missing), missing)
	nodes.Inserted(deferred.IDs(missing))
	w.announce(p, missing, told)
	for _, d := range w.stored {
		if named := (deferred.Delivery{ID: d.ID, Tenant: d.TenantID, Event: d.EventID, Endpoint: d.EndpointID}); s.Holds(&named) && !d.row {
			w.Fatalf("delivery %d is not visible in %+v", d.ID, s)
		}
	}
}

// insert inserts rows and returns their endpoints.
func (w *world) insert(missing []deferred.Delivery) (endpoints []hook.ID) {
	for _, d := range missing {
		w.find(d.ID).row = true
		endpoints = append(endpoints, d.Endpoint)
	}
	return endpoints
}

// announce lets the lanes read that were told of rows. A lane that was not told must
// hold them, unless who inserted them does not know yet that he has lost the lane:
// then its owner polls.
func (w *world) announce(by *process, inserted []deferred.Delivery, told []hook.ID) {
	for _, row := range inserted {
		d := w.find(row.ID)
		shard := hook.ShardOf(d.EndpointID)
		epoch, held := by.held[shard]
		if mistaken := held && w.shards[shard] != (lease{by.ID, epoch}); mistaken {
			continue
		}
		for _, p := range w.processes {
			if w.shards[shard] != (lease{p.ID, p.held[shard]}) {
				continue
			}
			if slices.Contains(told, d.EndpointID) {
				w.load(p, d)
			} else if _, held := p.memory[d.ID]; !held && d.State == hook.Pending && p.uncertain == nil {
				w.Fatalf("delivery %d has a row, and its lane neither holds it nor is told", d.ID)
			}
		}
	}
}

// hear is an announcement that reaches the owner of the lane, soon, late or twice.
func (w *world) hear(p *process, d *delivery) {
	e := w.events[d.EventID]
	named, err := deferred.ParseNames(e.names, &e.Event)
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(named, func(n deferred.Delivery) bool { return n.ID == d.ID })
	if i < 0 || d.row {
		return
	}
	got, ok := deferred.Nodes{p.Node}.Announced(named[i], w.now)
	if _, held := p.held[hook.ShardOf(d.EndpointID)]; ok != held {
		w.Fatalf("a lane that the node holds: %v, takes delivery %d: %v", held, d.ID, ok)
	}
	if ok && got.DueAt.After(w.now) {
		w.Fatalf("delivery %d is not due", d.ID)
	}
	if ok {
		w.load(p, d)
	}
}

// insertOverdue inserts the rows that did not come in time, and lets the floor of a
// node without work move.
func (w *world) insertOverdue(p *process) {
	handedOff, own := p.Overdue(w.now)
	for _, late := range [][]deferred.Delivery{handedOff, own} {
		p.Inserted(deferred.IDs(late))
		missing := slices.DeleteFunc(late, func(d deferred.Delivery) bool { return w.find(d.ID).row })
		w.announce(p, missing, w.insert(missing))
	}
	if floor, anchor, ok := p.IdleFloor(w.now); ok && p.uncertain == nil {
		p.Pass(floor)
		if w.owns(p.ID, anchor) {
			w.floors[p.ID] = floor
		}
	}
}
