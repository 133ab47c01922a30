package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

func TestLadder(t *testing.T) {
	t.Parallel()
	p := preset(t, "ladder-5")
	want := []policy.Step{
		{
			N: 1, Ceiling: 30 * time.Second, Earliest: 24 * time.Second, Mean: 30 * time.Second, Latest: 36 * time.Second,
			CumulativeEarliest: 24 * time.Second, CumulativeMean: 30 * time.Second, CumulativeLatest: 36 * time.Second,
		},
		{
			N: 2, Ceiling: 120 * time.Second, Earliest: 96 * time.Second, Mean: 120 * time.Second, Latest: 144 * time.Second,
			CumulativeEarliest: 120 * time.Second, CumulativeMean: 150 * time.Second, CumulativeLatest: 180 * time.Second,
		},
		{
			N: 3, Ceiling: 600 * time.Second, Earliest: 480 * time.Second, Mean: 600 * time.Second, Latest: 720 * time.Second,
			CumulativeEarliest: 600 * time.Second, CumulativeMean: 750 * time.Second, CumulativeLatest: 900 * time.Second,
		},
		{
			N: 4, Ceiling: 3600 * time.Second, Earliest: 2880 * time.Second, Mean: 3600 * time.Second, Latest: 4320 * time.Second,
			CumulativeEarliest: 3480 * time.Second, CumulativeMean: 4350 * time.Second, CumulativeLatest: 5220 * time.Second,
		},
	}
	if diff := cmp.Diff(want, p.Ladder()); diff != "" {
		t.Errorf("Ladder (-want +got):\n%s", diff)
	}
}

func TestLadderFloorCountsInTheMean(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	if got, want := p.Ladder()[0].Mean, seconds(15.5); got != want {
		t.Errorf("mean of the first retry = %v, want %v", got, want)
	}
}

func TestDecorrelatedLadder(t *testing.T) {
	t.Parallel()
	p := preset(t, "quick")
	steps := p.Ladder()
	// Below the cap the mean follows the u = 0.5 chain exactly.
	for i, want := range []float64{2, 3.5, 5.75} {
		if diff := (steps[i].Mean - seconds(want)).Abs(); diff > seconds(want*0.04) {
			t.Errorf("mean of retry %d = %v, want about %vs", i+1, steps[i].Mean, want)
		}
	}
	for i, want := range []float64{3, 9, 27, 60, 60} {
		if steps[i].Latest != seconds(want) || steps[i].Earliest != time.Second {
			t.Errorf("retry %d: %v to %v, want 1s to %vs", i+1, steps[i].Earliest, steps[i].Latest, want)
		}
	}
}

func TestDecorrelatedLadderGrowsFromTheFloor(t *testing.T) {
	t.Parallel()
	p := exponential(time.Second, 3, time.Hour, policy.Jitter{Kind: policy.JitterDecorrelated})
	p.Retry.MinDelay = 10 * time.Second // lifts the first draw from 3 s at most to 10 s
	for i, want := range []float64{10, 30, 90} {
		if got := p.Ladder()[i].Latest; got != seconds(want) {
			t.Errorf("retry %d waits at most %v, want %vs", i+1, got, want)
		}
	}
}

func TestNoRetriesNoLadder(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	p.Retry.MaxAttempts = 1
	if steps := p.Ladder(); len(steps) != 0 {
		t.Errorf("Ladder = %v, want none", steps)
	}
	if diff := cmp.Diff(policy.Span{}, p.Span()); diff != "" {
		t.Errorf("Span (-want +got):\n%s", diff)
	}
}

func TestLadderHoldsEveryRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		var prev, sum time.Duration
		for _, step := range p.Ladder() {
			prev, _ = p.Delay(step.N, prev, anyU(t))
			sum += prev
			if prev < step.Earliest || prev > step.Latest || step.Earliest > step.Mean || step.Mean > step.Latest {
				t.Fatalf("retry %d waits %v, shown as %v, %v, %v", step.N, prev, step.Earliest, step.Mean, step.Latest)
			}
			if sum < step.CumulativeEarliest || sum > step.CumulativeLatest {
				t.Fatalf("retry %d after %v, shown as %v to %v", step.N, sum, step.CumulativeEarliest, step.CumulativeLatest)
			}
		}
	})
}
