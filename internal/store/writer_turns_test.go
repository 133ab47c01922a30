package store_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// acceptsOf makes accepts of one tenant with so many deliveries and bytes each.
func acceptsOf(tenant hook.ID, n, deliveries, bytes int) []*store.Accept {
	out := make([]*store.Accept, n)
	for i := range out {
		out[i] = &store.Accept{
			Event:      hook.Event{ID: tenant*1_000_000 + hook.ID(i), TenantID: tenant, Payload: make([]byte, bytes)},
			Deliveries: make([]hook.Delivery, deliveries),
		}
	}
	return out
}

// TestWriterBoundsItsQueue: what may wait is counted in rows and bytes. One
// tenant gets half of it, and others always find some left.
func TestWriterBoundsItsQueue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		most              store.Load
		deliveries, bytes int // of each event
		fits              int // events of one tenant
	}{
		"rows":  {store.Load{Rows: 100, Bytes: 1 << 20}, 4, 0, 10},
		"bytes": {store.Load{Rows: 1000, Bytes: 10_000}, 0, 500, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := startWriter(t, &script{takes: time.Second}, store.WriterConfig{MaxQueue: tc.most, MaxBatch: 5})
				go func() { _ = acceptAll(b.w, accept(0)) }()
				synctest.Wait() // it is being committed
				refused := 0
				var mu sync.Mutex
				for _, a := range acceptsOf(1, tc.fits+3, tc.deliveries, tc.bytes) {
					go func() {
						if err := acceptAll(b.w, a); errors.Is(err, hook.ErrOverloaded) {
							mu.Lock()
							refused++
							mu.Unlock()
						}
					}()
				}
				synctest.Wait()
				if refused != 3 {
					t.Errorf("%d events were refused, want 3: the tenant has half of the queue", refused)
				}
				if err := b.w.Accept(1, store.Load{Rows: 2, Bytes: 1000}, func() []*store.Accept {
					t.Error("events were built that find no room")
					return nil
				}); !errors.Is(err, hook.ErrOverloaded) {
					t.Errorf("Accept on a full queue = %v, want overloaded", err)
				}
				if err := acceptAll(b.w, acceptsOf(2, tc.fits/2, tc.deliveries, tc.bytes)...); err != nil {
					t.Errorf("another tenant found no room: %v", err)
				}
				b.stop(t)
			})
		})
	}
}

// TestTenantsTakeTurns: however much one tenant brings, the next commit has room
// for what its neighbour brings after it.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ events, deliveries, bytes int }{
		"many small events":        {4000, 1, 100},
		"events that fan out":      {100, 500, 100},
		"events with large bodies": {100, 1, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := startWriter(t, &script{takes: 50 * time.Millisecond}, store.WriterConfig{MaxQueue: store.Load{Rows: 1 << 20, Bytes: 1 << 30}})
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := acceptAll(b.w, acceptsOf(1, tc.events, tc.deliveries, tc.bytes)...); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
				for i := range 10 {
					began := time.Now()
					if err := acceptAll(b.w, acceptsOf(2, 1, 1, 100)...); err != nil {
						t.Error(err)
					}
					// The commit that is running, and the next one.
					if took := time.Since(began); took > 120*time.Millisecond {
						t.Errorf("event %d waited %v behind those of a neighbour", i, took)
					}
				}
				wg.Wait()
				b.stop(t)
			})
		})
	}
}

// TestLargestEventGetsItsTurn: one that fans out far is not overtaken for ever
// by small ones of others.
func TestLargestEventGetsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: 10 * time.Millisecond}, store.WriterConfig{})
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for tenant := range hook.ID(4) {
			for range 100 { // together more than a commit takes
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							_ = acceptAll(b.w, acceptsOf(10+tenant, 1, 2, 100)...)
						}
					}
				})
			}
		}
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		if err := acceptAll(b.w, acceptsOf(1, 1, 10_000, 100)...); err != nil {
			t.Error(err)
		}
		// Its share of a commit is a fifth of 256 events of 3 rows.
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("an event with 10,000 deliveries waited %v beside small ones", took)
		}
		close(stop)
		wg.Wait()
		b.stop(t)
	})
}

// TestCommitIsBoundedInRowsAndBytes: a commit takes no more than it may, or one
// event alone.
func TestCommitIsBoundedInRowsAndBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		most, queue := store.Load{Rows: 300, Bytes: 10_000}, store.Load{Rows: 1 << 20, Bytes: 1 << 30}
		s := &script{takes: time.Millisecond}
		b := startWriter(t, s, store.WriterConfig{MaxCommit: most, MaxQueue: queue})
		rnd := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for i := range 200 {
			accepts := acceptsOf(hook.ID(1+i%5), 1+rnd.IntN(8), rnd.IntN(400), rnd.IntN(3000))
			wg.Go(func() {
				if err := acceptAll(b.w, accepts...); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// All of the queue is free again.
		if err := b.w.Accept(9, queue, func() []*store.Accept { return acceptsOf(9, 1, 0, 0) }); err != nil {
			t.Errorf("Accept of a load as large as the queue = %v", err)
		}
		b.stop(t)
		events := 0
		for _, batch := range s.batches {
			var sum store.Load
			for _, a := range batch.Accepts {
				sum = sum.Plus(store.LoadOf(len(a.Deliveries), len(a.Event.Payload)))
			}
			if events += len(batch.Accepts); len(batch.Accepts) > 1 && (sum.Rows > most.Rows || sum.Bytes > most.Bytes) {
				t.Errorf("a commit of %d events has %+v, at most %+v are allowed", len(batch.Accepts), sum, most)
			}
		}
		if events < 200 {
			t.Errorf("%d events were committed", events)
		}
	})
}
