package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// failures counts filters that could not be evaluated, and stores the counts now and
// then: accepting waits for nothing but the event.
type failures struct {
	store Store
	mu    sync.Mutex
	all   map[hook.ID]store.FilterFailure
}

// add counts those of an event that was accepted.
func (f *failures) add(list []failed, now time.Time) {
	if len(list) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[hook.ID]store.FilterFailure)
	}
	for _, wrong := range list {
		f.put(wrong.target.id, store.FilterFailure{
			Filter: wrong.target.filter.text, FilterErrors: hook.FilterErrors{Count: 1, Last: wrong.err.Error(), At: now},
		})
	}
}

// put adds counts of one endpoint. Those of an older filter give way.
func (f *failures) put(endpoint hook.ID, more store.FilterFailure) {
	if have := f.all[endpoint]; have.Filter == more.Filter {
		more.Count += have.Count
		if have.At.After(more.At) {
			more.Last, more.At = have.Last, have.At
		}
	}
	f.all[endpoint] = more
}

// flush stores what was counted. What cannot be stored is kept for the next time.
func (f *failures) flush(ctx context.Context) {
	f.mu.Lock()
	counted := f.all
	f.all = nil
	f.mu.Unlock()
	if len(counted) == 0 || f.store.AddFilterErrors(ctx, counted) == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	newer := f.all
	f.all = counted
	for endpoint, more := range newer {
		f.put(endpoint, more)
	}
}
