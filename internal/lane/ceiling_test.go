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
