package lane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// street is a host with several lanes, driven as the dispatcher does.
type street struct {
	t    *testing.T
	h    lane.Host
	now  time.Time
	step time.Duration
	rows []*house
	up   bool

	swallows  func() bool // asked for each request: it gets no answer
	swallowed []swallowed
}

// swallowed is a request that fails after the timeout.
type swallowed struct {
	r    *house
	dec  lane.Decision
	load float64
	at   time.Time
}

type house struct {
	road *road
	seat lane.Seat
}

func newStreet(t *testing.T, lanes int, live float64) *street {
	t.Helper()
	s := &street{t: t, now: start, step: 5 * time.Millisecond, up: true}
	for range lanes {
		d := drive(t, wide())
		s.rows = append(s.rows, &house{road: newRoad(d, live, func(int) lane.Outcome {
			if s.up {
				return lane.Outcome{Class: hook.Success}
			}
			return lane.Outcome{Class: hook.Down}
		})})
	}
	return s
}

// run gives each lane the same time, in steps of a few milliseconds, and returns
// the most requests of a second that the host got.
func (s *street) run(lasts time.Duration) (most int) {
	s.t.Helper()
	var starts []time.Time
	for end := s.now.Add(lasts); s.now.Before(end); s.now = s.now.Add(s.step) {
		for len(s.swallowed) > 0 && s.now.Sub(s.swallowed[0].at) >= timeout {
			f := s.swallowed[0]
			s.swallowed = s.swallowed[1:]
			s.answer(f.r, f.dec, f.load, f.at, lane.Outcome{Class: hook.Down, RTT: timeout})
		}
		for _, r := range s.rows {
			r.road.now = s.now
			for r.road.live > 0 && !r.road.nextLive.After(s.now) {
				r.road.arrive(1)
				if s.h.Knows(s.now) {
					s.h.Arrived(lane.Ref{FirstDue: s.now})
				}
				r.road.nextLive = r.road.nextLive.Add(time.Duration(float64(time.Second) / r.road.live))
			}
			for s.send(r) {
				starts = append(starts, s.now)
			}
		}
		for len(starts) > 0 && s.now.Sub(starts[0]) >= time.Second {
			starts = starts[1:]
		}
		most = max(most, len(starts))
	}
	return most
}

// send lets a lane start one request, if it and its host want that, and answers
// it at once.
func (s *street) send(r *house) bool {
	l := r.road.l
	if s.h.Knows(s.now) && l.Wants(s.now) {
		ask := s.h.Ask
		if l.State() != lane.Closed {
			ask = s.h.MayProbe
		}
		if ok, _ := ask(s.now, &r.seat); !ok {
			return false
		}
	}
	dec := l.Next(s.now, 1000)
	if !dec.Send {
		return false
	}
	load := 0.0
	if s.h.Knows(s.now) {
		load = s.h.Started(s.now, &r.seat)
	}
	if s.swallows != nil && s.swallows() {
		s.swallowed = append(s.swallowed, swallowed{r, dec, load, s.now})
		return true
	}
	s.answer(r, dec, load, s.now, r.road.answer(0))
	return true
}

// answer ends a request.
func (s *street) answer(r *house, dec lane.Decision, load float64, started time.Time, o lane.Outcome) {
	l := r.road.l
	o.HostSilent = load > 0 && s.h.Silent(s.now, &r.seat, started, o.Class)
	c := l.Result(s.now, 0.5, dec.Tag, o)
	if o.Class != hook.Success {
		r.road.id++
		l.Arrive(lane.Ref{ID: r.road.id, FirstDue: s.now, FailedAttempts: 1})
	}
	if c.Opened || load > 0 || s.h.Knows(s.now) {
		s.h.Result(s.now, &r.seat, started, load, o.Class)
	}
	switch {
	case c.Opened:
		for _, seat := range s.h.Opened(s.now, &r.seat, l) {
			s.laneOf(seat).Pardon()
		}
	case c.Closed:
		for _, seat := range s.h.Closed(s.now, &r.seat) {
			s.laneOf(seat).ProbeNow(s.now)
		}
	case dec.Tag.Probe:
		s.h.ProbeFailed(l.Wake(s.now))
	}
}

func (s *street) laneOf(seat *lane.Seat) *lane.Lane {
	for _, r := range s.rows {
		if &r.seat == seat {
			return r.road.l
		}
	}
	s.t.Fatal("a seat of nobody")
	return nil
}

func (s *street) queued() (n int) {
	for _, r := range s.rows {
		n += r.road.l.Queued()
	}
	return n
}

func (s *street) open() (n int) {
	for _, r := range s.rows {
		if r.road.l.State() != lane.Closed {
			n++
		}
	}
	return n
}

// TestHostRecoversAsOne: lanes that fell together learn nothing by themselves, one
// of them probes for all, and the sum of what they send comes back as slowly as
// that of one lane would.
func TestHostRecoversAsOne(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 20, 2.5)
	s.run(20 * time.Second)
	if s.h.Knows(s.now) {
		t.Fatal("a host that is well knows something")
	}
	s.up = false
	s.run(10 * time.Second)
	if s.open() != 20 || !s.h.Knows(s.now) {
		t.Fatalf("%d of 20 lanes are open", s.open())
	}
	if most := s.run(20 * time.Second); most > 1 {
		t.Errorf("%d probes within a second, want one for all lanes", most)
	}
	s.up = true
	if most := s.run(20 * time.Second); most > 80 {
		t.Errorf("%d requests in a second after the outage, want at most half more than the usual 50", most)
	}
	if s.open() != 0 {
		t.Errorf("%d lanes are open 20 s after the host is back", s.open())
	}
	s.run(90 * time.Second)
	for i, r := range s.rows {
		if n := r.road.l.Queued(); n > 3 {
			t.Errorf("lane %d still has %d waiting", i, n)
		}
		if c := r.road.l.Checkpoint(); c.Ceiling != 0 || c.Mark != 0 {
			t.Errorf("lane %d has learnt %+v from what its host did", i, c)
		}
	}
	s.run(time.Minute)
	if s.h.Rate(s.now) != 0 || s.h.Knows(s.now.Add(time.Hour)) {
		t.Error("the host is still paced two minutes after all is well, or counted an hour later")
	}
}

// TestHostThatFallsInADrain: what its first outage has left is still to be drained after the
// second, so it is in as much haste as that needs.
func TestHostThatFallsInADrain(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 4, 5)
	s.run(20 * time.Second)
	outage := func(lasts, drain time.Duration) (waiting int) {
		s.up = false
		s.run(lasts)
		s.up = true
		s.run(drain)
		for _, r := range s.rows {
			waiting += r.road.l.Queued()
		}
		return waiting
	}
	if n := outage(20*time.Minute, 100*time.Second); n < 8000 {
		t.Fatalf("%d of 24,000 wait after a bit of the drain, want more", n)
	}
	if n := outage(10*time.Second, 2*time.Minute); n > 20 {
		t.Errorf("%d still wait", n)
	}
}

// TestOutagesOfAHostSayNothingOfItsLanes: one of them that falls in a drain of its own is
// suspected of what it was sent, whatever the host did before.
func TestOutagesOfAHostSayNothingOfItsLanes(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 4, 20)
	s.run(time.Minute)
	for range 2 {
		s.up = false
		s.run(10 * time.Second)
		s.up = true
		s.run(3 * time.Minute)
	}
	one := s.rows[0].road
	alone := func(lasts time.Duration) {
		up := one.answer
		one.answer = func(int) lane.Outcome { return lane.Outcome{Class: hook.Down} }
		s.run(lasts)
		one.answer = up
	}
	alone(10 * time.Minute)
	for one.l.State() != lane.Closed {
		s.run(time.Second)
	}
	s.run(40 * time.Second)
	alone(10 * time.Second)
	if c := one.l.Checkpoint(); c.Mark == 0 {
		t.Error("a fall in a drain, minutes after two outages of the host: nothing is suspected")
	}
}

// TestOutageOfAYoungHost: what the lanes of a host are used to is known late when they are
// young. Their drain is neither too slow for it, nor does it crash the host again and again.
func TestOutageOfAYoungHost(t *testing.T) {
	t.Parallel()
	const live, bears = 50, 100
	for _, lanes := range []int{2, 10} {
		for _, alive := range []int{0, 2, 5} {
			s, crashes := newStreet(t, lanes, live/float64(lanes)), 0
			s.step = 2 * time.Millisecond
			s.run(time.Duration(alive) * time.Second)
			s.up = false
			s.run(30 * time.Second)
			s.up = true
			from, until := s.now, s.now
			for s.queued() > live/2 && s.now.Sub(from) < 10*time.Minute {
				if s.run(time.Second) > bears && s.up {
					s.up, until = false, s.now.Add(10*time.Second)
					crashes++
				}
				s.up = s.up || s.now.After(until)
			}
			most, within := 1, 170*time.Second
			if alive >= 5 {
				most, within = 0, 80*time.Second
			}
			if took := s.now.Sub(from); crashes > most || took > within {
				t.Errorf("%d lanes, %d s old: crashed %d times, drained in %v; want at most %d, %v", lanes, alive, crashes, took, most, within)
			}
		}
	}
}

// TestHostThatPeaksBreak: a host that fell is watched, so that a peak of what its lanes
// send in sum breaks it a few times, and not whenever there is one.
func TestHostThatPeaksBreak(t *testing.T) {
	t.Parallel()
	const bears = 20
	s := newStreet(t, 5, 2)
	var starts []time.Time
	var until time.Time
	crashes := 0
	for _, r := range s.rows {
		r.road.answer = func(int) lane.Outcome {
			starts = append(slices.DeleteFunc(starts, func(t time.Time) bool { return s.now.Sub(t) >= time.Second }), s.now)
			if len(starts) > bears && !s.now.Before(until) {
				crashes++
				until = s.now.Add(10 * time.Second)
			}
			if s.now.Before(until) {
				return down(0)
			}
			return ok(0)
		}
	}
	for range 10 {
		s.run(3 * time.Minute)
		for _, r := range s.rows {
			r.road.live *= 3
		}
		s.run(2 * time.Second)
		for _, r := range s.rows {
			r.road.live /= 3
		}
	}
	s.run(time.Minute)
	if crashes < 1 || crashes > 3 {
		t.Errorf("ten peaks broke it %d times, want three at most", crashes)
	}
	if n := s.queued(); n > 2*len(s.rows) {
		t.Errorf("%d are waiting", n)
	}
}

// TestHostIsAcquitted: two lanes that fall together do not take a third one with
// them that works.
func TestHostIsAcquitted(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 3, 10)
	s.run(20 * time.Second)
	for _, r := range s.rows[:2] {
		r.road.answer = func(int) lane.Outcome { return lane.Outcome{Class: hook.Down} }
	}
	s.run(5 * time.Second)
	if s.open() != 2 {
		t.Fatalf("%d lanes are open, want the two that fail", s.open())
	}
	if s.h.Rate(s.now) != 0 {
		t.Errorf("the host is paced to %.1f although one of its lanes works", s.h.Rate(s.now))
	}
	if n := s.rows[2].road.l.Queued(); n > 1 {
		t.Errorf("%d wait in the lane that works", n)
	}
	s.rows[0].road.answer = func(int) lane.Outcome { return lane.Outcome{Class: hook.Success} }
	s.run(10 * time.Second)
	if s.open() != 1 || s.h.Rate(s.now) != 0 {
		t.Errorf("%d lanes are open, the host is paced to %.1f; want one, and no pace", s.open(), s.h.Rate(s.now))
	}
}

// TestAcquittedHostGoesOnRecovering: two lanes that fall for reasons of their own in the
// middle of a recovery do not end it for the others.
func TestAcquittedHostGoesOnRecovering(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 20, 2.5)
	s.run(20 * time.Second)
	s.up = false
	s.run(2 * time.Minute)
	s.up = true
	s.run(10 * time.Second)
	before := s.h.Rate(s.now)
	if before == 0 {
		t.Fatal("the host is not paced ten seconds after its outage")
	}
	for _, r := range s.rows[:2] {
		r.road.answer = down
	}
	s.run(5 * time.Second)
	if s.open() != 2 {
		t.Fatalf("%d lanes are open, want the two that fail", s.open())
	}
	if rate := s.h.Rate(s.now); rate < before/2 || rate > 3*before {
		t.Errorf("the host was paced to %.1f, and to %.1f after two lanes fell by themselves", before, rate)
	}
}

// TestHostThatRefuses: a host that answers what is too much for it with failures is not
// overrun by all of its lanes together.
func TestHostThatRefuses(t *testing.T) {
	t.Parallel()
	const most, lanes = 20, 15
	s := newStreet(t, lanes, 0.6)
	var starts []time.Time
	for _, r := range s.rows {
		r.road.answer = func(int) lane.Outcome {
			for len(starts) > 0 && s.now.Sub(starts[0]) >= time.Second {
				starts = starts[1:]
			}
			if !s.up || len(starts) >= most {
				return lane.Outcome{Class: hook.Down}
			}
			starts = append(starts, s.now)
			return lane.Outcome{Class: hook.Success}
		}
	}
	s.run(time.Minute)
	s.up = false
	s.run(5 * time.Minute)
	s.up = true
	if n := s.run(7 * time.Minute); n >= 2*most {
		t.Errorf("%d requests in a second to a host that takes %d", n, most)
	}
	for i, r := range s.rows {
		if n := r.road.l.Queued(); n > 3 {
			t.Errorf("lane %d still has %d waiting", i, n)
		}
	}
}

// TestLanesApartAreNoHost: lanes that open at different times have reasons of their
// own.
func TestLanesApartAreNoHost(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 2, 10)
	s.run(20 * time.Second)
	for _, r := range s.rows {
		r.road.answer = func(int) lane.Outcome { return lane.Outcome{Class: hook.Down} }
		s.run(5 * time.Second)
	}
	if s.open() != 2 || s.h.Knows(s.now) {
		t.Errorf("%d lanes are open, and the host knows: %v; want 2, and nothing", s.open(), s.h.Knows(s.now))
	}
}

// TestTwoLanesAreEnough: two lanes that fall together are their host.
func TestTwoLanesAreEnough(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 2, 10)
	s.run(20 * time.Second)
	s.up = false
	s.run(10 * time.Second)
	if s.open() != 2 || !s.h.Knows(s.now) {
		t.Fatalf("%d lanes are open, and the host knows: %v; want 2, and that it is down", s.open(), s.h.Knows(s.now))
	}
	if most := s.run(20 * time.Second); most > 1 {
		t.Errorf("%d probes within a second, want one for both lanes", most)
	}
}

// TestTurnsAtAHost: lanes get their turns in the order they ask, and one that does
// not come for its turn keeps nobody waiting.
func TestTurnsAtAHost(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 2, 5)
	s.run(20 * time.Second)
	s.up = false
	s.run(10 * time.Second)
	s.up = true
	for end := s.now.Add(time.Minute); s.h.Rate(s.now) == 0; {
		if s.run(100 * time.Millisecond); s.now.After(end) {
			t.Fatal("the host is not paced after an outage")
		}
	}
	first, second := new(lane.Seat), new(lane.Seat)
	ask := func(seat *lane.Seat) bool { ok, _ := s.h.Ask(s.now, seat); return ok }
	serve := func(seat *lane.Seat) { s.h.Result(s.now, seat, s.now, s.h.Started(s.now, seat), hook.Success) }
	for _, r := range s.rows { // they want nothing for now
		s.h.Left(&r.seat)
	}
	for i := 0; ask(first); i++ {
		if i == 100 {
			t.Fatal("a lane of a paced host starts as often as it likes")
		}
		serve(first)
	}
	token := time.Duration(1.01 * float64(time.Second) / s.h.Rate(s.now))
	if ask(second) {
		t.Fatal("the second lane may start where the first may not")
	}
	s.now = s.now.Add(token)
	if ask(second) || !ask(first) {
		t.Error("the second lane may start before the first, which asked before")
	}
	serve(first)
	if ask(first) {
		t.Fatal("the first lane starts twice")
	}
	s.now = s.now.Add(token)
	if ask(first) || !ask(second) {
		t.Error("the first lane may start twice while the second waits")
	}
	s.now = s.now.Add(time.Second)
	if !ask(first) {
		t.Error("the first lane waits for the second, which does not come")
	}
}

// TestHostIsForgotten: a person's reset, and lanes that leave, end what was known.
func TestHostIsForgotten(t *testing.T) {
	t.Parallel()
	s := newStreet(t, 3, 10)
	s.run(10 * time.Second)
	s.up = false
	s.run(5 * time.Second)
	s.h.Forget()
	for _, r := range s.rows {
		s.h.Left(&r.seat)
	}
	if s.h.Knows(s.now.Add(3 * time.Second)) {
		t.Error("a host without lanes that was reset still knows something")
	}
}

// TestLaneThatFellBeforeItsHost: one that fell by itself a while before its host did is as
// good as any other to find that the host is back. Nobody waits for another one to find out.
func TestLaneThatFellBeforeItsHost(t *testing.T) {
	t.Parallel()
	for first := range 3 {
		s := newStreet(t, 3, 10)
		s.run(20 * time.Second)
		one := s.rows[first].road
		up := one.answer
		one.answer = func(int) lane.Outcome { return lane.Outcome{Class: hook.Down} }
		s.run(20 * time.Second)
		if s.open() != 1 {
			t.Fatalf("%d lanes are open, want the one that fell", s.open())
		}
		one.answer, s.up = up, false
		s.run(2 * time.Minute)
		s.up = true
		s.run(25 * time.Second)
		if s.open() != 0 {
			t.Errorf("lane %d fell before: %d lanes are open 25 s after the host is back", first, s.open())
		}
	}
}
