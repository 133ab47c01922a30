package dispatch

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// runner runs one lane: its control state, the window of its deliveries, where
// they go, and when it is looked at next.
type runner struct {
	endpoint hook.ID
	tenant   hook.ID
	shard    int
	epoch    int64

	loop *loop
	lane *lane.Lane
	win  window.Window
	seat *seat        // at its host; nil until loaded
	dest *destination // nil until loaded
	// loading is set while the endpoint is being read; again asks for one more
	// read when that has ended.
	loading, again bool
	// outdated is set when the endpoint is known to have changed since it was
	// read, until it was read again.
	outdated bool

	// announced are deliveries for the next read that may have no row yet.
	announced []store.Announced

	// soughtFresh is set when the store was asked for a better probe than the
	// window holds, until that probe has been sent.
	soughtFresh bool

	// goneAt is when it said that it is gone; alive is set when it has taken something
	// since it last did.
	goneAt time.Time
	alive  bool

	// disabledFrom is above 0 while the endpoint is being turned off: rows of it
	// with a lower Rev do not count.
	disabledFrom int64

	saved   lane.Checkpoint // the latest one handed to the store
	savedAt time.Time

	expireAt  time.Time // next look for deliveries held too long
	wakeAt    time.Time
	hostAt    time.Time // its host lets it send then; zero: now
	wakeIndex int       // in the loop's heap, -1: not there
	dirty     bool
	starved   bool
	dropped   bool // no longer in memory
	// probeAsked is set when a person wants a probe, until one is sent.
	probeAsked bool
	idleSince  time.Time
}

const (
	// idleEviction is how long a lane without work stays in memory.
	idleEviction = 5 * time.Minute
	// crowdedEviction is that time in a loop with more lanes than Crowd: very
	// many endpoints with an event now and then must not take all memory.
	crowdedEviction = 2 * time.Second
)

// runner returns the runner of an endpoint, bringing its lane into memory when it
// is not there. It is nil when the endpoint's shard is another node's by now: that
// one finds the rows by itself. tenant may be 0 when it is not known.
func (l *loop) runner(endpoint, tenant hook.ID) *runner {
	if r, ok := l.runners[endpoint]; ok {
		return r
	}
	shard := hook.ShardOf(endpoint)
	epoch, owned := l.shards[shard]
	if !owned {
		return nil
	}
	r := &runner{
		loop: l, endpoint: endpoint, tenant: tenant, shard: shard, epoch: epoch,
		lane: lane.New(lane.Config{Fixed: true, Limit: 1}, time.Now()), win: window.New(l.d.cfg.Window), wakeIndex: -1,
	}
	l.runners[endpoint] = r
	l.load(r)
	return r
}

// gate is what the lane does with its deliveries now.
func (r *runner) gate(now time.Time) window.Gate {
	discards := r.discards()
	return window.Gate{
		Holds: !discards && !r.lane.BlockedSince(now).IsZero(), Discards: discards,
		Paused: r.lane.Paused(), ProbeDue: r.lane.ProbeDue(now),
	}
}

// admit takes a delivery into the window if it is due and there is room;
// otherwise it stays on disk and is read when its time has come.
func (l *loop) admit(now time.Time, r *runner, d *hook.Delivery, e *hook.Event, from window.Source) {
	if it := r.win.Admit(now, d, from, r.gate(now)); it != nil {
		l.keepPayload(it, e)
		r.enqueue(now, it)
	}
}

// enqueue puts a delivery into the lane's queue.
func (r *runner) enqueue(now time.Time, it *window.Item) {
	if it.Manual() {
		r.lane.Manual(now, refOf(it))
		return
	}
	ref := refOf(it)
	r.lane.Arrive(ref)
	r.hostOffered(ref)
}

func refOf(it *window.Item) lane.Ref {
	p := &it.Delivery.Progress
	return lane.Ref{
		ID: it.Delivery.ID, FirstDue: p.RunDueAt, Charged: p.Charged, FailedAttempts: p.FailedAttempts,
		Tried: p.FailedAttempts > 0 || p.BackoffSteps > 0, Replay: it.Delivery.ReplayID != 0, Manual: it.Manual(),
	}
}

// keepPayload keeps the event of a delivery in memory if the budget of all lanes
// allows it.
func (l *loop) keepPayload(it *window.Item, e *hook.Event) {
	if e == nil {
		return
	}
	size := int64(len(e.Payload))
	if l.d.payloadBytes.Add(size) > l.d.cfg.PayloadMemory {
		l.d.payloadBytes.Add(-size)
		return
	}
	it.Event = e
}

// dropPayload gives the memory back of the payload of a delivery, which may be nil.
func (l *loop) dropPayload(it *window.Item) {
	if it != nil && it.Event != nil {
		l.d.payloadBytes.Add(-int64(len(it.Event.Payload)))
		it.Event = nil
	}
}

// evictToDisk gives memory back when a lane gets blocked: payloads are dropped,
// and all but the newest deliveries that never failed go back to disk.
func (l *loop) evictToDisk(r *runner) {
	var kept []lane.Ref
	refs := r.lane.Drop()
	for _, ref := range slices.Backward(refs) {
		if r.win.Spares(ref.ID, len(kept)) {
			l.dropPayload(r.win.Item(ref.ID))
			kept = append(kept, ref)
			continue
		}
		l.dropPayload(r.win.Evict(ref.ID))
	}
	for _, k := range slices.Backward(kept) {
		r.lane.Arrive(k)
	}
}

// leaveAnnouncedOnDisk leaves what was announced to a lane that holds on disk when it has
// enough in memory to choose a probe from: it will have rows when the lane may send.
func (l *loop) leaveAnnouncedOnDisk(now time.Time, r *runner) {
	if len(r.announced) > 0 && r.gate(now).Holds && r.win.HasProbes() {
		r.announced = nil
		r.win.Announced(now)
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

const (
	// saveEvery is how often what a lane has learnt is saved while it only moves.
	saveEvery = time.Second
	// recoverySaveEvery is how often a recovery is saved that does not: a new
	// owner makes up for the time since.
	recoverySaveEvery = 5 * time.Second
)

// hasMoved reports whether what the lane has learnt differs enough from its last
// checkpoint to be saved with the next result.
func (l *loop) hasMoved(now time.Time, r *runner) bool {
	c, age := r.lane.Checkpoint(), now.Sub(r.savedAt)
	return c.Recovered(r.saved) || age >= saveEvery && c.Moved(r.saved) || age >= recoverySaveEvery && c.Recovery > 0
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
