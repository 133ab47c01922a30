package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// holds reports whether a batch contains the settle.
func holds(b *store.Batch, bad *store.Settle) bool {
	return slices.Contains(b.Settles, bad)
}

// outcomes are what the writer reported of each settle.
func (b *bench) outcomes() map[*store.Settle]store.SettleOutcome {
	out := make(map[*store.Settle]store.SettleOutcome)
	for _, batch := range b.committed {
		for _, s := range batch.Settles {
			out[s] = s.Outcome
		}
	}
	return out
}

// TestWriterIsolatesARefusedResult: a result that the store refuses stands
// alone in the end, whatever else is in its batch; its lane's checkpoint above
// all.
func TestWriterIsolatesARefusedResult(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ accepts, settles, lanes int }{
		"with its checkpoint":        {0, 0, 1},
		"with several checkpoints":   {0, 0, 3},
		"with an accept":             {1, 0, 0},
		"with accept and checkpoint": {1, 0, 1},
		"in a large batch":           {9, 7, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bad := &store.Settle{}
				s := &script{fail: func(n int, b *store.Batch) error {
					if n > 200 {
						return fmt.Errorf("%w: endless splitting", store.ErrFatal)
					}
					if holds(b, bad) {
						return store.ErrRefused
					}
					return nil
				}}
				b := startWriter(t, s, store.WriterConfig{})
				for i := range tc.settles {
					b.w.Settle(&store.Settle{Delivery: hook.Delivery{ID: hook.ID(i)}}, nil)
				}
				for i := range tc.lanes {
					b.w.Settle(nil, &store.LaneSave{Endpoint: hook.ID(i)})
				}
				b.w.Settle(bad, nil)
				var wg sync.WaitGroup
				for i := range tc.accepts {
					wg.Go(func() {
						if err := acceptAll(b.w, accept(i)); err != nil {
							t.Errorf("an accept beside the refused result: %v", err)
						}
					})
				}
				wg.Wait()
				b.stop(t)
				lanes := 0
				for _, batch := range b.committed {
					lanes += len(batch.Lanes)
				}
				if got := b.outcomes(); got[bad] != store.SettleGone || len(got) != tc.settles+1 || lanes != tc.lanes {
					t.Errorf("outcome of the refused result %d, %d results and %d checkpoints reported; want %d, %d, %d",
						got[bad], len(got), lanes, store.SettleGone, tc.settles+1, tc.lanes)
				}
			})
		})
	}
}

// TestWriterStoresARefusedResultBare: an answer that the store cannot hold is
// no reason to send the event again.
func TestWriterStoresARefusedResultBare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: func(_ int, b *store.Batch) error {
			for _, x := range b.Settles {
				if x.Attempt != nil && x.Attempt.Error != "" {
					return store.ErrRefused
				}
			}
			return nil
		}}
		b := startWriter(t, s, store.WriterConfig{})
		odd := &store.Settle{Attempt: &hook.Attempt{ID: 1, Status: 500, Error: "\x00"}}
		b.w.Settle(odd, &store.LaneSave{Endpoint: 1})
		time.Sleep(time.Second)
		b.stop(t)
		if got := b.outcomes()[odd]; got != store.SettleWritten || odd.Attempt.Status != 500 {
			t.Errorf("outcome %d with status %d, want written with its status", got, odd.Attempt.Status)
		}
	})
}

// TestWriterAnswersEverybodyWhenIsolationFails: the store is lost while a batch
// is being split; nobody is left waiting.
func TestWriterAnswersEverybodyWhenIsolationFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{takes: time.Millisecond, fail: func(n int, _ *store.Batch) error {
			switch n {
			case 1:
				return nil
			case 2:
				return store.ErrRefused
			default:
				return fmt.Errorf("%w: fsync", store.ErrFatal)
			}
		}}
		b := startWriter(t, s, store.WriterConfig{})
		var wg sync.WaitGroup
		for i := range 9 {
			if i == 1 {
				synctest.Wait() // the first is being committed; the others wait together
			}
			wg.Go(func() {
				began := time.Now()
				if err := acceptAll(b.w, accept(i)); time.Since(began) > time.Second {
					t.Errorf("accept %d had to wait %v for %v", i, time.Since(began), err)
				}
			})
		}
		wg.Wait()
		if err := <-b.done; !errors.Is(err, store.ErrFatal) {
			t.Errorf("Run = %v, want the fatal error", err)
		}
		b.cancel()
	})
}

// TestWriterKeepsTheOrderOfResults: results that find no room while a refused
// row is looked for go back to the queue in their order; a delivery's second
// result before its first would be lost.
func TestWriterKeepsTheOrderOfResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bad := &store.Settle{}
		full := true
		s := &script{}
		s.fail = func(_ int, b *store.Batch) error {
			switch {
			case holds(b, bad):
				return store.ErrRefused
			case full && len(b.Settles) > 0:
				return hook.ErrStoreFull
			}
			return nil
		}
		b := startWriter(t, s, store.WriterConfig{})
		for i := range 8 {
			b.w.Settle(&store.Settle{Prev: i}, nil)
		}
		b.w.Settle(bad, nil)
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		full = false
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		b.stop(t)
		var order []int
		for _, batch := range b.committed {
			for _, x := range batch.Settles {
				if x != bad {
					order = append(order, x.Prev)
				}
			}
		}
		for i, prev := range order {
			if prev != i {
				t.Fatalf("results were committed in the order %v", order)
			}
		}
		if len(order) != 8 {
			t.Errorf("%d of 8 results committed", len(order))
		}
	})
}

// TestWriterHandsOverWhatMayBeStored: a commit without an answer, then a full
// disk. The first may have stored the event, and a repetition under its key
// would be answered with success: the deliveries must reach their lanes.
func TestWriterHandsOverWhatMayBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: func(n int, b *store.Batch) error {
			switch {
			case n == 1:
				return errors.New("connection lost") // after it was stored
			case n < 5 && len(b.Accepts) > 0:
				return hook.ErrStoreFull
			}
			return nil
		}}
		b := startWriter(t, s, store.WriterConfig{})
		_ = acceptAll(b.w, accept(1))
		time.Sleep(time.Minute)
		b.stop(t)
		handed := 0
		for _, batch := range b.committed {
			handed += len(batch.Accepts)
		}
		if handed != 1 {
			t.Errorf("%d accepts handed over, want the one that may be stored", handed)
		}
	})
}

// TestWriterSavesLanesUnderLoad: results keep the queue full all the time; the
// checkpoint of a lane goes with its own result, not after all others.
func TestWriterSavesLanesUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: time.Second}, store.WriterConfig{MaxBatch: 4})
		for range 5 {
			b.w.Settle(&store.Settle{}, nil)
		}
		led := &store.Settle{}
		b.w.Settle(led, &store.LaneSave{Endpoint: 7})
		for range 40 {
			b.w.Settle(&store.Settle{}, &store.LaneSave{Endpoint: 8})
		}
		time.Sleep(100 * time.Second)
		b.stop(t)
		for _, batch := range b.script.batches {
			for _, save := range batch.Lanes {
				if save.Endpoint == 7 && !holds(batch, led) {
					t.Error("the checkpoint did not go with the result that led to it")
				}
			}
		}
		if last := b.script.batches[len(b.script.batches)-1]; len(last.Lanes) > 0 && len(b.script.batches) > 3 {
			t.Error("checkpoints waited until the queue was empty")
		}
	})
}

func TestWriterAcceptsNothingAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{}, store.WriterConfig{})
		if err := acceptAll(b.w); err != nil {
			t.Errorf("Accept of nothing = %v", err)
		}
		b.stop(t)
	})
}

// TestWriterAnswersInTime: a commit hangs for a minute. Publishers hear after
// Patience that nothing is promised, those in the commit as well as those behind
// it; the commit's own late answer harms nobody, and later ones are answered as
// ever.
func TestWriterAnswersInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const patience = 10 * time.Second
		s := &script{takes: time.Minute}
		b := startWriter(t, s, store.WriterConfig{Patience: patience})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 200 * time.Millisecond)
				began := time.Now()
				err := acceptAll(b.w, accept(2*i), accept(2*i+1))
				if took := time.Since(began); !errors.Is(err, hook.ErrStoreUnavailable) || took < patience || took > patience+time.Second {
					t.Errorf("publisher %d heard %v after %v", i, err, took)
				}
			})
		}
		wg.Wait()
		time.Sleep(3 * time.Minute)
		s.mu.Lock()
		s.takes = time.Millisecond
		s.mu.Unlock()
		if err := acceptAll(b.w, accept(100)); err != nil {
			t.Errorf("Accept afterwards = %v", err)
		}
		b.stop(t)
	})
}
