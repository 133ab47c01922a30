package window_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/window"
)

var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func dueAt(id hook.ID, at time.Time) *hook.Delivery { return &hook.Delivery{ID: id, DueAt: at} }

func failed(id hook.ID) *hook.Delivery {
	return &hook.Delivery{ID: id, DueAt: start, Progress: hook.Progress{FailedAttempts: 1}}
}

// TestRoom: what arrives and what is read do not take each other's room, a lane
// that holds keeps only what a probe may carry, and what a person asked for
// always fits.
func TestRoom(t *testing.T) {
	t.Parallel()
	const size = 4
	for name, tc := range map[string]struct {
		gate     window.Gate
		from     window.Source
		failed   bool
		offered  int
		want     int // admitted
		wantRead int // of a backlog after that, into a closed lane
	}{
		"new":                {from: window.Arrived, offered: 9, want: 4, wantRead: 3},
		"read":               {from: window.Read, offered: 9, want: 3, wantRead: 0},
		"held":               {gate: window.Gate{Holds: true}, from: window.Arrived, offered: 9, want: 4, wantRead: 3},
		"held, all failed":   {gate: window.Gate{Holds: true}, from: window.Read, failed: true, offered: 9, want: 0, wantRead: 3},
		"the probe":          {gate: window.Gate{Discards: true, ProbeDue: true}, from: window.Read, failed: true, offered: 1, want: 1, wantRead: 2},
		"discarded, bounded": {gate: window.Gate{Discards: true}, from: window.Read, offered: 9, want: 4, wantRead: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := window.New(size)
			admit := func(first hook.ID, n int, from window.Source, g window.Gate, bad bool) (got int) {
				for i := range n {
					d := dueAt(first+hook.ID(i), start)
					if bad {
						d = failed(d.ID)
					}
					if w.Admit(start, d, from, g) != nil {
						got++
					}
				}
				return got
			}
			if got := admit(1, tc.offered, tc.from, tc.gate, tc.failed); got != tc.want {
				t.Errorf("%d admitted, want %d", got, tc.want)
			}
			if got := admit(100, 9, window.Read, window.Gate{}, true); got != tc.wantRead {
				t.Errorf("%d read beside them, want %d", got, tc.wantRead)
			}
			manual := failed(1000)
			manual.Restore = &hook.Restore{State: hook.Pending}
			if w.Admit(start, manual, window.Read, tc.gate) == nil {
				t.Error("no room for what a person asked for")
			}
		})
	}
}

// TestNextLook: the window is looked at when what is on disk falls due, unless its
// lane could do nothing with it.
func TestNextLook(t *testing.T) {
	t.Parallel()
	soon, late := start.Add(time.Second), start.Add(time.Minute)
	for name, tc := range map[string]struct {
		due, wake time.Time
		waits     bool
		gate      window.Gate
		want      time.Time
	}{
		"nothing on disk":                {},
		"due later":                      {due: soon, want: soon},
		"lane first":                     {due: late, wake: soon, want: soon},
		"disk first":                     {due: soon, wake: late, want: soon},
		"due already":                    {due: start, wake: late, want: late},
		"paused":                         {due: soon, gate: window.Gate{Holds: true, Paused: true}},
		"open, probes when it may":       {due: soon, wake: late, gate: window.Gate{Holds: true}, want: late},
		"open, probes when there is one": {due: late, wake: soon, gate: window.Gate{Holds: true}, want: soon},
		"open, has a probe":              {due: soon, waits: true, gate: window.Gate{Holds: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := window.New(4)
			if tc.waits {
				w.Admit(start, dueAt(1, start), window.Arrived, tc.gate)
			}
			if !tc.due.IsZero() {
				w.Announced(tc.due)
			}
			if got := w.NextLook(start, tc.wake, tc.gate); !got.Equal(tc.want) {
				t.Errorf("NextLook = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestLaterDueTimeIsNotedWhenStored: before, a read would still find the old row.
func TestLaterDueTimeIsNotedWhenStored(t *testing.T) {
	t.Parallel()
	w := window.New(4)
	w.Admit(start, dueAt(1, start), window.Arrived, window.Gate{})
	it := w.Taken(1)
	after := it.Delivery
	after.DueAt = start.Add(time.Minute)
	w.Answered(it, after)
	if at := w.DiskDue(); !at.IsZero() {
		t.Errorf("DiskDue = %v before the result is stored", at)
	}
	if _, fate := w.Settled(start, &after, false); fate != window.Left {
		t.Errorf("fate = %v, want Left", fate)
	}
	if at := w.DiskDue(); !at.Equal(after.DueAt) {
		t.Errorf("DiskDue = %v, want %v", at, after.DueAt)
	}
}

// TestRefusedResultIsReadAgain: others have changed the row. It stays known for a
// moment, so a read in between passes it over; then it is read.
func TestRefusedResultIsReadAgain(t *testing.T) {
	t.Parallel()
	w := window.New(4)
	w.Admit(start, dueAt(1, start), window.Arrived, window.Gate{})
	it := w.Taken(1)
	w.Answered(it, it.Delivery)
	if _, fate := w.Settled(start, &it.Delivery, true); fate != window.Refused {
		t.Fatalf("fate = %v, want Refused", fate)
	}
	w.ReadBegun()
	if w.Admit(start, dueAt(1, start), window.Read, window.Gate{}) != nil {
		t.Error("queued while it waits to be read again")
	}
	w.ReadEnded(time.Time{})
	if w.Reread(start, 1) == nil || !w.HasDue(start) || !w.LooksNewest() {
		t.Error("the row is not read again")
	}
}
