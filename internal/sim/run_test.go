package sim_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// firstSeed begins the seeds of the tests: none of them was used to tune the
// law.
const firstSeed = 110001

func strategy(t *testing.T, name string) sim.Strategy {
	t.Helper()
	st, err := sim.ParseStrategy(name)
	if err != nil {
		t.Fatalf("ParseStrategy(%q): %v", name, err)
	}
	return st
}

func scenario(t *testing.T, name string) sim.Scenario {
	t.Helper()
	s, ok := sim.FindScenario(name)
	if !ok {
		t.Fatalf("no scenario %q", name)
	}
	return s
}

// play runs a strategy with a few seeds.
func play(t *testing.T, s sim.Scenario, name string, seeds int) sim.Summary {
	t.Helper()
	results, err := sim.RunMany(t.Context(), s, strategy(t, name), sim.Seeds(firstSeed, seeds), 2, nil)
	if err != nil {
		t.Fatalf("RunMany: %v", err)
	}
	return sim.Summarise(results)
}

// TestMatrix holds the law against its goals with a few seeds. The whole
// hundred is played by: breakwater simulate --matrix --seeds 100 --seed 110001
// --assert goals.
func TestMatrix(t *testing.T) {
	t.Parallel()
	// A median of two says little.
	loose := strings.NewReplacer(
		"drain<=1.2", "drain<=1.45", "drain<=1.5", "drain<=2", ",peak<=1.5", ",peak<=1.7", ",peak<=1.6", ",peak<=1.7",
		",detect<=17s", "", ",detect<=60s", "", ",live_p99<=30s", "", ",live_p99<=75s", "",
	)
	for _, s := range sim.Matrix() {
		if s.Name == "drain-4h" {
			continue // TestBaseLatencyRatchet plays it
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			seeds := 2
			if s.Name == "outage-1h" {
				seeds = 1
			}
			check(t, play(t, s, "law", seeds), loose.Replace(s.Goals))
		})
	}
}

// check fails for every goal that is missed.
func check(t *testing.T, u sim.Summary, text string) {
	t.Helper()
	goals, err := sim.ParseGoals(text)
	if err != nil {
		t.Fatalf("ParseGoals: %v", err)
	}
	for _, missed := range u.Missed(goals) {
		t.Errorf("missed %s", missed)
	}
}

// TestOtherSets plays one scenario of each kind besides the matrix, and every
// size on which the law has something to find out.
func TestOtherSets(t *testing.T) {
	t.Parallel()
	for name, goals := range map[string]string{
		"c5-200ms-r80":        "recrashes==0,drain<=1.2,dead==0",
		"c5-2s-r50":           "recrashes==0,drain<=1.5,dead==0",
		"c50-5ms-r50":         "recrashes==0,drain<=1.2,dead==0",
		"c50-50ms-r30":        "recrashes==0,drain<=1.25,dead==0",
		"new-c5-2s-r80":       "recrashes==0,drain<=1.8,dead==0",
		"new-c50-200ms-r30":   "recrashes==0,drain<=1.2,dead==0",
		"flaky-1":             "recrashes==0,drain<=1.25,dead==0",
		"flaky-10":            "recrashes==0,drain<=1.7,dead==0",
		"flaky-20":            "recrashes==0,max_waiting<=12000,dead<=0.001",
		"swallow-3":           "recrashes==0,max_waiting<=12000,dead==0",
		"failover-base":       "recrashes==0,drain<=2,dead==0",
		"failover-black-hole": "recrashes==0,drain<=2,dead==0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, play(t, scenario(t, name), "law", 2), goals)
		})
	}
}

// TestAtOnce: an endpoint that serves so many at a time and fails the others is found to
// bear no more.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := sim.Base()
	s.Latency, s.AtOnce, s.Crash = sim.Duration(100*time.Millisecond), 8, sim.Crash{}
	check(t, play(t, s, "law", 3), "drain<=2,waste<=0.04,dead==0")
	if u := play(t, s, "full-5+cap100", 1); u.Waste < 0.5 {
		t.Errorf("%.2f failures per event where a hundred are sent at a time; want most to fail", float64(u.Waste))
	}
}

// TestThrottle: an endpoint that says 429 is heard at once, and its rate is
// found.
func TestThrottle(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]float64{
		"throttle-2-1s": 1.6, "throttle-2-10s": 2, "throttle-20-1s": 1.3, "throttle-20-10s": 1.5,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, name)
			u := play(t, s, "law", 3)
			if u.Throttled > 0.02 || u.BrokenHolds != 0 || u.DeadMax != 0 {
				t.Errorf("%.4f 429 per event, %d sends inside a Retry-After, %v dead; want at most 0.02, none, none", float64(u.Throttled), u.BrokenHolds, u.DeadMax)
			}
			// A drain near the optimum needs a pace near the rate limit.
			if !(float64(u.Drain) <= drain) {
				t.Errorf("drain %.2f, want at most %.2f: the rate was not found", float64(u.Drain), drain)
			}
			if s.RateLimit.PerSecond < 20 {
				return
			}
			var paces []float64
			sim.Watch(s, strategy(t, "law"), firstSeed, func(m sim.Moment) {
				if m.At > 2*time.Minute && m.At < 3*time.Minute && m.Sent != nil {
					paces = append(paces, m.Lane.Checkpoint().Pace)
				}
			})
			pace := float64(sim.Quantile(paces, 0.5)) / s.RateLimit.PerSecond
			if !(pace > 0.6 && pace < 1.1) {
				t.Errorf("a minute after the batch the pace is %.2f of the rate limit, want 0.6 to 1.1", pace)
			}
		})
	}
}

// TestClassicThrottle: without a pace the same endpoint refuses every event
// several times.
func TestClassicThrottle(t *testing.T) {
	t.Parallel()
	u := play(t, scenario(t, "throttle-20-1s"), "doubling-9", 2)
	if u.Throttled < 0.5 || u.BrokenHolds == 0 {
		t.Errorf("%.3f 429 per event and %d broken holds, want many of both", float64(u.Throttled), u.BrokenHolds)
	}
}

// TestClassics: what the classic designs do after five minutes of outage.
func TestClassics(t *testing.T) {
	t.Parallel()
	const crashes = "recrashes>=10,drain>100" // every run, and none of them drains
	for name, goals := range map[string]string{
		// Jitter spreads the load and does not lower it.
		"exp-nojitter": crashes + ",peak>5,waste>1",
		"full-5":       crashes + ",peak>1.5,dead>0.1",
		"ladder-5":     crashes + ",peak>1.5,waste>1",
		"full-5+burn":  crashes + ",peak>1.5,dead>0.1,waste<0.5",
		// Everything at once: the worst second of all.
		"full-5+hold": crashes + ",peak>100",
		// A limit that fits the endpoint is safe; it does not always fit.
		"full-5+cap10":        "recrashes==0,peak<1.6,drain<3,dead>0",
		"exp-nojitter+cap10":  "recrashes==0,peak<1.6,drain<1.5,live_p99>30",
		"full-5+cap10+hold":   "recrashes==0,peak<1.6,drain<1.7,dead==0,waste<0.01,live_p99>100",
		"ladder-5+cap10+burn": "recrashes==0,peak<1.6,waste<0.01",
		"law":                 "recrashes==0,peak<1.6,drain<1.2,dead==0,waste<0.01,live_p99<30",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, play(t, sim.Base(), name, 1), goals)
		})
	}
}

// TestFixedLimitStarvesSlowAnswers: ten requests in flight are a ceiling of
// five per second when an answer takes two, below the live load.
func TestFixedLimitStarvesSlowAnswers(t *testing.T) {
	t.Parallel()
	u := play(t, scenario(t, "slow-answers"), "full-5+cap10+hold", 1)
	if u.Drain.Known() {
		t.Errorf("drain %v, want never", u.Drain)
	}
}

// TestSeeds: the same seed gives the same run, on any number of workers, and
// another seed another one.
func TestSeeds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"law", "quick+cap10+burn", "full-5+hold"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, st := sim.Base(), strategy(t, name)
			s.Poison, s.Flaky = 0.05, 0.01
			s.Failover = sim.Failover{Every: sim.Duration(200 * time.Second), Gap: sim.Duration(15 * time.Second)}
			s.Outages[0].For = sim.Duration(30 * time.Second)
			s.Horizon = sim.Duration(2 * time.Minute)
			seeds := sim.Seeds(7, 2)
			parallel, err := sim.RunMany(t.Context(), s, st, seeds, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, seed := range seeds {
				alone := sim.Run(s, st, seed)
				if i > 0 {
					alone.Trace = nil
				}
				if diff := cmp.Diff(alone, parallel[i], cmpopts.EquateNaNs()); diff != "" {
					t.Errorf("seed %d differs between Run and RunMany:\n%s", seed, diff)
				}
			}
			if parallel[0].Events == parallel[1].Events && parallel[0].Waste == parallel[1].Waste {
				t.Error("two seeds gave the same run")
			}
		})
	}
}

// TestConservation: every event is delivered, given up or still pending, and
// the traces add up to what the endpoints saw.
func TestConservation(t *testing.T) {
	t.Parallel()
	s := scenario(t, "three-outages")
	s.Endpoints = 2
	r := sim.Run(s, strategy(t, "law"), firstSeed)
	check(t, sim.Summarise([]sim.Result{r}), "recrashes==0,drain<=1.3,dead==0")
	delivered, arrivals := 0, 0
	for i := range r.Trace.Arrivals {
		delivered += r.Trace.Delivered[i]
		arrivals += r.Trace.Arrivals[i]
	}
	failed := int(math.Round(r.Waste * float64(r.Events)))
	if delivered > r.Events || delivered < r.Events*99/100 {
		t.Errorf("%d of %d events delivered, want nearly all and none twice", delivered, r.Events)
	}
	if inFlight := arrivals - delivered - failed; inFlight < 0 || inFlight > 500 {
		t.Errorf("%d arrivals, %d delivered, %d failed: they do not add up", arrivals, delivered, failed)
	}
}

func TestRunManyStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	told := 0
	_, err := sim.RunMany(ctx, sim.Base(), strategy(t, "law"), sim.Seeds(1, 1000), 1, func(done, total int) {
		told = done
		if total != 1000 {
			t.Errorf("total %d", total)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("RunMany = %v after %d runs, want context.Canceled after 1", err, told)
	}
}

// TestPolicyTimeout: a scenario without a timeout takes the policy's.
func TestPolicyTimeout(t *testing.T) {
	t.Parallel()
	s := scenario(t, "black-hole")
	s.Outages[0].For = sim.Duration(time.Minute)
	s.Timeout = 0
	for name, want := range map[string]time.Duration{"law:slack": 5 * time.Second, "law": 30 * time.Second} {
		var sent, longest time.Duration
		sim.Watch(s, strategy(t, name), 1, func(m sim.Moment) {
			switch {
			case m.Sent != nil && m.Sent.Tag.Probe:
				sent = m.At
			case m.Lane.InFlight() == 0 && sent > 0 && m.At < 3*time.Minute:
				longest = max(longest, m.At-sent)
				sent = 0
			}
		})
		if longest < want-time.Millisecond || longest > want+time.Millisecond {
			t.Errorf("%s: a probe into the black hole takes %v, want %v", name, longest, want)
		}
	}
}

func TestRunKeepsItsLimits(t *testing.T) {
	t.Parallel()
	s, st := sim.Base(), strategy(t, "law")
	for want, most := range map[error]sim.Limits{sim.ErrTooLong: {Steps: 20_000}, sim.ErrTooMany: {Events: 3000}} {
		if _, err := sim.RunWithin(t.Context(), s, st, 1, most); !errors.Is(err, want) {
			t.Errorf("%+v: %v", most, err)
		}
	}
	got, err := sim.RunWithin(t.Context(), s, st, 1, sim.Limits{Steps: 10_000_000, Events: 100_000})
	if diff := cmp.Diff(sim.Run(s, st, 1), got, cmpopts.EquateNaNs()); err != nil || diff != "" {
		t.Errorf("%v; within its limits (-without +with):\n%s", err, diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sim.RunWithin(ctx, s, st, 1, sim.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSendUnderAPolicyOfOnesOwn(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Retry.MaxAttempts = 3
	for _, how := range []string{"law", "retries", "retries+cap10", "retries+cap10+hold", "retries+burn"} {
		if st, err := sim.Send(how, p); err != nil || st.Name != how || st.Policy.Retry.MaxAttempts != 3 {
			t.Errorf("%s: %+v, %v", how, st.Name, err)
		}
	}
	for _, how := range []string{"", "law+", "law:full-5", "retry", "retries+", "retries+moon", "full-5"} {
		if _, err := sim.Send(how, p); err == nil {
			t.Errorf("%q is taken", how)
		}
	}
}
