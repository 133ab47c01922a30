package dispatch

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/window"
)

const (
	// readEvery is the least time between two rounds of reads of a loop. The
	// deliveries of its lanes may be accepted by other nodes, a few at a time:
	// what comes meanwhile is read together.
	readEvery = 10 * time.Millisecond
	// readLanes is how many lanes one read serves at most.
	readLanes = 16
	// aheadBytes bounds the payloads that one read brings along. The others are
	// read one by one when they are sent.
	aheadBytes = 1 << 20
)

// ahead is one read of what is due for some lanes.
type ahead struct {
	asOf   time.Time
	limit  int // of what is new, for each lane
	lanes  []*laneAhead
	events map[hook.ID]*hook.Event // of the first rows
}

// laneAhead is what is due for one lane.
type laneAhead struct {
	r         *runner
	known     map[hook.ID]struct{} // deliveries that were in memory when it began
	limit     int                  // of the rows; when there are so many there may be more
	disk      bool                 // whether rows are wanted, or only what was announced
	announced []store.Announced
	rows      []hook.Delivery
	next      time.Time // when the first row after asOf falls due
	err       error
}

// startReads reads for the lanes that want it, now or when enough time has
// passed since the last round.
func (l *loop) startReads() {
	if len(l.toRead) == 0 || l.readSoon {
		return
	}
	now := time.Now()
	if wait := l.readAt.Add(readEvery).Sub(now); wait > 0 {
		l.readSoon = true
		l.postAfter(wait, func() { l.readSoon = false })
		return
	}
	l.readAt = now
	for lanes := range slices.Chunk(l.toRead, readLanes) {
		a := &ahead{asOf: now, limit: window.ReadRoom(l.d.cfg.Window)}
		for _, r := range lanes {
			l.addTo(a, r)
		}
		l.reads.add(func(ctx context.Context) func() {
			a.read(ctx, l.d.cfg.Store)
			return func() { l.readAhead(a) }
		})
	}
	l.toRead = nil
	l.reads.start()
}

// addTo makes a lane a part of the read. Until now it only waited for it: what it
// heard of meanwhile will be seen.
func (l *loop) addTo(a *ahead, r *runner) {
	known := r.win.ReadBegun()
	rows := r.win.WantsRows(a.asOf, r.gate(a.asOf))
	n := min(len(r.announced), max(r.win.RoomForNew(), 0))
	a.lanes = append(a.lanes, &laneAhead{r: r, known: known, limit: a.limit, disk: rows, announced: r.announced[:n:n]})
	r.announced = slices.Clone(r.announced[n:])
}

// read asks the store, for all lanes at once if it can.
func (a *ahead) read(ctx context.Context, db Store) {
	a.events = make(map[hook.ID]*hook.Event)
	if many, ok := db.(store.DueReader); ok {
		a.readTogether(ctx, many)
	} else {
		for _, la := range a.lanes {
			la.read(ctx, db, a.asOf)
		}
	}
	wanted := a.wanted()
	if len(wanted) == 0 {
		return
	}
	// Without them the payloads are read later, and an error shows then.
	events, _ := db.Events(ctx, wanted)
	a.keep(events)
}

func (a *ahead) keep(events []hook.Event) {
	for i := range events {
		a.events[events[i].ID] = &events[i]
	}
}

func (la *laneAhead) read(ctx context.Context, db Store, asOf time.Time) {
	la.limit += len(la.known) // they may all be among the rows
	la.rows, la.err = db.ReadAhead(ctx, la.r.endpoint, asOf, la.limit)
	if la.err == nil && len(la.rows) < la.limit {
		la.next, la.err = db.NextDue(ctx, la.r.endpoint, asOf)
	}
}

func (a *ahead) readTogether(ctx context.Context, db store.DueReader) {
	w := store.Wanted{Known: []hook.ID{}, Now: a.asOf, Limit: a.limit}
	for _, la := range a.lanes {
		if la.disk {
			w.Endpoints = append(w.Endpoints, la.r.endpoint)
		}
		w.Known = slices.AppendSeq(w.Known, maps.Keys(la.known))
		w.Announced = append(w.Announced, la.announced...)
	}
	due, events, err := db.ReadDue(ctx, w)
	a.keep(events)
	for _, la := range a.lanes {
		la.rows, la.next, la.err = due[la.r.endpoint].Deliveries, due[la.r.endpoint].Next, err
	}
}

// wanted returns the events whose payloads are worth to be read with the rows:
// those that come first in each lane.
func (a *ahead) wanted() (ids []hook.ID) {
	for _, la := range a.lanes {
		bytes := 0
		for i := range la.rows {
			if _, here := la.known[la.rows[i].ID]; here || a.events[la.rows[i].EventID] != nil {
				continue
			}
			if bytes += la.rows[i].Size; bytes > aheadBytes/len(a.lanes) {
				break
			}
			ids = append(ids, la.rows[i].EventID)
		}
	}
	return ids
}

// readAhead takes what was read into the windows.
func (l *loop) readAhead(a *ahead) {
	now := time.Now()
	for _, la := range a.lanes {
		if !la.r.dropped {
			l.takeAhead(now, a, la)
		}
	}
}

func (l *loop) takeAhead(now time.Time, a *ahead, la *laneAhead) {
	r := la.r
	isNew := make(map[hook.ID]bool, len(la.announced))
	for _, n := range la.announced {
		isNew[n.Delivery] = true
	}
	for i := range la.rows {
		from := window.Read
		if isNew[la.rows[i].ID] {
			from = window.Arrived
		}
		l.admit(now, r, &la.rows[i], a.events[la.rows[i].EventID], from)
	}
	switch {
	case la.err != nil:
		l.d.cfg.Log.Warn("read ahead failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", la.err)
		r.win.ReadEnded(now.Add(readAgain))
		if len(la.announced) > 0 {
			l.postAfter(readAgain, func() { l.announced(la.announced) })
		}
	case la.disk && len(la.rows) >= la.limit: // some may be announced ones: one read too many
		r.win.ReadEnded(a.asOf)
	case la.disk:
		r.win.ReadEnded(la.next)
	default:
		r.win.ReadPartly(la.next)
	}
	l.touch(r)
}
