package window

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// readPatience is how long what is on disk waits at most for the window to run
// low before it is read all the same.
const readPatience = 100 * time.Millisecond

// reads are the reads of the store that run for one lane: at most one for what
// is to be sent, and one for what was held too long.
type reads struct {
	asked    bool // one is wanted or runs
	askedAt  time.Time
	begun    bool // it runs: what it will see cannot be told any more
	expiring bool

	// dueDuringRead is the earliest due time heard of while the read was running.
	dueDuringRead time.Time
	// settledDuringRead remembers, with a running number, what left memory while
	// a read was running: the read may have seen the row as it was before.
	settledDuringRead map[hook.ID]uint64
	last              uint64 // the number given last
	from              uint64 // it when the read began
	expiryFrom        uint64 // it when the read of what is to expire began
}

func (r *reads) due(t time.Time) {
	if r.begun {
		r.dueDuringRead = Earliest(r.dueDuringRead, t)
	}
}

func (r *reads) settled(id hook.ID) {
	if !r.begun && !r.expiring {
		return
	}
	if r.settledDuringRead == nil {
		r.settledDuringRead = make(map[hook.ID]uint64)
	}
	r.last++
	r.settledDuringRead[id] = r.last
}

// outdated reports whether the delivery was settled since the read began.
func (r *reads) outdated(id hook.ID) bool {
	return r.begun && r.settledDuringRead[id] > r.from
}

// ended forgets what nobody reads any more.
func (r *reads) ended() {
	if !r.begun && !r.expiring {
		r.settledDuringRead = nil
	}
}

// WantsRows reports whether rows are due that may be read, and there is room for
// them. A lane that holds reads none: its backlog costs nothing while it waits.
// What a lane has discarded is in memory until its end is stored.
func (w *Window) WantsRows(now time.Time, g Gate) bool {
	return w.HasDue(now) && !g.Holds && w.waitingRead <= w.low() && (!g.Discards || len(w.items) < w.size)
}

// RunsLow reports whether it is time to read: the window runs low, or nothing was
// read for a while, because more may arrive all the time than the lane sends.
func (w *Window) RunsLow(now time.Time) bool {
	return w.waiting <= w.low() || now.Sub(w.reads.askedAt) >= readPatience
}

// Reading reports whether a read is wanted or runs.
func (w *Window) Reading() bool { return w.reads.asked }

// ReadAsked notes that a read is wanted and waits for its turn.
func (w *Window) ReadAsked(now time.Time) { w.reads.asked, w.reads.askedAt = true, now }

// ReadBegun notes that the read starts: what was heard of until now it will see.
// It returns the deliveries in memory, which the read need not bring.
func (w *Window) ReadBegun() map[hook.ID]struct{} {
	r := &w.reads
	r.asked, r.begun, r.from, r.dueDuringRead = true, true, r.last, time.Time{}
	known := make(map[hook.ID]struct{}, len(w.items))
	for id := range w.items {
		known[id] = struct{}{}
	}
	return known
}

// SearchBegun is ReadBegun for a read of the newest due deliveries.
func (w *Window) SearchBegun() map[hook.ID]struct{} {
	w.lookNewest = false
	return w.ReadBegun()
}

// ReadEnded ends a read after its rows were admitted. next is when the earliest
// row falls due that the read did not bring: it is in the past when there may be
// more that are due, and zero when there is none. After a read that failed it is
// when to try again.
func (w *Window) ReadEnded(next time.Time) {
	w.diskDue = next
	w.readOver()
}

// ReadPartly ends a read that was not for all that is due: what is known of the
// rest stays. next is when a row falls due that it saw; zero: none.
func (w *Window) ReadPartly(next time.Time) {
	w.diskDue = Earliest(w.diskDue, next)
	w.readOver()
}

// readOver adds what was heard of while the read was running: it may have come
// too late to be seen.
func (w *Window) readOver() {
	r := &w.reads
	w.diskDue = Earliest(w.diskDue, r.dueDuringRead)
	r.asked, r.begun, r.dueDuringRead = false, false, time.Time{}
	r.ended()
}

// Expiring reports whether what was held too long is being read.
func (w *Window) Expiring() bool { return w.reads.expiring }

// ExpiryBegun notes that what was held too long is being read.
func (w *Window) ExpiryBegun() { w.reads.expiring, w.reads.expiryFrom = true, w.reads.last }

// Expire takes a delivery that was held too long out of the queue, or into memory
// until its end is stored, and returns it. It returns nil when it may not end now:
// it is in flight, or there is a result that the read may not have seen.
func (w *Window) Expire(d *hook.Delivery) *Item {
	it, held := w.items[d.ID]
	switch {
	case w.reads.settledDuringRead[d.ID] > w.reads.expiryFrom:
		return nil
	case held && (!it.waiting || it.unsettled > 0):
		return nil
	case held:
		w.dequeue(it)
	default:
		it = &Item{Delivery: *d} // so that it is not read meanwhile
		w.items[d.ID] = it
	}
	it.unsettled++
	return it
}

// ExpiryEnded notes that what was read has expired, or that the read failed.
func (w *Window) ExpiryEnded() {
	w.reads.expiring = false
	w.reads.ended()
}
