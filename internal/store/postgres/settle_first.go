package postgres

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// settleFirst is settleBatch for deliveries whose first attempt succeeded, which
// are nearly all. A quarter of the columns tells everything: a new delivery has
// no schedule, progress, reason or replay that could change, its attempt explains
// no wait, and what the attempt says is also the last result. Class and reason
// of a success are both number 1.
const settleFirst visible.SQL = `
WITH written AS (
  UPDATE deliveries d SET
    state = CASE d.state WHEN 0 THEN 1 ELSE d.state END,
    settled_at = CASE d.state WHEN 0 THEN r.at ELSE d.settled_at END,
    attempts = 1, charged = r.charged::int, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL,
    last_attempt_id = r.attempt_id, last_class = 1, last_reason = 1, last_status = nullif(r.status, 0),
    last_latency_us = nullif(r.latency_us, 0), last_at = r.at, first_delivered_at = coalesce(d.first_delivered_at, r.at)
  FROM (
    SELECT unnest($3::bigint[]) AS fence, unnest($4::bigint[]) AS id, unnest($5::timestamptz[]) AS at, unnest($6::bigint[]) AS attempt_id,
      unnest($7::smallint[]) AS kind, unnest($8::bool[]) AS charged, unnest($9::smallint[]) AS status, unnest($10::int[]) AS latency_us,
      unnest($11::timestamptz[]) AS started_at, unnest($12::float8[]) AS u, unnest($13::bytea[]) AS policy_hash,
      unnest($14::json[]) AS detail, unnest($15::bytea[]) AS excerpt) AS r
  WHERE d.id = r.id AND d.attempts = 0 AND (d.run = 1 OR d.state <> 0)
    AND ` + settleFew + ` AND ` + settleOwned + `
  RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.size, d.state = 1 AND d.settled_at = r.at AS ended,
    r.attempt_id, r.kind, r.charged, r.status, r.latency_us, r.started_at, r.u, r.policy_hash, r.detail, r.excerpt,
    256 + coalesce(octet_length(r.detail::text), 0) + coalesce(octet_length(r.excerpt), 0) AS weight),
logged AS (
  INSERT INTO attempts (id, tenant_id, delivery_id, endpoint_id, event_id, node_id, started_at, u, n, run, latency_us, status, kind,
    class, reason, charged, policy_hash, detail, excerpt)
  SELECT w.attempt_id, w.tenant_id, w.id, w.endpoint_id, w.event_id, $1, w.started_at, nullif(w.u, 0), 1, 1, w.latency_us,
    nullif(w.status, 0), w.kind, 1, 1, w.charged, w.policy_hash, w.detail, w.excerpt
  FROM written w)` + settleFreed + settleResult

// allFirst reports whether settleFirst can write all of the settles. They are not
// parted when it can write only some: rows are locked by id, and a second
// statement costs more than it saves on a hundred deliveries.
func allFirst(settles []*store.Settle, node hook.ID) bool {
	for _, s := range settles {
		if !isFirst(s, node) {
			return false
		}
	}
	return true
}

// isFirst reports whether settleFirst can write the settle: the success of the
// first attempt that its delivery ever had.
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

// isPlain reports whether nothing but what settleFirst takes is to be told of an
// attempt.
func isPlain(a *hook.Attempt, node hook.ID) bool {
	return a.NodeID == node && a.Number == 1 && a.Run == 1 && a.Class == hook.Success && a.Reason == hook.OK && a.RetryN == 0 &&
		a.Ceiling == 0 && a.Delay == 0 && a.DelaySource == 0 && a.NextDueAt.IsZero() && a.Error == ""
}

// addFirst adds the columns of settleFirst from at on, in its order.
func (r *run) addFirst(settles []*store.Settle) {
	c := columns[*store.Settle]{r.pipeline, settles}
	c.times(func(s *store.Settle) time.Time { return s.Delivery.SettledAt })
	c.int8s(func(s *store.Settle) int64 { return int64(s.Attempt.ID) })
	c.int2s(func(s *store.Settle) int { return int(s.Attempt.Kind) })
	c.bools(func(s *store.Settle) bool { return s.Attempt.Charged })
	c.int2s(func(s *store.Settle) int { return s.Attempt.Status })
	c.int4s(func(s *store.Settle) int { return int(s.Attempt.Latency.Microseconds()) })
	c.times(func(s *store.Settle) time.Time { return s.Attempt.StartedAt })
	c.float8s(func(s *store.Settle) float64 { return s.Attempt.U })
	c.byteas(func(s *store.Settle) []byte { return s.Attempt.PolicyHash[:] })
	c.jsons(func(dst []byte, s *store.Settle) []byte { return store.AppendDetail(dst, &s.Attempt.Detail) })
	c.byteas(func(s *store.Settle) []byte { return s.Attempt.Excerpt })
}
