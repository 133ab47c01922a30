package watch_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// idleStore is a store that nobody asks.
type idleStore struct{ watch.Store }

func (idleStore) RetryDepths(context.Context, []hook.ID, time.Time, int) ([]store.RetryDepth, error) {
	return nil, nil
}

// BenchmarkAttempted is what every attempt pays: below 200 ns, nothing
// allocated.
func BenchmarkAttempted(b *testing.B) {
	ids, err := hook.NewIDSource(1, 0)
	if err != nil {
		b.Fatal(err)
	}
	w, err := watch.New(watch.Config{
		Store: idleStore{}, IDs: ids, Node: 1, Log: slog.New(slog.DiscardHandler), Owns: func(int) bool { return true },
	})
	if err != nil {
		b.Fatal(err)
	}
	endpoints := make([]hook.ID, 1024)
	for i := range endpoints {
		endpoints[i] = ids.Next(time.Now())
		w.Attempted(1, endpoints[i], hook.First)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			w.Attempted(1, endpoints[i%len(endpoints)], hook.Retry)
		}
	})
}
