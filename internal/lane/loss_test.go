package lane_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// losing answers well but for a share of requests, whatever is sent.
func losing(share float64) func(int) lane.Outcome {
	rng := rand.New(rand.NewPCG(1, 2))
	return func(load int) lane.Outcome {
		if rng.Float64() < share {
			return down(load)
		}
		return ok(load)
	}
}

// opened runs a road and counts how often its lane is open.
func (r *road) opened(lasts time.Duration) (times int) {
	r.t.Helper()
	gen := r.l.View().Gen
	r.run(lasts, nil)
	return int(r.l.View().Gen-gen) / 2
}

// TestLosses: an endpoint that loses some of its requests whatever it is sent gets all of
// its events, without waiting for long, and a row of losses is no outage.
func TestLosses(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.05, 0.1, 0.2, 0.33} {
		for _, latency := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
			r := newRoad(drive(t, adaptive()), 50, ok)
			r.latency = latency
			r.run(time.Minute, nil)
			r.answer = losing(share)
			r.run(3*time.Minute, nil)
			if times := r.opened(10 * time.Minute); times > 3 {
				t.Errorf("%.0f %% lost, %v: opened %d times in ten minutes, want hardly ever", 100*share, latency, times)
			}
			if n := r.l.Queued(); n > 100 {
				t.Errorf("%.0f %% lost, %v: %d are waiting", 100*share, latency, n)
			}
			if share > 0.05 && r.l.Expects(r.now) == 0 {
				t.Errorf("%.0f %% lost, %v: not known", 100*share, latency)
			}
		}
	}
}

// TestOutageOfALossyEndpoint: it is seen all the same, with a few requests more.
func TestOutageOfALossyEndpoint(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, losing(0.2))
	r.run(5*time.Minute, nil)
	r.answer = down
	for failed := 0; r.l.State() == lane.Closed; failed++ {
		if failed > 20 {
			t.Fatal("closed after twenty failures")
		}
		r.run(20*time.Millisecond, nil)
	}
}

// TestLossesEnd: when nothing has been lost for a while the endpoint is taken for a well
// one again.
func TestLossesEnd(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, losing(0.2))
	r.run(5*time.Minute, nil)
	if r.l.Expects(r.now) < 0.1 {
		t.Fatal("losses are not known")
	}
	r.answer = ok
	r.run(30*time.Second, nil)
	if got := r.l.Expects(r.now); got != 0 {
		t.Errorf("after half a minute without any loss %.2f are expected", got)
	}
}

// TestLossesAreForgotten: after an hour it is asked again what they depend on, and people
// may say that they are over.
func TestLossesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, losing(0.2))
	r.run(5*time.Minute, nil)
	if r.l.Expects(r.now) == 0 || r.l.Expects(r.now.Add(time.Hour)) != 0 {
		t.Error("want losses to be known, for an hour")
	}
	r.run(time.Minute, nil)
	if r.l.Expects(r.now) == 0 {
		t.Error("not found again")
	}
	r.l.Reset(r.now)
	if r.l.Expects(r.now) != 0 {
		t.Error("a reset forgets nothing")
	}
}

// TestFailuresOfALoadAreNoLosses: an endpoint that fails what is too much for it gets
// what it bears, and a backlog drains with few failures.
func TestFailuresOfALoadAreNoLosses(t *testing.T) {
	t.Parallel()
	const bears = 100
	for _, latency := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		var failed, sent int
		r := newRoad(drive(t, adaptive()), 50, func(load int) lane.Outcome {
			sent++
			if load > bears {
				failed++
				return down(load)
			}
			return ok(load)
		})
		r.latency = latency
		r.run(time.Minute, nil)
		r.arrive(5000)
		r.run(3*time.Minute, nil)
		if n := r.l.Queued(); n > 100 || failed > sent/20 {
			t.Errorf("%v: %d of %d failed, %d still wait; want next to none", latency, failed, sent, n)
		}
		if got := r.l.Expects(r.now); got != 0 {
			t.Errorf("%v: %.2f are taken for losses", latency, got)
		}
	}
}

// TestLossesAndALimit: who has both gets close to what it bears.
func TestLossesAndALimit(t *testing.T) {
	t.Parallel()
	const bears = 100
	lose := losing(0.1)
	r := newRoad(drive(t, adaptive()), 50, ok)
	r.run(time.Minute, nil)
	r.answer = func(load int) lane.Outcome {
		if load > bears {
			return down(load)
		}
		return lose(load)
	}
	r.arrive(5000)
	r.run(10*time.Minute, nil)
	if n := r.l.Queued(); n > 100 {
		t.Errorf("%d still wait after ten minutes", n)
	}
}

// TestQuietEndpointIsNotTried: with less than two requests per second nobody can tell.
func TestQuietEndpointIsNotTried(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 1, losing(0.1))
	r.run(time.Hour, func() {
		if rate := r.l.View().Pace; rate > 0 {
			t.Fatalf("%.1f per second are tried", rate)
		}
	})
}

// TestTrialIsNotSaved: what an endpoint is tried with is nothing for the next owner.
func TestTrialIsNotSaved(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, ok)
	r.run(time.Minute, nil)
	r.answer = losing(0.1)
	tried := 0
	r.run(10*time.Second, func() {
		if rate := r.l.View().Pace; rate > 0 && rate < 30 {
			tried++
			if saved := r.l.Checkpoint().Pace; saved != 0 {
				t.Fatalf("%.1f per second are tried, and %.1f saved", rate, saved)
			}
		}
	})
	if tried == 0 {
		t.Error("nothing was tried")
	}
}

// TestRequestsThatAreStuck: an endpoint that swallows some requests is sent the others all
// the same, beside those that wait for their timeout, up to the maximum of the policy.
func TestRequestsThatAreStuck(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0.01, 0.03, 0.05} {
		cfg := adaptive()
		cfg.Max = 100
		r := newRoad(drive(t, cfg), 50, ok)
		r.latency = 50 * time.Millisecond
		r.run(time.Minute, nil)
		rng, most := rand.New(rand.NewPCG(3, 4)), 0
		swallow := r.swallowing(func() bool { return rng.Float64() < share })
		look := func() {
			most = max(most, r.l.InFlight())
			swallow()
		}
		r.run(20*time.Minute, look)
		if n := r.l.Queued(); n > 300 || most > cfg.Max {
			t.Errorf("%.0f %% swallowed: %d are waiting, %d were in flight, at most %d", 100*share, n, most, cfg.Max)
		}
	}
}

// TestFixedLimitCountsWhatIsStuck: it is a promise.
func TestFixedLimitCountsWhatIsStuck(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Limit = 8
	r := newRoad(drive(t, cfg), 50, ok)
	rng := rand.New(rand.NewPCG(3, 4))
	swallow := r.swallowing(func() bool { return rng.Float64() < 0.1 })
	r.run(5*time.Minute, func() {
		if n := r.l.InFlight(); n > cfg.Limit {
			t.Fatalf("%d in flight, fixed at %d", n, cfg.Limit)
		}
		swallow()
	})
}

// TestNothingIsStuckWithoutAnAnswer: where nothing is answered at all every request counts.
func TestNothingIsStuckWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, ok)
	r.latency = 200 * time.Millisecond
	r.run(time.Minute, nil)
	limit := int(r.l.Limit())
	r.latency = 2 * time.Minute
	r.arrive(1000)
	r.run(time.Minute, nil)
	if n := r.l.InFlight(); n > limit {
		t.Errorf("%d in flight, of which nobody has answered any for a minute; the limit was %d", n, limit)
	}
}

// TestPermanentRefusalsEndATrial: every answer counts in it, or it would never end.
func TestPermanentRefusalsEndATrial(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 50, ok)
	r.run(time.Minute, nil)
	lose, i := losing(0.2), 0
	r.answer = func(load int) lane.Outcome {
		if i++; i%2 == 0 {
			return lane.Outcome{Class: hook.Permanent}
		}
		return lose(load)
	}
	r.run(time.Minute, nil)
	if r.l.Queued() > 100 {
		t.Errorf("%d are waiting", r.l.Queued())
	}
}

// TestTimeMakesRoom: where a limit is full of requests that are about to be stuck, and
// nothing else happens, the lane says when to ask again.
func TestTimeMakesRoom(t *testing.T) {
	t.Parallel()
	cfg := adaptive()
	cfg.Max, cfg.Initial = 3, 3
	d := drive(t, cfg)
	d.l = lane.Restore(cfg, lane.Checkpoint{Limit: 3, HealthyPeak: 3, BaseLatency: 50 * time.Millisecond, BaseWeight: 8, SRTT: 50 * time.Millisecond}, d.now, 0.5, false)
	d.l.Configure(d.now, adaptive())
	d.arrive(20)
	d.send() // two that are swallowed
	d.send()
	d.now = d.now.Add(300 * time.Millisecond)
	overtakes := d.send()
	d.now = d.now.Add(50 * time.Millisecond)
	d.result(overtakes, hook.Success)
	d.send() // swallowed, too
	if d.l.Next(d.now, 1000).Send {
		t.Fatal("more than the limit is sent")
	}
	wake := d.l.Wake(d.now)
	if wait := wake.Sub(d.now); wait <= 0 || wait > 3*time.Second {
		t.Fatalf("asks to be asked at %v, in %v; want in two seconds or so", wake, wait)
	}
	if d.now = wake; !d.l.Next(d.now, 1000).Send {
		t.Error("nothing is sent then")
	}
}

// TestDrainBesideStuckRequests: a backlog drains without anything else that happens.
func TestDrainBesideStuckRequests(t *testing.T) {
	t.Parallel()
	r := newRoad(drive(t, adaptive()), 0, ok)
	r.latency = 50 * time.Millisecond
	rng := rand.New(rand.NewPCG(3, 4))
	swallow := r.swallowing(func() bool { return rng.Float64() < 0.1 })
	r.arrive(1500)
	r.run(3*time.Minute, swallow)
	if n := r.l.Queued(); n > 0 {
		t.Errorf("%d of 1500 still wait after three minutes", n)
	}
}

// TestLossesBesideAThrottle: a trial leaves alone what refusals in words have taught.
func TestLossesBesideAThrottle(t *testing.T) {
	t.Parallel()
	const perSecond = 40.0
	sent := map[float64]int{}
	for _, share := range []float64{0, 0.05, 0.1} {
		r, lose := newRoad(drive(t, adaptive()), 100, nil), losing(share)
		tokens, at, refused := perSecond, r.now, 0
		r.answer = func(load int) lane.Outcome {
			tokens, at = min(perSecond, tokens+perSecond*r.now.Sub(at).Seconds()), r.now
			if tokens < 1 {
				refused++
				return lane.Outcome{Class: hook.Throttle, RetryAfter: time.Minute, Hold: time.Minute}
			}
			tokens--
			sent[share]++
			return lose(load)
		}
		r.run(20*time.Minute, nil)
		if asked := r.l.Checkpoint().RetryAfter; asked != time.Minute || refused > 30 {
			t.Errorf("%.0f %% lost: %d answers of 429, and the pace of one that asks for %v; want few, and for a minute", 100*share, refused, asked)
		}
	}
	for share, n := range sent {
		if n < sent[0]*8/10 {
			t.Errorf("%.0f %% lost: %d were taken, %d without losses", 100*share, n, sent[0])
		}
	}
}
