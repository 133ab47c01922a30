package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// insertDelivered writes rows that deliveries lack. Those of plain successes come with
// the result, and with the attempt, which needs no row and no index then. Should
// the row have been written meanwhile, because somebody wanted to see it, it is
// changed as settleBatch would. The others, without attempt, come as they were
// accepted; one that is there already is the one that is wanted.
//
// It is one statement in the order of ids, as insertDeferred is: two who write the
// same rows cannot wait for each other.
const insertDelivered visible.SQL = `
WITH written AS (
  INSERT INTO deliveries AS d (id, tenant_id, event_id, endpoint_id, due_at, size, run_due_at, state, charged, attempts, settled_at,
    last_class, last_attempt_id, last_reason, last_status, last_latency_us, last_at, first_attempt, first_excerpt, first_delivered_at)
  SELECT r.id, r.tenant_id, r.event_id, r.endpoint_id, r.due_at, r.size, r.due_at, r.n, r.charged::int, r.n, r.at,
    nullif(r.n, 0), nullif(r.attempt_id, 0), nullif(r.n, 0), nullif(r.status, 0), nullif(r.latency_us, 0), r.at, r.attempt, r.excerpt, r.at
  FROM (
    SELECT unnest($3::bigint[]) AS fence, unnest($4::bigint[]) AS id, unnest($5::bigint[]) AS tenant_id, unnest($6::bigint[]) AS event_id,
      unnest($7::bigint[]) AS endpoint_id, unnest($8::timestamptz[]) AS due_at, unnest($9::int[]) AS size, unnest($10::smallint[]) AS n,
      unnest($11::timestamptz[]) AS at, unnest($12::bigint[]) AS attempt_id, unnest($13::bool[]) AS charged, unnest($14::smallint[]) AS status,
      unnest($15::int[]) AS latency_us, unnest($16::text[]) AS attempt, unnest($17::bytea[]) AS excerpt) AS r
  WHERE r.n = 0 OR ` + settleOwned + `
  ON CONFLICT (id) DO UPDATE SET
    state = CASE d.state WHEN 0 THEN 1 ELSE d.state END,
    settled_at = CASE d.state WHEN 0 THEN excluded.settled_at ELSE d.settled_at END,
    attempts = 1, charged = excluded.charged, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL,
    last_attempt_id = excluded.last_attempt_id, last_class = 1, last_reason = 1, last_status = excluded.last_status,
    last_latency_us = excluded.last_latency_us, last_at = excluded.last_at,
    first_delivered_at = coalesce(d.first_delivered_at, excluded.first_delivered_at),
    first_attempt = excluded.first_attempt, first_excerpt = excluded.first_excerpt
  WHERE excluded.attempts = 1 AND d.event_id = excluded.event_id AND d.attempts = 0 AND (d.run = 1 OR d.state <> 0)
  RETURNING d.id, d.tenant_id, d.size, d.attempts, d.state = 1 AND d.settled_at = d.last_at AS ended,
    CASE d.attempts WHEN 0 THEN 0 ELSE 256 + octet_length(d.first_attempt) + coalesce(octet_length(d.first_excerpt), 0) END AS weight)` + settleFreed + `,
figures AS (
  INSERT INTO stats_log (at, data, written, ended)
  SELECT $18, CASE WHEN other THEN $20::bytea ELSE $19::bytea END,
    CASE WHEN other THEN array_to_string(ids, ',') END, CASE WHEN other THEN coalesce(array_to_string(ended, ','), '') END
  FROM (
    SELECT count(*) < $21::int OR count(*) FILTER (WHERE ended) < $22::int AS other, array_agg(id) AS ids, array_agg(id) FILTER (WHERE ended) AS ended
    FROM written WHERE attempts = 1 HAVING count(*) > 0 AND octet_length($19::bytea) > 0) AS w)
SELECT array_agg(id) FROM written WHERE attempts = 1`

// noResult stands in for the settle of a row without one.
var noResult = store.Settle{Attempt: &hook.Attempt{}}

// resultOf returns the settle of the row.
func resultOf(r deferred.Row) *store.Settle {
	if r.Settle == nil {
		return &noResult
	}
	return r.Settle
}

// insertFirst makes a round of the rows that are inserted now, with the results that
// come with them, and returns the other results. Only a plain success can come with
// its row.
func (r *run) insertFirst(settles []*store.Settle) (rest []*store.Settle) {
	rows, rest := r.deferred.Insert(settles, func(s *store.Settle) bool {
		return isFirst(s, r.batch.Node)
	})
	if len(rows) == 0 {
		return rest
	}
	round := settleRound{inserts: rows}
	for _, row := range rows {
		if row.Settle != nil {
			round.settles = append(round.settles, row.Settle)
		}
	}
	r.settles.rounds = append(r.settles.rounds, round)
	return rest
}

// addInserts adds the columns of insertDelivered, in its order.
func (r *run) addInserts(rows []deferred.Row) {
	c := pipeline.Of(r.Pipeline, rows)
	c.Int8s(func(row deferred.Row) int64 { return fence(resultOf(row)) })
	c.Int8s(func(row deferred.Row) int64 { return int64(row.ID) })
	c.Int8s(func(row deferred.Row) int64 { return int64(row.Tenant) })
	c.Int8s(func(row deferred.Row) int64 { return int64(row.Event) })
	c.Int8s(func(row deferred.Row) int64 { return int64(row.Endpoint) })
	c.Times(func(row deferred.Row) time.Time { return row.Due })
	c.Int4s(func(row deferred.Row) int { return row.Size })
	c.Int2s(func(row deferred.Row) int {
		if row.Settle == nil {
			return 0
		}
		return 1
	})
	c.Times(func(row deferred.Row) time.Time { return resultOf(row).Delivery.SettledAt })
	c.Int8s(func(row deferred.Row) int64 { return int64(resultOf(row).Attempt.ID) })
	c.Bools(func(row deferred.Row) bool { return resultOf(row).Attempt.Charged })
	c.Int2s(func(row deferred.Row) int { return resultOf(row).Attempt.Status })
	c.Int4s(func(row deferred.Row) int { return int(resultOf(row).Attempt.Latency.Microseconds()) })
	c.Appended(pgtype.TextOID, func(dst []byte, row deferred.Row) []byte {
		if row.Settle == nil {
			return dst
		}
		return store.AppendAttempt(dst, row.Settle.Attempt)
	})
	c.Byteas(func(row deferred.Row) []byte { return resultOf(row).Attempt.Excerpt })
}
