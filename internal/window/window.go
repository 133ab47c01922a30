package window

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// freshKept bounds what a lane that is blocked keeps in memory: enough to
// choose a probe from. The rest of its backlog stays on disk.
const freshKept = 64

// Gate is what a lane does with its deliveries at a moment.
type Gate struct {
	Holds    bool // what is due waits, on disk for the most part
	Discards bool // what is due ends without an attempt
	Paused   bool // nothing is sent, probes included
	ProbeDue bool // an open lane may send its next probe
}

// Source says how a delivery came to the window.
type Source uint8

// What was just accepted and what was read have room of their own.
const (
	Arrived Source = iota
	Read
)

// Item is one delivery in memory.
type Item struct {
	Delivery hook.Delivery
	Event    *hook.Event // nil: read when it is sent

	read    bool // from the store, as opposed to new
	waiting bool // in the lane's queue
	flying  bool // its request is in flight
	// unsettled counts results on their way to the store. Until they are
	// committed the store shows an older delivery, so it must not be read.
	unsettled int
	// mustReread is set when the row may have been changed by others meanwhile:
	// it is read again before it is sent again.
	mustReread bool
}

// Manual reports whether a person asked for this send.
func (it *Item) Manual() bool { return it.Delivery.Restore != nil }

// MustReread reports whether its row has to be read before it is sent again.
func (it *Item) MustReread() bool { return it.mustReread }

// Window is what of one lane is in memory. It is used by one goroutine at a time.
type Window struct {
	size int

	// items are the deliveries in memory: waiting, in flight, or sent and not
	// yet settled. What is in here is skipped when the store is read.
	items       map[hook.ID]*Item
	waiting     int // of them in the lane's queue
	waitingRead int // of those, how many were read from the store

	// diskDue is when the earliest delivery that is only on disk falls due, as
	// far as is known; zero: there is none.
	diskDue time.Time
	// lookNewest asks for a look at the newest due deliveries, because a person
	// asked for one of them.
	lookNewest bool

	reads reads
}

// New returns an empty window. size is how many deliveries that were just
// accepted may wait in it, and three quarters as many that were read.
func New(size int) Window { return Window{size: size, items: make(map[hook.ID]*Item)} }

// Waiting returns how many deliveries wait in the lane's queue.
func (w *Window) Waiting() int { return w.waiting }

// Item returns a delivery that is in memory; nil: it is not.
func (w *Window) Item(id hook.ID) *Item { return w.items[id] }

// Each calls fn for every delivery in memory.
func (w *Window) Each(fn func(*Item)) {
	for _, it := range w.items {
		fn(it)
	}
}

// HasDue reports whether something that is only on disk is due.
func (w *Window) HasDue(now time.Time) bool { return !w.diskDue.IsZero() && !w.diskDue.After(now) }

// LooksNewest reports whether the newest due deliveries are to be looked at,
// because a person may have asked for one of them.
func (w *Window) LooksNewest() bool { return w.lookNewest }

// ReadRoom is how many deliveries that were read may wait in a window of a size.
func ReadRoom(size int) int { return max(size*3/4, 1) }

// RoomForNew is how many more deliveries that were just accepted, by this node or
// by another one, may wait.
func (w *Window) RoomForNew() int { return w.size - (w.waiting - w.waitingRead) }

// HasProbes reports whether enough waits to choose a probe from.
func (w *Window) HasProbes() bool { return w.waiting >= min(freshKept, w.size) }

// low is how many deliveries wait in a window that runs low.
func (w *Window) low() int { return w.size / 4 }

// Admit takes a delivery into memory if it is due and there is room; otherwise
// it stays on disk and is read when its time has come. It returns what is to be
// queued; nil: nothing.
func (w *Window) Admit(now time.Time, d *hook.Delivery, from Source, g Gate) *Item {
	switch {
	case w.knows(d.ID):
		return nil
	case d.DueAt.After(now) || !w.hasRoom(d, from, g):
		w.Announced(d.DueAt)
		return nil
	default:
		return w.queue(d, from)
	}
}

// AdmitProbe takes what the next probe will carry into memory, whatever room
// there is.
func (w *Window) AdmitProbe(d *hook.Delivery) *Item {
	if w.knows(d.ID) {
		return nil
	}
	return w.queue(d, Read)
}

func (w *Window) queue(d *hook.Delivery, from Source) *Item {
	it := &Item{Delivery: *d, read: from == Read}
	w.items[d.ID] = it
	w.enqueue(it)
	return it
}

// knows reports whether the delivery is in memory, or was until just now, so
// that what was read of it may be out of date.
func (w *Window) knows(id hook.ID) bool {
	_, held := w.items[id]
	return held || w.reads.outdated(id)
}

// hasRoom reports whether one more delivery may be kept in memory. What arrives
// and what is read have room of their own: a backlog must not delay what
// arrives, and what arrives must not leave old deliveries on disk for good. A
// lane that holds keeps a few that never failed: they are what a probe should
// carry, and nothing may crowd them out. What a person asked for always fits.
func (w *Window) hasRoom(d *hook.Delivery, from Source, g Gate) bool {
	switch {
	case d.Restore != nil:
		return true
	case g.Holds:
		return d.Progress.FailedAttempts == 0 && !w.HasProbes()
	case g.ProbeDue && w.waiting == 0:
		return true // the probe: without room for it, the search for one would not end
	case g.Discards:
		return len(w.items) < w.size
	case from == Read:
		return w.waitingRead < ReadRoom(w.size)
	default:
		return w.RoomForNew() > 0
	}
}

func (w *Window) enqueue(it *Item) {
	it.waiting = true
	w.waiting++
	if it.read {
		w.waitingRead++
	}
}

func (w *Window) dequeue(it *Item) {
	if !it.waiting {
		return
	}
	it.waiting = false
	w.waiting--
	if it.read {
		w.waitingRead--
	}
}

// Taken notes that the lane sends a delivery that waited.
func (w *Window) Taken(id hook.ID) *Item {
	it := w.items[id]
	w.dequeue(it)
	it.flying = true
	return it
}

// Answered notes the result of a request: the delivery as it is now on its way
// to the store.
func (w *Window) Answered(it *Item, after hook.Delivery) {
	it.flying = false
	it.Delivery = after
	it.unsettled++
}

// Return puts back a delivery whose probe failed, for the next one, if there is
// nothing else in memory for that. With others it waits on disk, where it crowds
// nobody out. It reports whether the delivery waits again.
func (w *Window) Return(it *Item) bool {
	if it.mustReread || w.waiting > 0 {
		return false
	}
	w.enqueue(it)
	return true
}

// Spares reports whether a waiting delivery stays in memory when its lane gets
// blocked and n newer ones stay.
func (w *Window) Spares(id hook.ID, n int) bool {
	it := w.items[id]
	return it.Manual() || it.Delivery.Progress.FailedAttempts == 0 && n < freshKept
}

// Evict leaves a delivery on disk that was taken out of the lane's queue. One with
// results on their way stays known until they are committed. It returns what has
// left memory; nil: nothing.
func (w *Window) Evict(id hook.ID) *Item {
	it := w.items[id]
	w.dequeue(it)
	w.Announced(it.Delivery.DueAt)
	if it.unsettled > 0 {
		return nil
	}
	return w.forget(id)
}

// RowsChanged notes that others may have changed rows of the lane: what is in
// memory and not settled yet is read again before it is sent again. What waits is
// to be evicted.
func (w *Window) RowsChanged(now time.Time) {
	for _, it := range w.items {
		it.mustReread = true
	}
	w.lookAgain(now)
}

func (w *Window) lookAgain(now time.Time) {
	w.Announced(now)
	w.lookNewest = true
}

// Discard notes that a delivery that was taken out of the lane's queue ends
// without an attempt. It stays in memory until its end is stored.
func (w *Window) Discard(id hook.ID) *Item {
	it := w.items[id]
	w.dequeue(it)
	it.unsettled++
	return it
}

// Fate is what became of a delivery in memory when a result of it was stored.
type Fate uint8

// The fates of a delivery.
const (
	Stays   Fate = iota // a later result decides, it waits again, or it was not in memory
	Left                // it is not in memory any more
	Refused             // its row was changed by others: after a moment, Reread
)

// Settled notes that the store has taken a result, or has refused it because the
// row was changed by others. d is the delivery as it was settled. A later due time
// is noted only now: before, a read would still have found the old row.
func (w *Window) Settled(now time.Time, d *hook.Delivery, refused bool) (*Item, Fate) {
	it, ok := w.items[d.ID]
	if !ok {
		return nil, Stays
	}
	it.unsettled--
	switch {
	case it.flying || it.unsettled > 0: // a later result decides
		return it, Stays
	case refused:
		w.dequeue(it)
		return it, Refused
	case it.waiting:
		return it, Stays
	}
	w.forget(d.ID)
	if d.State == hook.Pending {
		w.Announced(d.DueAt)
	}
	if it.mustReread { // it may have been asked for while it was on its way
		w.lookAgain(now)
	}
	return it, Left
}

// Reread lets go of a delivery whose result was refused, so that its row is read
// as it is now.
func (w *Window) Reread(now time.Time, id hook.ID) *Item {
	w.lookAgain(now)
	return w.forget(id)
}

// forget takes a delivery out of memory.
func (w *Window) forget(id hook.ID) *Item {
	it, ok := w.items[id]
	if !ok {
		return nil
	}
	delete(w.items, id)
	w.reads.settled(id)
	return it
}

// Announced notes that a delivery on disk falls due at t.
func (w *Window) Announced(t time.Time) {
	w.diskDue = Earliest(w.diskDue, t)
	w.reads.due(t)
}

// NextLook is when the lane wants to be looked at for what is on disk, or at
// wake, when it wants to be looked at anyway; zero: never by itself.
func (w *Window) NextLook(now, wake time.Time, g Gate) time.Time {
	if !w.diskDue.After(now) || g.Paused || g.Holds && w.waiting > 0 {
		return wake
	}
	// An open lane without anything in memory probes with what falls due.
	due := w.diskDue
	if g.Holds && wake.After(due) {
		due = wake
	}
	return Earliest(wake, due)
}

// Idle reports whether the lane has nothing in memory, nothing on disk and no
// read under way.
func (w *Window) Idle() bool {
	return len(w.items) == 0 && w.diskDue.IsZero() && !w.reads.asked && !w.reads.expiring
}

// Earliest returns the earlier of two times of which zero means none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
