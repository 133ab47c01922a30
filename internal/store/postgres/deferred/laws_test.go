package deferred_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
)

// TestNoDeferredDeliveryIsLost runs nodes in any order of accepts, results,
// announcements, take-overs, restarts and reads. The laws are checked after each
// step: see check, and what world fails for.
func TestNoDeferredDeliveryIsLost(t *testing.T) {
	t.Parallel()
	for range 5 { // some breaches need a rare order
		rapid.Check(t, inAnyOrder)
	}
}

func inAnyOrder(t *rapid.T) {
	w := newWorld(t)
	t.Repeat(map[string]func(*rapid.T){
		"":       func(*rapid.T) { w.check() },
		"accept": func(*rapid.T) { w.commit(w.process(), &store.Batch{Accepts: []*store.Accept{w.accept()}}) },
		"settle": func(*rapid.T) { p := w.process(); w.commit(p, &store.Batch{Settles: w.settles(p)}) },
		"both": func(*rapid.T) {
			p := w.process()
			w.commit(p, &store.Batch{Accepts: []*store.Accept{w.accept()}, Settles: w.settles(p)})
		},
		"take":    func(*rapid.T) { w.take(w.process(), false, hook.ShardOf(w.endpoint())) },
		"taken":   func(*rapid.T) { w.taken(w.process()) },
		"renew":   func(*rapid.T) { w.renew(w.process()) },
		"release": func(*rapid.T) { w.release(w.process(), hook.ShardOf(w.endpoint())) },
		"restart": func(*rapid.T) { w.restart(w.process()) },
		"look":    func(*rapid.T) { w.look(w.process(), deferred.Scope{Endpoint: w.endpoint()}) },
		"hear": func(*rapid.T) {
			if len(w.stored) > 0 {
				w.hear(w.process(), rapid.SampledFrom(w.stored).Draw(w.T, "delivery"))
			}
		},
		"overdue": func(*rapid.T) { w.insertOverdue(w.process()) },
		"wait":    func(*rapid.T) { w.pass(time.Duration(rapid.IntRange(1, 400).Draw(w.T, "ms")) * time.Millisecond) },
		"night":   func(*rapid.T) { w.pass(time.Minute) },
	})
	w.end()
}

// check holds after every step.
func (w *world) check() {
	for _, d := range w.stored {
		if d.row {
			continue
		}
		if floor := w.floors[d.by.ID]; floor > d.EventID {
			w.Fatalf("floor %d of node %d is past event %d, whose delivery %d has no row", floor, d.by.ID, d.EventID, d.ID)
		}
		if !w.hasShard(d.by.ID) && !w.hasShard(0) && !w.unseen {
			w.Fatalf("delivery %d has no row, and nobody will take shards of node %d over", d.ID, d.by.ID)
		}
	}
}

// checkInsert: one statement inserts all rows, in the order of their ids, and
// every result comes with a row or changes one.
func (w *world) checkInsert(settles []*store.Settle, rows []deferred.Row, rest []*store.Settle) {
	if !slices.IsSortedFunc(rows, func(a, b deferred.Row) int { return int(a.ID - b.ID) }) {
		w.Fatalf("rows are not in the order of ids")
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].ID == rows[i-1].ID {
			w.Fatalf("row %d is inserted twice", rows[i].ID)
		}
	}
	for _, s := range settles {
		comes := slices.ContainsFunc(rows, func(r deferred.Row) bool { return r.Settle == s })
		if comes == slices.Contains(rest, s) {
			w.Fatalf("the result of delivery %d is written twice, or never", s.Delivery.ID)
		}
		if comes && !succeeded(s) {
			w.Fatalf("the result of delivery %d comes with a row that cannot tell it", s.Delivery.ID)
		}
	}
}

// end: with time, what a process has deferred gets its row even if the process
// commits nothing and nobody looks, and its floor moves; what a process that died
// has deferred is found by the next owner.
func (w *world) end() {
	for _, p := range w.processes {
		for p.uncertain != nil {
			w.commit(p, &store.Batch{})
		}
		w.taken(p)
		w.renew(p)
	}
	w.pass(3 * time.Second)
	for _, p := range w.processes {
		w.insertOverdue(p)
	}
	for _, d := range w.stored {
		if !d.row && slices.Contains(w.processes, d.by) {
			w.Fatalf("delivery %d has no row after 3 s", d.ID)
		}
	}
	w.pass(3 * time.Second)
	for _, p := range w.processes {
		w.insertOverdue(p)
		if floor := w.floors[p.ID]; len(p.held) > 0 && floor < hook.IDFloor(w.now.Add(-3*time.Second)) {
			w.Fatalf("floor %d of node %d stays behind, though all rows are there", floor, p.ID)
		}
	}
	w.check()
	survivor := w.start(3)
	w.take(survivor, false, w.allShards()...)
	w.taken(survivor)
	for _, d := range w.stored {
		if _, held := survivor.memory[d.ID]; d.State == hook.Pending && !held {
			w.Fatalf("delivery %d is pending, and its last owner does not find it", d.ID)
		}
	}
}
