package policy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

// exponential returns the default policy with another backoff and jitter.
func exponential(base time.Duration, multiplier float64, limit time.Duration, j policy.Jitter) policy.Policy {
	p := policy.Default()
	p.Retry.Backoff = policy.Backoff{Kind: policy.Exponential, Base: base, Multiplier: multiplier, Cap: limit}
	p.Retry.Jitter = j
	return p
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s*1000)) * time.Millisecond }

func TestCeiling(t *testing.T) {
	t.Parallel()
	none := policy.Jitter{Kind: policy.JitterNone}
	schedule := policy.Default()
	schedule.Retry.Backoff = policy.Backoff{Kind: policy.Schedule, Delays: []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}}
	for name, tc := range map[string]struct {
		policy policy.Policy
		want   []float64 // seconds, n = 1, 2, ...
	}{
		"default":          {policy.Default(), []float64{30, 90, 270, 810, 2430, 7290, 21600, 21600}},
		"doubling":         {exponential(30*time.Second, 2, 6*time.Hour, none), []float64{30, 60, 120, 240, 480, 960, 1920, 3840}},
		"doubling, capped": {exponential(time.Second, 2, time.Minute, none), []float64{1, 2, 4, 8, 16, 32, 60, 60}},
		"constant":         {exponential(5*time.Second, 1, time.Minute, none), []float64{5, 5, 5, 5}},
		"schedule":         {schedule, []float64{30, 120, 600, 3600, 3600, 3600}},
		"decorrelated":     {exponential(time.Second, 9, time.Minute, policy.Jitter{Kind: policy.JitterDecorrelated}), []float64{3, 9, 27, 60, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, want := range tc.want {
				if got := tc.policy.Ceiling(i + 1); got != seconds(want) {
					t.Errorf("Ceiling(%d) = %v, want %v", i+1, got, seconds(want))
				}
			}
		})
	}
}

func TestCeilingDoesNotOverflow(t *testing.T) {
	t.Parallel()
	p := exponential(30*time.Second, 10, 6*time.Hour, policy.Jitter{Kind: policy.JitterFull})
	for _, n := range []int{5000, math.MaxInt32, math.MaxInt} {
		if got := p.Ceiling(n); got != 6*time.Hour {
			t.Errorf("Ceiling(%d) = %v, want the cap", n, got)
		}
	}
	for _, n := range []int{0, -7} {
		if got := p.Ceiling(n); got != 30*time.Second {
			t.Errorf("Ceiling(%d) = %v, want the base", n, got)
		}
	}
}

func TestDelayTable(t *testing.T) {
	t.Parallel()
	draws := []float64{0, 0.25, 0.5, 0.75, 0.999}
	for name, tc := range map[string]struct {
		jitter policy.Jitter
		n      int
		want   []float64
	}{
		"full 1":       {policy.Jitter{Kind: policy.JitterFull}, 1, []float64{1, 8.25, 15.5, 22.75, 29.971}},
		"full 3":       {policy.Jitter{Kind: policy.JitterFull}, 3, []float64{1, 68.25, 135.5, 202.75, 269.731}},
		"full 7":       {policy.Jitter{Kind: policy.JitterFull}, 7, []float64{1, 5400.75, 10800.5, 16200.25, 21578.401}},
		"equal 1":      {policy.Jitter{Kind: policy.JitterEqual}, 1, []float64{15, 18.75, 22.5, 26.25, 29.985}},
		"upper half 1": {policy.Jitter{Kind: policy.JitterRange, Low: 0.5, High: 1}, 1, []float64{15, 18.75, 22.5, 26.25, 29.985}},
		"percent 1":    {policy.Jitter{Kind: policy.JitterPercent, Percent: 20}, 1, []float64{24, 27, 30, 33, 35.988}},
		"percent 7":    {policy.Jitter{Kind: policy.JitterPercent, Percent: 20}, 7, []float64{17280, 19440, 21600, 23760, 25911.36}},
		"range 3":      {policy.Jitter{Kind: policy.JitterRange, Low: 0.5, High: 1.5}, 3, []float64{135, 202.5, 270, 337.5, 404.73}},
		"none 2":       {policy.Jitter{Kind: policy.JitterNone}, 2, []float64{90, 90, 90, 90, 90}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := exponential(30*time.Second, 3, 6*time.Hour, tc.jitter)
			for i, u := range draws {
				got, ceiling := p.Delay(tc.n, 0, u)
				if got != seconds(tc.want[i]) {
					t.Errorf("Delay(%d, u=%v) = %v, want %v", tc.n, u, got, seconds(tc.want[i]))
				}
				if ceiling != p.Ceiling(tc.n) {
					t.Errorf("ceiling = %v, want %v", ceiling, p.Ceiling(tc.n))
				}
			}
		})
	}
}

func TestFloorAboveCeilingIsExact(t *testing.T) {
	t.Parallel()
	p := exponential(500*time.Millisecond, 3, 6*time.Hour, policy.Jitter{Kind: policy.JitterFull})
	for _, u := range []float64{0, 0.3, 0.999999} {
		if got, _ := p.Delay(1, 0, u); got != time.Second {
			t.Errorf("Delay(1, u=%v) = %v, want the floor of 1s", u, got)
		}
	}
}

func TestDecorrelatedChains(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base, limit time.Duration
		u           float64
		want        []float64
	}{
		"half":        {time.Second, time.Minute, 0.5, []float64{2, 3.5, 5.75, 9.125, 14.1875, 21.78125, 30.5}},
		"high":        {time.Second, time.Minute, 0.9, []float64{2.8, 7.66, 20.782, 54.1, 54.1}},
		"lowest":      {time.Second, time.Minute, 0, []float64{1, 1, 1}},
		"highest":     {time.Second, time.Minute, 0.999, []float64{2.998, 8.986006, 26.932, 59.941, 59.941}},
		"from 30 s":   {30 * time.Second, 6 * time.Hour, 0.5, []float64{60, 105, 172.5, 273.75, 425.625, 653.4375, 995.15625}},
		"cap is base": {time.Second, time.Second, 0.5, []float64{1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := exponential(tc.base, 7, tc.limit, policy.Jitter{Kind: policy.JitterDecorrelated})
			var prev time.Duration
			for i, want := range tc.want {
				prev, _ = p.Delay(i+1, prev, tc.u)
				// Each draw is rounded to a millisecond before it feeds the next.
				if diff := (prev - seconds(want)).Abs(); diff > time.Millisecond {
					t.Errorf("draw %d = %v, want %vs", i+1, prev, want)
				}
			}
		})
	}
}

// anyPolicy draws a valid policy by its retry part.
func anyPolicy(t *rapid.T) policy.Policy {
	p := policy.Default()
	base := time.Duration(rapid.Int64Range(10, 86_400_000).Draw(t, "base")) * time.Millisecond
	limit := max(base, time.Duration(rapid.Int64Range(10, 604_800_000).Draw(t, "cap"))*time.Millisecond)
	p.Retry.Backoff = policy.Backoff{Kind: policy.Exponential, Base: base, Multiplier: rapid.Float64Range(1, 10).Draw(t, "multiplier"), Cap: limit}
	p.Retry.MinDelay = min(limit, time.Duration(rapid.Int64Range(10, 3_600_000).Draw(t, "min"))*time.Millisecond)
	p.Retry.MaxAttempts = rapid.IntRange(1, 50).Draw(t, "attempts")
	kinds := []policy.JitterKind{policy.JitterFull, policy.JitterEqual, policy.JitterPercent, policy.JitterRange, policy.JitterNone, policy.JitterDecorrelated}
	if rapid.Bool().Draw(t, "schedule") {
		ms := rapid.SliceOfN(rapid.Int64Range(10, 604_800_000), 1, 49).Draw(t, "delays")
		p.Retry.Backoff = policy.Backoff{Kind: policy.Schedule}
		for _, d := range ms {
			p.Retry.Backoff.Delays = append(p.Retry.Backoff.Delays, time.Duration(d)*time.Millisecond)
		}
		kinds = kinds[:5]
	}
	p.Retry.Jitter.Kind = rapid.SampledFrom(kinds).Draw(t, "jitter")
	switch p.Retry.Jitter.Kind {
	case policy.JitterPercent:
		p.Retry.Jitter.Percent = rapid.Float64Range(0.1, 100).Draw(t, "percent")
	case policy.JitterRange:
		p.Retry.Jitter.Low = rapid.Float64Range(0, 1).Draw(t, "low")
		p.Retry.Jitter.High = rapid.Float64Range(1.01, 2).Draw(t, "high")
	default:
	}
	return p
}

func anyU(t *rapid.T) float64 {
	return min(rapid.Float64Range(0, 1).Draw(t, "u"), math.Nextafter(1, 0))
}

func TestDelayStaysInItsInterval(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		n := rapid.IntRange(1, 1000).Draw(t, "n")
		prev := time.Duration(rapid.Int64Range(0, int64(200*time.Hour)).Draw(t, "prev"))
		low, ceiling := p.Delay(n, prev, 0)
		if low < p.Retry.MinDelay {
			t.Fatalf("delay %v is below the floor %v", low, p.Retry.MinDelay)
		}
		high := max(low, highEnd(&p, ceiling))
		got, again := p.Delay(n, prev, anyU(t))
		if again != ceiling {
			t.Fatalf("ceiling depends on u: %v and %v", ceiling, again)
		}
		if got%time.Millisecond != 0 {
			t.Fatalf("delay %v is not whole milliseconds", got)
		}
		if got < low || got > high || got == high && high > low {
			t.Fatalf("delay %v outside [%v, %v)", got, low, high)
		}
	})
}

// highEnd is the upper end of the draw by the table of the specification.
func highEnd(p *policy.Policy, ceiling time.Duration) time.Duration {
	c := float64(ceiling)
	switch j := p.Retry.Jitter; j.Kind {
	case policy.JitterPercent:
		c *= 1 + j.Percent/100
	case policy.JitterRange:
		c *= j.High
	default:
	}
	return max(time.Duration(math.Round(c/1e6))*time.Millisecond, p.Retry.MinDelay)
}

func TestDelayGrowsWithU(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy(t)
		n := rapid.IntRange(1, 60).Draw(t, "n")
		a, b := anyU(t), anyU(t)
		early, _ := p.Delay(n, 0, min(a, b))
		late, _ := p.Delay(n, 0, max(a, b))
		if early > late {
			t.Fatalf("u=%v waits %v, u=%v waits %v", min(a, b), early, max(a, b), late)
		}
	})
}

func TestBadUStaysInTheInterval(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, u := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -3, 1, 7} {
		if got, _ := p.Delay(1, 0, u); got < time.Second || got >= 30*time.Second {
			t.Errorf("Delay(u=%v) = %v, want within [1s, 30s)", u, got)
		}
	}
}

func TestRandomKindsSpread(t *testing.T) {
	t.Parallel()
	const population = 5_000
	for name, jitter := range map[string]policy.Jitter{
		"full":         {Kind: policy.JitterFull},
		"equal":        {Kind: policy.JitterEqual},
		"percent":      {Kind: policy.JitterPercent, Percent: 20},
		"range":        {Kind: policy.JitterRange, Low: 0.5, High: 1.5},
		"decorrelated": {Kind: policy.JitterDecorrelated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := exponential(8*time.Second, 2, time.Minute, jitter)
			draw := rand.New(rand.NewPCG(1, 2))
			for n := range 8 {
				count := map[time.Duration]int{}
				for range population {
					var d time.Duration
					for i := range n + 1 {
						d, _ = p.Delay(i+1, d, draw.Float64())
					}
					count[d]++
				}
				for d, c := range count {
					if c > population/100 {
						t.Fatalf("retry %d: %d of %d waits are exactly %v", n+1, c, population, d)
					}
				}
			}
		})
	}
}

func TestFullJitterHasRoomToSpread(t *testing.T) {
	t.Parallel()
	p := exponential(8*time.Second, 2, time.Hour, policy.Jitter{Kind: policy.JitterFull})
	draw := rand.New(rand.NewPCG(3, 4))
	var sum, squares float64
	const draws = 1000
	for range draws {
		d, _ := p.Delay(1, 0, draw.Float64())
		sum += d.Seconds()
		squares += d.Seconds() * d.Seconds()
	}
	mean := sum / draws
	if deviation := math.Sqrt(squares/draws - mean*mean); deviation <= 1 {
		t.Errorf("standard deviation %v s, want above 1 s", deviation)
	}
}

func TestFirstDue(t *testing.T) {
	t.Parallel()
	accepted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := policy.Default()
	p.Retry.InitialDelay = 5 * time.Second
	for name, tc := range map[string]struct {
		deliverAt time.Time
		delay     time.Duration
		want      time.Time
	}{
		"initial delay":      {want: accepted.Add(5 * time.Second)},
		"delay of the event": {delay: time.Minute, want: accepted.Add(time.Minute)},
		"time of the event":  {deliverAt: accepted.Add(time.Hour), want: accepted.Add(time.Hour)},
		"time wins":          {deliverAt: accepted.Add(time.Hour), delay: time.Minute, want: accepted.Add(time.Hour)},
		"past means now":     {deliverAt: accepted.Add(-time.Hour), want: accepted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, p.FirstDue(accepted, tc.deliverAt, tc.delay)); diff != "" {
				t.Errorf("FirstDue (-want +got):\n%s", diff)
			}
		})
	}
}
