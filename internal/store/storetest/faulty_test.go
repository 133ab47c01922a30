package storetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/storetest"
)

// counter is a store that counts its commits.
type counter struct {
	store.DB
	commits int
}

func (c *counter) Commit(_ context.Context, b *store.Batch) error {
	c.commits++
	for _, a := range b.Accepts {
		a.Outcome, a.EventID, a.Count = store.AcceptStored, a.Event.ID, 1
	}
	return nil
}

func TestFaulty(t *testing.T) {
	t.Parallel()
	errBefore, errAfter := errors.New("before"), errors.New("after")
	for name, tc := range map[string]struct {
		fault   storetest.Fault
		err     error
		commits int
		outcome store.AcceptOutcome
	}{
		"nothing": {commits: 1, outcome: store.AcceptStored},
		"before":  {fault: storetest.Fault{Before: errBefore}, err: errBefore},
		"after":   {fault: storetest.Fault{After: errAfter}, err: errAfter, commits: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &counter{}
			f := storetest.NewFaulty(db, func(int, *store.Batch) storetest.Fault { return tc.fault })
			a := &store.Accept{Event: hook.Event{ID: 1}}
			err := f.Commit(t.Context(), &store.Batch{Accepts: []*store.Accept{a}})
			if !errors.Is(err, tc.err) || db.commits != tc.commits || a.Outcome != tc.outcome || f.Calls() != 1 {
				t.Errorf("Commit = %v, %d commits, outcome %d, %d calls; want %v, %d, %d, 1",
					err, db.commits, a.Outcome, f.Calls(), tc.err, tc.commits, tc.outcome)
			}
		})
	}
}

func TestFaultyDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &counter{}
		f := storetest.NewFaulty(db, nil)
		f.SetPlan(func(int, *store.Batch) storetest.Fault { return storetest.Fault{Delay: time.Minute} })
		begin := time.Now()
		if err := f.Commit(t.Context(), &store.Batch{}); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("Commit = %v after %v, want nil after a minute", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Commit(ctx, &store.Batch{}); !errors.Is(err, context.DeadlineExceeded) || db.commits != 1 {
			t.Errorf("Commit = %v with %d commits, want DeadlineExceeded with 1", err, db.commits)
		}
	})
}

func TestSeededIsRepeatable(t *testing.T) {
	t.Parallel()
	rates := storetest.Rates{Before: 0.2, After: 0.3, Delay: 0.5, MaxDelay: time.Second}
	schedule := func(seed uint64) (out []storetest.Fault, before, after int) {
		plan := storetest.Seeded(seed, rates)
		for i := range 1000 {
			f := plan(i+1, nil)
			out = append(out, storetest.Fault{Delay: f.Delay})
			if f.Before != nil {
				before++
			}
			if f.After != nil {
				after++
			}
		}
		return out, before, after
	}
	first, before, after := schedule(1)
	again, _, _ := schedule(1)
	other, _, _ := schedule(2)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same seed gave another schedule:\n%s", diff)
	}
	if cmp.Equal(first, other) {
		t.Error("another seed gave the same schedule")
	}
	if before < 150 || before > 250 || after < 190 || after > 290 { // 0.2, and 0.3 of the rest
		t.Errorf("%d failed before, %d after; want about 200 and 240", before, after)
	}
}
