package window_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// TestNoDeliveryIsQueuedTwice: what waits, is in flight, or has a result on its
// way to the store is not admitted again.
func TestNoDeliveryIsQueuedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newWorld(t)
		m.twice = (*rapid.T).Fatalf
		m.run(t)
	})
}

// TestSettledDuringAReadIsNotAdmittedFromIt: the read may have seen the row as it
// was before.
func TestSettledDuringAReadIsNotAdmittedFromIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newWorld(t)
		m.outdated = (*rapid.T).Fatalf
		m.run(t)
	})
}

// TestDueOnDiskIsNeverForgotten: at any time every pending row that is not in
// memory is covered by DiskDue, and in the end everything is sent.
func TestDueOnDiskIsNeverForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newWorld(t)
		m.forgotten = (*rapid.T).Fatalf
		m.run(t)
		m.drain(t)
	})
}

// check holds after every action.
func (m *world) check(t *rapid.T) {
	if got := m.w.Waiting(); got != len(m.queue) {
		t.Fatalf("%d wait, the queue has %d", got, len(m.queue))
	}
	if room := m.size - m.w.RoomForNew(); room < 0 || room > len(m.queue) {
		t.Fatalf("%d of %d that wait are new", room, len(m.queue))
	}
	if m.w.Idle() && (m.w.Len() > 0 || m.read != nil || m.expiry != nil) {
		t.Fatalf("idle with %d in memory", m.w.Len())
	}
	if m.read != nil {
		return // what it will bring is not known
	}
	told := make(map[hook.ID]bool, len(m.mail))
	for _, msg := range m.mail {
		told[msg.about] = true
	}
	for id, d := range m.disk {
		if d.State != hook.Pending || told[id] || m.w.Item(id) != nil {
			continue
		}
		by := latest(d.DueAt, m.now, m.retryAt)
		if at := m.w.DiskDue(); at.IsZero() || at.After(by) {
			m.forgotten(t, "delivery %d falls due at %v; the window looks at %v", id, d.DueAt, at)
		}
	}
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// drain lets everything that is under way end, opens the gate, and follows the
// window until nothing is pending.
func (m *world) drain(t *rapid.T) {
	m.gate = window.Gate{}
	for range 1000 {
		m.settle(t)
		if !m.pending() {
			return
		}
		switch g := m.gate; {
		case m.w.Reading(): // asked for, and not begun
			m.begin(t)
		case m.w.HasDue(m.now) && m.w.LooksNewest():
			m.beginSearch(t)
		case m.w.HasDue(m.now) && m.w.WantsRows(m.now, g) && m.w.RunsLow(m.now):
			m.begin(t)
		case m.w.HasDue(m.now):
			t.Fatalf("rows are due and nobody wants them: %d in memory", m.w.Len())
		default:
			next := m.w.NextLook(m.now, time.Time{}, g)
			if next.IsZero() {
				m.forgotten(t, "rows are pending and the window looks no more")
			}
			m.now = next
		}
	}
	m.forgotten(t, "rows are still pending")
}

// settle runs until nothing is under way.
func (m *world) settle(t *rapid.T) {
	for m.read != nil || m.expiry != nil || len(m.queue)+len(m.flights)+len(m.results)+len(m.mail)+len(m.refused) > 0 {
		if m.read != nil {
			m.endRead(t)
		}
		if m.expiry != nil {
			m.endExpiry(t)
		}
		for len(m.queue) > 0 {
			m.flights = append(m.flights, flight{m.w.Item(m.queue[0]), m.w.Taken(m.queue[0]).Delivery})
			m.queue = m.queue[1:]
		}
		for len(m.flights) > 0 {
			m.land(t, 0, "delivered")
		}
		for len(m.results) > 0 {
			m.commit(t)
		}
		for len(m.mail) > 0 {
			m.deliver(t)
		}
		for len(m.refused) > 0 {
			m.reread(t)
		}
	}
}

func (m *world) pending() bool {
	for _, d := range m.disk {
		if d.State == hook.Pending {
			return true
		}
	}
	return false
}
