package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// settleBorn is settleFirst for deliveries without a row: it comes with the
// result, and with the attempt, which needs no row and no index then. Should the
// row have been written meanwhile, because somebody wanted to see it, it is
// changed as settleFirst would.
const settleBorn = `
WITH written AS (
  INSERT INTO deliveries AS d (id, tenant_id, event_id, endpoint_id, due_at, size, run_due_at, state, settled_at, attempts, charged,
    last_at, last_attempt_id, last_class, last_reason, last_status, last_latency_us, first_delivered_at, first_attempt, first_excerpt)
  SELECT r.id, r.tenant_id, r.event_id, r.endpoint_id, r.due_at, r.size, r.due_at, 1, r.at, 1, r.charged::int,
    r.at, r.attempt_id, 1, 1, nullif(r.status, 0), nullif(r.latency_us, 0), r.at, r.attempt, r.excerpt
  FROM (
    SELECT unnest($3::bigint[]) AS fence, unnest($4::bigint[]) AS id, unnest($5::bigint[]) AS tenant_id, unnest($6::bigint[]) AS event_id,
      unnest($7::bigint[]) AS endpoint_id, unnest($8::timestamptz[]) AS due_at, unnest($9::int[]) AS size,
      unnest($10::timestamptz[]) AS at, unnest($11::bigint[]) AS attempt_id, unnest($12::bool[]) AS charged, unnest($13::smallint[]) AS status,
      unnest($14::int[]) AS latency_us, unnest($15::text[]) AS attempt, unnest($16::bytea[]) AS excerpt) AS r
  WHERE ` + settleOwned + `
  ON CONFLICT (id) DO UPDATE SET
    state = CASE d.state WHEN 0 THEN 1 ELSE d.state END,
    settled_at = CASE d.state WHEN 0 THEN excluded.settled_at ELSE d.settled_at END,
    attempts = 1, charged = excluded.charged, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL,
    last_attempt_id = excluded.last_attempt_id, last_class = 1, last_reason = 1, last_status = excluded.last_status,
    last_latency_us = excluded.last_latency_us, last_at = excluded.last_at,
    first_delivered_at = coalesce(d.first_delivered_at, excluded.first_delivered_at),
    first_attempt = excluded.first_attempt, first_excerpt = excluded.first_excerpt
  WHERE d.event_id = excluded.event_id AND d.attempts = 0 AND (d.run = 1 OR d.state <> 0)
  RETURNING d.id, d.tenant_id, d.size, d.state = 1 AND d.settled_at = d.last_at AS ended)` + settleFreed + settleResult

// addBorn adds the columns of settleBorn from at on, in its order.
func (r *run) addBorn(settles []*store.Settle) {
	c := columns[*store.Settle]{r.pipeline, settles}
	c.times(func(s *store.Settle) time.Time { return s.Delivery.SettledAt })
	c.int8s(func(s *store.Settle) int64 { return int64(s.Attempt.ID) })
	c.bools(func(s *store.Settle) bool { return s.Attempt.Charged })
	c.int2s(func(s *store.Settle) int { return s.Attempt.Status })
	c.int4s(func(s *store.Settle) int { return int(s.Attempt.Latency.Microseconds()) })
	c.appended(pgtype.TextOID, func(dst []byte, s *store.Settle) []byte { return store.AppendAttempt(dst, s.Attempt) })
	c.byteas(func(s *store.Settle) []byte { return s.Attempt.Excerpt })
}

// settleUnwritten makes a round of the results that come with the row of their
// delivery and returns the others. Only a plain success can: for any other
// result the row is written as it was accepted, and changed like other rows.
func (r *run) settleUnwritten(settles []*store.Settle) (rest []*store.Settle) {
	var round settleRound
	rest = settles[:0]
	for _, s := range settles {
		t, ok := r.late.take(s.Delivery.ID)
		if ok && isFirst(s, r.batch.Node) && store.PlainAttempt(s.Attempt) {
			round.settles, round.born = append(round.settles, s), append(round.born, t)
			continue
		}
		if ok {
			r.late.owed = append(r.late.owed, t)
		}
		rest = append(rest, s)
	}
	if len(round.settles) > 0 {
		r.settles.rounds = append(r.settles.rounds, round)
	}
	return rest
}
