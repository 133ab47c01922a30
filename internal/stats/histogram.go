package stats

import (
	"math"
	"time"
)

// Latencies are counted in buckets that are a fifth wider each, from a tenth of a
// millisecond on: 160 of them reach beyond a year, and nearly all are empty.
const (
	bucketFirst = 100 * time.Microsecond
	bucketSteps = 4 // per doubling
	buckets     = 160
)

// bucketOf is the bucket that a time falls into: the first whose bound is not
// below it.
func bucketOf(d time.Duration) Counter {
	if d <= bucketFirst {
		return 0
	}
	n := math.Ceil(bucketSteps*math.Log2(float64(d)/float64(bucketFirst)) - 1e-9)
	return Counter(min(n, buckets-1))
}

// bound is the longest time of a bucket.
func bound(bucket Counter) time.Duration {
	return time.Duration(float64(bucketFirst) * math.Exp2(float64(bucket)/bucketSteps))
}

// Histogram is how long things took.
type Histogram struct {
	n [buckets]uint64
}

// Count is how many there are.
func (h *Histogram) Count() (sum uint64) {
	for _, n := range &h.n {
		sum += n
	}
	return sum
}

// Quantile is a time that a share q of all did not exceed, as exact as the
// buckets are; 0 when there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(total)))
	rank = min(max(rank, 1), total)
	var below uint64
	for i, n := range &h.n {
		if below += n; below >= rank {
			return middle(Counter(i))
		}
	}
	return bound(buckets - 1)
}

// middle is a time that stands for a bucket.
func middle(bucket Counter) time.Duration {
	if bucket == 0 {
		return bucketFirst
	}
	return time.Duration(math.Sqrt(float64(bound(bucket-1)) * float64(bound(bucket))))
}
