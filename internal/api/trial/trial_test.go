package trial_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/trial"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// small is an outage that costs next to nothing to play.
func small(change func(*trial.Outage)) *trial.Outage {
	in := &trial.Outage{Outage: "1m", Rate: 5, Capacity: 10}
	change(in)
	return in
}

func TestEveryDestinationAndStrategyIsPlayed(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	for _, destination := range []string{"", "queue", "cold", "black_hole", "cliff", "refuse", "throttle"} {
		for _, strategy := range []string{"", "law", "retries", "retries+hold", "retries+burn", "retries+cap10", "retries+cap10+hold", "retries+cap10+burn"} {
			v, err := b.Play(t.Context(), &p, small(func(in *trial.Outage) { in.Destination, in.Strategy = destination, strategy }))
			if err != nil {
				t.Errorf("%s, %s: %v", destination, strategy, err)
				continue
			}
			if v.Capacity != 10 || v.DownFrom != 120 || v.DownTo != 180 || v.Seed != 1 {
				t.Errorf("%s, %s: %+v", destination, strategy, v)
			}
			if n := len(v.Arrivals); n == 0 || n > 300 || len(v.Delivered) != n || (n-1)*v.StepSeconds >= v.Seconds || n*v.StepSeconds < v.Seconds {
				t.Errorf("%s, %s: %d steps of %d s show %d s", destination, strategy, n, v.StepSeconds, v.Seconds)
			}
			if v.Events < 600 || v.Backlog == 0 || v.PeakOverCapacity <= 0 || v.PeakAt < 180 {
				t.Errorf("%s, %s: %d events, %d of them waited, peak %v at %d", destination, strategy, v.Events, v.Backlog, v.PeakOverCapacity, v.PeakAt)
			}
			if strategy != "" && strategy != "law" {
				continue
			}
			if v.Recrashes != 0 && destination != "cliff" || v.Dead != 0 || v.DrainSeconds == nil || *v.DrainSeconds <= 0 {
				t.Errorf("%s under the law: %d crashes, %d given up, drained after %v", destination, v.Recrashes, v.Dead, v.DrainSeconds)
			}
		}
	}
}

func TestASeedGivesTheSameRun(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	play := func(seed uint64) any {
		v, err := b.Play(t.Context(), &p, small(func(in *trial.Outage) { in.Seed = seed }))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := play(7)
	b = trial.New() // has no memory of it
	if diff := cmp.Diff(first, play(7)); diff != "" {
		t.Errorf("two runs of one seed (-one +two):\n%s", diff)
	}
	if cmp.Equal(play(7), play(8)) {
		t.Error("two seeds gave the same run")
	}
}

// A run that was played is not played again: that would take as long, and come out the
// same. What was played long ago is forgotten.
func TestBenchRemembersTheLatestRuns(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	play := func(seed uint64) any {
		v, err := b.Play(t.Context(), &p, &trial.Outage{Outage: "1s", Rate: 0.1, Capacity: 1, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := play(1)
	if play(1) != first {
		t.Error("the same run was played twice")
	}
	if p.Retry.MaxAttempts = 2; play(1) == first {
		t.Error("another policy has the run of the first")
	}
	p = policy.Default()
	for seed := uint64(2); seed < 80; seed++ {
		play(seed)
	}
	if play(1) == first {
		t.Error("nothing is ever forgotten")
	}
}

func TestSeriesShowAsMuchAsIsAskedFor(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	v, err := b.Play(t.Context(), &p, small(func(in *trial.Outage) { in.Until = "100s" }))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Arrivals) != 100 || v.StepSeconds != 1 || v.Seconds < 300 {
		t.Errorf("%d steps of %d s, of a run of %d s", len(v.Arrivals), v.StepSeconds, v.Seconds)
	}
}

func TestWrongOutagesNameFieldAndRule(t *testing.T) {
	t.Parallel()
	b := trial.New()
	if most := b.Limits(); most.Steps != 2_000_000 || most.Events != 150_000 {
		t.Errorf("a run has %+v", most)
	}
	b.Limits().Steps, b.Limits().Events = 20_000, 2000 // the rules are the same
	for name, tc := range map[string]struct {
		in         trial.Outage
		path, rule string
	}{
		"no duration":       {trial.Outage{Outage: "soon"}, "simulate.outage", "duration"},
		"outage too long":   {trial.Outage{Outage: "25h", Rate: 1, Capacity: 10}, "simulate.outage", "1s and 1d"},
		"outage too short":  {trial.Outage{Outage: "1ms"}, "simulate.outage", "1s"},
		"latency too long":  {trial.Outage{Latency: "1h"}, "simulate.latency", "30s"},
		"shown too short":   {trial.Outage{Until: "1s"}, "simulate.until", "10s"},
		"more than it can":  {trial.Outage{Rate: 100, Capacity: 100}, "simulate.rate", "99 % of capacity"},
		"hardly any events": {trial.Outage{Rate: 1, Capacity: 10_000}, "simulate.rate", "thousandth"},
		"too many held":     {trial.Outage{Rate: 500, Capacity: 1000, Outage: "1h"}, "simulate.outage", "at most 3m20s"},
		"too expensive":     {trial.Outage{Rate: 1, Capacity: 1.02}, "simulate", "2 s of computing"},
		"too many at once":  {trial.Outage{Rate: 5, Capacity: 10, Outage: "10m"}, "simulate", "more than 2000 events wait"},
		"unknown strategy":  {trial.Outage{Strategy: "hope"}, "simulate.strategy", "must be law"},
		"unknown modifier":  {trial.Outage{Strategy: "retries+hope"}, "simulate.strategy", "hope"},
	} {
		p := policy.Default()
		_, err := b.Play(t.Context(), &p, &tc.in)
		bad, ok := errors.AsType[*rest.Invalid](err)
		if !ok || !bad.Names(tc.path) || !strings.Contains(err.Error(), tc.rule) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACancelledRunEnds(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expensive := &trial.Outage{Rate: 98, Capacity: 100, Outage: "15m"}
	if _, err := b.Play(ctx, &p, expensive); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := b.Play(t.Context(), &p, small(func(*trial.Outage) {})); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestOneRunsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, p := trial.New(), policy.Default()
		release := b.Occupy()
		began := time.Now()
		_, err := b.Play(t.Context(), &p, small(func(*trial.Outage) {}))
		problem, ok := errors.AsType[*rest.Problem](err)
		if !ok || problem.Status != 503 || problem.RetryAfter() <= 0 {
			t.Errorf("while another runs: %v", err)
		}
		if waited := time.Since(began); waited < time.Second || waited > 10*time.Second {
			t.Errorf("waited %v for its turn", waited)
		}
		time.AfterFunc(time.Second, release)
		if _, err := b.Play(t.Context(), &p, small(func(*trial.Outage) {})); err != nil {
			t.Errorf("after its turn came: %v", err)
		}
	})
}

func TestSeveralRunsHaveAMedian(t *testing.T) {
	t.Parallel()
	b, p := trial.New(), policy.Default()
	play := func(runs int, seed uint64) *view.Simulation {
		v, err := b.Play(t.Context(), &p, small(func(in *trial.Outage) { in.Runs, in.Seed = &runs, seed }))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := play(0, 1); v != nil {
		t.Errorf("no run was asked for: %+v", v)
	}
	one := play(1, 1)
	if one.Runs != 1 || one.Median != nil {
		t.Errorf("one run: %d, median %+v", one.Runs, one.Median)
	}
	five := play(5, 1)
	if five.Runs != 5 || !cmp.Equal(five.RunFigures, one.RunFigures) || !cmp.Equal(five.Arrivals, one.Arrivals) {
		t.Errorf("five runs show another first one: %+v", five)
	}
	var drains []float64
	for seed := uint64(1); seed <= 5; seed++ {
		drains = append(drains, *play(1, seed).DrainSeconds)
	}
	slices.Sort(drains)
	if *five.Median.DrainSeconds != drains[2] {
		t.Errorf("median of %v = %v", drains, *five.Median.DrainSeconds)
	}
}

// All runs together take no longer than one may.
func TestRunsStopWhereTimeIsUp(t *testing.T) {
	t.Parallel()
	b, p, runs := trial.New(), policy.Default(), 20
	in := small(func(in *trial.Outage) { in.Runs = &runs })
	all, err := b.Play(t.Context(), &p, in)
	if err != nil || all.Runs != runs {
		t.Fatalf("%+v, %v", all, err)
	}
	b = trial.New()
	b.Limits().Steps = 50_000
	some, err := b.Play(t.Context(), &p, in)
	if err != nil || some.Runs < 2 || some.Runs >= runs || some.Median == nil {
		t.Errorf("%+v, %v", some, err)
	}
	b = trial.New()
	b.Limits().Steps = 1
	for range 2 { // the second time from memory
		if _, err := b.Play(t.Context(), &p, in); err == nil || !strings.Contains(err.Error(), "2 s of computing") {
			t.Errorf("a run without a step: %v", err)
		}
	}
}
