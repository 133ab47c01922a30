package dispatch

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// runner is a lane that is in memory, with the deliveries of its window.
type runner struct {
	endpoint hook.ID
	tenant   hook.ID
	shard    int
	epoch    int64

	loop *loop
	lane *lane.Lane
	seat *seat        // at its host; nil until loaded
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
	readAt  time.Time // when the latest read ahead was asked for
	// readQueued is how many of the deliveries that wait were read from the store.
	readQueued int
	// diskDue is when the earliest delivery that is only on disk falls due, as
	// far as is known; zero: there is none.
	diskDue time.Time
	// noted is the earliest due time heard of while a read was running.
	noted time.Time
	// heard are deliveries for the next read that may have no row yet.
	heard []store.New

	// soughtFresh is set when the store was asked for a better probe than the
	// window holds, until that probe has been sent.
	soughtFresh bool
	// lookNewest asks for a look at the newest due deliveries, because a person
	// asked for one of them.
	lookNewest bool

	// disabledFrom is above 0 while the endpoint is being turned off: rows of it
	// with a lower Rev do not count.
	disabledFrom int64

	saved   lane.Checkpoint // the latest one handed to the store
	savedAt time.Time

	expireAt  time.Time // next look for deliveries held too long
	expiring  bool
	wakeAt    time.Time
	hostAt    time.Time // its host lets it send then; zero: now
	wakeIndex int       // in the loop's heap, -1: not there
	dirty     bool
	starved   bool
	dropped   bool // no longer in memory
	inherited bool // its work was left by another owner
	// probeAsked is set when a person wants a probe, until one is sent.
	probeAsked bool
	idleSince  time.Time
}

// item is one delivery in memory.
type item struct {
	delivery hook.Delivery
	event    *hook.Event // nil: read when it is sent
	counted  int64       // payload bytes counted against the budget
	read     bool        // from the store, as opposed to new
	waiting  bool        // in the lane's queue
	flying   bool        // its request is in flight
	// unsettled counts results on their way to the store. Until they are
	// committed the store shows an older delivery, so it must not be read.
	unsettled int
	// doubtful is set when the row may have been changed by others meanwhile:
	// it is read again before it is sent again.
	doubtful bool
}

const (
	// idleEviction is how long a lane without work stays in memory.
	idleEviction = 5 * time.Minute
	// crowdedEviction is that time in a loop with more lanes than Crowd: very
	// many endpoints with an event now and then must not take all memory.
	crowdedEviction = 2 * time.Second
)

// freshKept bounds what a lane that is blocked keeps in memory: enough to
// choose a probe from. The rest of its backlog stays on disk.
const freshKept = 64

// noteDue remembers that a delivery on disk falls due at t.
func (r *runner) noteDue(t time.Time) {
	if r.diskDue.IsZero() || t.Before(r.diskDue) {
		r.diskDue = t
	}
	if r.reading && (r.noted.IsZero() || t.Before(r.noted)) {
		r.noted = t
	}
}

// wantsRows reports whether something that is only on disk is due and may be sent.
func (r *runner) wantsRows(now time.Time) bool {
	return !r.diskDue.IsZero() && !r.diskDue.After(now) && !r.holds(now)
}

// note is noteDue for a time that may be zero: nothing was heard of.
func (r *runner) note(t time.Time) {
	if !t.IsZero() {
		r.noteDue(t)
	}
}

// runner returns the lane of an endpoint of an owned shard, bringing it into
// memory when it is not there. tenant may be 0 when it is not known.
func (l *loop) runner(endpoint, tenant hook.ID) *runner {
	if r, ok := l.runners[endpoint]; ok {
		return r
	}
	shard := hook.ShardOf(endpoint)
	r := &runner{
		loop: l, endpoint: endpoint, tenant: tenant, shard: shard, epoch: l.shards[shard],
		lane: lane.New(lane.Config{Fixed: true, Limit: 1}, time.Now()), items: make(map[hook.ID]*item), wakeIndex: -1,
	}
	l.runners[endpoint] = r
	l.load(r)
	return r
}

// admit takes a delivery into the window if it is due and there is room;
// otherwise it stays on disk and is read when its time has come.
func (l *loop) admit(now time.Time, r *runner, d hook.Delivery, e *hook.Event, read bool) {
	switch {
	case r.knows(d.ID):
	case d.DueAt.After(now) || !l.hasRoom(now, r, &d, read):
		r.noteDue(d.DueAt)
	default:
		l.take(now, r, d, e, read)
	}
}

// knows reports whether the delivery is in memory, or was until just now, so
// that what was read of it may be out of date.
func (r *runner) knows(id hook.ID) bool {
	if _, held := r.items[id]; held {
		return true
	}
	_, settled := r.gone[id]
	return settled
}

// hasRoom reports whether the lane may keep one more delivery in memory. What
// arrives and what is read have room of their own: a backlog must not delay what
// arrives, and what arrives must not leave old deliveries on disk for good. A
// lane that holds keeps a few that never failed: they are what a probe should
// carry, and nothing may crowd them out. What a person asked for always fits.
func (l *loop) hasRoom(now time.Time, r *runner, d *hook.Delivery, read bool) bool {
	switch {
	case d.Restore != nil:
		return true
	case r.holds(now):
		return d.Progress.Fails == 0 && r.lane.Queued() < min(freshKept, l.d.cfg.Window)
	case r.lane.ProbeDue(now) && r.lane.Queued() == 0:
		return true // the probe: without room for it, the search for one would not end
	case r.discards():
		return len(r.items) < l.d.cfg.Window
	case read:
		return r.readQueued < l.readRoom()
	default:
		return l.roomForNew(r) > 0
	}
}

// roomForNew is how many more deliveries that were just accepted, by this node or
// by another one, may wait in a lane.
func (l *loop) roomForNew(r *runner) int { return l.d.cfg.Window - (r.lane.Queued() - r.readQueued) }

// readRoom is how many deliveries that were read may wait in a lane.
func (l *loop) readRoom() int { return max(l.d.cfg.Window*3/4, 1) }

// take puts a delivery into the lane's queue.
func (l *loop) take(now time.Time, r *runner, d hook.Delivery, e *hook.Event, read bool) {
	it := &item{delivery: d, read: read}
	r.enqueue(it)
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

// enqueue notes that a delivery waits in the lane's queue.
func (r *runner) enqueue(it *item) {
	it.waiting = true
	if it.read {
		r.readQueued++
	}
}

// dequeue notes that it does not wait any more.
func (r *runner) dequeue(it *item) {
	if it.waiting && it.read {
		r.readQueued--
	}
	it.waiting = false
}

func (it *item) ref() lane.Ref {
	p := it.delivery.Progress
	return lane.Ref{
		ID: it.delivery.ID, FirstDue: p.RunDueAt, Charged: p.Charged, Fails: p.Fails,
		Tried: p.Fails > 0 || p.Failures > 0, Replay: it.delivery.ReplayID != 0, Manual: it.delivery.Restore != nil,
	}
}

// forget takes a delivery out of memory.
func (l *loop) forget(r *runner, id hook.ID) {
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

// putAside takes a delivery out of the window that was taken out of the lane's
// queue. One with results on their way stays known until they are committed.
func (l *loop) putAside(r *runner, id hook.ID) {
	it := r.items[id]
	r.dequeue(it)
	if it.unsettled == 0 {
		l.forget(r, id)
	}
}

// spill gives memory back when a lane gets blocked: payloads are dropped, and
// all but the newest deliveries that never failed go back to disk.
func (l *loop) spill(r *runner) {
	fresh := 0
	var keep []lane.Ref
	refs := r.lane.Drop()
	for _, ref := range slices.Backward(refs) {

		it := r.items[ref.ID]
		if ref.Manual || (ref.Fails == 0 && fresh < freshKept) {
			fresh++
			l.d.payloadBytes.Add(-it.counted)
			it.event, it.counted = nil, 0
			keep = append(keep, ref)
			continue
		}
		r.noteDue(it.delivery.DueAt)
		l.putAside(r, ref.ID)
	}
	for _, k := range slices.Backward(keep) {
		r.lane.Arrive(k)
	}
}

// spillHeard leaves what a lane that holds has heard of on disk when it has enough
// in memory to choose a probe from: it will have rows when the lane may send.
func (l *loop) spillHeard(now time.Time, r *runner) {
	if len(r.heard) > 0 && r.holds(now) && r.lane.Queued() >= min(freshKept, l.d.cfg.Window) {
		r.heard = nil
		r.noteDue(now)
	}
}

// checkpoint returns a fenced checkpoint of the lane and remembers it until it
// is stored.
func (l *loop) checkpoint(r *runner) *store.LaneSave {
	if _, waits := l.unsaved[r.endpoint]; !waits {
		l.d.unsaved.Add(1)
	}
	save := &store.LaneSave{
		Endpoint: r.endpoint, Tenant: r.tenant, Shard: r.shard, Epoch: r.epoch,
		Checkpoint: r.lane.Checkpoint(),
	}
	l.unsaved[r.endpoint] = save
	r.saved, r.savedAt = save.Checkpoint, time.Now()
	return save
}

// saveEvery is how often what a lane has learnt is saved while it only moves.
const saveEvery = time.Second

// hasMoved reports whether what the lane has learnt differs enough from its last
// checkpoint to be saved with the next result.
func (l *loop) hasMoved(now time.Time, r *runner) bool {
	c := r.lane.Checkpoint()
	return c.Recovered(r.saved) || now.Sub(r.savedAt) >= saveEvery && c.Moved(r.saved)
}

// saved takes note of checkpoints that were stored, or refused.
func (l *loop) saved(saves []*store.LaneSave) {
	for _, s := range saves {
		l.forgetSave(s)
		if s.Outcome == store.SettleFenced {
			l.fencedOff(store.Held{Shard: s.Shard, Epoch: s.Epoch})
		}
	}
}

func (l *loop) forgetSave(s *store.LaneSave) {
	if l.unsaved[s.Endpoint] == s {
		delete(l.unsaved, s.Endpoint)
		l.d.unsaved.Add(-1)
	}
}
