// Package histogram counts durations in logarithmic buckets, so that quantiles
// of millions of samples need a few kilobytes and no sorting.
//
// It knows nothing of what is measured.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits is the binary logarithm of the buckets between two powers of two.
	// With 64 of them a bucket is at most 1.6 % wide, and its middle at most
	// 0.8 % away from any sample in it.
	subBits = 6
	sub     = 1 << subBits
	// topBits bounds what can be told apart: 2⁴⁰ ns are 18 minutes.
	topBits = 40
	buckets = (topBits-subBits)*sub + sub
)

// Histogram is safe for concurrent use. Its zero value is ready.
type Histogram struct {
	counts [buckets]atomic.Uint64
	total  atomic.Uint64
	most   atomic.Int64
}

// Record adds a sample. What is below zero counts as zero.
func (h *Histogram) Record(d time.Duration) {
	n := max(int64(d), 0)
	h.counts[bucketOf(n)].Add(1)
	h.total.Add(1)
	for {
		seen := h.most.Load()
		if n <= seen || h.most.CompareAndSwap(seen, n) {
			return
		}
	}
}

// Count returns the number of samples.
func (h *Histogram) Count() uint64 { return h.total.Load() }

// Quantile returns the smallest sample that at least the share q of all
// samples does not exceed, within 1 %; zero without samples.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.total.Load()
	if total == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(q*float64(total))), 1)
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= rank {
			return time.Duration(min(middleOf(i), h.most.Load()))
		}
	}
	return time.Duration(h.most.Load())
}

// bucketOf returns the bucket of a value: itself when it is small, else its
// highest subBits+1 bits.
func bucketOf(n int64) int {
	if n < sub {
		return int(n)
	}
	shift := bits.Len64(uint64(n)) - 1 - subBits
	return min(shift*sub+int(n>>shift), buckets-1)
}

// middleOf is the value in the middle of a bucket.
func middleOf(bucket int) int64 {
	if bucket < sub {
		return int64(bucket)
	}
	shift := bucket/sub - 1
	low := int64(bucket-shift*sub) << shift
	return low + (int64(1)<<shift)/2
}
