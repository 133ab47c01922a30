package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// settleBatch writes results:
//
//   - written: the delivery, while it has the number of attempts that the
//     owner knew, and while the owner owns the shard in that epoch. A delivery
//     that was cancelled meanwhile keeps its end but gets the result; one that
//     ends without an attempt must still be pending. One that was cancelled and
//     replayed meanwhile is in a later run, for which the result is too late.
//   - logged: the attempt, from what written returned, so that the two always
//     go together.
//   - freed: what is no longer pending, and what the attempts take, by the
//     weight of store.StoredByAttempt. The new row alone has to tell whether
//     it was pending before: then it has the state and the time of this settle.
//   - counted: what that means to replays. It is part of the statement only
//     when the batch holds deliveries of one.
//   - figures: the log of what it means to figures.
const (
	settleBatch  visible.SQL = settleRows + settleFigures + settleResult
	settleReplay visible.SQL = settleRows + settleCounts + settleFigures + settleResult

	settleRows visible.SQL = `
WITH written AS (
  UPDATE deliveries d SET
    state = CASE WHEN d.state = 0 AND NOT ` + settleManual + ` THEN r.state ELSE d.state END,
    reason = CASE WHEN d.state = 0 AND NOT ` + settleManual + ` THEN nullif(r.reason, 0) ELSE d.reason END,
    settled_at = CASE d.state WHEN 0 THEN r.settled_at ELSE d.settled_at END,
    due_at = CASE WHEN ` + settleManual + ` THEN d.due_at ELSE r.due_at END,
    run_due_at = r.run_due_at, replay_id = CASE WHEN r.state = 0 OR NOT ` + settleManual + ` THEN nullif(r.replay_id, 0) END,
    attempts = r.prev + CASE r.attempt_id WHEN 0 THEN 0 ELSE 1 END,
    charged = r.charged, failures = r.failures, fails = r.fails, throttles = r.throttles,
    prev_delay_ms = nullif(r.prev_delay_ms, 0), limited = r.limited::jsonb,
    restore_state = CASE WHEN ` + settleManual + ` THEN r.state ELSE r.restore_state END,
    restore_due_at = CASE WHEN ` + settleManual + ` THEN r.due_at ELSE r.restore_due_at END,
    restore_reason = CASE WHEN ` + settleManual + ` THEN r.reason ELSE r.restore_reason END,
    last_attempt_id = nullif(r.last_attempt_id, 0), last_class = nullif(r.last_class, 0), last_reason = nullif(r.last_reason, 0),
    last_status = nullif(r.last_status, 0), last_latency_us = nullif(r.last_latency_us, 0), last_at = r.last_at,
    first_delivered_at = coalesce(d.first_delivered_at, r.first_delivered_at)
  FROM (
    SELECT unnest($3::bigint[]) AS fence, unnest($4::bigint[]) AS id, unnest($5::int[]) AS prev,
      unnest($6::smallint[]) AS state, unnest($7::smallint[]) AS reason, unnest($8::timestamptz[]) AS settled_at,
      unnest($9::timestamptz[]) AS due_at, unnest($10::timestamptz[]) AS run_due_at, unnest($11::int[]) AS run,
      unnest($12::bigint[]) AS replay_id, unnest($13::int[]) AS charged, unnest($14::int[]) AS failures,
      unnest($15::int[]) AS fails, unnest($16::int[]) AS throttles, unnest($17::int[]) AS prev_delay_ms,
      unnest($18::json[]) AS limited, unnest($19::smallint[]) AS restore_state, unnest($20::timestamptz[]) AS restore_due_at,
      unnest($21::smallint[]) AS restore_reason, unnest($22::bigint[]) AS last_attempt_id,
      unnest($23::smallint[]) AS last_class, unnest($24::smallint[]) AS last_reason, unnest($25::smallint[]) AS last_status,
      unnest($26::int[]) AS last_latency_us, unnest($27::timestamptz[]) AS last_at,
      unnest($28::timestamptz[]) AS first_delivered_at, unnest($29::bigint[]) AS attempt_id, unnest($30::bigint[]) AS node_id,
      unnest($31::int[]) AS n, unnest($32::int[]) AS attempt_run, unnest($33::smallint[]) AS kind,
      unnest($34::smallint[]) AS class, unnest($35::smallint[]) AS attempt_reason, unnest($36::bool[]) AS attempt_charged,
      unnest($37::smallint[]) AS status, unnest($38::int[]) AS latency_us, unnest($39::timestamptz[]) AS started_at,
      unnest($40::bytea[]) AS policy_hash, unnest($41::int[]) AS retry_n, unnest($42::int[]) AS ceiling_ms,
      unnest($43::float8[]) AS u, unnest($44::int[]) AS delay_ms, unnest($45::smallint[]) AS delay_source,
      unnest($46::timestamptz[]) AS next_due_at, unnest($47::text[]) AS error, unnest($48::json[]) AS detail,
      unnest($49::bytea[]) AS excerpt,
      unnest($50::timestamptz[]) AS known_due) AS r
  WHERE d.id = r.id AND d.attempts = r.prev
    AND (d.state = 0 AND d.run = r.run AND (r.attempt_id <> 0 OR NOT ` + settleManual + `) OR d.state <> 0 AND r.attempt_id <> 0)
    AND ` + settleFew + ` AND ` + settleOwned + `
  RETURNING d.id, d.tenant_id, d.event_id, d.endpoint_id, d.size, r.state <> 0 AND d.state = r.state AND d.settled_at = r.settled_at AS ended,
    r.state <> 0 AND d.state IN (r.state, 0) AND d.settled_at = r.settled_at AS ended_for_replay, r.state AS new_state, r.replay_id, r.attempt_id, r.node_id, r.n, r.attempt_run, r.kind, r.class, r.attempt_reason, r.attempt_charged, r.status, r.latency_us,
    r.started_at, r.policy_hash, r.retry_n, r.ceiling_ms, r.u, r.delay_ms, r.delay_source, r.next_due_at, r.error, r.detail, r.excerpt,
    CASE r.attempt_id WHEN 0 THEN 0 ELSE 256 + coalesce(octet_length(r.detail::text), 0) + coalesce(octet_length(r.error), 0)
      + coalesce(octet_length(r.excerpt), 0) END AS weight),
logged AS (
  INSERT INTO attempts (id, tenant_id, delivery_id, endpoint_id, event_id, node_id, started_at, next_due_at, u, n, run, latency_us,
    retry_n, ceiling_ms, delay_ms, status, kind, class, reason, delay_source, charged, policy_hash, error, detail, excerpt)
  SELECT w.attempt_id, w.tenant_id, w.id, w.endpoint_id, w.event_id, w.node_id, w.started_at, w.next_due_at, nullif(w.u, 0), w.n, w.attempt_run, w.latency_us,
    nullif(w.retry_n, 0), nullif(w.ceiling_ms, 0), nullif(w.delay_ms, 0), nullif(w.status, 0), w.kind, w.class, w.attempt_reason,
    nullif(w.delay_source, 0), w.attempt_charged, w.policy_hash, nullif(w.error, ''), w.detail, w.excerpt
  FROM written w WHERE w.attempt_id <> 0)` + settleFreed

	// settleManual is an attempt that did not succeed, of a delivery that somebody
	// asked to be sent by hand meanwhile. It stays due for that, and if that fails,
	// too, it becomes what this attempt made of it.
	settleManual = `(d.state = 0 AND d.restore_state IS NOT NULL AND d.due_at IS DISTINCT FROM r.known_due AND r.class <> 1)`

	settleFreed = `,
freed AS (
  INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes, stored)
  SELECT tenant_id, $1, -count(*) FILTER (WHERE ended), -coalesce(sum(size) FILTER (WHERE ended), 0), sum(weight)
  FROM written GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id, node_id) DO UPDATE SET
    pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes, stored = u.stored + excluded.stored)`

	// settleFew is always true. It makes the planner think that the batch has one
	// row, so that it looks for each delivery by its key. While the table is small it
	// would otherwise read all deliveries and look for each in the batch, and go on
	// so when the table has grown, until it is analyzed.
	settleFew = `r.id > 0 AND r.attempt_id >= 0`

	// settleOwned keeps the results of shards that the node $1 owns in the epoch
	// it thinks. A fence is both in one number; $2 are the shards of
	// the batch, which are looked up once and hashed. IS TRUE keeps the planner
	// from making a join of it: with stale statistics of the tiny table that one
	// compared every row with every shard.
	settleOwned = `(r.fence IN (SELECT s.epoch * 256 + s.shard FROM shards s WHERE s.owner_id = $1 AND s.shard = ANY($2::smallint[]))) IS TRUE`

	// settleCounts knows the classes by their numbers: 1 success, 2 to 5 errors,
	// 6 refused for good. Attempts that failed on our side do not count.
	settleCounts = `,
counted AS (
  UPDATE replays p SET answers = p.answers + w.answers, errors = p.errors + w.errors, refused = p.refused + w.refused,
    delivered = p.delivered + w.delivered, failed = p.failed + w.failed
  FROM (
    SELECT replay_id, count(*) FILTER (WHERE attempt_id <> 0 AND class BETWEEN 1 AND 6) AS answers,
      count(*) FILTER (WHERE attempt_id <> 0 AND class BETWEEN 2 AND 5) AS errors,
      count(*) FILTER (WHERE attempt_id <> 0 AND class = 6) AS refused,
      count(*) FILTER (WHERE ended_for_replay AND new_state = 1) AS delivered,
      count(*) FILTER (WHERE ended_for_replay AND new_state <> 1) AS failed
    FROM written WHERE replay_id <> 0 GROUP BY replay_id ORDER BY replay_id) w
  WHERE p.id = w.replay_id)`

	// settleFigures stores the log of each result, and who is written and ended, only
	// when that is not as the caller thought: $54 are written and $55 end. What ends
	// although somebody asked for it by hand meanwhile ends, and its negative id tells
	// that it is pending again; where that may be, $54 is more than there are.
	settleFigures = `,
figures AS (
  INSERT INTO stats_log (at, data, written, ended)
  SELECT $51, CASE WHEN other THEN $53::bytea ELSE $52::bytea END,
    CASE WHEN other THEN array_to_string(ids, ',') END, CASE WHEN other THEN coalesce(array_to_string(ended, ','), '') END
  FROM (
    SELECT count(*) < $54::int OR count(*) FILTER (WHERE ended_for_replay) < $55::int AS other,
      array_agg(id) || array_agg(-id) FILTER (WHERE ended_for_replay AND NOT ended) AS ids, array_agg(id) FILTER (WHERE ended_for_replay) AS ended
    FROM written HAVING count(*) > 0 AND octet_length($52::bytea) > 0) AS w)`

	settleResult = `
SELECT array_agg(id) FROM written`
)

// settleRun is the settles of one run.
type settleRun struct {
	rounds []settleRound
}

// settleRound is one statement's worth: no delivery occurs twice.
type settleRound struct {
	settles []*store.Settle
	inserts []deferred.Row // if their rows come with them, and others that are inserted
	written []int64        // ids of the deliveries the transaction wrote
}

// queueSettles adds the settles to the pipeline, by delivery id: that is the
// order in which deletions lock the same rows.
func (r *run) queueSettles(shards []int) error {
	rest := slices.Clone(r.batch.Settles)
	slices.SortStableFunc(rest, func(a, b *store.Settle) int {
		return cmp.Or(cmp.Compare(a.Delivery.ID, b.Delivery.ID), cmp.Compare(a.Prev, b.Prev))
	})
	rest = r.insertFirst(rest)
	for len(rest) > 0 {
		var round []*store.Settle
		round, rest = oneOfEach(rest)
		r.settles.rounds = append(r.settles.rounds, settleRound{settles: round})
	}
	for i := range r.settles.rounds {
		if err := r.queueRound(&r.settles.rounds[i], shards); err != nil {
			return err
		}
	}
	return nil
}

// queueRound adds one statement of settles.
func (r *run) queueRound(round *settleRound, shards []int) error {
	r.Query(visible.Defers.Text(round.statement()), &round.written)
	r.ID(int64(r.batch.Node))
	pipeline.Of(r.Pipeline, shards).Int2s(func(shard int) int { return shard })
	if round.inserts != nil {
		r.addInserts(round.inserts)
	} else {
		c := pipeline.Of(r.Pipeline, round.settles)
		c.Int8s(fence)
		c.Int8s(func(s *store.Settle) int64 { return int64(s.Delivery.ID) })
		if err := r.addSettles(round.settles); err != nil {
			return err
		}
	}
	r.addSettled(round.settles)
	return nil
}

// addSettled adds what results count.
func (r *run) addSettled(settles []*store.Settle) {
	ends, reopen := int32(0), int32(0)
	r.figures.reset()
	for _, s := range settles {
		if s.Delivery.State != hook.Pending {
			ends++
		}
		if r.batch.Uncounted {
			continue
		}
		s.Log(&r.figures.all, true)
		s.Log(&r.figures.each, true)
		if s.MayReopen() {
			reopen++
			s.LogReopened(&r.figures.each)
		}
	}
	r.addFigures()
	r.Number(int32(len(settles)) + reopen)
	r.Number(ends)
}

func fence(s *store.Settle) int64 { return deferred.Fence(s.Shard, s.Epoch) }

// statement returns what writes the round. Replays are left alone unless a
// settle belongs to one.
func (r *settleRound) statement() visible.SQL {
	switch {
	case r.inserts != nil:
		return insertDelivered
	case slices.ContainsFunc(r.settles, func(s *store.Settle) bool { return s.Delivery.ReplayID != 0 }):
		return settleReplay
	default:
		return settleBatch
	}
}

// oneOfEach splits sorted settles into the first of each delivery and the
// others. Nearly always there are no others, and nothing is copied.
func oneOfEach(sorted []*store.Settle) (first, rest []*store.Settle) {
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Delivery.ID == sorted[i-1].Delivery.ID {
			first = append(first, sorted[:i]...)
			for _, s := range sorted[i:] {
				if s.Delivery.ID == first[len(first)-1].Delivery.ID {
					rest = append(rest, s)
				} else {
					first = append(first, s)
				}
			}
			return first, rest
		}
	}
	return sorted, nil
}

// explainSettles sets the outcomes.
func (r *run) explainSettles(ctx context.Context, conn *pgx.Conn) error {
	var open []*store.Settle
	for _, round := range r.settles.rounds {
		open = append(open, round.report()...)
	}
	if len(open) == 0 {
		return nil
	}
	return explainUnwritten(ctx, conn, open, r.batch)
}

// report marks what the transaction wrote and returns the rest.
func (r *settleRound) report() []*store.Settle {
	if len(r.written) == len(r.settles) {
		for _, s := range r.settles {
			s.Outcome = store.SettleWritten
		}
		return nil
	}
	written := make(map[int64]bool, len(r.written))
	for _, id := range r.written {
		written[id] = true
	}
	var open []*store.Settle
	for _, s := range r.settles {
		if written[int64(s.Delivery.ID)] {
			s.Outcome = store.SettleWritten
		} else {
			open = append(open, s)
		}
	}
	return open
}

// whyUnwritten tells whether the owner still owns, and whether the result is
// there already: the attempt's row, or the end that came without an attempt.
const whyUnwritten visible.SQL = `
SELECT r.i, coalesce((SELECT s.owner_id = $1 AND s.epoch = r.epoch FROM shards s WHERE s.shard = r.shard), false),
       CASE r.attempt_id WHEN 0
         THEN EXISTS (SELECT FROM deliveries d WHERE d.id = r.id AND d.attempts = r.prev AND d.state = r.state AND d.settled_at = r.settled_at)
         ELSE EXISTS (SELECT FROM attempts a WHERE a.id = r.attempt_id AND a.delivery_id = r.id)
           OR EXISTS (SELECT FROM deliveries d WHERE d.id = r.id AND (d.first_attempt::json ->> 'id')::bigint = r.attempt_id) END
FROM unnest($2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::smallint[], $7::timestamptz[], $8::bigint[])
  WITH ORDINALITY AS r(shard, epoch, id, prev, state, settled_at, attempt_id, i)`

// explainUnwritten sets the outcomes of settles that were not written. A
// take-over between the commit and this read can only turn gone into fenced,
// and the node is fenced by then.
func explainUnwritten(ctx context.Context, conn *pgx.Conn, open []*store.Settle, b *store.Batch) error {
	n := len(open)
	shards, prevs, states := make([]int32, n), make([]int32, n), make([]int16, n)
	epochs, ids, attempts := make([]int64, n), make([]int64, n), make([]int64, n)
	settled := make([]pgtype.Timestamptz, n)
	for i, s := range open {
		shards[i], epochs[i], ids[i], prevs[i] = int32(s.Shard), s.Epoch, int64(s.Delivery.ID), int32(s.Prev)
		states[i], settled[i] = int16(s.Delivery.State), at(s.Delivery.SettledAt)
		if s.Attempt != nil {
			attempts[i] = int64(s.Attempt.ID)
		}
	}
	rows, err := conn.Query(ctx, visible.Defers.Text(whyUnwritten), int64(b.Node), shards, epochs, ids, prevs, states, settled, attempts)
	if err != nil {
		return fmt.Errorf("explain settles: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var owns, there bool
		if err := rows.Scan(&i, &owns, &there); err != nil {
			return fmt.Errorf("explain settles: %w", err)
		}
		s := open[i-1]
		switch {
		case there && b.Rerun:
			s.Outcome = store.SettleWritten // by the first run
		case !owns:
			s.Outcome = store.SettleFenced
		default:
			s.Outcome = store.SettleGone
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("explain settles: %w", err)
	}
	return nil
}
