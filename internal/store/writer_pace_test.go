package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestWriterGathersLongerUnderLoad: when very many rows come, commits that take
// the processor leave it to others half of the time; a burst alone does not do it.
func TestWriterGathersLongerUnderLoad(t *testing.T) {
	t.Parallel()
	half, full := func(int) int { return 10 }, func(int) int { return 22 }
	bursts := func(ms int) int {
		if ms%100 == 0 {
			return 200
		}
		return 5
	}
	for name, tc := range map[string]struct {
		rows  func(ms int) int // that come in each millisecond
		local bool
		takes time.Duration
		apart time.Duration
	}{
		"half load":                {half, true, 3 * time.Millisecond, 4 * time.Millisecond},
		"full load":                {full, true, 3 * time.Millisecond, 6 * time.Millisecond},
		"full load, quick commits": {full, true, 100 * time.Microsecond, 4 * time.Millisecond},
		"full load, slow commits":  {full, true, 8 * time.Millisecond, 10 * time.Millisecond},
		"full load elsewhere":      {full, false, 3 * time.Millisecond, 4 * time.Millisecond},
		"slow commits elsewhere":   {full, false, 8 * time.Millisecond, 8 * time.Millisecond},
		"bursts":                   {bursts, true, 3 * time.Millisecond, 4 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const length = 2000 // ms
				b := startWriter(t, &script{takes: tc.takes}, store.WriterConfig{Local: tc.local})
				for ms := range length {
					for range tc.rows(ms) {
						b.w.Settle(&store.Settle{}, nil)
					}
					time.Sleep(time.Millisecond)
				}
				b.stop(t)
				want := float64(length*time.Millisecond) / float64(tc.apart)
				if n := float64(len(b.committed)); n < 0.85*want || n > 1.15*want {
					t.Errorf("%v commits in 2 s, want about %v", n, want)
				}
			})
		})
	}
}

// TestResultsWaitForEachOther: results for which nobody waits share a commit, and
// publishers do not wait for that.
func TestResultsWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startWriter(t, &script{takes: time.Millisecond}, store.WriterConfig{SettleWait: 40 * time.Millisecond, SettleMany: 16})
		sizes := func() (out [][2]int) {
			synctest.Wait()
			for _, c := range b.committed {
				out = append(out, [2]int{len(c.Accepts), len(c.Settles)})
			}
			b.committed = nil
			return out
		}
		began := time.Now()
		b.w.Settle(&store.Settle{}, nil)
		time.Sleep(20 * time.Millisecond)
		if err := b.w.Accept(1, store.Load{Rows: 2}, func() []*store.Accept { return []*store.Accept{accept(1)} }); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 21*time.Millisecond {
			t.Errorf("the publisher has its answer after %v, want 21ms", took)
		}
		b.w.Settle(&store.Settle{}, &store.LaneSave{Endpoint: 1})
		time.Sleep(30 * time.Millisecond)
		if got := sizes(); !slices.Equal(got, [][2]int{{1, 0}, {0, 2}}) {
			t.Errorf("commits of accepts and settles: %v, want the accept alone, then both results", got)
		}
		for range 16 {
			b.w.Settle(&store.Settle{}, nil)
		}
		time.Sleep(10 * time.Millisecond)
		if got := sizes(); !slices.Equal(got, [][2]int{{0, 16}}) {
			t.Errorf("commits: %v, want many results at once", got)
		}
		b.w.Settle(&store.Settle{}, nil)
		b.stop(t)
		if got := sizes(); !slices.Equal(got, [][2]int{{0, 1}}) {
			t.Errorf("commits at the stop: %v, want the last result", got)
		}
	})
}

// tidied is a script with work between commits.
type tidied struct {
	script
	times int
	err   error
}

func (s *tidied) Tidy(context.Context) error {
	time.Sleep(20 * time.Millisecond)
	s.times++
	return s.err
}

// TestWriterTidiesWhileNobodyWaits: publishers have their answer before the
// store tidies up.
func TestWriterTidiesWhileNobodyWaits(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"works": nil, "finds no room": hook.ErrStoreFull} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := &tidied{script: script{takes: time.Millisecond}, err: failure}
				w, stop := runTidied(t, db)
				for i := range 5 {
					began := time.Now()
					if err := acceptAll(w, accept(i)); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > time.Millisecond {
						t.Errorf("an accept took %v, want 1ms", took)
					}
					time.Sleep(30 * time.Millisecond)
				}
				if err := stop(); err != nil || db.times != 5 {
					t.Errorf("tidied %d times, Run = %v; want 5 times and no error", db.times, err)
				}
			})
		})
	}
}

// TestWriterEndsWithAStoreThatIsLost: what tidying finds out counts.
func TestWriterEndsWithAStoreThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, stop := runTidied(t, &tidied{err: fmt.Errorf("sync the file: %w", store.ErrFatal)})
		if err := acceptAll(w, accept(1)); err != nil {
			t.Errorf("Accept = %v, want the answer of its commit", err)
		}
		time.Sleep(time.Second)
		if err := acceptAll(w, accept(2)); !errors.Is(err, hook.ErrStoreUnavailable) {
			t.Errorf("Accept after the failure = %v, want unavailable", err)
		}
		if err := stop(); !errors.Is(err, store.ErrFatal) {
			t.Errorf("Run = %v, want ErrFatal", err)
		}
	})
}

func runTidied(t *testing.T, db *tidied) (w *store.Writer, stop func() error) {
	t.Helper()
	w, err := store.NewWriter(store.WriterConfig{DB: db, Committed: func(*store.Batch) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return w, func() error {
		cancel()
		return <-done
	}
}
