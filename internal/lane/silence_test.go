package lane_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

const timeout = 15 * time.Second

// TestSilenceOpensALane: two requests that waited in vain together while nothing was
// answered show that the endpoint hangs, whatever is answered between their timeouts. Less
// than that may be the fault of an event, or a slow answer.
func TestSilenceOpensALane(t *testing.T) {
	t.Parallel()
	type request struct {
		from, till float64 // seconds
		class      hook.Class
	}
	lost := func(from float64) request { return request{from, from + timeout.Seconds(), hook.Down} }
	ok := func(from float64) request { return request{from, from + 0.01, hook.Success} }
	few := []request{lost(0), lost(0.1)}
	for name, x := range map[string]struct {
		requests []request
		change   func(*lane.Config)
		silent   bool // as their host says
		usual    time.Duration
		opens    bool
	}{
		"together":                      {requests: few, opens: true},
		"a success between":             {requests: append(few, ok(15.05)), opens: true},
		"ten successes between":         {requests: append(few, ok(15.01), ok(15.02), ok(15.03), ok(15.04), ok(15.05), ok(15.06), ok(15.07), ok(15.08)), opens: true},
		"the second began later":        {requests: []request{lost(0), lost(14.9)}, opens: true},
		"one":                           {requests: []request{lost(0)}},
		"one after the other":           {requests: []request{lost(0), lost(15.1)}},
		"a success meanwhile":           {requests: append(few, ok(7))},
		"a refusal meanwhile":           {requests: append(few, request{7, 7.1, hook.Permanent})},
		"an error of an event's own":    {requests: append(few, request{7, 7.1, hook.Retryable})},
		"a throttle meanwhile":          {requests: append(few, request{7, 7.1, hook.Throttle})},
		"a fault of ours meanwhile":     {requests: append(few, request{7, 7.1, hook.Local}), opens: true},
		"503 after a second":            {requests: []request{{0, 1, hook.Down}, {0.1, 1.1, hook.Down}}},
		"answers are slow":              {requests: few, usual: 4 * time.Second},
		"answers are slow, and not so":  {requests: few, usual: 3 * time.Second, opens: true},
		"the host answers for it":       {requests: few, silent: true},
		"more in a row are asked for":   {requests: few, change: func(c *lane.Config) { c.Consecutive = 10 }},
		"and more wait in vain":         {requests: []request{lost(0), lost(0.1), lost(0.2), lost(0.3)}, change: func(c *lane.Config) { c.Consecutive = 10 }, opens: true},
		"as few in a row as may be":     {requests: []request{lost(0)}, change: func(c *lane.Config) { c.Consecutive = 2 }},
		"there is no breaker":           {requests: few, change: func(c *lane.Config) { c.Breaker = false }},
		"both are late, one after both": {requests: append(few, ok(16)), opens: true},
	} {
		cfg := config()
		cfg.Limit = 10
		if x.change != nil {
			x.change(&cfg)
		}
		d := drive(t, cfg)
		if x.usual > 0 {
			d.arrive(1)
			d.l.Result(d.now, 0.5, d.send().Tag, lane.Outcome{Class: hook.Success, RTT: x.usual})
			d.now = d.now.Add(time.Minute)
		}
		began, opened := d.now, false
		at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
		type step struct {
			at  float64
			act func()
		}
		var steps []step
		for _, r := range x.requests {
			var dec lane.Decision
			steps = append(steps, step{r.from, func() {
				d.now = at(r.from)
				d.arrive(1)
				dec = d.l.Next(d.now, 1000)
			}}, step{r.till, func() {
				d.now = at(r.till)
				c := d.l.Result(d.now, 0.5, dec.Tag, lane.Outcome{
					Class: r.class, RTT: time.Duration((r.till - r.from) * float64(time.Second)), HostSilent: x.silent && r.class == hook.Down,
				})
				if opened = opened || c.Opened; c.Opened && c.Failures < 2 {
					t.Errorf("%s: opened by %d failures", name, c.Failures)
				}
			}})
		}
		slices.SortStableFunc(steps, func(a, b step) int { return int(1000 * (a.at - b.at)) })
		for _, s := range steps {
			s.act()
		}
		if opened != x.opens {
			t.Errorf("%s: opened: %v, want %v", name, opened, x.opens)
		}
	}
}

// swallowing lets requests wait in vain: they fail after the timeout. swallows is asked for
// each that starts.
func (r *road) swallowing(swallows func() bool) (look func()) {
	return func() {
		if swallows() {
			r.flying[len(r.flying)-1].till = r.now.Add(timeout)
		}
		slices.SortStableFunc(r.flying, func(a, b flying) int { return a.till.Compare(b.till) })
	}
}

// hanging is an endpoint that answers nothing for ten seconds when more than so many
// requests start within a second. It counts how often that happens.
func hanging(over int, now func() time.Time, load func() int, times *int) (swallows func() bool) {
	var until time.Time
	return func() bool {
		if !now().Before(until) && load() > over {
			*times++
			until = now().Add(10 * time.Second)
		}
		return now().Before(until)
	}
}

// TestEndpointThatHangs: one whose answers are fast has few requests in flight when it
// hangs, and is well again when they time out. It is still learnt from: twice, and then
// it has no more than it bears.
func TestEndpointThatHangs(t *testing.T) {
	t.Parallel()
	for _, live := range []float64{30, 50, 80} {
		r, times := newRoad(drive(t, config()), live, ok), 0
		r.run(time.Minute, nil)
		look := r.swallowing(hanging(100, func() time.Time { return r.now }, func() int { return r.load(r.now) }, &times))
		for i, most := range []int{2, 0} {
			times = 0
			r.outage(10 * time.Minute)
			r.run(90*time.Minute, look)
			if times > most || r.l.Queued() > 10 {
				t.Errorf("%.0f/s live, outage %d: it hung %d times, and %d still wait after an hour and a half; want at most %d, and next to nothing",
					live, i+1, times, r.l.Queued(), most)
			}
		}
	}
}

// TestHostThatHangs: none of its lanes has two requests in flight when it does. All of them
// together have, and the host is learnt from.
func TestHostThatHangs(t *testing.T) {
	t.Parallel()
	const live, bears = 50, 100
	s := newStreet(t, 10, live/10.0)
	s.step = 2 * time.Millisecond
	s.run(time.Minute)
	var times int
	var starts []time.Time
	s.swallows = hanging(bears, func() time.Time { return s.now }, func() int {
		starts = append(starts, s.now)
		for s.now.Sub(starts[0]) >= time.Second {
			starts = starts[1:]
		}
		return len(starts)
	}, &times)
	for i, most := range []int{3, 0} {
		times, s.up = 0, false
		s.run(5 * time.Minute)
		s.up = true
		s.run(9 * time.Minute)
		if times > most || s.queued() > 20 {
			t.Errorf("outage %d: it hung %d times, and %d still wait after nine minutes; want at most %d, and next to nothing", i+1, times, s.queued(), most)
		}
	}
	for i, r := range s.rows {
		if c := r.road.l.Checkpoint(); c.Ceiling != 0 || c.Mark != 0 {
			t.Errorf("lane %d has learnt %+v from what its host did", i, c.Breakage)
		}
	}
}

// TestHangTeachesWhatACrashDoes: what was carried counts up to when the endpoint began to
// hang, and not up to when its failures are heard of, which is long after.
func TestHangTeachesWhatACrashDoes(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ outage, drain time.Duration }{
		{10 * time.Second, 45 * time.Second},
		{10 * time.Minute, 10 * time.Second},
		{10 * time.Minute, 20 * time.Second},
		{10 * time.Minute, 40 * time.Second},
		{10 * time.Minute, 100 * time.Second},
	} {
		learnt := func(falls func(r *road)) lane.Breakage {
			r := newRoad(drive(t, config()), 50, ok)
			r.run(time.Minute, nil)
			r.outage(x.outage)
			r.run(x.drain, nil)
			falls(r)
			r.run(5*time.Second, nil)
			return r.l.Checkpoint().Breakage
		}
		crash := learnt(func(r *road) { r.outage(10 * time.Second) })
		hang := learnt(func(r *road) {
			until := r.now.Add(10 * time.Second)
			r.run(20*time.Second, r.swallowing(func() bool { return r.now.Before(until) }))
		})
		if math.Abs(hang.Mark-crash.Mark) > 1 || math.Abs(hang.Ceiling-crash.Ceiling) > 1 {
			t.Errorf("%v into the drain of %v: a crash teaches mark %.0f and ceiling %.0f, a hang %.0f and %.0f",
				x.drain, x.outage, crash.Mark, crash.Ceiling, hang.Mark, hang.Ceiling)
		}
	}
}

// TestOldSilence: one request that was lost at a quiet time, minutes before a crash, says
// nothing of that crash.
func TestOldSilence(t *testing.T) {
	t.Parallel()
	r, crashes := newRoad(drive(t, config()), 50, ok), 0
	r.run(time.Minute, nil)
	r.live = 0
	r.run(time.Second, nil)
	r.arrive(1)
	lost := 0
	r.run(time.Minute, r.swallowing(func() bool { lost++; return lost == 1 }))
	r.live, r.nextLive = 50, r.now
	r.run(time.Minute, nil)
	r.live, r.answer = 400, r.cliff(100, &crashes)
	for crashes == 0 {
		r.run(10*time.Millisecond, nil)
	}
	r.run(2*time.Second, nil)
	if c := r.l.Checkpoint(); c.Mark < 95 || c.Mark > 105 {
		t.Errorf("it crashed above 100 per second, mark %.0f", c.Mark)
	}
}
