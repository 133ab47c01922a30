package window_test

import (
	"math/rand/v2"
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
	inManyWorlds(t, func(m *world) {
		m.twice = m.t.Fatalf
		m.run()
	})
}

// TestSettledDuringAReadIsNotAdmittedFromIt: the read may have seen the row as it
// was before.
func TestSettledDuringAReadIsNotAdmittedFromIt(t *testing.T) {
	t.Parallel()
	inManyWorlds(t, func(m *world) {
		m.outdated = m.t.Fatalf
		m.run()
	})
}

// TestDueOnDiskIsNeverForgotten: at any time every pending row that is not in
// memory is covered by DiskDue, and in the end everything is sent.
func TestDueOnDiskIsNeverForgotten(t *testing.T) {
	t.Parallel()
	inManyWorlds(t, func(m *world) {
		m.forgotten = m.t.Fatalf
		m.run()
		m.drain()
	})
}

// inManyWorlds runs a law in worlds that differ in what is common and what is rare.
func inManyWorlds(t *testing.T, law func(*world)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range 8 {
			law(newWorld(t, rng))
		}
	})
}

// check holds after every action.
func (m *world) check() {
	if got := m.w.Waiting(); got != len(m.queue) {
		m.t.Fatalf("%d wait, the queue has %d", got, len(m.queue))
	}
	if room := m.size - m.w.RoomForNew(); room < 0 || room > len(m.queue) {
		m.t.Fatalf("%d of %d that wait are new", room, len(m.queue))
	}
	if m.w.Idle() && (m.w.Len() > 0 || m.read != nil || m.expiry != nil) {
		m.t.Fatalf("idle with %d in memory", m.w.Len())
	}
	if m.read != nil {
		return // what it will bring is not known
	}
	at := m.w.DiskDue()
	for id, d := range m.disk {
		if d.State != hook.Pending || m.w.Item(id) != nil || !at.IsZero() && !at.After(latest(d.DueAt, m.now, m.retryAt)) {
			continue
		}
		if !slices.ContainsFunc(m.mail, func(msg message) bool { return msg.about == id }) {
			m.forgotten("delivery %d falls due at %v; the window looks at %v", id, d.DueAt, at)
		}
	}
}

func latest(a, b, c time.Time) time.Time {
	if b.After(a) {
		a = b
	}
	if c.After(a) {
		a = c
	}
	return a
}

// drain lets everything that is under way end, opens the gate, and follows the
// window until nothing is pending.
func (m *world) drain() {
	m.gate = window.Gate{}
	for range 1000 {
		m.settle()
		if len(m.pending()) == 0 {
			return
		}
		switch g := m.gate; {
		case m.w.Reading(): // asked for, and not begun
			m.begin()
		case m.w.HasDue(m.now) && m.w.LooksNewest():
			m.beginSearch()
		case m.w.HasDue(m.now) && m.w.WantsRows(m.now, g) && m.w.RunsLow(m.now):
			m.begin()
		case m.w.HasDue(m.now):
			m.t.Fatalf("rows are due and nobody wants them: %d in memory", m.w.Len())
		default:
			next := m.w.NextLook(m.now, time.Time{}, g)
			if next.IsZero() {
				m.forgotten("rows are pending and the window looks no more")
			}
			m.now = next
		}
	}
	m.forgotten("rows are still pending")
}

// settle runs until nothing is under way.
func (m *world) settle() {
	for m.read != nil || m.expiry != nil || len(m.queue)+len(m.flights)+len(m.results)+len(m.mail)+len(m.refused) > 0 {
		if m.read != nil {
			m.endRead()
		}
		if m.expiry != nil {
			m.endExpiry()
		}
		for len(m.queue) > 0 {
			m.flights = append(m.flights, flight{m.w.Item(m.queue[0]), m.w.Taken(m.queue[0]).Delivery})
			m.queue = m.queue[1:]
		}
		for len(m.flights) > 0 {
			m.land(0, "delivered")
		}
		for len(m.results) > 0 {
			m.commit()
		}
		for len(m.mail) > 0 {
			m.deliver()
		}
		for len(m.refused) > 0 {
			m.reread()
		}
	}
}
