package postgres

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// isFirst reports whether the row of a delivery can be inserted with the result: the
// success of the first attempt that it ever had. What such an attempt says is also
// the last result, and the delivery has no schedule, progress, reason or replay that
// the row would have to tell of.
func isFirst(s *store.Settle, node hook.ID) bool {
	d, p, a := &s.Delivery, &s.Delivery.Progress, s.Attempt
	return a != nil && d.State == hook.Delivered && s.Prev == 0 && p.Run == 1 && d.Reason == 0 && d.ReplayID == 0 && d.Restore == nil &&
		p.BackoffSteps == 0 && p.FailedAttempts == 0 && p.Throttles == 0 && p.PrevDelay == 0 && len(p.Limited) == 0 && p.Charged == charge(a) &&
		toldByAttempt(s) && isPlain(a, node)
}

// charge is what the attempt took from the budget.
func charge(a *hook.Attempt) int {
	if a.Charged {
		return 1
	}
	return 0
}

// toldByAttempt reports whether the delivery ended, and for the first time, when
// and how its last attempt did.
func toldByAttempt(s *store.Settle) bool {
	d, last, a := &s.Delivery, &s.Delivery.Last, s.Attempt
	return d.SettledAt.Equal(last.At) && d.FirstDeliveredAt.Equal(last.At) && last.Class == a.Class && last.Reason == a.Reason &&
		last.Status == a.Status && last.Latency == a.Latency
}

// isPlain reports whether there is nothing to tell of an attempt but what
// insertDelivered takes.
func isPlain(a *hook.Attempt, node hook.ID) bool {
	return a.NodeID == node && a.Number == 1 && a.Run == 1 && a.Class == hook.Success && a.Reason == hook.OK && a.RetryN == 0 &&
		a.Ceiling == 0 && a.Delay == 0 && a.DelaySource == 0 && a.NextDueAt.IsZero() && a.Error == ""
}
