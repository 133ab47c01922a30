package store_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// counted returns what a settle means to the figures of its endpoint.
func counted(t *testing.T, s *store.Settle) stats.Counts {
	t.Helper()
	var l stats.Log
	s.Log(&l, true)
	sums := make(stats.Sums)
	if err := sums.Add(&stats.Record{At: s.Delivery.SettledAt, Packed: l.Packed()}); err != nil {
		t.Fatal(err)
	}
	for _, r := range sums.Rows() {
		if r.Subject.Level == stats.OfEndpoint {
			return r.Counts
		}
	}
	t.Fatal("nothing was counted")
	return stats.Counts{}
}

func TestDeliveredAgainCountsWhatThatTook(t *testing.T) {
	accepted := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	asked := accepted.Add(7 * 24 * time.Hour)
	delivered := func(kind hook.AttemptKind, p hook.Progress) *store.Settle {
		return &store.Settle{
			Due: asked,
			Delivery: hook.Delivery{
				ID: 1, TenantID: 2, EndpointID: 3, State: hook.Delivered, Attempts: 17, SettledAt: asked.Add(time.Second), Progress: p,
			},
			Attempt: &hook.Attempt{ID: 4, Kind: kind, Class: hook.Success, Reason: hook.OK, Number: 17},
		}
	}
	for name, c := range map[string]struct {
		settle *store.Settle
		tries  uint64
		took   time.Duration
	}{
		"a retry":                   {delivered(hook.Retry, hook.Progress{RunDueAt: accepted, FailedAttempts: 16}), 17, asked.Add(time.Second).Sub(accepted)},
		"the first of a replay":     {delivered(hook.Replay, hook.Progress{RunDueAt: asked}), 1, time.Second},
		"the third of a replay":     {delivered(hook.Retry, hook.Progress{RunDueAt: asked, FailedAttempts: 2}), 3, time.Second},
		"by hand, after its end":    {delivered(hook.Manual, hook.Progress{RunDueAt: accepted, FailedAttempts: 16}), 1, time.Second},
		"by hand, a delivered once": {delivered(hook.Manual, hook.Progress{RunDueAt: accepted}), 1, time.Second},
	} {
		got := counted(t, c.settle)
		if n := got.Get(stats.TriesOfDelivered); n != c.tries {
			t.Errorf("%s: %d tries, want %d", name, n, c.tries)
		}
		if got.Get(stats.DeliveryTook(c.took)) != 1 || got.DeliveryTimes().Count() != 1 {
			t.Errorf("%s: took %v, want %v", name, got.DeliveryTimes().Quantile(1), c.took)
		}
	}
}

func TestSendByHandThatFailedIsNoDeliveryTime(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	s := &store.Settle{
		Due: at.Add(time.Hour),
		Delivery: hook.Delivery{ // as it was before
			ID: 1, TenantID: 2, EndpointID: 3, State: hook.Delivered, Attempts: 2, SettledAt: at.Add(time.Second), Progress: hook.Progress{RunDueAt: at},
		},
		Attempt:  &hook.Attempt{ID: 4, Kind: hook.Manual, Class: hook.Down, Reason: hook.ServerError, Number: 2},
		Restored: true,
	}
	got := counted(t, s)
	if n := got.DeliveryTimes().Count(); n != 0 {
		t.Errorf("%d delivery times of a send that failed", n)
	}
	if delivered, restored := got.AllDelivered(), got.Get(stats.Restored); delivered != 0 || restored != 1 {
		t.Errorf("%d delivered and %d restored, want 0 and 1: it was reopened, and is again what it was", delivered, restored)
	}
}
