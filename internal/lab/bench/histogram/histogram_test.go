package histogram_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/histogram"
)

// TestQuantileIsNearTheExactOne compares with sorting.
func TestQuantileIsNearTheExactOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
			// All magnitudes are equally likely: up to 18 minutes.
			width := rapid.IntRange(0, 40).Draw(t, "bits")
			return rapid.Int64Range(0, 1<<width-1).Draw(t, "sample")
		}), 1, 300).Draw(t, "samples")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h histogram.Histogram
		for _, s := range samples {
			h.Record(time.Duration(s))
		}
		slices.Sort(samples)
		rank := max(int(math.Ceil(q*float64(len(samples)))), 1)
		want := float64(samples[rank-1])
		if got := float64(h.Quantile(q)); math.Abs(got-want) > 0.01*want+0.5 {
			t.Fatalf("quantile %v of %v = %v, want %v", q, samples, got, want)
		}
		if h.Count() != uint64(len(samples)) {
			t.Fatalf("%d samples counted, want %d", h.Count(), len(samples))
		}
	})
}

func TestEdges(t *testing.T) {
	t.Parallel()
	var empty histogram.Histogram
	if got := empty.Quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %v", got)
	}
	var h histogram.Histogram
	h.Record(-time.Second)
	if got := h.Quantile(1); got != 0 {
		t.Errorf("a negative sample counts as %v, want 0", got)
	}
	h.Record(100 * time.Hour) // beyond the last bucket
	if got := h.Quantile(1); got < 15*time.Minute {
		t.Errorf("the longest sample reads as %v", got)
	}
}

func TestConcurrentRecords(t *testing.T) {
	t.Parallel()
	var h histogram.Histogram
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				h.Record(time.Duration(n*8 + i))
			}
		})
	}
	wg.Wait()
	if h.Count() != 8000 || h.Quantile(1) < 7900 {
		t.Errorf("%d samples, the longest %v", h.Count(), h.Quantile(1))
	}
}
