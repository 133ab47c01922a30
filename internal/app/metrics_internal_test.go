package app

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
)

func TestRefusalsHaveReasons(t *testing.T) {
	t.Parallel()
	for want, errs := range map[string][]error{
		"invalid":           {&hook.Invalid{Code: "type_invalid"}, hook.ErrUnknownTarget, hook.ErrNotFound},
		"too_large":         {hook.ErrTooLarge},
		"fanout_too_large":  {hook.ErrFanoutTooBig, &hook.Invalid{Code: "fanout_too_large"}},
		"key_reused":        {hook.ErrKeyReused},
		"rate_limited":      {hook.ErrRateLimited},
		"backlog_full":      {hook.ErrBacklogFull},
		"tenant_full":       {hook.ErrTenantFull},
		"store_full":        {hook.ErrStoreFull},
		"overloaded":        {hook.ErrOverloaded},
		"shutting_down":     {hook.ErrDraining},
		"store_unavailable": {hook.ErrStoreUnavailable, errors.New("anything else"), context.DeadlineExceeded},
		"publisher_gone":    {context.Canceled},
	} {
		for _, err := range errs {
			if got := refusalOf(fmt.Errorf("accept: %w", err)); got.String() != want {
				t.Errorf("%v is counted as %s, want %s", err, got, want)
			}
		}
	}
}

// refusingIngest takes every second event.
type refusingIngest struct{}

func (refusingIngest) Accept(context.Context, hook.ID, *hook.Submission) (hook.Receipt, error) {
	return hook.Receipt{}, hook.ErrRateLimited
}

func (refusingIngest) AcceptBatch(_ context.Context, _ hook.ID, subs []hook.Submission) []hook.Result {
	out := make([]hook.Result, len(subs))
	for i := range out {
		if i%2 == 1 {
			out[i].Err = hook.ErrBacklogFull
		}
	}
	return out
}

func TestRefusedEventsArePassedOn(t *testing.T) {
	t.Parallel()
	in := countingIngest{refusingIngest{}, metric.New(metric.Sources{})}
	if _, err := in.Accept(t.Context(), 1, &hook.Submission{}); !errors.Is(err, hook.ErrRateLimited) {
		t.Errorf("Accept = %v", err)
	}
	results := in.AcceptBatch(t.Context(), 1, make([]hook.Submission, 4))
	if len(results) != 4 || results[0].Err != nil || !errors.Is(results[3].Err, hook.ErrBacklogFull) {
		t.Errorf("AcceptBatch = %v", results)
	}
}
