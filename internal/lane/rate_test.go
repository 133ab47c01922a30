package lane_test

import (
	"math"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// road is a lane with live traffic to an endpoint whose latency tells nothing.
type road struct {
	*driver
	latency time.Duration
	live    float64 // events per second
	answer  func(load int) lane.Outcome

	nextLive time.Time
	flying   []flying
	starts   []time.Time
}

func newRoad(d *driver, live float64, answer func(load int) lane.Outcome) *road {
	return &road{driver: d, latency: time.Millisecond, live: live, answer: answer, nextLive: d.now}
}

func ok(int) lane.Outcome   { return lane.Outcome{Class: hook.Success} }
func down(int) lane.Outcome { return lane.Outcome{Class: hook.Down} }

// cliff answers until more than so many requests start within a second; it then
// is down for ten seconds. It counts its crashes.
func (r *road) cliff(over int, crashes *int) func(int) lane.Outcome {
	var until time.Time
	return func(load int) lane.Outcome {
		switch {
		case r.now.Before(until):
			return down(load)
		case load > over:
			*crashes++
			until = r.now.Add(10 * time.Second)
			return down(load)
		default:
			return ok(load)
		}
	}
}

// run lets so much time pass. look, if any, sees every start.
func (r *road) run(lasts time.Duration, look func()) {
	r.t.Helper()
	for end := r.now.Add(lasts); ; {
		for {
			dec := r.l.Next(r.now, math.MaxInt)
			if !dec.Send {
				break
			}
			r.starts = append(r.starts, r.now)
			r.flying = append(r.flying, flying{dec: dec, from: r.now, till: r.now.Add(r.latency)})
			if look != nil {
				look()
			}
		}
		next := end
		if r.live > 0 && r.nextLive.Before(next) {
			next = r.nextLive
		}
		if len(r.flying) > 0 && r.flying[0].till.Before(next) {
			next = r.flying[0].till
		}
		if wake := r.l.Wake(r.now); !wake.IsZero() && wake.Before(next) {
			next = wake
		}
		r.now = next
		switch {
		case len(r.flying) > 0 && !r.flying[0].till.After(r.now):
			r.land()
		case r.live > 0 && !r.nextLive.After(r.now):
			r.arrive(1)
			r.nextLive = r.nextLive.Add(time.Duration(float64(time.Second) / r.live))
		case !r.now.Before(end):
			return
		}
	}
}

func (r *road) land() {
	f := r.flying[0]
	r.flying = r.flying[1:]
	o, took := r.answer(r.load(f.from)), r.now.Sub(f.from)
	if took >= timeout {
		o = down(0)
	}
	o.RTT = took
	r.l.Result(r.now, 0.5, f.dec.Tag, o)
	if isFailure(o.Class) { // it comes again; what it carries does not matter here
		r.id++
		r.l.Arrive(lane.Ref{ID: r.id, FirstDue: r.now, FailedAttempts: 1})
	}
}

func isFailure(c hook.Class) bool { return c == hook.Down || c == hook.Throttle }

// load is how many requests started in the second before, the one at that time
// included.
func (r *road) load(at time.Time) int {
	for len(r.starts) > 0 && r.starts[0].Before(at.Add(-time.Second)) {
		r.starts = r.starts[1:]
	}
	upTo := func(t time.Time) int {
		return sort.Search(len(r.starts), func(i int) bool { return r.starts[i].After(t) })
	}
	return upTo(at) - upTo(at.Add(-time.Second))
}

// outage takes the endpoint down for so long.
func (r *road) outage(lasts time.Duration) {
	r.t.Helper()
	up := r.answer
	r.answer = down
	r.run(lasts, nil)
	r.answer = up
}

// wide is a configuration whose limit of requests in flight never matters.
func wide() lane.Config {
	cfg := config()
	cfg.Limit = 1000
	return cfg
}

// TestNoHistoryNoWait: a lane that never opened and was never refused starts
// whatever its limit allows, whenever it arrives.
func TestNoHistoryNoWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := drive(t, wide())
		for range rapid.IntRange(1, 40).Draw(rt, "bunches") {
			d.now = d.now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(rt, "pause")))
			n := rapid.IntRange(1, 300).Draw(rt, "events")
			class := rapid.SampledFrom([]hook.Class{hook.Success, hook.Permanent}).Draw(rt, "class")
			d.arrive(n)
			for range n {
				dec := d.l.Next(d.now, math.MaxInt)
				if !dec.Send {
					rt.Fatalf("a lane without history lets a request wait until %v", d.l.Wake(d.now))
				}
				d.result(dec, class)
			}
		}
	})
}

// TestNoBurstUnderARate: in no second do more requests start than the rates in
// force allow, and two per cent.
func TestNoBurstUnderARate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRoad(drive(t, wide()), rapid.Float64Range(1, 80).Draw(rt, "live"), ok)
		r.run(15*time.Second, nil)
		r.outage(time.Duration(rapid.IntRange(5, 120).Draw(rt, "outage")) * time.Second)
		most := 0.0
		r.run(40*time.Second, func() {
			rate := r.l.Checkpoint().Pacing(r.now, 0).Rate
			if r.l.State() != lane.Closed || rate == 0 {
				most = math.Inf(1)
			}
			// The rate doubles in five seconds: in one it grows by a seventh.
			most = max(rate, most*0.999)
			if n := float64(r.load(r.now)); rate > 0 && most < 1e4 && n > 1.02*most+2 {
				rt.Fatalf("%v started within a second at a rate of %.1f", n, most)
			}
			if math.IsInf(most, 1) {
				most = 0
			}
		})
	})
}

// TestHasteIsBoundedByNeed: a backlog of half a minute at an endpoint that is used
// to fifty a second takes about a minute, whatever the endpoint would bear.
func TestHasteIsBoundedByNeed(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 50, ok)
	r.run(20*time.Second, nil)
	r.outage(30 * time.Second)
	from := r.now
	for r.l.Queued() > 5 || r.l.State() != lane.Closed {
		r.run(time.Second, func() {
			if n := r.load(r.now); n > 80 {
				t.Fatalf("%d requests in a second, want no more than 75", n)
			}
		})
	}
	if took := r.now.Sub(from); took < 45*time.Second || took > 80*time.Second {
		t.Errorf("drained in %v, want about a minute", took)
	}
}

// TestFallsInADrainForgetNoBacklog: what an outage has left is still to be drained after
// the endpoint has fallen again, once the lane had recovered and once more soon after that,
// and whatever the lane's owner dies in.
func TestFallsInADrainForgetNoBacklog(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 50, ok)
	r.run(20*time.Second, nil)
	die := func() {
		queued := r.l.Queued()
		r.l, r.flying = lane.Restore(wide(), r.l.Checkpoint(), r.now, 0.5, false), nil
		r.await(queued)
	}
	fall := func(what string, lasts time.Duration, inOutage func()) {
		r.outage(lasts / 2)
		inOutage()
		r.outage(lasts / 2)
		for r.l.State() != lane.Closed {
			r.run(time.Second, nil)
		}
		if held := r.l.Checkpoint().Held; held < 20*time.Minute {
			t.Errorf("%s: in haste for %v, want those 20m that most of the backlog is from", what, held)
		}
	}
	nothing := func() {}
	fall("the first outage", 20*time.Minute, nothing)
	r.run(65*time.Second, nil)
	fall("the next one", 10*time.Second, nothing)
	r.run(15*time.Second, nil)
	fall("one soon after it", 10*time.Second, nothing)
	r.run(5*time.Second, nil)
	die()
	fall("one after the owner died", 10*time.Second, nothing)
	r.run(5*time.Second, nil)
	fall("one in which the owner died", 10*time.Second, die)

	for r.l.Queued() > 5 && r.now.Before(start.Add(time.Hour)) {
		r.run(time.Second, nil)
	}
	r.outage(10 * time.Second)
	r.run(5*time.Second, nil)
	if held := r.l.Checkpoint().Held; held > 20*time.Second {
		t.Errorf("in haste for %v after everything was drained, and an outage of 10s", held)
	}
}

// TestCliffIsLearnt: what breaks an endpoint twice is known, and does not break it
// in the outages after, under whoever owns the lane.
func TestCliffIsLearnt(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 50, nil)
	var crashes int
	r.answer = r.cliff(100, &crashes)
	r.run(30*time.Second, nil)
	r.outage(10 * time.Minute)
	r.run(30*time.Minute, nil)
	c := r.l.Checkpoint()
	if crashes != 2 || !c.CeilingSure() || math.Abs(c.Ceiling-100) > 5 {
		t.Fatalf("%d crashes, and the ceiling is %+v; want 2, and 100 for sure", crashes, c)
	}
	r.l = lane.Restore(wide(), c, r.now, 0.5, true)
	r.flying = nil
	for range 3 {
		r.run(10*time.Minute, nil)
		r.outage(10 * time.Minute)
		r.run(30*time.Minute, nil)
	}
	if crashes != 2 {
		t.Errorf("%d more crashes after it was known", crashes-2)
	}
	if n := r.l.Queued(); n > 5 {
		t.Errorf("%d are still waiting", n)
	}
}

// TestLateLooksMakeNoBurst: a lane that is looked at late sends at most a tenth of
// a second's requests at once.
func TestLateLooksMakeNoBurst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRoad(drive(t, wide()), rapid.Float64Range(20, 80).Draw(rt, "live"), ok)
		r.run(15*time.Second, nil)
		r.outage(30 * time.Second)
		for r.l.State() != lane.Closed {
			r.run(100*time.Millisecond, nil)
		}
		for range rapid.IntRange(1, 20).Draw(rt, "looks") {
			r.run(time.Second, nil)
			r.now = r.now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(rt, "late")) * time.Millisecond)
			rate := r.l.Checkpoint().Pacing(r.now, 0).Rate
			at, n := r.now, 0.0
			r.run(0, func() { n++ })
			if rate > 0 && n > max(2, 0.1*rate+1) {
				rt.Fatalf("%v started at once at %v, at a rate of %.1f", n, at, rate)
			}
		}
	})
}

// TestPeopleForget: reset and resume forget everything that was learnt of rates,
// and a new owner nothing.
func TestPeopleForget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Float64Range(1, 1000)
		c := lane.Checkpoint{
			Open: rapid.Bool().Draw(rt, "open"), OpenedAt: start, BlockedAt: start, ClosedAt: start,
			Usual: rate.Draw(rt, "usual"), Proven: rate.Draw(rt, "proven"), Recovery: rate.Draw(rt, "recovery"), Held: time.Minute,
			Pace: rate.Draw(rt, "pace"), ThrottledAt: start, RetryAfter: time.Second,
			Breakage: lane.Breakage{Ceiling: rate.Draw(rt, "ceiling"), CeilingAt: start, CeilingWait: time.Hour, Mark: rate.Draw(rt, "mark"), MarkAt: start},
		}
		c.CeilingLearnt = c.Ceiling
		if c.Open {
			c.Recovery, c.Held = 0, 0
		}
		now := start.Add(time.Second)
		l := lane.Restore(wide(), c, now, 0.5, true)
		got := l.Checkpoint()
		if got.Usual != c.Usual || got.Proven != c.Proven || got.Ceiling != c.Ceiling || got.CeilingWait != c.CeilingWait ||
			got.Mark != c.Mark || got.Pace != c.Pace || got.Recovery != c.Recovery {
			rt.Fatalf("a new owner has %+v of %+v", got, c)
		}
		if rapid.Bool().Draw(rt, "reset") {
			l.Reset(now)
		} else {
			l.Pause(now)
			l.Resume(now)
		}
		if got := l.Checkpoint(); got.Ceiling != 0 || got.Mark != 0 || got.Pace != 0 {
			rt.Fatalf("a person's wish left %+v", got)
		}
	})
}

// TestYoungLaneKnowsItsLoad: after five seconds of traffic the usual load is that
// of those seconds, not half of it.
func TestYoungLaneKnowsItsLoad(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 40, ok)
	r.run(6*time.Second, nil)
	if got := r.l.Checkpoint().Usual; math.Abs(got-40) > 4 {
		t.Errorf("usual load after six seconds is %.1f, want 40", got)
	}
}

// TestOutageOfAYoungLane: the first outage of an endpoint that has had a few seconds of
// traffic is drained as soon as that of any other, and teaches nothing that is not so.
func TestOutageOfAYoungLane(t *testing.T) {
	t.Parallel()
	for _, age := range []int{0, 1, 2, 3, 4, 5, 7, 10, 12} {
		for within := range 4 { // a second of the clock
			crashes, r := 0, newRoad(drive(t, wide()), 50, nil)
			r.now = r.now.Add(time.Duration(within) * 250 * time.Millisecond)
			r.nextLive, r.answer = r.now, r.cliff(100, &crashes)
			r.run(time.Duration(age)*time.Second, nil)
			r.outage(30 * time.Second)
			from := r.now
			for r.l.Queued() > 5 || r.l.State() != lane.Closed {
				r.run(time.Second, nil)
			}
			if took := r.now.Sub(from); took > 90*time.Second || crashes > 0 {
				t.Errorf("after %d s of traffic: drained in %v with %d crashes, want at most 90s and none", age, took, crashes)
			}
		}
	}
}

// TestTrafficThatGrewDuringTheOutage: when more comes in than before, the backlog
// still gets shorter, without waiting for the end of the careful time.
func TestTrafficThatGrewDuringTheOutage(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 10, ok)
	r.run(20*time.Second, nil)
	r.live = 40
	r.outage(30 * time.Second)
	r.run(150*time.Second, nil)
	if n := r.l.Queued(); n > 100 {
		t.Errorf("%d are waiting 150 s after the outage, with %v per second coming in", n, r.live)
	}
}

// TestBusyMachineOfOurOwn: a lane that is looked at late, every 80 ms at worst,
// recovers as fast as another: what was missed may leave later.
func TestBusyMachineOfOurOwn(t *testing.T) {
	t.Parallel()
	for _, look := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		r := newRoad(drive(t, wide()), 40, ok)
		r.run(20*time.Second, nil)
		r.outage(25 * time.Second)
		for end := r.now.Add(2 * time.Minute); r.now.Before(end); {
			r.now = r.now.Add(look)
			for len(r.flying) > 0 && !r.flying[0].till.After(r.now) {
				r.land()
			}
			for ; !r.nextLive.After(r.now); r.nextLive = r.nextLive.Add(time.Duration(float64(time.Second) / r.live)) {
				r.arrive(1)
			}
			for dec := r.l.Next(r.now, math.MaxInt); dec.Send; dec = r.l.Next(r.now, math.MaxInt) {
				r.flying = append(r.flying, flying{dec: dec, from: r.now, till: r.now.Add(r.latency)})
			}
		}
		if n := r.l.Queued(); n > 10 {
			t.Errorf("looked at every %v, %d are waiting two minutes after the outage", look, n)
		}
	}
}

// TestOurOwnOutagePacesNoHealthyEndpoint: a new owner does not pace an endpoint that
// never failed, however short the lives of the owners before were.
func TestOurOwnOutagePacesNoHealthyEndpoint(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 100, ok)
	for range 20 {
		r.run(700*time.Millisecond, nil)
		r.flying = nil
		r.l = lane.Restore(wide(), r.l.Checkpoint(), r.now, 0.5, true)
		if p := r.l.Checkpoint().Pacing(r.now, 0); p.By != lane.PacedByNothing {
			t.Fatalf("paced by %s to %.1f after a restart of ours", p.By, p.Rate)
		}
	}
}

// TestFixedLimitWithSlowAnswers: a recovery leaves room for as many requests in flight as its
// rate needs, also where their number is fixed and not found by latency.
func TestFixedLimitWithSlowAnswers(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit = 20
	r := newRoad(drive(t, cfg), 10, ok)
	r.latency = time.Second
	r.run(time.Minute, nil)
	r.outage(time.Minute)
	held := r.l.Queued()
	r.run(25*time.Second, nil)
	if n := r.l.Queued(); n >= held {
		t.Errorf("%d wait 25 s after an outage, %d did at its end: it sends less than the 10/s that come in", n, held)
	}
}
