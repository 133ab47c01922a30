package metric

import (
	"sync/atomic"
	"time"
)

// mostBuckets is as many as any histogram of ours has, the last one aside.
const mostBuckets = 24

// histogram counts values by their size. It allocates nothing and never waits.
type histogram struct {
	bounds []int64 // whole units: nanoseconds or rows
	scale  float64 // what one of them is worth in the metric's unit
	counts [mostBuckets + 1]atomic.Uint64
	sum    atomic.Int64
}

// setUp gives the histogram the bounds of its metric. Those are few: looking at
// one after the other takes less time than halving, since most values are small.
func (h *histogram) setUp(d *Desc) {
	h.scale = 1
	if d.Unit == Seconds {
		h.scale = 1 / float64(time.Second)
	}
	for _, b := range d.Buckets {
		h.bounds = append(h.bounds, int64(b/h.scale+0.5))
	}
}

func (h *histogram) observe(v int64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// state returns what was observed as Prometheus wants it: each bucket with those
// before it.
func (h *histogram) state(bounds []float64) (count uint64, sum float64, below map[float64]uint64) {
	below = make(map[float64]uint64, len(bounds))
	for i, b := range bounds {
		count += h.counts[i].Load()
		below[b] = count
	}
	count += h.counts[len(bounds)].Load()
	return count, float64(h.sum.Load()) * h.scale, below
}
