package store_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// slowStore commits as slowly as it is told to.
type slowStore struct {
	mu   sync.Mutex
	took time.Duration
}

func (s *slowStore) set(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = d
}

func (s *slowStore) Commit(ctx context.Context, _ *store.Batch) error {
	s.mu.Lock()
	took := s.took
	s.mu.Unlock()
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestHealthOfAWriter: slow commits show for a minute, one that hangs and results
// that wait for it show while they do.
func TestHealthOfAWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &slowStore{took: 2 * time.Second}
		w, err := store.NewWriter(store.WriterConfig{DB: db, Committed: func(*store.Batch) {}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		defer func() { cancel(); <-done }()
		result := func() {
			w.Settle(&store.Settle{Delivery: hook.Delivery{ID: 1}, Attempt: &hook.Attempt{StartedAt: time.Now().Add(-time.Second), Latency: time.Second}}, nil)
		}
		if h := w.Health(); h != (store.WriterHealth{}) {
			t.Errorf("nothing has happened: %+v", h)
		}
		result()
		time.Sleep(3 * time.Second)
		if h := w.Health(); h.CommitP99 < 1700*time.Millisecond || h.CommitP99 > 2300*time.Millisecond || h.OldestResult != 0 {
			t.Errorf("a commit took 2 s: %+v", h)
		}
		time.Sleep(90 * time.Second)
		if h := w.Health(); h.CommitP99 != 0 {
			t.Errorf("that was more than a minute ago: %+v", h)
		}
		db.set(12 * time.Second)
		result()
		time.Sleep(10 * time.Second)
		if h := w.Health(); h.CommitP99 < 9*time.Second || h.OldestResult < 9*time.Second {
			t.Errorf("a commit hangs for 10 s: %+v", h)
		}
		time.Sleep(5 * time.Second)
		if h := w.Health(); h.OldestResult != 0 || h.CommitP99 < 10*time.Second {
			t.Errorf("it is stored: %+v", h)
		}
	})
}
