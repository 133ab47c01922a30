package lane_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

// TestSteadyLoadIsNotToBlame: what was carried a moment ago does not break an
// endpoint, so an outage under a steady load sets no ceiling, and one in a recovery
// that goes on at a steady rate is no more than a reason to suspect it.
func TestSteadyLoadIsNotToBlame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRoad(drive(t, wide()), rapid.Float64Range(1, 100).Draw(rt, "live"), ok)
		r.run(time.Duration(rapid.IntRange(6, 40).Draw(rt, "seconds"))*time.Second, nil)
		r.outage(10 * time.Second)
		if c := r.l.Checkpoint(); c.Ceiling != 0 || c.Mark != 0 {
			rt.Fatalf("ceiling %.1f and mark %.1f after an outage at a steady load", c.Ceiling, c.Mark)
		}
		for r.l.State() != lane.Closed {
			r.run(100*time.Millisecond, nil)
		}
		r.run(25*time.Second, nil)
		r.outage(10 * time.Second)
		if c := r.l.Checkpoint(); c.CeilingSure() {
			rt.Fatalf("ceiling %.1f and mark %.1f after an outage in a steady recovery", c.Ceiling, c.Mark)
		}
	})
}

// crashAt lets a lane that is recovering open under a load of about so many
// requests per second, of which it has carried the half before.
func crashAt(t *testing.T, c lane.Checkpoint, load float64) lane.Checkpoint {
	t.Helper()
	d := drive(t, wide())
	c.Recovery, c.Held = load/2, time.Second
	c.Usual = load / 2
	r := newRoad(d, 1.5*load, ok)
	r.l = lane.Restore(wide(), c, d.now, 0.5, false)
	r.run(8*time.Second, nil)
	r.live = 4 * load
	crashed := false
	r.answer = func(n int) lane.Outcome {
		crashed = crashed || float64(n) >= load
		if crashed {
			return down(n)
		}
		return ok(n)
	}
	for i := 0; r.l.State() == lane.Closed; i++ {
		if i == 600 {
			t.Fatalf("a load of %v was never reached: %+v", load, r.l.Checkpoint())
		}
		r.run(500*time.Millisecond, nil)
	}
	return r.l.Checkpoint()
}

// TestTwiceIsKnowledge: two crashes at the same load are known, at different loads
// they are neither known nor suspected, and one is a suspicion at most.
func TestTwiceIsKnowledge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.Float64Range(40, 200).Draw(rt, "first")
		once := crashAt(t, lane.Checkpoint{}, first)
		if once.CeilingSure() || once.Mark == 0 {
			rt.Fatalf("after one crash at %.0f: %+v, want a mark and no knowledge", first, once)
		}
		once.Open, once.Ceiling = false, 0
		ratio := rapid.Float64Range(1.3, 3).Draw(rt, "ratio")
		if other := crashAt(t, once, first*ratio); other.Ceiling != 0 {
			rt.Fatalf("crashes at %.0f and %.0f made a ceiling of %.0f, sure: %v", first, first*ratio, other.Ceiling, other.CeilingSure())
		}
		if again := crashAt(t, once, first); !again.CeilingSure() {
			rt.Fatalf("crashes at %.1f and %.1f made no ceiling", once.Mark, again.Mark)
		}
	})
}

// TestKnowledgeIsNotOverwritten: with a ceiling that is known, a crash at another
// load does not change it; nor do openings by ratio, or failures of probes.
func TestKnowledgeIsNotOverwritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		known := lane.Checkpoint{Breakage: lane.Breakage{Ceiling: 500, CeilingLearnt: 500, CeilingAt: start, CeilingWait: 48 * time.Hour, Mark: 500, MarkAt: start}}
		got := crashAt(t, known, rapid.Float64Range(20, 300).Draw(rt, "load"))
		if got.Ceiling != 500 || got.CeilingWait < known.CeilingWait || got.CeilingWait > known.CeilingWait+time.Hour {
			rt.Fatalf("the ceiling is %.1f (tested after %v), was 500", got.Ceiling, got.CeilingWait)
		}
	})
	cfg := wide()
	cfg.Consecutive = 1000
	r := newRoad(drive(t, cfg), 20, ok)
	r.run(20*time.Second, nil)
	n := 0
	r.answer = func(int) lane.Outcome { // four of five fail
		if n++; n%5 == 0 {
			return ok(0)
		}
		return down(0)
	}
	r.live = 600
	r.run(20*time.Second, nil)
	if c := r.l.Checkpoint(); c.OpenReason != lane.OpenedByRatio || c.Ceiling != 0 || c.Mark != 0 {
		t.Errorf("opened by ratio: %+v, want nothing learnt", c)
	}
}

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
// outages.
func TestCeilingOfAnEndpointThatFlaps(t *testing.T) {
	t.Parallel()
	r := vainCeiling(t)
	crashes := 0
	r.answer = r.cliff(60, &crashes)
	r.run(time.Minute, nil)
	if c := r.l.Checkpoint(); crashes != 1 || !c.CeilingSure() {
		t.Fatalf("after %d crashes at the same load the ceiling is %.1f, sure: %v; want to know it after one", crashes, c.Ceiling, c.CeilingSure())
	}
	r.below(8, 2*time.Minute)
	if c := r.l.Checkpoint(); crashes > 2 || !c.CeilingSure() {
		t.Errorf("after 8 outages the ceiling is %.1f, and there were %d crashes; want it kept", c.Ceiling, crashes)
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

// TestLevelRateIsNotBlamed: a recovery that has reached what it wants stays there. An
// endpoint that falls after some seconds of that has carried it, though the mean of
// ten seconds still rises: less of it is suspected. After minutes none of it is.
func TestLevelRateIsNotBlamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		after       time.Duration // of the close
		least, most float64       // of the load at the fall
	}{
		"while it grows":     {2 * time.Second, 0.95, 1.02},
		"some seconds later": {25 * time.Second, 0.5, 0.7},
		"a minute later":     {70 * time.Second, 0.7, 0.9},
		"minutes later":      {2 * time.Minute, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(drive(t, wide()), 100, ok)
			r.run(time.Minute, nil)
			r.outage(30 * time.Minute)
			for r.l.State() != lane.Closed {
				r.run(10*time.Millisecond, nil)
			}
			r.run(tc.after, nil)
			load := float64(r.load(r.now))
			r.outage(10 * time.Second)
			if c := r.l.Checkpoint(); c.Mark < tc.least*load || c.Mark > tc.most*load {
				t.Errorf("the mark is %.0f after a fall at %.0f/s, want %.0f to %.0f", c.Mark, load, tc.least*load, tc.most*load)
			}
		})
	}
}

// TestLoadThatComesAndGoes: an endpoint that falls under a load below that of a second
// before was not broken by it, though the mean of ten seconds is lower.
func TestLoadThatComesAndGoes(t *testing.T) {
	t.Parallel()
	for last, mark := range map[float64]bool{120: false, 200: true} {
		r := newRoad(drive(t, wide()), 100, ok)
		r.run(time.Minute, nil)
		r.outage(5 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(10*time.Millisecond, nil)
		}
		r.run(20*time.Second, nil)
		for range 6 {
			r.live = 160
			r.run(time.Second, nil)
			r.live = 60
			r.run(2*time.Second, nil)
		}
		r.live = last
		r.run(time.Second, nil)
		r.outage(10 * time.Second)
		if c := r.l.Checkpoint(); (c.Mark > 0) != mark {
			t.Errorf("it fell at %.0f/s where a second before had 160: the mark is %.0f, want one: %v", last, c.Mark, mark)
		}
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

// TestSuspicionOfAGrowingLoad: a usual load that grows by a few percent in a recovery, as the
// highest of many means does, makes no suspicion dear that was cheap; a new one does.
func TestSuspicionOfAGrowingLoad(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ live, ceiling, want float64 }{{54, 62, 62}, {70, 75, 0}} {
		r := flapping(t, lane.Checkpoint{Usual: 50}, 0)
		r.run(20*time.Second, nil)
		c := r.l.Checkpoint()
		c.Breakage = lane.Breakage{Ceiling: x.ceiling, CeilingLearnt: x.ceiling, CeilingAt: start, Mark: x.ceiling, MarkAt: start}
		r.l, r.flying = lane.Restore(wide(), c, r.now, 0.5, false), nil
		r.outage(30 * time.Second)
		r.live = x.live
		r.run(time.Minute, nil)
		if c := r.l.Checkpoint(); c.Ceiling != x.want {
			t.Errorf("with %.0f/s instead of 50 the ceiling of %.0f is %.1f, want %.0f", x.live, x.ceiling, c.Ceiling, x.want)
		}
	}
}

// TestSuspicionThatIsCheapEnough: a suspicion is weighed by the load itself, less a request
// that it may be wrong by. So a large one is obeyed although the usual load is the highest
// of many means, and a small one that leaves the live load next to nothing is not.
func TestSuspicionThatIsCheapEnough(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ usual, ceiling, want float64 }{{86, 98.7, 98.7}, {88, 98.7, 0}, {16, 20, 20}, {17, 20, 0}} {
		r := newRoad(drive(t, wide()), x.usual, ok)
		r.l = lane.Restore(wide(), lane.Checkpoint{
			Usual: x.usual, Proven: x.usual, Breakage: lane.Breakage{Ceiling: x.ceiling, CeilingLearnt: x.ceiling, CeilingAt: start, Mark: x.ceiling, MarkAt: start},
		}, r.now, 0.5, false)
		r.outage(30 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(10*time.Millisecond, nil)
		}
		if c := r.l.Checkpoint(); c.Ceiling != x.want {
			t.Errorf("used to %.0f/s, held for %v, with a suspicion of %.1f: the ceiling is %.1f, want %.1f", x.usual, c.Held, x.ceiling, c.Ceiling, x.want)
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

// TestCeilingNearTheUsualLoad: live traffic of 16 per second has ten seconds with 20 per
// second now and then, so a ceiling of 20 carries it, and is no reason to test it soon.
func TestCeilingNearTheUsualLoad(t *testing.T) {
	t.Parallel()
	for usual, wait := range map[float64]time.Duration{20: 48 * time.Hour, 30: 10 * time.Minute} {
		crashes := 0
		r := newRoad(drive(t, wide()), 60, nil)
		r.answer = r.cliff(20, &crashes)
		r.l = lane.Restore(wide(), lane.Checkpoint{
			Usual: usual, Proven: 10, Recovery: 10, Held: time.Minute, Breakage: lane.Breakage{Mark: 20, MarkAt: start},
		}, r.now, 0.5, false)
		for crashes == 0 {
			r.run(100*time.Millisecond, nil)
		}
		r.run(time.Second, nil)
		if c := r.l.Checkpoint(); c.CeilingWait != wait {
			t.Errorf("used to %.0f/s: a ceiling of %.1f is tested after %v, want %v", usual, c.Ceiling, c.CeilingWait, wait)
		}
	}
}

// TestCeilingIsTested: with a backlog and only successes every ceiling that is old
// enough is gone in finite time.
func TestCeilingIsTested(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"a suspicion": 0, "knowledge": 48 * time.Hour} {
		c := lane.Checkpoint{
			Usual: 5, Proven: 5,
			Breakage: lane.Breakage{Ceiling: 10, CeilingLearnt: 10, CeilingAt: start.Add(-wait), CeilingWait: wait, Mark: 10, MarkAt: start},
		}
		d := drive(t, wide())
		r := newRoad(d, 20, ok)
		r.l = lane.Restore(wide(), c, d.now, 0.5, false)
		for i := 0; r.l.Checkpoint().Ceiling > 0; i++ {
			if i == 40 {
				t.Fatalf("%s is still there after 40 minutes in the way: %+v", name, r.l.Checkpoint())
			}
			r.run(time.Minute, nil)
			if n := r.l.Queued(); n > 5000 {
				r.live = 0
			}
		}
	}
}

// TestWhatIsUsedIsKnownForLonger: knowledge is good for two days after it was last in
// the way, but for no more than four in all.
func TestWhatIsUsedIsKnownForLonger(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ age, want time.Duration }{
		{0, 48 * time.Hour}, {20 * time.Hour, 68 * time.Hour}, {47 * time.Hour, 95 * time.Hour},
	} {
		r := newRoad(drive(t, wide()), 20, ok)
		r.l = lane.Restore(wide(), lane.Checkpoint{
			Usual: 5, Proven: 5,
			Breakage: lane.Breakage{Ceiling: 10, CeilingLearnt: 10, CeilingAt: start.Add(-x.age), CeilingWait: 48 * time.Hour, Mark: 10, MarkAt: start},
		}, r.now, 0.5, false)
		r.run(time.Minute, nil)
		c := r.l.Checkpoint()
		if c.Ceiling != 10 || c.CeilingWait < x.want-time.Second || c.CeilingWait > x.want+2*time.Minute {
			t.Errorf("learnt %v ago and in the way now: the ceiling is %.1f and tested after %v, want %v", x.age, c.Ceiling, c.CeilingWait, x.want)
		}
	}
}
