package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// crowd is a host with lanes that have come from another owner.
type crowd struct {
	t     *testing.T
	h     lane.Host
	now   time.Time
	lanes []*lane.Lane
	seats []*lane.Seat
}

// joined restores so many lanes from a checkpoint.
func joined(t *testing.T, lanes int, c lane.Checkpoint) *crowd {
	t.Helper()
	s := &crowd{t: t, now: start}
	for range lanes {
		l := lane.Restore(wide(), c, s.now, 0.5, true)
		seat := new(lane.Seat)
		s.h.Joined(s.now, seat, l, true)
		s.lanes, s.seats = append(s.lanes, l), append(s.seats, seat)
	}
	return s
}

// flood starts what the host lets its lanes start at once and returns how many.
func (s *crowd) flood() (n int) {
	s.t.Helper()
	for again := true; again; {
		again = false
		for _, seat := range s.seats {
			if ok, _ := s.h.Ask(s.now, seat); !ok {
				continue
			}
			s.h.Started(s.now, seat)
			if n++; n > 1000 {
				s.t.Fatal("nothing bounds what the host gets")
			}
			again = true
		}
	}
	return n
}

// answer lets a request of each lane succeed that started then.
func (s *crowd) answer(started time.Time) {
	for _, seat := range s.seats {
		s.h.Result(s.now, seat, started, 1, hook.Success)
	}
}

var healthy = lane.Checkpoint{ClosedAt: start.Add(-time.Hour), Usual: 0.5, Limit: 10, BaseLatency: 300 * time.Millisecond, BaseWeight: 8}

// TestNewOwnerDoesNotFloodAHost: what gathered for many endpoints of a host while they
// had no owner does not reach it all at once. One lane, or one that stays with its
// owner, is nobody's crowd.
func TestNewOwnerDoesNotFloodAHost(t *testing.T) {
	t.Parallel()
	s := joined(t, 20, healthy)
	if n := s.flood(); n < 3 || n > 10 { // 10 per second take 3 in flight
		t.Errorf("%d requests at once to a host that is used to three", n)
	}
	s.now = s.now.Add(20 * time.Second)
	s.answer(start)
	if s.h.Knows(s.now.Add(5 * time.Second)) {
		t.Error("the host is still bounded when it has long had room enough")
	}
	if one := joined(t, 1, healthy); one.h.Knows(one.now) {
		t.Error("a single lane of a new owner is bounded")
	}
	var h lane.Host
	for range 5 {
		h.Joined(start, new(lane.Seat), lane.Restore(wide(), healthy, start, 0.5, false), false)
	}
	if h.Knows(start) {
		t.Error("lanes that stayed with their owner are bounded")
	}
}

// TestRoomFollowsTheAnswers: the faster answers come, the more may be in flight; a
// queue, where they come no faster for it, does not widen the room.
func TestRoomFollowsTheAnswers(t *testing.T) {
	t.Parallel()
	const capacity = 20 // per second, in 300 ms each: six at a time
	s := joined(t, 40, healthy)
	free := make([]time.Time, 6) // servers
	type request struct {
		seat        *lane.Seat
		start, done time.Time
	}
	var flying []request
	served, most := 0, 0
	for end := s.now.Add(2 * time.Minute); s.now.Before(end); s.now = s.now.Add(5 * time.Millisecond) {
		kept := flying[:0]
		for _, r := range flying {
			if r.done.After(s.now) {
				kept = append(kept, r)
				continue
			}
			served++
			s.h.Result(s.now, r.seat, r.start, 1, hook.Success)
		}
		flying = kept
		for _, seat := range s.seats {
			if ok, _ := s.h.Ask(s.now, seat); !ok {
				continue
			}
			s.h.Started(s.now, seat)
			next := 0
			for i := range free {
				if free[i].Before(free[next]) {
					next = i
				}
			}
			if free[next].Before(s.now) {
				free[next] = s.now
			}
			free[next] = free[next].Add(300 * time.Millisecond)
			flying = append(flying, request{seat: seat, start: s.now, done: free[next]})
		}
		if most = max(most, len(flying)); most > 1000 {
			t.Fatal("nothing bounds what the host gets")
		}
	}
	if served < 120*capacity*9/10 {
		t.Errorf("%d answers in two minutes of a host that gives %d", served, 120*capacity)
	}
	if most > 25 { // twice six, and some for chance
		t.Errorf("%d in flight at a host that serves six at a time", most)
	}
}

// TestHostThatGotSlower: a host that takes four times as long as its lanes have known
// it is not starved for that.
func TestHostThatGotSlower(t *testing.T) {
	t.Parallel()
	s := joined(t, 10, healthy)
	const took = 1200 * time.Millisecond
	type request struct {
		seat  *lane.Seat
		start time.Time
	}
	var flying []request
	most := 0
	for end := s.now.Add(time.Minute); s.now.Before(end); s.now = s.now.Add(10 * time.Millisecond) {
		for len(flying) > 0 && s.now.Sub(flying[0].start) >= took {
			s.h.Result(s.now, flying[0].seat, flying[0].start, 1, hook.Success)
			flying = flying[1:]
		}
		for _, seat := range s.seats {
			if ok, _ := s.h.Ask(s.now, seat); ok {
				s.h.Started(s.now, seat)
				flying = append(flying, request{seat: seat, start: s.now})
			}
		}
		most = max(most, len(flying))
	}
	if most < 50 {
		t.Errorf("at most %d in flight at a host that answers all of them", most)
	}
}

// TestLaneThatLeavesMakesRoom: requests whose lane is gone are in nobody's way.
func TestLaneThatLeavesMakesRoom(t *testing.T) {
	t.Parallel()
	s := joined(t, 10, healthy)
	if s.flood() == 0 {
		t.Fatal("nothing may start")
	}
	for _, seat := range s.seats[:9] {
		s.h.Left(seat)
	}
	s.seats = s.seats[9:]
	if s.flood() == 0 {
		t.Error("the lanes that are gone still take all the room")
	}
}

// TestNewOwnerOfAHostThatIsDown: lanes that opened together have one probe for all, also
// when another owner goes on with them; then they recover as one.
func TestNewOwnerOfAHostThatIsDown(t *testing.T) {
	t.Parallel()
	c := healthy
	c.Open, c.OpenedAt, c.BlockedAt = true, start.Add(-time.Minute), start.Add(-time.Minute)
	s := joined(t, 5, c)
	probes := 0
	for _, seat := range s.seats {
		if ok, _ := s.h.MayProbe(s.now, seat); ok {
			probes++
		}
	}
	if probes != 1 {
		t.Errorf("%d lanes probe a host that is down, want one for all", probes)
	}
	if others := s.h.Closed(s.now, s.seats[0]); len(others) != 4 {
		t.Errorf("%d lanes follow the first, want the other four", len(others))
	}
	if rate := s.h.Rate(s.now); rate == 0 || rate > 10 {
		t.Errorf("the host is paced to %.1f after an outage, want what it is used to", rate)
	}
}

// TestNewOwnerOfLanesApart: lanes that opened for reasons of their own keep them.
func TestNewOwnerOfLanesApart(t *testing.T) {
	t.Parallel()
	var h lane.Host
	for i := range 3 {
		c := healthy
		c.Open, c.OpenedAt = true, start.Add(-time.Duration(i+1)*time.Minute)
		seat := new(lane.Seat)
		h.Joined(start, seat, lane.Restore(wide(), c, start, 0.5, true), true)
		if ok, _ := h.MayProbe(start, seat); !ok {
			t.Errorf("lane %d may not probe for the others' sake", i)
		}
	}
}

// TestNewOwnerOfAHostThatRecovers: the recovery goes on at the rate that it had, and
// also where some of the lanes had not closed yet; but not at one of long ago.
func TestNewOwnerOfAHostThatRecovers(t *testing.T) {
	t.Parallel()
	c := healthy
	c.Recovery, c.Held, c.ClosedAt, c.Host = 20, time.Minute, start.Add(-10*time.Second), 40
	c.SavedAt = start.Add(-15 * time.Second)
	down := healthy
	down.Open, down.OpenedAt = true, start.Add(-time.Minute)
	s := joined(t, 2, down)
	for range 3 {
		s.h.Joined(s.now, new(lane.Seat), lane.Restore(wide(), c, s.now, 0.5, true), true)
	}
	if rate := s.h.Rate(s.now); rate != 40 {
		t.Errorf("the host is paced to %.1f, want the 40 that it was at", rate)
	}
	for _, seat := range s.seats {
		if ok, _ := s.h.MayProbe(s.now, seat); !ok {
			s.now = s.now.Add(2 * time.Second)
			if ok, _ := s.h.MayProbe(s.now, seat); !ok {
				t.Error("a lane that has not closed yet waits for the host, which is up")
			}
		}
	}
	c.Recovery = 0 // of the lanes: it was in nobody's way beside that of the host
	if s := joined(t, 3, c); s.h.Rate(s.now) != 40 {
		t.Errorf("the host is paced to %.1f where its lanes drain without a rate, want the 40 that it was at", s.h.Rate(s.now))
	}
	c.Recovery = 20
	c.SavedAt = start.Add(-time.Hour)
	if late := joined(t, 3, c); late.h.Rate(late.now) != 0 {
		t.Errorf("the host is paced to %.1f as it was an hour ago", late.h.Rate(late.now))
	}
}
