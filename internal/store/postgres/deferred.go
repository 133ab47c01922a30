package postgres

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// unwritten is what this process knows of the deliveries that a node has
// accepted, or heard of for lanes of its own, and whose rows come with their
// results. The events' rows name them, so whoever takes the node's shards finds
// them too.
//
// It may hold a delivery that has a row: every statement that writes one minds
// that. It must not lack one that has none, because since moves past it.
type unwritten struct {
	*store.Unwritten                  // of lanes of its own
	lent             *store.Unwritten // of lanes of other nodes, which have been told
	node             hook.ID

	commits   sync.RWMutex // shared by the node's commits
	uncertain atomic.Bool  // what became of the last one

	mu    sync.Mutex
	held  map[int]int64 // shards whose lanes are the node's, with their epochs
	since hook.ID       // no event before it lacks a row, nor will; what is stored is not more
}

// unwrittenOf returns what is known of the node.
func (d *DB) unwrittenOf(node hook.ID) *unwritten {
	d.unwrittenMu.Lock()
	defer d.unwrittenMu.Unlock()
	u, ok := d.unwritten[node]
	if !ok {
		u = &unwritten{Unwritten: store.NewUnwritten(), lent: store.NewUnwritten(), node: node, held: make(map[int]int64)}
		d.unwritten[node] = u
	}
	return u
}

// everyUnwritten returns what is known of all nodes of this process: there is
// one, but in tests.
func (d *DB) everyUnwritten() []*unwritten {
	d.unwrittenMu.Lock()
	defer d.unwrittenMu.Unlock()
	all := make([]*unwritten, 0, len(d.unwritten))
	for _, u := range d.unwritten {
		all = append(all, u)
	}
	return all
}

// took notes shards that the node has taken.
func (u *unwritten) took(held []store.Held, since hook.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since = max(u.since, since)
	for _, h := range held {
		u.held[h.Shard] = h.Epoch
	}
}

// keeps notes that of the given shards the node still holds these.
func (u *unwritten) keeps(asked, still []store.Held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, h := range asked {
		if u.held[h.Shard] == h.Epoch && !slices.Contains(still, h) {
			delete(u.held, h.Shard)
		}
	}
}

// holds reports whether the lanes of the shard are the node's.
func (u *unwritten) holds(shard int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, held := u.held[shard]
	return held
}

// hear notes a delivery that another node has accepted for a lane of this one.
func (u *unwritten) hear(t store.Target) {
	if _, known := u.Get(t.ID); !known {
		u.Committed([]store.Target{t}, nil)
	}
}

// get returns the target of a delivery that may have no row. A lane that was lent
// one can be the node's by now.
func (u *unwritten) get(id hook.ID) (store.Target, bool) {
	if t, ok := u.Get(id); ok {
		return t, true
	}
	return u.lent.Get(id)
}

// committed takes note of a commit: these came without rows, and the rows of those
// were written.
func (u *unwritten) committed(own, lent []store.Target, written []hook.ID) {
	u.Committed(own, written)
	u.lent.Committed(lent, written)
}

// oldest returns the least event that may lack a row, or the given one if that is
// less.
func (u *unwritten) oldest(least hook.ID) hook.ID { return u.lent.Oldest(u.Oldest(least)) }

// pass notes that since is about to be moved: from now on events before it get
// their rows at once, whether the move is confirmed or not.
func (u *unwritten) pass(since hook.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since = max(u.since, since)
}

// idleSince returns how far since may move without a commit, and the fence that
// the node needs for that.
func (u *unwritten) idleSince(now time.Time) (since hook.ID, anchor int64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, anchor = u.oldest(hook.IDFloor(now.Add(-sinceLag))), u.anchor()
	return since, anchor, anchor != notLate && since-u.since >= idleStep
}

// lateRun is the deliveries of one run whose rows come later, or now at last.
type lateRun struct {
	known  *unwritten
	since  hook.ID
	anchor int64
	// added are those that the batch accepts, by id.
	added map[hook.ID]lateTarget
	// wrote are the deliveries that got their row in this run, if they had none.
	wrote map[hook.ID]struct{}
}

// lateTarget is a delivery that is accepted without a row, as long as the node
// owns the shard of the fence in that epoch.
type lateTarget struct {
	store.Target
	fence int64
	lent  bool // its lane is another node's
}

// begin decides which deliveries of the batch get their row later: those that
// are due now. Whether the node still owns the shard that this depends on the
// transaction tells, see acceptNow.
func (l *lateRun) begin(known *unwritten, b *store.Batch) {
	known.mu.Lock()
	defer known.mu.Unlock()
	*l = lateRun{
		known: known, since: known.since, anchor: known.anchor(),
		added: make(map[hook.ID]lateTarget, len(b.Accepts)), wrote: make(map[hook.ID]struct{}, len(b.Settles)),
	}
	lends := l.anchor != notLate && known.lent.Len() < maxLent
	for _, a := range b.Accepts {
		if a.Event.ID < l.since { // nobody would look for them there
			continue
		}
		for i := range a.Deliveries {
			t, ok := store.TargetOf(&a.Deliveries[i], b.Now)
			if !ok {
				continue
			}
			shard := hook.ShardOf(t.Endpoint)
			if epoch, own := known.held[shard]; own {
				l.added[t.ID] = lateTarget{t, fenceOf(shard, epoch), false}
			} else if lends {
				l.added[t.ID] = lateTarget{t, l.anchor, true}
			} else if b.Rerun { // an earlier run may have left it out
				l.added[t.ID] = lateTarget{t, notLate, true}
			}
		}
	}
}

// anchor returns the fence of what depends on no lane of the node: any of its
// shards, or notLate when it has none. Whoever takes that shard looks for all rows
// that the node has left out, so they are found as long as the node owned it when it
// left them out. A newer process of the same node has another epoch.
func (u *unwritten) anchor() int64 {
	anchor := int64(notLate)
	least := hook.Shards
	for shard, epoch := range u.held {
		if shard < least {
			least, anchor = shard, fenceOf(shard, epoch)
		}
	}
	return anchor
}

// targets returns what the row of the event keeps.
func (l *lateRun) targets(a *store.Accept) []byte {
	late := make([]store.Target, 0, 8)
	for i := range a.Deliveries {
		if t, ok := l.added[a.Deliveries[i].ID]; ok {
			late = append(late, t.Target)
		}
	}
	return store.AppendTargets(nil, &a.Event, late)
}

// notLate is the fence of a delivery whose row is wanted at once.
const notLate = -1

// fence returns the fence under which the row of a delivery may come later.
func (l *lateRun) fence(d *hook.Delivery) int64 {
	if t, ok := l.added[d.ID]; ok {
		return t.fence
	}
	return notLate
}

// take returns the target of a delivery that has no row, once: whoever asks
// writes it.
func (l *lateRun) take(id hook.ID) (store.Target, bool) {
	if _, wrote := l.wrote[id]; wrote {
		return store.Target{}, false
	}
	t, ok := l.known.get(id)
	if late, added := l.added[id]; added {
		t, ok = late.Target, true
	}
	if ok {
		l.wrote[id] = struct{}{}
	}
	return t, ok
}

// shardOf returns the shard whose lock keeps a fence true; false: there is none.
func shardOf(fence int64) (int, bool) { return int(fence % hook.Shards), fence != notLate }

// overdue takes the targets that nobody has settled in time.
func (l *lateRun) overdue(now time.Time) (out []store.Target) {
	for _, t := range l.known.Overdue(now) {
		if _, ok := l.take(t.ID); ok {
			out = append(out, t)
		}
	}
	return out
}

// committed notes what the run has left unwritten, and what no longer is.
func (l *lateRun) committed(b *store.Batch) {
	for _, s := range b.Settles {
		if s.Outcome == store.SettleFenced {
			delete(l.wrote, s.Delivery.ID) // the row was not written, and the new owner may not have looked yet
			l.known.keeps([]store.Held{{Shard: s.Shard, Epoch: s.Epoch}}, nil)
		}
	}
	for _, s := range b.Lanes {
		if s.Outcome == store.SettleFenced {
			l.known.keeps([]store.Held{{Shard: s.Shard, Epoch: s.Epoch}}, nil)
		}
	}
	var own, lent []store.Target
	for _, a := range b.Accepts {
		if a.Outcome != store.AcceptStored {
			continue
		}
		for i := range a.Deliveries {
			t, ok := l.added[a.Deliveries[i].ID]
			if _, wrote := l.wrote[t.ID]; wrote || !ok {
				continue
			}
			if t.lent {
				lent = append(lent, t.Target)
			} else {
				own = append(own, t.Target)
			}
		}
	}
	wrote := make([]hook.ID, 0, len(l.wrote))
	for id := range l.wrote {
		wrote = append(wrote, id)
	}
	l.known.committed(own, lent, wrote)
}

// moveSince is fenced: a newer process of the node may have left out other rows.
const moveSince = `
UPDATE unwritten SET since = $2
WHERE node_id = $1 AND EXISTS (SELECT FROM shards s WHERE s.owner_id = $1 AND s.epoch * 256 + s.shard = $3)`

const (
	// sinceStep is how far events may run ahead of since before it moves: a tenth
	// of a second. Whoever lists deliveries looks at the events from there on.
	sinceStep = hook.DayOfIDs / (24 * 60 * 60 * 10)
	// idleStep is that of a node that commits nothing.
	idleStep = 10 * sinceStep
	// sinceLag is how far since stays behind when the node accepts nothing. An
	// event whose id is older than that gets its rows at once.
	sinceLag = 2 * time.Second
)

// addSince moves since up to the first event that lacks a row.
func (r *run) addSince() {
	l := &r.late
	newest := max(l.since, hook.IDFloor(r.batch.Now.Add(-sinceLag)))
	for _, a := range r.batch.Accepts {
		newest = max(newest, a.Event.ID)
	}
	if l.since == 0 || l.anchor == notLate || newest-l.since < sinceStep {
		return
	}
	oldest := l.known.oldest(newest)
	for _, t := range l.added {
		oldest = min(oldest, t.Event)
	}
	if oldest <= l.since {
		return
	}
	l.known.pass(oldest)
	r.query(moveSince, nil)
	r.id(int64(r.batch.Node))
	r.id(int64(oldest))
	r.id(l.anchor)
}
