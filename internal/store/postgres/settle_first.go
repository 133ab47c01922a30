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
	a := s.Attempt
	return s.FirstSuccess() && store.PlainAttempt(a) && s.Delivery.Progress.Charged == charge(a) && toldByAttempt(s) &&
		a.NodeID == node && a.Number == 1 && a.Run == 1 && a.Class == hook.Success && a.Reason == hook.OK
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
