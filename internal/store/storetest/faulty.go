package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// ErrInjected is the error of faults that name no other.
var ErrInjected = errors.New("injected fault")

// Fault is what happens to one commit.
type Fault struct {
	// Delay is waited before the commit, or until its context ends.
	Delay time.Duration
	// Before fails the commit with nothing written.
	Before error
	// After fails the commit although it succeeded: its outcome is unknown to
	// the caller, who finds no outcomes in the batch either.
	After error
}

// Plan decides the fault of each commit; calls are counted from 1. It is never
// called twice at once.
type Plan func(call int, b *store.Batch) Fault

// Faulty is a store whose commits fail by plan. Everything else passes through.
// It is safe for concurrent use.
type Faulty struct {
	store.DB

	mu    sync.Mutex
	plan  Plan
	calls int
}

// NewFaulty wraps db. A nil plan lets everything pass.
func NewFaulty(db store.DB, plan Plan) *Faulty { return &Faulty{DB: db, plan: plan} }

// SetPlan replaces the plan; nil lets everything pass. The count goes on.
func (f *Faulty) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Calls returns how many commits were asked for.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Commit commits b unless the plan says otherwise.
func (f *Faulty) Commit(ctx context.Context, b *store.Batch) error {
	fault := f.next(b)
	if err := wait(ctx, fault.Delay); err != nil {
		return err
	}
	if fault.Before != nil {
		return fault.Before
	}
	if err := f.DB.Commit(ctx, b); err != nil {
		return err
	}
	if fault.After != nil {
		forget(b)
		return fault.After
	}
	return nil
}

func (f *Faulty) next(b *store.Batch) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.plan == nil {
		return Fault{}
	}
	return f.plan(f.calls, b)
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// forget removes the outcomes from a batch, so that a caller that trusts them
// after an error is found out.
func forget(b *store.Batch) {
	for _, a := range b.Accepts {
		a.Outcome, a.EventID, a.Count = 0, 0, 0
	}
	for _, s := range b.Settles {
		s.Outcome = 0
	}
	for _, l := range b.Lanes {
		l.Outcome = 0
	}
}

// Rates are the shares of commits, in [0,1], that a seeded plan disturbs.
type Rates struct {
	Before, After, Delay float64
	MaxDelay             time.Duration // delays are uniform up to this
}

// Seeded returns a plan that disturbs commits at random, always the same way
// for the same seed and order of calls.
func Seeded(seed uint64, r Rates) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x62726561))
	return func(int, *store.Batch) Fault {
		// Draw all numbers every time: a changed rate then leaves the rest of
		// the schedule as it was.
		before, after, delay, length := rng.Float64(), rng.Float64(), rng.Float64(), rng.Float64()
		var f Fault
		if delay < r.Delay {
			f.Delay = time.Duration(length * float64(r.MaxDelay))
		}
		switch {
		case before < r.Before:
			f.Before = ErrInjected
		case after < r.After:
			f.After = ErrInjected
		}
		return f
	}
}
