package dispatch

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// resident is a lane that is in memory, with the deliveries of its window.
type resident struct {
	endpoint hook.ID
	tenant   hook.ID
	shard    int
	epoch    int64

	lane *lane.Lane
	dest *destination // nil until loaded
	// loading is set while the endpoint is being read; again asks for one more
	// read when that has ended.
	loading, again bool

	// items are the deliveries in memory: waiting, in flight, or sent and not
	// yet settled. What is in here is skipped when the store is read.
	items map[hook.ID]*item
	// gone remembers what was settled while a read was running: the read may
	// have seen the rows as they were before.
	gone map[hook.ID]struct{}

	reading bool
	// diskDue is when the earliest delivery that is only on disk falls due, as
	// far as is known; zero: there is none.
	diskDue time.Time
	// noted is the earliest due time heard of while a read was running.
	noted time.Time

	// soughtFresh is set when the store was asked for a better probe than the
	// window holds, until that probe has been sent.
	soughtFresh bool
	// lookNewest asks for a look at the newest due deliveries, because a person
	// asked for one of them.
	lookNewest bool

	expireAt  time.Time // next look for deliveries held too long
	expiring  bool
	wakeAt    time.Time
	wakeIndex int // in the loop's heap, -1: not there
	dirty     bool
	starved   bool
	dropped   bool // the shard was lost; results are thrown away
	idleSince time.Time
}

// item is one delivery in memory.
type item struct {
	delivery hook.Delivery
	event    *hook.Event // nil: read when it is sent
	counted  int64       // payload bytes counted against the budget
	waiting  bool        // in the lane's queue
	flying   bool        // its request is in flight
}

// idleEviction is how long a lane without work stays in memory.
const idleEviction = 5 * time.Minute

// freshKept bounds what a lane that is blocked keeps in memory: enough to
// choose a probe from. The rest of its backlog stays on disk.
const freshKept = 64

// noteDue remembers that a delivery on disk falls due at t.
func (r *resident) noteDue(t time.Time) {
	if r.diskDue.IsZero() || t.Before(r.diskDue) {
		r.diskDue = t
	}
	if r.reading && (r.noted.IsZero() || t.Before(r.noted)) {
		r.noted = t
	}
}

// resident returns the lane of an endpoint of an owned shard, bringing it into
// memory when it is not there. tenant may be 0 when it is not known.
func (l *loop) resident(endpoint, tenant hook.ID) *resident {
	if r, ok := l.residents[endpoint]; ok {
		return r
	}
	shard := hook.ShardOf(endpoint)
	r := &resident{
		endpoint: endpoint, tenant: tenant, shard: shard, epoch: l.shards[shard],
		lane: lane.New(lane.Config{Limit: 1}), items: make(map[hook.ID]*item), wakeIndex: -1,
	}
	l.residents[endpoint] = r
	l.load(r)
	return r
}

// admit takes a delivery into the window if it is due and there is room;
// otherwise it stays on disk and is read when its time has come.
func (l *loop) admit(now time.Time, r *resident, d hook.Delivery, e *hook.Event) {
	if _, held := r.items[d.ID]; held {
		return
	}
	if _, settled := r.gone[d.ID]; settled {
		return
	}
	if d.DueAt.After(now) || len(r.items) >= l.room(now, r) {
		r.noteDue(d.DueAt)
		return
	}
	it := &item{delivery: d, waiting: true}
	if e != nil && l.d.payloadBytes.Add(int64(len(e.Payload))) <= l.d.cfg.PayloadMemory {
		it.event, it.counted = e, int64(len(e.Payload))
	} else if e != nil {
		l.d.payloadBytes.Add(-int64(len(e.Payload)))
	}
	r.items[d.ID] = it
	if d.Restore != nil {
		r.lane.Manual(now, it.ref())
		return
	}
	r.lane.Arrive(it.ref())
}

// room is how many deliveries the lane may keep in memory.
func (l *loop) room(now time.Time, r *resident) int {
	if !r.lane.BlockedSince(now).IsZero() {
		return min(freshKept, l.d.cfg.Window)
	}
	return l.d.cfg.Window
}

func (it *item) ref() lane.Ref {
	p := it.delivery.Progress
	return lane.Ref{
		ID: it.delivery.ID, FirstDue: p.RunDueAt, Charged: p.Charged, Fails: p.Fails,
		Tried: p.Fails > 0 || p.Failures > 0, Replay: it.delivery.ReplayID != 0, Manual: it.delivery.Restore != nil,
	}
}

// forget takes a delivery out of memory.
func (l *loop) forget(r *resident, id hook.ID) {
	it, ok := r.items[id]
	if !ok {
		return
	}
	l.d.payloadBytes.Add(-it.counted)
	delete(r.items, id)
	if r.reading {
		if r.gone == nil {
			r.gone = make(map[hook.ID]struct{})
		}
		r.gone[id] = struct{}{}
	}
}

// spill gives memory back when a lane gets blocked: payloads are dropped, and
// all but the newest deliveries that never failed go back to disk.
func (l *loop) spill(r *resident) {
	fresh := 0
	var keep []lane.Ref
	refs := r.lane.Drop()
	for i := len(refs) - 1; i >= 0; i-- {
		ref := refs[i]
		it := r.items[ref.ID]
		if ref.Manual || (ref.Fails == 0 && fresh < freshKept) {
			fresh++
			l.d.payloadBytes.Add(-it.counted)
			it.event, it.counted = nil, 0
			keep = append(keep, ref)
			continue
		}
		r.noteDue(it.delivery.DueAt)
		l.forget(r, ref.ID)
	}
	for i := len(keep) - 1; i >= 0; i-- {
		r.lane.Arrive(keep[i])
	}
}

// save returns a fenced checkpoint of the lane.
func (r *resident) save() *store.LaneSave {
	return &store.LaneSave{
		Endpoint: r.endpoint, Tenant: r.tenant, Shard: r.shard, Epoch: r.epoch,
		Checkpoint: r.lane.Checkpoint(),
	}
}
