package lane_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// TestSingleThrottleOnAQuietLane: it changes the hold, and nothing else.
func TestSingleThrottleOnAQuietLane(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := drive(t, wide())
		after := time.Duration(rapid.IntRange(1, 60).Draw(rt, "retry after")) * time.Second
		for range rapid.IntRange(1, 10).Draw(rt, "times") {
			d.arrive(1)
			before := d.l.Checkpoint()
			d.l.Result(d.now, 0.5, d.send().Tag, lane.Outcome{Class: hook.Throttle, Hold: after, RetryAfter: after})
			got := d.l.Checkpoint()
			before.HoldUntil, before.BlockedAt, before.RetryAfter = got.HoldUntil, got.BlockedAt, got.RetryAfter
			if got != before {
				rt.Fatalf("one 429 on a quiet lane changed %+v to %+v", before, got)
			}
			d.now = d.now.Add(after + time.Duration(rapid.IntRange(1000, 100000).Draw(rt, "pause"))*time.Millisecond)
			d.arrive(1)
			d.result(d.send(), hook.Success)
			d.now = d.now.Add(2 * time.Second)
		}
	})
}

// TestRefusalIsForgotten: a refused rate never falls by itself, and is gone after
// finite time, whether the lane is used or not, and whoever owns it.
func TestRefusalIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := lane.Checkpoint{
			Pace: rapid.Float64Range(0.2, 1000).Draw(rt, "pace"), ThrottledAt: start,
			RetryAfter:    time.Duration(rapid.IntRange(1, 60).Draw(rt, "retry after")) * time.Second,
			PaceSlowStart: rapid.Bool().Draw(rt, "slow start"),
		}
		last := 0.0
		for h := range 100 {
			now := start.Add(time.Duration(h) * 10 * time.Minute)
			if h > 0 && rapid.IntRange(0, 9).Draw(rt, "new owner") == 0 {
				c = lane.Restore(wide(), c, now, 0.5, true).Checkpoint()
			}
			rate := c.ThrottleRate(now)
			if rate == 0 {
				return
			}
			if rate < last {
				rt.Fatalf("the rate fell from %v to %v by itself", last, rate)
			}
			last = rate
		}
		rt.Fatalf("%v per second is refused for ever: still %v after 16 hours", c.Pace, last)
	})
}

// TestWishOfADayIsNoPaceOfADay: a long Retry-After holds the lane for as long as it
// says, but what was refused is forgotten as after a minute's.
func TestWishOfADayIsNoPaceOfADay(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 30, func(load int) lane.Outcome {
		if load > 20 {
			return lane.Outcome{Class: hook.Throttle, RetryAfter: 24 * time.Hour, Hold: time.Second}
		}
		return ok(load)
	})
	r.run(time.Minute, nil)
	c := r.l.Checkpoint()
	if c.Pace == 0 {
		t.Fatal("nothing was learnt")
	}
	if rate := c.ThrottleRate(c.ThrottledAt.Add(16 * time.Hour)); rate != 0 {
		t.Errorf("%.1f per second is still refused after 16 hours", rate)
	}
}

// TestLongWishesAreBelievedSooner: an endpoint that asks for ten seconds each time is
// paced after a few refusals, for each of them costs ten seconds.
func TestLongWishesAreBelievedSooner(t *testing.T) {
	t.Parallel()
	cfg := wide()
	cfg.Limit = 1 // so that each hold has one refusal
	r := newRoad(drive(t, cfg), 10, nil)
	holds := 0
	r.answer = func(load int) lane.Outcome {
		if load > 20 {
			holds++
			return lane.Outcome{Class: hook.Throttle, RetryAfter: 10 * time.Second, Hold: 10 * time.Second}
		}
		return ok(load)
	}
	r.latency = 30 * time.Millisecond
	r.run(time.Minute, nil)
	r.arrive(2000)
	r.run(2*time.Minute, nil)
	if c := r.l.Checkpoint(); c.Pace == 0 || holds > 5 {
		t.Errorf("%d refusals, pace %.1f; want a pace after five at most", holds, c.Pace)
	}
}

// TestHoldsThatTakeMostOfTheTime: an endpoint that allows 135 per second and asks for
// twenty seconds when that is exceeded refuses one in a thousand, which is less than
// chance makes elsewhere, and yet is held most of the time.
func TestHoldsThatTakeMostOfTheTime(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 135.0, 150.0
	cfg := wide()
	cfg.Fixed, cfg.Limit = true, 1
	r := newRoad(drive(t, cfg), 110, nil)
	r.latency = 6600 * time.Microsecond // 150 per second
	tokens, at, holds := burst, r.now, 0
	r.answer = func(int) lane.Outcome {
		tokens, at = min(burst, tokens+perSecond*r.now.Sub(at).Seconds()), r.now
		if tokens < 1 {
			holds++
			return lane.Outcome{Class: hook.Throttle, RetryAfter: 20 * time.Second, Hold: 20 * time.Second}
		}
		tokens--
		return lane.Outcome{Class: hook.Success}
	}
	r.run(time.Minute, nil)
	r.arrive(5000)
	r.run(20*time.Minute, nil)
	if n := r.l.Queued(); n > 5000 || holds > 40 {
		t.Errorf("%d are waiting after %d refusals, want fewer than the 5,000 that came at once, and not one more every half minute", n, holds)
	}
}

// TestUnusedRateIsNotFound: a refused rate that is looked for grows with its use, and not
// beyond what was sent.
func TestUnusedRateIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 10, ok)
	r.l = lane.Restore(wide(), lane.Checkpoint{Pace: 20, PaceSlowStart: true, ThrottledAt: start, RetryAfter: 20 * time.Second}, r.now, 0.5, false)
	r.run(2*time.Minute, nil)
	if rate := r.l.Checkpoint().ThrottleRate(r.now); rate > 22 {
		t.Errorf("20 per second were refused, 10 were sent for two minutes, and now %.0f are allowed", rate)
	}
}

// TestStray429s: refusals by chance leave the rate alone, however long.
func TestStray429s(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, wide()), 20, nil)
	n := 0
	r.answer = func(int) lane.Outcome {
		if n = (n*1103515245 + 12345) & 0x7fffffff; n%100 == 7 {
			return lane.Outcome{Class: hook.Throttle, Hold: time.Second, RetryAfter: time.Second}
		}
		return lane.Outcome{Class: hook.Success}
	}
	most := 0
	for range 1800 {
		r.run(time.Second, nil)
		most = max(most, r.l.Queued())
	}
	if most > 150 {
		t.Errorf("%d were waiting, want a few seconds' worth", most)
	}
}

// TestWhatGatheredInAHoldLeavesTogether: after a refusal that taught nothing an endpoint
// that answers at once gets a second's worth of events together, so that the next such
// refusal finds none of them waiting. Whoever is slow, fails or is paced gets what the
// limit allows, and nobody more than the policy does.
func TestWhatGatheredInAHoldLeavesTogether(t *testing.T) {
	t.Parallel()
	const initial, perSecond = 10, 50
	broke := lane.Checkpoint{Breakage: lane.Breakage{
		Ceiling: 100, CeilingLearnt: 100, CeilingAt: start, CeilingWait: 48 * time.Hour, Mark: 100, MarkAt: start,
	}}
	for name, x := range map[string]struct {
		latency, late time.Duration // in the last seconds
		hold          time.Duration
		most          int // of the policy
		last          hook.Class
		known         lane.Checkpoint
		least         int // that leave together
		limit         int
	}{
		"it answers at once":   {time.Millisecond, time.Millisecond, time.Second, 100, hook.Success, lane.Checkpoint{}, perSecond, perSecond + initial},
		"it was busy":          {time.Millisecond, 40 * time.Millisecond, time.Second, 100, hook.Success, lane.Checkpoint{}, perSecond, perSecond + initial},
		"the hold was long":    {time.Millisecond, time.Millisecond, 10 * time.Second, 100, hook.Success, lane.Checkpoint{}, perSecond, perSecond + initial},
		"the policy says 20":   {time.Millisecond, time.Millisecond, time.Second, 20, hook.Success, lane.Checkpoint{}, 20, 20},
		"it is slow":           {50 * time.Millisecond, 50 * time.Millisecond, time.Second, 100, hook.Success, lane.Checkpoint{}, 1, initial},
		"it has become slow":   {time.Millisecond, 150 * time.Millisecond, time.Second, 100, hook.Success, lane.Checkpoint{}, 1, initial},
		"it has just failed":   {time.Millisecond, time.Millisecond, time.Second, 100, hook.Limited, lane.Checkpoint{}, 1, initial},
		"it was broken before": {time.Millisecond, time.Millisecond, time.Second, 100, hook.Success, broke, 1, 2},
	} {
		cfg := config()
		cfg.Fixed, cfg.Initial, cfg.Max = false, initial, x.most
		r := newRoad(drive(t, cfg), perSecond, ok)
		r.l = lane.Restore(cfg, x.known, r.now, 0.5, false)
		r.latency = x.latency
		r.run(time.Minute, nil)
		r.latency = x.late
		r.run(2*time.Second, nil)
		n, answers := 0, []hook.Class{x.last, hook.Throttle}
		r.answer = func(int) lane.Outcome {
			if n++; n > len(answers) {
				return lane.Outcome{Class: hook.Success}
			}
			o := lane.Outcome{Class: answers[n-1]}
			if o.Class == hook.Throttle {
				o.Hold, o.RetryAfter = x.hold, x.hold
			}
			return o
		}
		for !r.l.Waits(r.now) {
			r.run(10*time.Millisecond, nil)
		}
		var together int
		var at time.Time
		r.run(x.hold+time.Second, func() {
			if at.IsZero() {
				at = r.now
			}
			if r.now.Equal(at) {
				together++
			}
		})
		if together < x.least || together > x.limit {
			t.Errorf("%s: %d leave together, want %d to %d", name, together, x.least, x.limit)
		}
	}
}

// TestWhatLeavesTogetherIsNotMeasured: what leaves together after a hold takes its time,
// and says nothing of the limit.
func TestWhatLeavesTogetherIsNotMeasured(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Fixed, cfg.Initial, cfg.Max = false, 10, 100
	r := newRoad(drive(t, cfg), 50, ok)
	r.run(time.Minute, nil)
	least, most := r.l.Limit(), 0.0
	for range 20 {
		refused := false
		r.answer = func(int) lane.Outcome {
			if refused {
				return lane.Outcome{Class: hook.Success}
			}
			refused = true
			return lane.Outcome{Class: hook.Throttle, Hold: time.Second, RetryAfter: time.Second}
		}
		r.run(950*time.Millisecond, nil)
		r.latency = 40 * time.Millisecond
		r.run(150*time.Millisecond, nil)
		r.latency = time.Millisecond
		r.run(5*time.Second, func() { least, most = min(least, r.l.Limit()), max(most, r.l.Limit()) })
	}
	if least < 10 || most > 10 {
		t.Errorf("the limit was between %.1f and %.1f, want 10 all the time", least, most)
	}
}
