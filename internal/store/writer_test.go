package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// script is a committer that takes a while and fails when told to. What it
// stands for, a real database, is tested by the contract suite.
type script struct {
	mu      sync.Mutex
	takes   time.Duration
	fail    func(n int, b *store.Batch) error
	batches []*store.Batch
}

func (s *script) Commit(_ context.Context, b *store.Batch) error {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, &store.Batch{Rerun: b.Rerun, Accepts: b.Accepts, Settles: b.Settles, Lanes: b.Lanes})
	if s.fail != nil {
		if err := s.fail(len(s.batches), b); err != nil {
			return err
		}
	}
	for _, a := range b.Accepts {
		a.Outcome = store.AcceptStored
	}
	for _, x := range b.Settles {
		x.Outcome = store.SettleWritten
	}
	return nil
}

// bench runs a writer on a script until the end of the bubble's function.
type bench struct {
	w         *store.Writer
	script    *script
	committed []*store.Batch
	cancel    context.CancelFunc
	done      chan error
}

func startWriter(t *testing.T, s *script, cfg store.WriterConfig) *bench {
	t.Helper()
	b := &bench{script: s, done: make(chan error, 1)}
	cfg.DB, cfg.Log = s, slog.New(slog.DiscardHandler)
	cfg.Committed = func(batch *store.Batch) { b.committed = append(b.committed, batch) }
	w, err := store.NewWriter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b.w = w
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(context.Background())
	go func() { b.done <- w.Run(ctx) }()
	return b
}

func (b *bench) stop(t *testing.T) {
	t.Helper()
	b.cancel()
	if err := <-b.done; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func accept(id int) *store.Accept { return &store.Accept{Event: hook.Event{ID: hook.ID(id)}} }

// acceptAll hands in accepts of one tenant, of which there may be none.
func acceptAll(w *store.Writer, accepts ...*store.Accept) error {
	var tenant hook.ID
	var l store.Load
	for _, a := range accepts {
		tenant, l = a.Event.TenantID, l.Plus(store.LoadOf(len(a.Deliveries), len(a.Event.Payload)))
	}
	return w.Accept(tenant, l, func() []*store.Accept { return accepts })
}

func TestWriterBatchesWhatQueuedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: time.Millisecond}, store.WriterConfig{MaxBatch: 50})
		var wg sync.WaitGroup
		for i := range 120 {
			wg.Go(func() {
				if err := acceptAll(b.w, accept(i)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b.stop(t)
		if n := len(b.script.batches); n < 3 || n > 4 {
			t.Errorf("%d commits for 120 accepts that came at once, want 3 or 4 of at most 50", n)
		}
		for _, batch := range b.script.batches {
			if len(batch.Accepts) > 50 {
				t.Errorf("a batch of %d, want at most 50", len(batch.Accepts))
			}
		}
	})
}

func TestWriterAnswersAfterCommitAndHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: time.Second}, store.WriterConfig{})
		began := time.Now()
		a := accept(1)
		if err := acceptAll(b.w, a); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) < time.Second || a.Outcome != store.AcceptStored {
			t.Errorf("answered after %v with outcome %d, want after the commit", time.Since(began), a.Outcome)
		}
		if len(b.committed) != 1 {
			t.Error("answered before the batch was handed over")
		}
		b.stop(t)
	})
}

func TestWriterRunsUnknownOutcomesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: func(n int, _ *store.Batch) error {
			if n < 5 {
				return errors.New("connection lost")
			}
			return nil
		}}
		b := startWriter(t, s, store.WriterConfig{})
		first, second := accept(1), accept(2)
		go b.w.Settle(&store.Settle{}, nil)
		if err := acceptAll(b.w, first, second); err != nil {
			t.Fatal(err)
		}
		b.stop(t)
		for i, batch := range s.batches[:5] {
			if batch.Rerun != (i > 0) {
				t.Errorf("commit %d has Rerun %v", i+1, batch.Rerun)
			}
			if len(batch.Accepts) > 0 && batch.Accepts[0] != first {
				t.Errorf("commit %d is not the same batch", i+1)
			}
		}
	})
}

func TestWriterNeverPromisesWithoutCommit(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"unknown until the deadline": {lost, hook.ErrStoreUnavailable},
		"full":                       {hook.ErrStoreFull, hook.ErrStoreFull},
		"refused":                    {store.ErrRefused, hook.ErrStoreUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{fail: func(int, *store.Batch) error { return tc.err }}
				b := startWriter(t, s, store.WriterConfig{})
				if err := acceptAll(b.w, accept(1)); !errors.Is(err, tc.want) {
					t.Errorf("Accept = %v, want %v", err, tc.want)
				}
				s.mu.Lock()
				s.fail = nil
				s.mu.Unlock()
				b.stop(t)
			})
		})
	}
}

func TestWriterKeepsResultsWhileFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: func(int, *store.Batch) error { return hook.ErrStoreFull }}
		b := startWriter(t, s, store.WriterConfig{})
		settle := &store.Settle{}
		b.w.Settle(settle, &store.LaneSave{Endpoint: 7})
		if err := acceptAll(b.w, accept(1)); !errors.Is(err, hook.ErrStoreFull) {
			t.Errorf("Accept = %v, want full", err)
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.fail = nil
		s.mu.Unlock()
		time.Sleep(5 * time.Second)
		b.stop(t)
		if settle.Outcome != store.SettleWritten {
			t.Error("a result was lost while the store was full")
		}
		lanes := 0
		for _, batch := range b.committed {
			lanes += len(batch.Lanes)
		}
		if lanes != 1 {
			t.Errorf("%d lane checkpoints committed, want 1", lanes)
		}
	})
}

// TestWriterIsolatesTheRefusedRow: one bad row fails nobody else.
func TestWriterIsolatesTheRefusedRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{takes: time.Millisecond, fail: func(_ int, b *store.Batch) error {
			for _, a := range b.Accepts {
				if a.Event.ID == 13 {
					return fmt.Errorf("%w: event 13", store.ErrRefused)
				}
			}
			return nil
		}}
		b := startWriter(t, s, store.WriterConfig{})
		var wg sync.WaitGroup
		settle := &store.Settle{}
		wg.Go(func() { b.w.Settle(settle, nil) })
		for i := range 30 {
			wg.Go(func() {
				err := acceptAll(b.w, accept(i))
				if refused := err != nil; refused != (i == 13) {
					t.Errorf("accept %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		b.stop(t)
		if settle.Outcome != store.SettleWritten {
			t.Error("a result was lost beside the refused row")
		}
	})
}

func TestWriterEndsWithAFatalError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{fail: func(int, *store.Batch) error { return fmt.Errorf("%w: fsync", store.ErrFatal) }}
		b := startWriter(t, s, store.WriterConfig{})
		if err := acceptAll(b.w, accept(1)); !errors.Is(err, hook.ErrStoreUnavailable) {
			t.Errorf("Accept = %v, want unavailable", err)
		}
		if err := <-b.done; !errors.Is(err, store.ErrFatal) {
			t.Errorf("Run = %v, want the fatal error", err)
		}
		if err := acceptAll(b.w, accept(2)); !errors.Is(err, hook.ErrStoreUnavailable) {
			t.Errorf("Accept after the end = %v, want unavailable", err)
		}
		if n := len(s.batches); n != 1 {
			t.Errorf("%d commits, want 1: a failed fsync is never tried again", n)
		}
		b.cancel()
	})
}

func TestWriterFinishesAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: time.Second}, store.WriterConfig{MaxBatch: 2})
		var settles []*store.Settle
		for range 7 {
			s := &store.Settle{}
			settles = append(settles, s)
			b.w.Settle(s, nil)
		}
		b.stop(t)
		for i, s := range settles {
			if s.Outcome != store.SettleWritten {
				t.Errorf("result %d was not stored before the end", i)
			}
		}
		if err := acceptAll(b.w, accept(1)); !errors.Is(err, hook.ErrDraining) {
			t.Errorf("Accept after the end = %v, want draining", err)
		}
	})
}

// TestWriterGathers: with many publishers on a fast disk commits wait for each
// other's rows; a lone publisher never waits.
func TestWriterGathers(t *testing.T) {
	t.Parallel()
	const each = 50
	for name, tc := range map[string]struct {
		publishers  int
		longest     time.Duration
		mostCommits int
	}{
		"many":  {publishers: 16, longest: time.Second, mostCommits: each + each/5},
		"alone": {publishers: 1, longest: each * time.Millisecond, mostCommits: each},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := startWriter(t, &script{takes: 100 * time.Microsecond}, store.WriterConfig{})
				began := time.Now()
				var wg sync.WaitGroup
				for p := range tc.publishers {
					wg.Go(func() {
						for i := range each {
							if err := acceptAll(b.w, accept(p*each+i)); err != nil {
								t.Error(err)
							}
							time.Sleep(time.Duration(p) * 50 * time.Microsecond) // out of step
						}
					})
				}
				wg.Wait()
				took := time.Since(began)
				b.stop(t)
				if n := len(b.committed); n > tc.mostCommits || took > tc.longest {
					t.Errorf("%d commits in %v, want at most %d in %v", n, took, tc.mostCommits, tc.longest)
				}
			})
		})
	}
}

// TestWriterTellsWhatWaits: those who watch hear how long commits take and how many
// rows share them, and can see what waits meanwhile.
func TestWriterTellsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows []int
		var times []time.Duration
		b := startWriter(t, &script{takes: time.Second}, store.WriterConfig{Timed: func(n int, took time.Duration) {
			rows, times = append(rows, n), append(times, took)
		}})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if err := acceptAll(b.w, accept(i+1)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		b.w.Settle(&store.Settle{}, nil)
		if got, want := b.w.Waiting(), (store.Waiting{Accepts: store.Load{Rows: 2}, Results: 1}); got != want {
			t.Errorf("waiting = %+v, want %+v: one is being committed", got, want)
		}
		wg.Wait()
		b.stop(t)
		if got := b.w.Waiting(); got != (store.Waiting{}) {
			t.Errorf("waiting at the end = %+v", got)
		}
		if fmt.Sprint(rows) != "[1 3]" || fmt.Sprint(times) != "[1s 1s]" {
			t.Errorf("commits of %v rows took %v", rows, times)
		}
	})
}
