package lane_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// TestLaws drives lanes with random inputs in any legal order, and checks the
// laws after every one of them.
func TestLaws(t *testing.T) {
	t.Parallel()
	for name, fixed := range map[string]bool{"adaptive": false, "fixed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := newMachine(t, anyConfig(t, fixed))
				t.Repeat(map[string]func(*rapid.T){
					"": m.check, "time passes": m.wait, "wake": m.wake,
					"arrive": m.arrive, "arrive often": m.arrive, "due": m.due, "forget": m.forget,
					"next": m.next, "next often": m.next, "answer": m.answer, "answer often": m.answer,
					"traffic": m.traffic, "manual": m.manual, "probe now": m.probeNow,
					"pause": m.pause, "resume": m.resume, "reset": m.reset,
					"new owner": m.newOwner, "evicted": m.evicted,
					"configure": func(t *rapid.T) { m.configure(t, anyConfig(t, fixed)) },
				})
			})
		})
	}
}

// TestLawsWhenTheModeChanges turns a fixed limit into an adaptive one and back.
func TestLawsWhenTheModeChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, anyConfig(t, rapid.Bool().Draw(t, "fixed")))
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "traffic": m.traffic, "answer": m.answer, "new owner": m.newOwner, "evicted": m.evicted,
			"configure": func(t *rapid.T) { m.configure(t, anyConfig(t, rapid.Bool().Draw(t, "fixed"))) },
			"new owner and policy": func(t *rapid.T) {
				m.cfg = anyConfig(t, rapid.Bool().Draw(t, "fixed"))
				m.newOwner(t)
			},
		})
	})
}

// TestLawsUnderLoad keeps lanes busy for minutes, long enough for what only
// happens then: base probes, and an endpoint that became slower for good.
func TestLawsUnderLoad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, anyConfig(t, false))
		for range 3 {
			e := anyEndpoint(t)
			for range 250 {
				m.serve(t, e)
				m.check(t)
				if cfg := m.cfg; e.rng.IntN(50) == 0 {
					cfg.Max = 1 + e.rng.IntN(100)
					m.configure(t, cfg)
				}
			}
		}
	})
}

func anyConfig(t *rapid.T, fixed bool) lane.Config {
	cfg := config()
	cfg.Fixed = fixed
	cfg.Limit = rapid.IntRange(1, 10).Draw(t, "limit")
	cfg.Initial = rapid.IntRange(1, 20).Draw(t, "initial")
	cfg.Max = rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(6, 100)).Draw(t, "max")
	if rapid.IntRange(0, 4).Draw(t, "rated") == 0 {
		cfg.Rate = rapid.Float64Range(0.1, 50).Draw(t, "rate")
		cfg.Burst = rapid.IntRange(0, 20).Draw(t, "burst")
	}
	cfg.Breaker = rapid.IntRange(0, 9).Draw(t, "breaker") > 0
	return cfg
}

// place is where a delivery is; nowhere once it is settled.
type place string

const (
	waiting place = "waiting in the lane"
	inAir   place = "in flight"
	backoff place = "in its own backoff"
)

// machine is a model of everything that may happen to a lane, in any order.
type machine struct {
	l, twin *lane.Lane // the twin gets the same inputs
	cfg     lane.Config
	now     time.Time
	paused  bool

	where   map[hook.ID]place
	refs    map[hook.ID]lane.Ref
	flights []*flight
	lastID  hook.ID

	answered time.Time // latest start of a request that succeeded

	asked     bool // a person asked for the next probe
	lastProbe time.Time
	leastGap  time.Duration // between probes, under any configuration so far
	liveRun   int           // sends of live events since the last one of the backlog, while both waited
}

type flight struct {
	dec     lane.Decision
	started time.Time
	till    time.Time // answered then, when there is an endpoint
}

func newMachine(t *rapid.T, cfg lane.Config) *machine {
	m := &machine{
		l: lane.New(cfg, start), twin: lane.New(cfg, start), cfg: cfg, now: start,
		where: make(map[hook.ID]place), refs: make(map[hook.ID]lane.Ref), leastGap: leastGap(cfg),
	}
	m.check(t)
	return m
}

func leastGap(cfg lane.Config) time.Duration {
	return time.Duration(float64(cfg.ProbeMin) * (1 - cfg.ProbeJitter))
}

// input gives the lane an input, its twin the same, and compares.
func input[T comparable](t *rapid.T, m *machine, do func(*lane.Lane) T) (got T, before, after lane.View) {
	before = m.l.View()
	got = do(m.l)
	if other := do(m.twin); got != other {
		t.Fatalf("law 10 (determinism): the same input gave %+v and %+v", got, other)
	}
	return got, before, m.l.View()
}

// order is an input without an answer that must leave limit, base and probe
// times alone.
func (m *machine) order(t *rapid.T, do func(*lane.Lane)) (before, after lane.View) {
	_, before, after = input(t, m, func(l *lane.Lane) bool { do(l); return true })
	m.checkBaseUntouched(t, before, after)
	m.checkNoRise(t, before, after)
	return before, after
}

func (m *machine) wait(t *rapid.T) {
	most := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "at most")
	m.now = m.now.Add(time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "wait")))
}

// wakeUp is when the lane wants to be asked again.
func (m *machine) wakeUp(t *rapid.T) time.Time {
	at, _, _ := input(t, m, func(l *lane.Lane) time.Time { return l.Wake(m.now) })
	if !at.IsZero() && !at.After(m.now) {
		t.Fatalf("law 11 (progress): a wake-up %v ago", m.now.Sub(at))
	}
	return at
}

// wake waits as long as the lane wants.
func (m *machine) wake(t *rapid.T) {
	if at := m.wakeUp(t); !at.IsZero() {
		m.now = at
		m.ask(t, math.MaxInt)
	}
}

func (m *machine) arrive(t *rapid.T) {
	fails := rapid.IntRange(-3, 2).Draw(t, "fails")
	m.handIn(t, lane.Ref{
		FirstDue:       m.now.Add(-time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "age"))),
		FailedAttempts: max(fails, 0), Charged: max(fails, 0), Tried: fails > 0,
		Replay: rapid.IntRange(0, 5).Draw(t, "replay") == 0,
	})
}

func (m *machine) handIn(t *rapid.T, r lane.Ref) {
	if r.ID == 0 {
		m.lastID++
		r.ID = m.lastID
	}
	m.where[r.ID], m.refs[r.ID] = waiting, r
	m.order(t, func(l *lane.Lane) { l.Arrive(r) })
}

// settle ends a delivery.
func (m *machine) settle(id hook.ID) {
	delete(m.where, id)
	delete(m.refs, id)
}

// at returns the deliveries at a place, in the order in which they came.
func (m *machine) at(p place) []hook.ID {
	var found []hook.ID
	for id, where := range m.where {
		if where == p {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return found
}

// any returns a delivery at a place.
func (m *machine) any(t *rapid.T, p place) (lane.Ref, bool) {
	found := m.at(p)
	if len(found) == 0 {
		return lane.Ref{}, false
	}
	return m.refs[rapid.SampledFrom(found).Draw(t, "delivery")], true
}

func (m *machine) due(t *rapid.T) {
	if r, ok := m.any(t, backoff); ok {
		m.handIn(t, r)
	}
}

func (m *machine) forget(t *rapid.T) {
	r, ok := m.any(t, waiting)
	if !ok {
		return
	}
	m.settle(r.ID)
	if found, _, _ := input(t, m, func(l *lane.Lane) bool { return l.Forget(r.ID) }); !found {
		t.Fatalf("law 5 (conservation): waiting delivery %d was not found", r.ID)
	}
}

func (m *machine) manual(t *rapid.T) {
	r, ok := m.any(t, rapid.SampledFrom([]place{waiting, backoff}).Draw(t, "from"))
	if !ok {
		m.lastID++
		r = lane.Ref{ID: m.lastID, FirstDue: m.now}
	}
	r.Manual = true
	m.where[r.ID], m.refs[r.ID], m.asked = waiting, r, true
	m.order(t, func(l *lane.Lane) { l.Manual(m.now, r) })
}

func (m *machine) probeNow(t *rapid.T) {
	m.asked = true
	m.order(t, func(l *lane.Lane) { l.ProbeNow(m.now) })
}

func (m *machine) pause(t *rapid.T) {
	m.paused = true
	m.order(t, func(l *lane.Lane) { l.Pause(m.now) })
}

func (m *machine) resume(t *rapid.T) {
	m.paused = false
	before, after := m.order(t, func(l *lane.Lane) { l.Resume(m.now) })
	m.checkClose(t, before, after)
}

func (m *machine) reset(t *rapid.T) {
	before, after := m.order(t, func(l *lane.Lane) { l.Reset(m.now) })
	m.checkClose(t, before, after)
}

func (m *machine) configure(t *rapid.T, cfg lane.Config) {
	old := m.cfg
	m.cfg, m.leastGap = cfg, min(m.leastGap, leastGap(cfg))
	_, before, after := input(t, m, func(l *lane.Lane) bool { l.Configure(m.now, cfg); return true })
	m.checkBaseUntouched(t, before, after)
	if !cfg.Fixed && !old.Fixed {
		m.checkNoRise(t, before, after)
	}
}

// newOwner takes over after a crash: what was in flight is pending again, and
// its answers reach nobody.
func (m *machine) newOwner(t *rapid.T) { m.restore(t, true) }

// evicted brings back a lane that its process had put to sleep.
func (m *machine) evicted(t *rapid.T) {
	if len(m.flights) == 0 {
		m.restore(t, false)
	}
}

func (m *machine) restore(t *rapid.T, newOwner bool) {
	before, saved, u := m.l.View(), m.l.Checkpoint(), anyU(t)
	saved.SavedAt = m.now.Add(-time.Duration(rapid.IntRange(-5, 40).Draw(t, "away")) * time.Second)
	m.l = lane.Restore(m.cfg, saved, m.now, u, newOwner)
	m.twin = lane.Restore(m.cfg, saved, m.now, u, newOwner)
	m.checkRestore(t, before, saved, newOwner)
	m.liveRun = 0
	for _, f := range m.flights {
		m.where[f.dec.Ref.ID] = waiting
	}
	m.flights, m.answered = nil, time.Time{}
	for _, id := range m.at(waiting) {
		m.handIn(t, m.refs[id])
	}
	if m.paused {
		m.pause(t)
	}
}

func (m *machine) next(t *rapid.T) { m.ask(t, rapid.IntRange(0, 20).Draw(t, "free")) }

// ask asks for the next request and returns it, nil for none.
func (m *machine) ask(t *rapid.T, free int) *flight {
	dec, before, after := input(t, m, func(l *lane.Lane) lane.Decision { return l.Next(m.now, free) })
	m.checkBaseUntouched(t, before, after)
	m.checkNoRise(t, before, after)
	if !dec.Send {
		return nil
	}
	m.checkSend(t, dec, before, after, free)
	m.where[dec.Ref.ID] = inAir
	f := &flight{dec: dec, started: m.now}
	m.flights = append(m.flights, f)
	return f
}

func anyU(t *rapid.T) float64 { return rapid.Float64Range(0, 0.999999).Draw(t, "u") }

func (m *machine) answer(t *rapid.T) {
	if len(m.flights) == 0 {
		return
	}
	f := rapid.SampledFrom(m.flights).Draw(t, "which")
	o := lane.Outcome{
		Class: rapid.SampledFrom(hook.Classes()).Draw(t, "class"),
		RTT:   time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(t, "rtt")),
	}
	switch o.Class {
	case hook.Throttle, hook.Down, hook.Retryable, hook.Limited:
		if rapid.IntRange(0, 3).Draw(t, "header") == 0 {
			o.RetryAfter = time.Duration(rapid.Int64Range(1, 24*3600).Draw(t, "retry after")) * time.Second
			o.Hold = o.RetryAfter + time.Duration(anyU(t)*float64(max(time.Second, o.RetryAfter/5)))
		}
	default:
	}
	m.result(t, f, anyU(t), o)
}

// result ends a flight.
func (m *machine) result(t *rapid.T, f *flight, u float64, o lane.Outcome) {
	m.flights = slices.DeleteFunc(m.flights, func(g *flight) bool { return g == f })
	if o.Class == hook.Success && f.started.After(m.answered) {
		m.answered = f.started
	}
	steering := m.l.Steering()
	c, before, after := input(t, m, func(l *lane.Lane) lane.Change { return l.Result(m.now, u, f.dec.Tag, o) })
	m.checkResult(t, f.dec.Tag, o, c, before, after, steering)

	r := f.dec.Ref
	if o.Class != hook.Success && o.Class != hook.Local {
		r.FailedAttempts++
	}
	r.Tried = true
	switch {
	case o.Class == hook.Success, o.Class == hook.Permanent && !f.dec.Tag.Probe:
		m.settle(r.ID)
	case f.dec.Tag.Probe: // stays held
		m.where[r.ID], m.refs[r.ID] = waiting, r
		m.order(t, func(l *lane.Lane) { l.Return(r) })
	default:
		if o.Class != hook.Throttle && o.Class != hook.Local && !r.Manual {
			r.Charged++
		}
		r.Manual = false
		m.where[r.ID], m.refs[r.ID] = backoff, r
	}
}

// modelled is an endpoint with servers and a queue, some noise and some loss.
type modelled struct {
	free    []time.Time // when each server is free
	service time.Duration
	noise   float64
	loss    float64 // share of failed answers
	coarse  bool    // every round trip is measured as 0
	idle    float64 // time between arrivals over what the endpoint needs for one; 0: always busy
	rng     *rand.Rand
}

func anyEndpoint(t *rapid.T) *modelled {
	return &modelled{
		free:    make([]time.Time, rapid.IntRange(1, 12).Draw(t, "servers")),
		service: rapid.SampledFrom([]time.Duration{time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, 4 * time.Second}).Draw(t, "service"),
		noise:   rapid.Float64Range(0, 1).Draw(t, "noise"),
		loss:    rapid.SampledFrom([]float64{0, 0, 0.02, 0.2, 0.9}).Draw(t, "loss"),
		coarse:  rapid.IntRange(0, 9).Draw(t, "coarse") == 0,
		idle:    rapid.SampledFrom([]float64{0, 0, 0, 2}).Draw(t, "idle"),
		rng:     rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)),
	}
}

// takes is when a request that starts now is answered.
func (e *modelled) takes(now time.Time) time.Time {
	first := 0
	for i := range e.free {
		if e.free[i].Before(e.free[first]) {
			first = i
		}
	}
	begin := now
	if e.free[first].After(now) {
		begin = e.free[first]
	}
	e.free[first] = begin.Add(time.Duration(float64(e.service) * (1 + e.noise*e.rng.ExpFloat64())))
	return e.free[first]
}

// traffic lets an endpoint serve for a while.
func (m *machine) traffic(t *rapid.T) {
	e := anyEndpoint(t)
	for range rapid.IntRange(1, 60).Draw(t, "answers") {
		m.serve(t, e)
		m.check(t)
	}
}

// serve sends what the lane allows and goes on to the next answer or wake-up.
func (m *machine) serve(t *rapid.T, e *modelled) {
	m.feed(t, e)
	for sending := true; sending; {
		sending = m.ask(t, math.MaxInt) != nil
	}
	var first *flight
	for _, f := range m.flights {
		if f.till.IsZero() {
			f.till = e.takes(m.now)
		}
		if first == nil || f.till.Before(first.till) {
			first = f
		}
	}
	wake := m.wakeUp(t)
	switch {
	case first == nil && wake.IsZero():
		m.now = m.now.Add(time.Second)
	case first == nil || !wake.IsZero() && wake.Before(first.till):
		m.now = wake
	default:
		if first.till.After(m.now) {
			m.now = first.till
		}
		m.result(t, first, e.rng.Float64(), e.answers(m.now.Sub(first.started)))
	}
}

// feed brings new deliveries, some of them old.
func (m *machine) feed(t *rapid.T, e *modelled) {
	if e.idle > 0 {
		m.now = m.now.Add(time.Duration(e.idle * float64(e.service)))
		m.handIn(t, lane.Ref{FirstDue: m.now})
		return
	}
	for m.l.Queued() < 12 {
		r := lane.Ref{FirstDue: m.now}
		if e.rng.IntN(2) == 0 {
			r.FirstDue, r.FailedAttempts, r.Charged, r.Tried = start.Add(-time.Hour), 1, 1, true
		}
		m.handIn(t, r)
	}
}

func (e *modelled) answers(rtt time.Duration) lane.Outcome {
	o := lane.Outcome{Class: hook.Success, RTT: rtt}
	if e.coarse {
		o.RTT = 0
	}
	if e.rng.Float64() < e.loss {
		o.Class = hook.Classes()[e.rng.IntN(len(hook.Classes()))]
	}
	return o
}
