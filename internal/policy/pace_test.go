package policy_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

func TestPaceEstimate(t *testing.T) {
	t.Parallel()
	usual := policy.Pace{PerMinute: 100, Ramp: 2, MaxMultiple: 10}
	for name, tc := range map[string]struct {
		pace    policy.Pace
		n       int64
		current int
		want    time.Duration
	}{
		"nothing":           {usual, 0, 100, 0},
		"one":               {usual, 1, 100, time.Second},
		"one minute":        {usual, 100, 100, time.Minute},
		"half the second":   {usual, 200, 100, 90 * time.Second},
		"the whole ramp":    {usual, 1500, 100, 4 * time.Minute},
		"fifty thousand":    {usual, 50_000, 100, 3150 * time.Second},
		"from the middle":   {usual, 1800, 800, 2 * time.Minute},
		"no ramp":           {policy.Pace{PerMinute: 60, Ramp: 1, MaxMultiple: 10}, 600, 60, 10 * time.Minute},
		"no room":           {policy.Pace{PerMinute: 60, Ramp: 2, MaxMultiple: 1}, 600, 60, 10 * time.Minute},
		"a fraction":        {policy.Pace{PerMinute: 100, Ramp: 2, MaxMultiple: 2.5}, 550, 100, 3 * time.Minute},
		"a crawl":           {policy.Pace{PerMinute: 1, Ramp: 1.1, MaxMultiple: 10}, 6, 1, 3 * time.Minute},
		"a pace of nothing": {usual, 10, 0, 203 * time.Second}, // 1, 2, 4, then 3 of 8
	} {
		if got := tc.pace.Estimate(tc.n, tc.current); got != tc.want {
			t.Errorf("%s: Estimate = %v, want %v", name, got, tc.want)
		}
	}
}

// TestPaceStaysInBounds checks that no pace shrinks by itself or passes its
// ceiling, whatever the numbers.
func TestPaceStaysInBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := policy.Pace{
			PerMinute:   rapid.IntRange(1, 100_000).Draw(t, "per minute"),
			Ramp:        rapid.Float64Range(1, 10).Draw(t, "ramp"),
			MaxMultiple: rapid.Float64Range(1, 1000).Draw(t, "max multiple"),
		}
		rate := p.PerMinute
		for range 50 {
			next := p.Next(rate)
			if next < rate || next > p.Max() || float64(next) > float64(p.PerMinute)*p.MaxMultiple {
				t.Fatalf("%d is followed by %d, at most %d", rate, next, p.Max())
			}
			rate = next
		}
		n := rapid.Int64Range(0, 1_000_000).Draw(t, "n")
		took := p.Estimate(n, p.PerMinute)
		fastest := time.Duration(float64(n) * float64(time.Minute) / float64(p.Max()))
		slowest := time.Duration(float64(n)*float64(time.Minute)/float64(p.PerMinute)) + time.Second
		if took < fastest || took > slowest {
			t.Fatalf("%d take %v, want %v to %v", n, took, fastest, slowest)
		}
	})
}

func TestPaceCourse(t *testing.T) {
	t.Parallel()
	usual := policy.Pace{PerMinute: 100, Ramp: 2, MaxMultiple: 10}
	for name, tc := range map[string]struct {
		pace policy.Pace
		n    int64
		want []policy.PaceStep
	}{
		"nothing": {usual, 0, nil},
		"one":     {usual, 1, []policy.PaceStep{{0, 100, 1}}},
		"a ramp": {usual, 2016, []policy.PaceStep{
			{0, 100, 100}, {time.Minute, 200, 300}, {2 * time.Minute, 400, 700}, {3 * time.Minute, 800, 1500}, {4 * time.Minute, 1000, 2016},
		}},
		"no ramp": {policy.Pace{PerMinute: 60, Ramp: 1, MaxMultiple: 10}, 600, []policy.PaceStep{{0, 60, 600}}},
	} {
		got := tc.pace.Course(tc.n)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: Course = %v, want %v", name, got, tc.want)
		}
	}
	crawl := policy.Pace{PerMinute: 1, Ramp: 1.0001, MaxMultiple: 1000}.Course(1_000_000)
	if last := crawl[len(crawl)-1]; len(crawl) != 60 || last.Sent != 1_000_000 {
		t.Errorf("a crawl has %d steps, the last of which is %v", len(crawl), last)
	}
}
