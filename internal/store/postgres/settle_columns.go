package postgres

import (
	"encoding/json"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
)

// addSettles adds the columns of settleBatch from prev on, in its order.
func (r *run) addSettles(settles []*store.Settle) error {
	c := pipeline.Of(r.Pipeline, settles)
	c.Int4s(func(s *store.Settle) int { return s.Prev })
	addState(c)
	addProgress(c)
	if err := addLimited(c); err != nil {
		return err
	}
	addRestore(c)
	addLast(c)
	c.Times(func(s *store.Settle) time.Time { return s.Delivery.FirstDeliveredAt })
	r.addAttempts(settles)
	c.Times(func(s *store.Settle) time.Time { return s.Due })
	return nil
}

func addState(c pipeline.Columns[*store.Settle]) {
	c.Int2s(func(s *store.Settle) int { return int(s.Delivery.State) })
	c.Int2s(func(s *store.Settle) int { return int(s.Delivery.Reason) })
	c.Times(func(s *store.Settle) time.Time { return s.Delivery.SettledAt })
	c.Times(func(s *store.Settle) time.Time { return s.Delivery.DueAt })
	c.Times(func(s *store.Settle) time.Time { return s.Delivery.Progress.RunDueAt })
	c.Int4s(func(s *store.Settle) int { return s.Delivery.Progress.Run })
	c.Int8s(func(s *store.Settle) int64 { return int64(s.Delivery.ReplayID) })
}

func addProgress(c pipeline.Columns[*store.Settle]) {
	c.Int4s(func(s *store.Settle) int { return s.Delivery.Progress.Charged })
	c.Int4s(func(s *store.Settle) int { return s.Delivery.Progress.BackoffSteps })
	c.Int4s(func(s *store.Settle) int { return s.Delivery.Progress.FailedAttempts })
	c.Int4s(func(s *store.Settle) int { return s.Delivery.Progress.Throttles })
	c.Int4s(func(s *store.Settle) int { return int(s.Delivery.Progress.PrevDelay.Milliseconds()) })
}

// addLimited adds the tallies, of which there nearly never is one.
func addLimited(c pipeline.Columns[*store.Settle]) error {
	var failure error
	c.JSONs(func(dst []byte, s *store.Settle) []byte {
		tally := s.Delivery.Progress.Limited
		if len(tally) == 0 {
			return dst
		}
		text, err := json.Marshal(tally)
		if err != nil {
			failure = failed("encode tally", err)
		}
		return append(dst, text...)
	})
	return failure
}

func addRestore(c pipeline.Columns[*store.Settle]) {
	const none = -1
	c.Int2s(func(s *store.Settle) int {
		if s.Delivery.Restore == nil {
			return none
		}
		return int(s.Delivery.Restore.State)
	})
	c.Times(func(s *store.Settle) time.Time {
		if s.Delivery.Restore == nil {
			return time.Time{}
		}
		return s.Delivery.Restore.DueAt
	})
	c.Int2s(func(s *store.Settle) int {
		if s.Delivery.Restore == nil {
			return none
		}
		return int(s.Delivery.Restore.Reason)
	})
}

// addLast adds the last result. That of an attempt is the attempt's, whether or
// not the delivery names it already.
func addLast(c pipeline.Columns[*store.Settle]) {
	c.Int8s(func(s *store.Settle) int64 {
		if s.Attempt != nil {
			return int64(s.Attempt.ID)
		}
		return int64(s.Delivery.Last.AttemptID)
	})
	c.Int2s(func(s *store.Settle) int { return int(s.Delivery.Last.Class) })
	c.Int2s(func(s *store.Settle) int { return int(s.Delivery.Last.Reason) })
	c.Int2s(func(s *store.Settle) int { return s.Delivery.Last.Status })
	c.Int4s(func(s *store.Settle) int { return int(s.Delivery.Last.Latency.Microseconds()) })
	c.Times(func(s *store.Settle) time.Time { return s.Delivery.Last.At })
}

// noAttempt stands in for the attempt of a delivery that ends without one: its
// id 0 tells the statement so.
var noAttempt hook.Attempt

// addAttempts adds the columns of the attempts.
func (r *run) addAttempts(settles []*store.Settle) {
	attempts := make([]*hook.Attempt, len(settles))
	for i, s := range settles {
		if attempts[i] = s.Attempt; s.Attempt == nil {
			attempts[i] = &noAttempt
		}
	}
	c := pipeline.Of(r.Pipeline, attempts)
	c.Int8s(func(a *hook.Attempt) int64 { return int64(a.ID) })
	c.Int8s(func(a *hook.Attempt) int64 { return int64(a.NodeID) })
	c.Int4s(func(a *hook.Attempt) int { return a.Number })
	c.Int4s(func(a *hook.Attempt) int { return a.Run })
	c.Int2s(func(a *hook.Attempt) int { return int(a.Kind) })
	c.Int2s(func(a *hook.Attempt) int { return int(a.Class) })
	c.Int2s(func(a *hook.Attempt) int { return int(a.Reason) })
	c.Bools(func(a *hook.Attempt) bool { return a.Charged })
	c.Int2s(func(a *hook.Attempt) int { return a.Status })
	c.Int4s(func(a *hook.Attempt) int { return int(a.Latency.Microseconds()) })
	c.Times(func(a *hook.Attempt) time.Time { return a.StartedAt })
	c.Byteas(func(a *hook.Attempt) []byte { return a.PolicyHash[:] })
	c.Int4s(func(a *hook.Attempt) int { return a.RetryN })
	c.Int4s(func(a *hook.Attempt) int { return int(a.Ceiling.Milliseconds()) })
	c.Float8s(func(a *hook.Attempt) float64 { return a.U })
	c.Int4s(func(a *hook.Attempt) int { return int(a.Delay.Milliseconds()) })
	c.Int2s(func(a *hook.Attempt) int { return int(a.DelaySource) })
	c.Times(func(a *hook.Attempt) time.Time { return a.NextDueAt })
	c.Texts(func(a *hook.Attempt) string { return clean(a.Error) })
	c.JSONs(func(dst []byte, a *hook.Attempt) []byte { return store.AppendDetail(dst, &a.Detail) })
	c.Byteas(func(a *hook.Attempt) []byte { return a.Excerpt })
}
