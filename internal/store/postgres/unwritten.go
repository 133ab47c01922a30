package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// unwritten is what this process knows of the deliveries that a node has
// accepted for lanes of its own and whose rows come with their results. The
// events' rows name them, so whoever takes the lanes over finds them too.
//
// It may hold a delivery that has a row: every statement that writes one minds
// that. It must not lack one that has none, because since moves past it.
type unwritten struct {
	*store.Unwritten

	mu    sync.Mutex
	held  map[int]int64 // shards whose lanes are the node's, with their epochs
	since hook.ID       // no event before it lacks a row; what is stored is not more
}

// unwrittenOf returns what is known of the node.
func (d *DB) unwrittenOf(node hook.ID) *unwritten {
	d.unwrittenMu.Lock()
	defer d.unwrittenMu.Unlock()
	u, ok := d.unwritten[node]
	if !ok {
		u = &unwritten{Unwritten: store.NewUnwritten(), held: make(map[int]int64)}
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
	u.since = since
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

// lateRun is the deliveries of one run whose rows come later, or now at last.
type lateRun struct {
	known *unwritten
	since hook.ID
	// added are those that the batch accepts, by id.
	added map[hook.ID]lateTarget
	// wrote are the deliveries that got their row in this run, if they had none.
	wrote map[hook.ID]struct{}
}

// lateTarget is a delivery that is accepted without a row, as long as the node
// owns its lane in the epoch it thinks.
type lateTarget struct {
	store.Target
	fence int64
}

// begin decides which deliveries of the batch get their row later: those that
// are due now, in a lane of the node. Whether it still is the node's the
// transaction tells, see acceptNow.
func (l *lateRun) begin(known *unwritten, b *store.Batch) {
	known.mu.Lock()
	defer known.mu.Unlock()
	*l = lateRun{
		known: known, since: known.since,
		added: make(map[hook.ID]lateTarget, len(b.Accepts)), wrote: make(map[hook.ID]struct{}, len(b.Settles)),
	}
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
				l.added[t.ID] = lateTarget{t, fenceOf(shard, epoch)}
			} else if b.Rerun { // an earlier run may have left it out, when the lane was still the node's
				l.added[t.ID] = lateTarget{t, notLate}
			}
		}
	}
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
	t, ok := l.known.Get(id)
	if late, added := l.added[id]; added {
		t, ok = late.Target, true
	}
	if ok {
		l.wrote[id] = struct{}{}
	}
	return t, ok
}

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
		}
	}
	var added []store.Target
	for _, a := range b.Accepts {
		if a.Outcome != store.AcceptStored {
			continue
		}
		for i := range a.Deliveries {
			t, ok := l.added[a.Deliveries[i].ID]
			if _, wrote := l.wrote[t.ID]; ok && !wrote {
				added = append(added, t.Target)
			}
		}
	}
	wrote := make([]hook.ID, 0, len(l.wrote))
	for id := range l.wrote {
		wrote = append(wrote, id)
	}
	l.known.Committed(added, wrote)
	l.known.mu.Lock()
	defer l.known.mu.Unlock()
	l.known.since = max(l.known.since, l.since)
}

const moveSince = `UPDATE unwritten SET since = $2 WHERE node_id = $1`

// sinceStep is how far events may run ahead of since before it moves: a tenth
// of a second. Whoever lists deliveries looks at the events from there on.
const sinceStep = hook.DayOfIDs / (24 * 60 * 60 * 10)

// addSince moves since up to the first event that lacks a row.
func (r *run) addSince() {
	l := &r.late
	newest := l.since
	for _, a := range r.batch.Accepts {
		newest = max(newest, a.Event.ID)
	}
	if l.since == 0 || newest-l.since < sinceStep {
		return
	}
	oldest := l.known.Oldest(newest)
	for _, t := range l.added {
		oldest = min(oldest, t.Event)
	}
	if oldest <= l.since {
		return
	}
	l.since = oldest
	r.query(moveSince, nil)
	r.id(int64(r.batch.Node))
	r.id(int64(oldest))
}
