package lane_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

// below lets an endpoint with a known ceiling fall so often for reasons of its own,
// so long apart, while it is kept below.
func (r *road) below(times int, apart time.Duration) {
	r.t.Helper()
	for i := range times {
		if c := r.l.Checkpoint(); !c.CeilingSure() {
			r.t.Fatalf("the ceiling is gone after %d outages", i)
		}
		r.run(apart, nil)
		r.outage(10 * time.Second)
	}
}

// underCeiling returns a lane with so much live traffic that knows a ceiling of 60.
func underCeiling(t *testing.T, live float64) *road {
	t.Helper()
	c := lane.Checkpoint{Usual: min(live, 50), Breakage: lane.Breakage{Ceiling: 60, CeilingLearnt: 60, CeilingAt: start, CeilingWait: 48 * time.Hour, Mark: 60, MarkAt: start}}
	r := newRoad(drive(t, wide()), live, ok)
	r.l = lane.Restore(wide(), c, r.now, 0.5, false)
	return r
}

// vainCeiling returns a lane that has forgotten its ceiling, because it let less
// through than came in, and did not help.
func vainCeiling(t *testing.T) *road {
	t.Helper()
	r := underCeiling(t, 100)
	r.below(2, 2*time.Minute)
	if c := r.l.Checkpoint(); c.Ceiling != 0 || c.Mark != 60 {
		t.Fatalf("after two outages below it the ceiling is %.1f, the mark %.1f; want none, and 60", c.Ceiling, c.Mark)
	}
	return r
}

// TestFallBeforeTheCeiling: what the endpoint did before a ceiling was learnt says nothing
// about it. Two falls below it do.
func TestFallBeforeTheCeiling(t *testing.T) {
	t.Parallel()
	r, crashes := newRoad(drive(t, wide()), 50, ok), 0
	r.l = lane.Restore(wide(), lane.Checkpoint{Usual: 50, Breakage: lane.Breakage{Mark: 60, MarkAt: start}}, r.now, 0.5, false)
	r.run(20*time.Second, nil)
	r.outage(10 * time.Second)
	r.run(time.Minute, nil)
	r.live, r.answer = 100, r.cliff(60, &crashes)
	for crashes == 0 {
		r.run(10*time.Millisecond, nil)
	}
	r.run(30*time.Second, nil)
	r.answer = ok
	for falls, known := range []bool{true, true, false} {
		if c := r.l.Checkpoint(); c.CeilingSure() != known {
			t.Fatalf("after %d falls below it: ceiling %.1f, known: %v, want %v", falls, c.Ceiling, c.CeilingSure(), known)
		}
		r.outage(10 * time.Second)
		r.run(time.Minute, nil)
	}
}

// TestCeilingThatLeavesEnough: one of which a quarter is left for a backlog is
// forgotten when it has not helped three times.
func TestCeilingThatLeavesEnough(t *testing.T) {
	t.Parallel()
	r := underCeiling(t, 45)
	r.run(20*time.Second, nil)
	r.outage(10 * time.Second) // far below it: a backlog, and nothing else
	r.below(3, 20*time.Second) // while that drains
	if c := r.l.Checkpoint(); c.Ceiling != 0 || c.Mark < 51 || c.Mark > 60 {
		t.Errorf("after three outages below it the ceiling is %.1f, the mark %.1f; want none, and what it was", c.Ceiling, c.Mark)
	}
}

// TestOutageInQuietTimes: an endpoint that falls without a backlog may have a ceiling
// that leaves little beside what comes in. It cost nothing, and stays known.
func TestOutageInQuietTimes(t *testing.T) {
	t.Parallel()
	r := underCeiling(t, 57)
	r.run(time.Minute, nil)
	r.outage(10 * time.Second)
	if c := r.l.Checkpoint(); !c.CeilingSure() {
		t.Errorf("after an outage with nothing waiting the ceiling is %.1f, sure: %v; want it kept", c.Ceiling, c.CeilingSure())
	}
}

// TestCeilingThatDoesNotHelpIsForgotten: an endpoint that breaks again and again
// although it is kept below what once broke it breaks for reasons of its own.
func TestCeilingThatDoesNotHelpIsForgotten(t *testing.T) {
	t.Parallel()
	r := vainCeiling(t)
	r.run(5*time.Minute, nil)
	if n := r.load(r.now); n < 90 {
		t.Errorf("%d requests in a second, want all that arrive", n)
	}
}

// TestCeilingOfAnEndpointThatFlaps: it may break for reasons of its own and have a
// ceiling all the same. It is known again after one more crash, and then bears more
// outages, if the backlog has ended once.
func TestCeilingOfAnEndpointThatFlaps(t *testing.T) {
	t.Parallel()
	r := vainCeiling(t)
	crashes := 0
	r.answer = r.cliff(60, &crashes)
	r.knownAgain(&crashes, 1)
	r.live = 50
	r.run(40*time.Minute, nil) // the backlog ends
	r.below(8, 50*time.Second) // before the next one has
	if c := r.l.Checkpoint(); crashes > 2 || !c.CeilingSure() {
		t.Errorf("after 8 outages the ceiling is %.1f, and there were %d crashes; want it kept", c.Ceiling, crashes)
	}
}

// TestCeilingBehindWhichNoBacklogEnds: it is asked again after a third of the outages, one,
// three and nine. It is bought with one crash each time if there is such a limit.
func TestCeilingBehindWhichNoBacklogEnds(t *testing.T) {
	t.Parallel()
	r := vainCeiling(t)
	crashes := 0
	r.answer = r.cliff(60, &crashes)
	for i, falls := range []int{3, 9} {
		r.knownAgain(&crashes, i+1)
		r.below(falls, 2*time.Minute)
		if c := r.l.Checkpoint(); c.Ceiling != 0 {
			t.Fatalf("after %d outages with ever more behind it the ceiling is %.1f, want it given up", falls, c.Ceiling)
		}
	}
	r.knownAgain(&crashes, 3)
}

// knownAgain lets the endpoint crash once more, and wants its ceiling to be known.
func (r *road) knownAgain(crashes *int, times int) {
	r.t.Helper()
	r.run(time.Minute, nil)
	if c := r.l.Checkpoint(); *crashes != times || !c.CeilingSure() {
		r.t.Fatalf("after %d crashes at the same load the ceiling is %.1f, sure: %v; want to know it after %d", *crashes, c.Ceiling, c.CeilingSure(), times)
	}
}

// TestFlappingEndpointGetsBackWhatItCarried: one that fell twice at a load that it had
// carried for a while falls for reasons of its own. It is not made to earn that load
// again, and no opening in a recovery makes the next one slower, unless there are
// many in a row.
func TestFlappingEndpointGetsBackWhatItCarried(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 100, ok)
	r.run(time.Minute, nil)
	soon := func() float64 { // rate right after an outage
		r.t.Helper()
		r.outage(10 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(100*time.Millisecond, nil)
		}
		return r.l.Checkpoint().Recovery
	}
	soon()
	r.run(time.Minute, nil)
	carried := soon()
	for i := range 3 {
		r.run(time.Duration(3-i)*600*time.Millisecond, nil) // less than it has borne
		if got := soon(); got < 0.9*carried {
			t.Fatalf("recovery %d begins with %.0f/s, want about the %.0f/s that it carried before", i+2, got, carried)
		}
	}
	r.run(300*time.Millisecond, nil)
	if got := soon(); got > carried/4 {
		t.Errorf("after four openings in a row a recovery begins with %.0f/s, want less: it may not be by itself", got)
	}
}

// TestFlappingEndpointGetsBackItsLimit: nor are its requests in flight counted up again, round
// by round. One that has not shown that it falls by itself is approached from one request.
func TestFlappingEndpointGetsBackItsLimit(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 100, ok)
	r.latency = 200 * time.Millisecond // twenty in flight
	r.run(time.Minute, nil)
	for i := range 3 {
		r.outage(10 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(10*time.Millisecond, nil)
		}
		if limit := r.l.Limit(); limit != 1 {
			t.Fatalf("after outage %d the limit is %.1f before anything has succeeded, want 1", i+1, limit)
		}
		r.run(time.Second, nil)
		if limit := r.l.Limit(); (limit >= 20) != (i > 0) {
			t.Errorf("a second after outage %d the limit is %.1f, want at least 20: %v", i+1, limit, i > 0)
		}
		r.run(time.Minute, nil)
	}
}

// flapping is a lane whose endpoint fell so often by itself.
func flapping(t *testing.T, c lane.Checkpoint, times int) *road {
	t.Helper()
	r := newRoad(drive(t, wide()), 50, ok)
	r.l = lane.Restore(wide(), c, r.now, 0.5, false)
	for range times {
		r.run(time.Minute, nil)
		r.outage(10 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(10*time.Millisecond, nil)
		}
	}
	return r
}

// TestFlappingEndpointIsNotSuspected: that an endpoint falls by itself explains what was
// taken for a ceiling after one crash. Knowledge stays, and so does the mark.
func TestFlappingEndpointIsNotSuspected(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		times int
		wait  time.Duration
		want  float64
	}{"it fell once": {1, 0, 100}, "it flaps": {2, 0, 0}, "it flaps, and it is known": {2, 48 * time.Hour, 100}} {
		r := flapping(t, lane.Checkpoint{Usual: 50, Breakage: lane.Breakage{
			Ceiling: 100, CeilingLearnt: 100, CeilingAt: start, CeilingWait: x.wait, Mark: 100, MarkAt: start,
		}}, x.times)
		if c := r.l.Checkpoint(); c.Ceiling != x.want || c.Mark != 100 {
			t.Errorf("%s: ceiling %.0f and mark %.0f, want %.0f and 100", name, c.Ceiling, c.Mark, x.want)
		}
	}
}

// TestFlappingEndpointIsKnownBySameLoads: two crashes of an endpoint that flaps make a
// ceiling only if they are at the same load; nearly the same is chance.
func TestFlappingEndpointIsKnownBySameLoads(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		falls, first, second int
		known                bool
	}{{0, 100, 100, true}, {0, 100, 106, true}, {2, 100, 100, true}, {2, 100, 106, false}, {2, 106, 100, false}} {
		r, crashes := flapping(t, lane.Checkpoint{Usual: 50}, x.falls), 0
		r.run(20*time.Second, nil)
		r.live = 400
		for i, over := range []int{x.first, x.second} {
			r.answer = r.cliff(over, &crashes)
			for crashes == i {
				r.run(10*time.Millisecond, nil)
			}
			r.run(2*time.Second, nil)
		}
		if c := r.l.Checkpoint(); c.CeilingSure() != x.known {
			t.Errorf("it fell %d times by itself and crashed above %d and %d: ceiling %.1f, known: %v, want %v",
				x.falls, x.first, x.second, c.Ceiling, c.CeilingSure(), x.known)
		}
	}
}

// TestEndpointThatIsColdAtFirst: one that bears right after a start only what comes in, or
// less, is approached ever more slowly, until it is warm before the backlog comes.
func TestEndpointThatIsColdAtFirst(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cold float64 // of a hundred, and thirty come in
		over time.Duration
	}{{30, time.Minute}, {15, time.Minute}, {30, 2 * time.Minute}, {15, 2 * time.Minute}, {15, 5 * time.Minute}} {
		r, crashes := newRoad(drive(t, wide()), 30, ok), 0
		r.run(time.Minute, nil)
		r.outage(30 * time.Second)
		r.answer = r.coldCliff(tc.cold, 100, tc.over, &crashes)
		r.run(30*time.Minute, nil)
		if crashes > 9 || r.l.Queued() > 10 {
			t.Errorf("%.0f/s at the start of %v: %d crashes in half an hour, and %d still wait; want at most 9, and next to nothing", tc.cold, tc.over, crashes, r.l.Queued())
		}
	}
}

// coldCliff is an endpoint that crashes above a rate, which rises with the time since it started.
func (r *road) coldCliff(cold, warm float64, over time.Duration, crashes *int) func(int) lane.Outcome {
	up := r.now
	return func(load int) lane.Outcome {
		share := min(1, r.now.Sub(up).Seconds()/over.Seconds())
		switch {
		case r.now.Before(up):
			return down(load)
		case float64(load) > cold+(warm-cold)*share:
			*crashes++
			up = r.now.Add(10 * time.Second)
			return down(load)
		default:
			return ok(load)
		}
	}
}
