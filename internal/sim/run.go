package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Run plays a scenario once. A seed always gives the same result.
func Run(s Scenario, st Strategy, seed uint64) Result {
	r, _ := run(context.Background(), newWorld(&s, &st, seed), seed) // nobody cancels
	return r
}

// Limits bound what a run may cost, on a slow machine as on a fast one. Zero bounds
// nothing.
type Limits struct {
	Steps  int // of which a request takes four or five
	Events int // that wait at the same time
}

// What a run reports that would cost more than its limits.
var (
	ErrTooLong = errors.New("the run takes too many steps")
	ErrTooMany = errors.New("too many events wait")
)

// RunWithin is Run with an end: that of ctx, or its limits.
func RunWithin(ctx context.Context, s Scenario, st Strategy, seed uint64, most Limits) (Result, error) {
	w := newWorld(&s, &st, seed)
	w.most = most
	return run(ctx, w, seed)
}

// Watch is Run for those who want to see every move of the lanes.
func Watch(s Scenario, st Strategy, seed uint64, observe func(Moment)) Result {
	w := newWorld(&s, &st, seed)
	w.observe = observe
	r, _ := run(context.Background(), w, seed)
	return r
}

func run(ctx context.Context, w *world, seed uint64) (Result, error) {
	if err := w.run(ctx); err != nil {
		return Result{}, err
	}
	r := w.metrics.result(seed)
	r.Steps = w.steps
	return r, nil
}

// RunMany plays a scenario with many seeds on so many workers. The results are
// in the order of the seeds and do not depend on the workers; only the first
// has a trace. progress, which may be nil, is told after every run, from
// several goroutines. The error is that of ctx.
func RunMany(ctx context.Context, s Scenario, st Strategy, seeds []uint64, workers int, progress func(done, total int)) ([]Result, error) {
	results := make([]Result, len(seeds))
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(max(workers, 1), len(seeds)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(seeds) {
					return
				}
				r, err := run(ctx, newWorld(&s, &st, seeds[i]), seeds[i])
				if err != nil {
					return // ctx is done
				}
				if i > 0 {
					r.Trace = nil // many long runs would fill the memory
				}
				results[i] = r
				if progress != nil {
					progress(int(done.Add(1)), len(seeds))
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return results, nil
}

// Seeds returns n seeds from a first one on.
func Seeds(first uint64, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}
