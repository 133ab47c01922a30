package lane_test

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// The laws of a lane, for every order of inputs and every random number. A
// failure names the one that is broken.
//
//	 1 limit         never more in flight than the limit, but for what is stuck, and
//	                 never more than its maximum; the limit stays between 1 and that,
//	                 and above the floor once judged outside slow start
//	 2 probes        an open lane sends one probe at a time, a gap apart
//	 3 charging      only what started while closed can be charged, and a first
//	                 attempt is one that was not charged before (package policy
//	                 has the rest)
//	 4 hold          nothing leaves inside a Retry-After, and no answer shortens one
//	 5 conservation  a delivery is in exactly one place
//	 6 generation    what started before an open or a close steers nothing
//	 7 base          rises by a tenth per base probe, by a quarter after slow
//	                 rounds at the floor, and freely while unknown, in calm slow
//	                 start, or in doubt with one request in flight
//	 8 rise          the limit rises by successes only
//	 9 share         with both queues full the backlog gets every tenth send
//	10 numbers       are finite, and the same inputs give the same outputs
//	11 progress      waiting work is sent, or there is a time to ask again
//	12 restore       keeps breaker, outage, hold and pace; a new owner halves
//	13 no burst      a success raises the limit by a little, a close releases one

// floor is the least limit that a round outside slow start leaves.
const floor = 3

// noRounding is more than floating point loses.
const noRounding = 1e-9

// check holds after every input.
func (m *machine) check(t *rapid.T) {
	v := m.l.View()
	m.checkLimit(t, v)
	m.checkPlaces(t, v)
	m.checkNumbers(t, v)
	m.checkProgress(t)
	if twin := m.twin.View(); !v.Same(twin) {
		t.Fatalf("law 10 (determinism): the same inputs made different lanes (-one +other):\n%s", cmp.Diff(v, twin))
	}
}

func (m *machine) checkLimit(t *rapid.T, v lane.View) {
	if m.cfg.Fixed && v.Limit != float64(m.cfg.Limit) {
		t.Fatalf("law 1 (limit): it is %v, fixed at %d", v.Limit, m.cfg.Limit)
	}
	if !m.cfg.Fixed && (v.Limit < 1 || v.Limit > float64(m.cfg.Max)) {
		t.Fatalf("law 1 (limit): it is %v, not in 1 to %d", v.Limit, m.cfg.Max)
	}
	if v.InFlight != len(m.flights) {
		t.Fatalf("law 6 (generation): %d in flight, the lane counts %d", len(m.flights), v.InFlight)
	}
}

func (m *machine) checkPlaces(t *rapid.T, v lane.View) {
	seen := make(map[hook.ID]bool, len(v.Live)+len(v.Back))
	for _, id := range slices.Concat(v.Live, v.Back) {
		if seen[id] || m.where[id] != waiting {
			t.Fatalf("law 5 (conservation): the lane holds delivery %d, which is %q; twice: %v", id, m.where[id], seen[id])
		}
		seen[id] = true
	}
	for id, where := range m.where {
		if where == waiting && !seen[id] {
			t.Fatalf("law 5 (conservation): delivery %d got lost", id)
		}
	}
}

func (m *machine) checkNumbers(t *rapid.T, v lane.View) {
	for _, n := range [...]struct {
		name string
		is   float64
	}{
		{"limit", v.Limit},
		{"base", v.Base},
		{"weight of the base", v.BaseWeight},
		{"smoothed round trip", v.SRTT},
		{"healthy peak", v.HealthyPeak},
		{"saved limit", v.ProbeSaved},
		{"begin of the round", v.From},
		{"target", v.Target},
		{"pace", v.Pace},
	} {
		if math.IsNaN(n.is) || math.IsInf(n.is, 0) || n.is < 0 {
			t.Fatalf("law 10 (numbers): %s is %v", n.name, n.is)
		}
	}
	if math.IsNaN(v.Tokens) || math.IsNaN(v.RateTokens) {
		t.Fatalf("law 10 (numbers): tokens are %v and %v", v.Tokens, v.RateTokens)
	}
	// Outside slow start every round is compared with the base.
	if !m.cfg.Fixed && !v.SlowStart && v.Base == 0 {
		t.Fatal("law 10 (numbers): the next round is divided by a base of 0")
	}
}

// checkProgress follows the wake-ups of a copy until it sends.
func (m *machine) checkProgress(t *rapid.T) {
	if m.l.Queued() == 0 || len(m.flights) > 0 || m.paused {
		return
	}
	l, now := m.l.Clone(), m.now
	for range 4 { // rest, hold, pace, rate
		if l.Next(now, math.MaxInt).Send {
			return
		}
		at := l.Wake(now)
		if !at.After(now) || at.Sub(now) > 30*time.Hour {
			t.Fatalf("law 11 (progress): a %s lane with %d waiting sends nothing, and its wake-up is in %v", l.State(), l.Queued(), at.Sub(now))
		}
		now = at
	}
	t.Fatalf("law 11 (progress): a %s lane with %d waiting sends nothing at four wake-ups", l.State(), l.Queued())
}

// checkSend judges a request that starts.
func (m *machine) checkSend(t *rapid.T, dec lane.Decision, before, after lane.View, free int) {
	if m.where[dec.Ref.ID] != waiting {
		t.Fatalf("law 5 (conservation): sent delivery %d, which is %q", dec.Ref.ID, m.where[dec.Ref.ID])
	}
	switch {
	case m.paused:
		t.Fatal("law 4 (hold): sent while paused")
	case m.now.Before(before.Hold):
		t.Fatalf("law 4 (hold): sent %v before the end of a hold", before.Hold.Sub(m.now))
	case before.InFlight >= free:
		t.Fatalf("law 1 (limit): sent with %d in flight and %d free slots", before.InFlight, free)
	}
	closed := before.State == lane.Closed
	if !closed {
		m.checkProbe(t, before)
	}
	first := closed && dec.Ref.Charged == 0 && !dec.Ref.Manual
	if want := (lane.Tag{Gen: after.Gen, Round: dec.Tag.Round, Closed: closed, Probe: !closed, First: first, Load: dec.Tag.Load, At: m.now}); dec.Tag != want {
		t.Fatalf("law 3 (charging): a %s lane sent %+v as %+v, want %+v", before.State, dec.Ref, dec.Tag, want)
	}
	if dec.Ref.Manual != (dec.Kind == hook.Manual) || !dec.Ref.Manual && dec.Tag.Probe != (dec.Kind == hook.Probe) {
		t.Fatalf("law 3 (charging): a %s lane sent %+v as %v", before.State, dec.Ref, dec.Kind)
	}
	if closed {
		m.checkShare(t, dec, before)
		most := max(1, math.Floor(after.Limit))
		if m.now.Sub(before.Hold) <= 100*time.Millisecond { // what gathered in a hold may leave together
			most = max(most, float64(m.cfg.Max))
		}
		m.checkInFlight(t, most)
	}
}

// checkInFlight counts what is in flight. What others have overtaken seconds ago is stuck,
// and bounded by the maximum only.
func (m *machine) checkInFlight(t *rapid.T, most float64) {
	if n := m.moving() + 1; float64(n) > most {
		t.Fatalf("law 1 (limit): %d in flight that are not stuck, at most %v", n, most)
	}
	if all := len(m.flights) + 1; all > max(m.cfg.Max, m.cfg.Limit) || m.cfg.Fixed && float64(all) > most {
		t.Fatalf("law 1 (limit): %d in flight", all)
	}
}

// moving are the requests in flight that cannot be stuck: too young, or not overtaken.
func (m *machine) moving() (n int) {
	for _, f := range m.flights {
		if m.now.Sub(f.started) < 2*time.Second || f.started.After(m.answered) {
			n++
		}
	}
	return n
}

func (m *machine) checkProbe(t *rapid.T, before lane.View) {
	if before.State == lane.HalfOpen {
		t.Fatal("law 2 (probes): two at a time")
	}
	if gap := m.now.Sub(m.lastProbe); !m.asked && gap < m.leastGap {
		t.Fatalf("law 2 (probes): one %v after the last", gap)
	}
	m.lastProbe, m.asked = m.now, false
}

// checkShare looks at the turns while both queues have work.
func (m *machine) checkShare(t *rapid.T, dec lane.Decision, before lane.View) {
	if len(before.Live) == 0 || len(before.Back) == 0 {
		return
	}
	switch dec.Ref.ID {
	case before.Back[0]:
		if m.liveRun != 9 {
			t.Fatalf("law 9 (share): the backlog's turn after %d live events, want 9", m.liveRun)
		}
		m.liveRun = 0
	case before.Live[0]:
		if m.liveRun++; m.liveRun > 9 {
			t.Fatalf("law 9 (share): %d live events in a row while the backlog waits", m.liveRun)
		}
	default:
		t.Fatalf("law 9 (share): sent delivery %d, at the head of neither queue", dec.Ref.ID)
	}
}

// checkResult judges what an answer did.
func (m *machine) checkResult(t *rapid.T, tag lane.Tag, o lane.Outcome, c lane.Change, before, after lane.View, steering *lane.Lane) {
	if after.Hold.Before(before.Hold) {
		t.Fatalf("law 4 (hold): moved back by %v", before.Hold.Sub(after.Hold))
	}
	if least := m.now.Add(o.RetryAfter); o.RetryAfter > 0 && after.Hold.Before(least) {
		t.Fatalf("law 4 (hold): ends %v earlier than asked", least.Sub(after.Hold))
	}
	if tag.Gen != before.Gen {
		if now := m.l.Steering(); !reflect.DeepEqual(steering, now) {
			t.Fatalf("law 6 (generation): an answer of generation %d steers generation %d (-before +after):\n%s", tag.Gen, before.Gen,
				cmp.Diff(steering, now, cmp.Exporter(func(reflect.Type) bool { return true })))
		}
		return
	}
	if c.Opened != (before.State == lane.Closed && after.State != lane.Closed) || c.Closed != (before.State != lane.Closed && after.State == lane.Closed) {
		t.Fatalf("law 2 (probes): from %s to %s, reported as %+v", before.State, after.State, c)
	}
	if after.State == lane.Open {
		m.checkGap(t, after)
	}
	if !c.Closed && o.Class == hook.Success {
		m.checkGrowth(t, tag, before, after)
		m.checkBase(t, tag, before, after)
		return
	}
	m.checkBaseUntouched(t, before, after)
	m.checkNoRise(t, before, after)
	m.checkClose(t, before, after)
	if down := o.Class == hook.Down || o.Class == hook.Limited; !down && !c.Closed && after.Limit != before.Limit {
		t.Fatalf("law 8 (rise): an answer of class %v moved the limit from %v to %v", o.Class, before.Limit, after.Limit)
	}
}

// checkGap looks at the gap that an open lane has just chosen.
func (m *machine) checkGap(t *rapid.T, after lane.View) {
	most := time.Duration(float64(m.cfg.ProbeMax) * (1 + m.cfg.ProbeJitter))
	if gap := after.ProbeAt.Sub(m.now); gap < leastGap(m.cfg) || gap > most {
		t.Fatalf("law 2 (probes): the next one is %v away, want %v to %v", gap, leastGap(m.cfg), most)
	}
}

// judged reports whether a success ended a round by judging it.
func judged(tag lane.Tag, before, after lane.View) bool {
	answers := before.Answers
	if tag.Round == before.Round {
		answers++
	}
	return after.Round != before.Round && answers > 0
}

// checkGrowth judges what a success did to the limit.
func (m *machine) checkGrowth(t *rapid.T, tag lane.Tag, before, after lane.View) {
	if m.cfg.Fixed {
		return // checkLimit has it
	}
	rise := after.Limit - before.Limit
	if !judged(tag, before, after) {
		if most := max(0.25, before.Target/before.From-1); rise > most+noRounding || rise > floor+noRounding {
			t.Fatalf("law 13 (no burst): a success raised the limit by %v, at most %v", rise, min(most, floor))
		}
		if rise < 0 {
			t.Fatalf("law 8 (rise): a success without a verdict cut the limit by %v", -rise)
		}
		return
	}
	lift := float64(floor)
	if len(before.Back) == 0 { // idle: back to the limit at rest
		lift = max(lift, float64(m.cfg.Initial))
	}
	if rise > 0 && after.Limit > lift+noRounding {
		t.Fatalf("law 13 (no burst): a verdict raised the limit from %v to %v, at most to %v", before.Limit, after.Limit, lift)
	}
	least := float64(min(floor, m.cfg.Max))
	if len(before.Back) == 0 {
		least = min(least, float64(m.cfg.Initial))
	}
	probes := !before.ProbeUntil.IsZero() || !after.ProbeUntil.IsZero()
	if !before.SlowStart && !probes && after.Limit < least {
		t.Fatalf("law 1 (limit): it is %v after a round outside slow start, at least %v", after.Limit, least)
	}
}

// checkBase judges what a success did to the base.
func (m *machine) checkBase(t *rapid.T, tag lane.Tag, before, after lane.View) {
	if m.cfg.Fixed || !judged(tag, before, after) {
		m.checkBaseUntouched(t, before, after)
		return
	}
	rise := after.Base / before.Base
	switch {
	case after.Base <= 0:
		t.Fatalf("law 7 (base): forgotten, was %v", before.Base)
	case before.Base == 0 || rise <= 1:
	case before.Doubted && before.SlowStart && before.Limit < 2:
	case before.SlowStart:
		// A calm round of n answers is at most 1/(2√n) above the base.
		if most := 1 + 0.5/math.Sqrt(float64(max(before.Answers, 1))); rise > most+noRounding {
			t.Fatalf("law 7 (base): slow start raised it by a factor of %v, at most %v", rise, most)
		}
	case before.AtFloor > 0 && after.AtFloor == 0 && after.SlowStart:
		if rise > 1.25+noRounding {
			t.Fatalf("law 7 (base): slow rounds at the floor raised it by a factor of %v", rise)
		}
	case m.now.Before(before.ProbeUntil):
		if rise > 1.1+noRounding {
			t.Fatalf("law 7 (base): a base probe raised it by a factor of %v", rise)
		}
	default:
		t.Fatalf("law 7 (base): an ordinary round raised it from %v to %v", before.Base, after.Base)
	}
}

func (m *machine) checkBaseUntouched(t *rapid.T, before, after lane.View) {
	if after.Base != before.Base {
		t.Fatalf("law 7 (base): moved from %v to %v without a round", before.Base, after.Base)
	}
}

// checkNoRise: only successes raise a limit that adapts. A fixed one follows
// its configuration.
func (m *machine) checkNoRise(t *rapid.T, before, after lane.View) {
	if !m.cfg.Fixed && after.Limit > before.Limit {
		t.Fatalf("law 8 (rise): from %v to %v without a success", before.Limit, after.Limit)
	}
}

// checkClose counts what a lane releases that has just been closed.
func (m *machine) checkClose(t *rapid.T, before, after lane.View) {
	if after.State != lane.Closed || after.Gen == before.Gen {
		return
	}
	most := max(0, 1-m.moving())
	if m.cfg.Fixed {
		most = max(0, m.cfg.Limit-len(m.flights))
	}
	l, sent := m.l.Clone(), 0
	for l.Next(m.now, math.MaxInt).Send {
		if sent++; sent > most {
			t.Fatalf("law 13 (no burst): a close released %d requests beside %d, at most %d", sent, len(m.flights), most)
		}
	}
}

// checkRestore compares a lane with the one whose checkpoint it came from.
func (m *machine) checkRestore(t *rapid.T, before lane.View, saved lane.Checkpoint, newOwner bool) {
	after, again := m.l.View(), m.l.Checkpoint()
	if m.l.State() == lane.HalfOpen || (m.l.State() == lane.Open) != (before.State != lane.Closed) {
		t.Fatalf("law 12 (restore): a %s lane came back %s", before.State, m.l.State())
	}
	if newOwner && !m.cfg.Fixed && again.Limit > max(1, saved.Limit/2) {
		t.Fatalf("law 12 (restore): the limit of a new owner is %v, was %v", again.Limit, saved.Limit)
	}
	if !newOwner && again.Limit != saved.Limit {
		t.Fatalf("law 12 (restore): the limit is %v, was %v", again.Limit, saved.Limit)
	}
	if after.State == lane.Open && !before.ProbeAt.After(m.now) {
		m.checkGap(t, after)
		again.NextProbeAt = saved.NextProbeAt
	}
	if !saved.Open {
		again.NextProbeAt = saved.NextProbeAt // that of an earlier outage
	}
	again.Limit = saved.Limit
	if m.cfg.Fixed || saved.BaseLatency == 0 {
		again.SlowStart = saved.SlowStart // goes with the mode, and with what is known
	}
	if (again.SRTT-saved.SRTT).Abs() <= 1 && (again.BaseLatency-saved.BaseLatency).Abs() <= 1 {
		again.SRTT, again.BaseLatency = saved.SRTT, saved.BaseLatency // rounded
	}
	if saved.ThrottledAt.IsZero() {
		again.RetryAfter = saved.RetryAfter // means nothing before the first throttle
	}
	if newOwner && saved.Recovery == 0 {
		again.Recovery, again.Held = 0, saved.Held // our own outage has made a backlog
	}
	if away := min(max(m.now.Sub(saved.SavedAt), 0), 15*time.Second); newOwner && again.Held == saved.Held+away {
		again.Held = saved.Held // or a larger one
	}
	again.SavedAt = saved.SavedAt // is the store's to tell
	if again != saved {
		t.Fatalf("law 12 (restore): a checkpoint changed (-saved +restored):\n%s", cmp.Diff(saved, again))
	}
}
