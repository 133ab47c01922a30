package lane_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// machine is a model of what may happen to a lane, in any order.
type machine struct {
	l      *lane.Lane
	cfg    lane.Config
	now    time.Time
	nextID hook.ID
	where  map[hook.ID]string // waiting, flying, backoff, settled
	flying []lane.Decision

	probes    int // in flight
	lastProbe time.Time
	asked     bool // a person asked for the next probe
	hold      time.Time
	paused    bool
}

func (m *machine) wait(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "wait")))
}

func (m *machine) arrive(t *rapid.T) {
	m.nextID++
	fails := rapid.IntRange(0, 2).Draw(t, "fails")
	m.where[m.nextID] = "waiting"
	m.l.Arrive(lane.Ref{ID: m.nextID, FirstDue: m.now, Fails: fails, Charged: fails, Tried: fails > 0})
}

func (m *machine) manual(*rapid.T) {
	m.nextID++
	m.where[m.nextID] = "waiting"
	m.l.Manual(m.now, lane.Ref{ID: m.nextID, FirstDue: m.now})
	m.asked = true
}

func (m *machine) next(t *rapid.T) { m.ask(t, rapid.IntRange(0, 20).Draw(t, "free")) }

// ask asks for the next request and reports whether one was sent.
func (m *machine) ask(t *rapid.T, free int) bool {
	state := m.l.State()
	dec := m.l.Next(m.now, free)
	if !dec.Send {
		return false
	}
	if m.where[dec.Ref.ID] != "waiting" {
		t.Fatalf("sent delivery %d, which is %q", dec.Ref.ID, m.where[dec.Ref.ID])
	}
	m.where[dec.Ref.ID] = "flying"
	m.flying = append(m.flying, dec)
	switch {
	case m.paused:
		t.Fatal("sent while paused")
	case m.now.Before(m.hold):
		t.Fatalf("sent %v before the end of a hold", m.hold.Sub(m.now))
	case free == 0:
		t.Fatal("sent without a free slot")
	case state == lane.HalfOpen:
		t.Fatal("sent beside a probe")
	case state == lane.Open:
		m.checkProbe(t, dec)
	case len(m.flying) > m.cfg.Limit:
		t.Fatalf("%d in flight, limit %d", len(m.flying), m.cfg.Limit)
	}
	return true
}

func (m *machine) checkProbe(t *rapid.T, dec lane.Decision) {
	if !dec.Tag.Probe || dec.Tag.Closed {
		t.Fatalf("open lane sent %+v, want a probe", dec)
	}
	m.probes++
	if m.probes > 1 {
		t.Fatal("two probes in flight")
	}
	if gap := m.now.Sub(m.lastProbe); !m.asked && gap < 1600*time.Millisecond {
		t.Fatalf("probe %v after the last one", gap)
	}
	m.lastProbe, m.asked = m.now, false
}

func (m *machine) answer(t *rapid.T) {
	if len(m.flying) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.flying)-1).Draw(t, "which")
	dec := m.flying[i]
	m.flying = append(m.flying[:i], m.flying[i+1:]...)
	class := rapid.SampledFrom(hook.Classes()).Draw(t, "class")
	o := lane.Outcome{Class: class, RTT: time.Millisecond}
	if class == hook.Throttle && rapid.Bool().Draw(t, "header") {
		o.RetryAfter = time.Duration(rapid.Int64Range(1, 120).Draw(t, "retry after")) * time.Second
		o.Hold = o.RetryAfter + time.Second
	}
	before := m.l.Checkpoint()
	gen := m.l.State() == lane.HalfOpen
	m.l.Result(m.now, rapid.Float64Range(0, 0.999).Draw(t, "u"), dec.Tag, o)
	after := m.l.Checkpoint()
	if after.HoldUntil.Before(before.HoldUntil) {
		t.Fatal("a hold moved back")
	}
	if o.Hold > 0 && after.HoldUntil.After(before.HoldUntil) {
		m.hold = after.HoldUntil
	}
	if dec.Tag.Probe {
		m.probes--
		if gen && class == hook.Down && m.l.State() != lane.Open {
			t.Fatal("a failed probe closed the lane")
		}
	}
	if dec.Tag.Probe && class != hook.Success && class != hook.Throttle {
		m.where[dec.Ref.ID] = "waiting"
		dec.Ref.Fails++
		m.l.Return(dec.Ref)
		return
	}
	m.where[dec.Ref.ID] = "settled"
}

func (m *machine) pause(*rapid.T) { m.l.Pause(m.now); m.paused = true }

func (m *machine) resume(*rapid.T) {
	m.l.Resume(m.now)
	m.paused, m.hold = false, time.Time{}
}

func (m *machine) reset(*rapid.T) {
	m.l.Reset(m.now)
	m.hold = time.Time{}
}

func (m *machine) probeNow(*rapid.T) { m.l.ProbeNow(m.now); m.asked = true }

// check holds after every step.
func (m *machine) check(t *rapid.T) {
	waiting := 0
	for _, where := range m.where {
		if where == "waiting" {
			waiting++
		}
	}
	if m.l.Queued() != waiting {
		t.Fatalf("the lane holds %d deliveries, %d were handed in and not sent", m.l.Queued(), waiting)
	}
	if m.l.InFlight() != len(m.flying) {
		t.Fatalf("in flight is %d, want %d", m.l.InFlight(), len(m.flying))
	}
	if w := m.l.Wake(m.now); !w.IsZero() && !w.After(m.now) {
		t.Fatalf("wake-up in the past: %v", w.Sub(m.now))
	}
	// Progress: with work and nothing in flight, the lane sends or says when.
	if waiting > 0 && len(m.flying) == 0 && !m.paused && m.l.Wake(m.now).IsZero() && !m.ask(t, 1000) {
		t.Fatalf("%s lane with %d waiting neither sends nor says when", m.l.State(), waiting)
	}
}

// TestLaneInvariants drives lanes with random inputs: never two probes at once,
// never above the limit, never before the end of a hold, no delivery forgotten
// or sent twice.
func TestLaneInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := config()
		cfg.Limit = rapid.IntRange(1, 10).Draw(t, "limit")
		m := &machine{l: lane.New(cfg, start), cfg: cfg, now: start, where: make(map[hook.ID]string)}
		t.Repeat(map[string]func(*rapid.T){
			"wait": m.wait, "arrive": m.arrive, "arrive again": m.arrive, "manual": m.manual,
			"next": m.next, "next again": m.next, "answer": m.answer, "answer again": m.answer,
			"pause": m.pause, "resume": m.resume, "reset": m.reset, "probe now": m.probeNow,
			"": m.check,
		})
	})
}
