package postgres

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
)

// saveLanes stores checkpoints, fenced like settles.
const saveLanes = `
WITH saved AS (INSERT INTO lanes AS l (endpoint_id, tenant_id, epoch, updated_at, state, open_reason, opened_at, closed_at, blocked_at, last_bad_at,
  next_probe_at, hold_until, throttled_at, base_us, srtt_us, retry_after_us, lim, base_weight, healthy_peak, pace, slow_start, pace_slow_start,
  failing_since, failing_attempts, failing_warned, usual, proven, recovery_rate, held_us, ceiling, ceiling_learnt, ceiling_at,
  ceiling_wait_us, mark, marked_at, host_rate, host_learnt)
SELECT r.endpoint_id, r.tenant_id, r.epoch, $2, r.state, nullif(r.open_reason, 0), r.opened_at, r.closed_at, r.blocked_at, r.last_bad_at,
  r.next_probe_at, r.hold_until, r.throttled_at, nullif(r.base_us, 0), nullif(r.srtt_us, 0), nullif(r.retry_after_us, 0),
  r.lim, r.base_weight, r.healthy_peak, r.pace, r.slow_start, r.pace_slow_start, r.failing_since, r.failing_attempts,
  r.failing_warned, r.usual, r.proven, r.recovery_rate, r.held_us, r.ceiling, r.ceiling_learnt, r.ceiling_at,
  r.ceiling_wait_us, r.mark, r.marked_at, r.host_rate, r.host_learnt
FROM (
    SELECT unnest($3::int[]) AS shard, unnest($4::bigint[]) AS epoch, unnest($5::bigint[]) AS endpoint_id,
      unnest($6::bigint[]) AS tenant_id, unnest($7::smallint[]) AS state, unnest($8::smallint[]) AS open_reason,
      unnest($9::timestamptz[]) AS opened_at, unnest($10::timestamptz[]) AS closed_at,
      unnest($11::timestamptz[]) AS blocked_at, unnest($12::timestamptz[]) AS last_bad_at,
      unnest($13::timestamptz[]) AS next_probe_at, unnest($14::timestamptz[]) AS hold_until,
      unnest($15::timestamptz[]) AS throttled_at, unnest($16::bigint[]) AS base_us, unnest($17::bigint[]) AS srtt_us,
      unnest($18::bigint[]) AS retry_after_us, unnest($19::float8[]) AS lim, unnest($20::float8[]) AS base_weight,
      unnest($21::float8[]) AS healthy_peak, unnest($22::float8[]) AS pace, unnest($23::bool[]) AS slow_start,
      unnest($24::bool[]) AS pace_slow_start, unnest($25::timestamptz[]) AS failing_since,
      unnest($26::bigint[]) AS failing_attempts, unnest($27::smallint[]) AS failing_warned,
      unnest($28::float8[]) AS usual, unnest($29::float8[]) AS proven, unnest($30::float8[]) AS recovery_rate,
      unnest($31::float8[]) AS ceiling, unnest($32::float8[]) AS ceiling_learnt, unnest($33::float8[]) AS mark,
      unnest($34::float8[]) AS host_rate, unnest($35::bigint[]) AS held_us, unnest($36::bigint[]) AS ceiling_wait_us,
      unnest($37::timestamptz[]) AS ceiling_at, unnest($38::timestamptz[]) AS marked_at,
      unnest($39::json[]) AS host_learnt) AS r
WHERE r.epoch = (SELECT s.epoch FROM shards s WHERE s.shard = r.shard AND s.owner_id = $1)
ON CONFLICT (endpoint_id) DO UPDATE SET
  epoch = excluded.epoch, updated_at = excluded.updated_at, state = excluded.state, open_reason = excluded.open_reason,
  opened_at = excluded.opened_at, closed_at = excluded.closed_at, blocked_at = excluded.blocked_at, last_bad_at = excluded.last_bad_at,
  next_probe_at = excluded.next_probe_at, hold_until = excluded.hold_until, throttled_at = excluded.throttled_at,
  base_us = excluded.base_us, srtt_us = excluded.srtt_us, retry_after_us = excluded.retry_after_us, lim = excluded.lim,
  base_weight = excluded.base_weight, healthy_peak = excluded.healthy_peak, pace = excluded.pace,
  slow_start = excluded.slow_start, pace_slow_start = excluded.pace_slow_start,
  failing_since = excluded.failing_since, failing_attempts = excluded.failing_attempts, failing_warned = excluded.failing_warned,
  usual = excluded.usual, proven = excluded.proven, recovery_rate = excluded.recovery_rate, held_us = excluded.held_us,
  ceiling = excluded.ceiling, ceiling_learnt = excluded.ceiling_learnt, ceiling_at = excluded.ceiling_at,
  ceiling_wait_us = excluded.ceiling_wait_us, mark = excluded.mark, marked_at = excluded.marked_at, host_rate = excluded.host_rate,
  host_learnt = excluded.host_learnt
RETURNING l.endpoint_id)
SELECT array_agg(endpoint_id) FROM saved`

// laneRun is the checkpoints of one run.
type laneRun struct {
	saves []*store.LaneSave
	saved []int64 // endpoints whose checkpoint the transaction wrote
}

// queueLanes adds the checkpoints to the pipeline, after the shard locks.
func (r *run) queueLanes() {
	if len(r.batch.Lanes) == 0 {
		return
	}
	r.lanes.saves = r.batch.Lanes
	r.Query(saveLanes, &r.lanes.saved)
	r.ID(int64(r.batch.Node))
	r.Time(r.batch.Now)
	r.addLanes(newestOfEach(r.batch.Lanes))
}

// newestOfEach drops checkpoints that a later one of the batch replaces: one
// statement cannot write a row twice.
func newestOfEach(saves []*store.LaneSave) []*store.LaneSave {
	last := make(map[hook.ID]*store.LaneSave, len(saves))
	for _, l := range saves {
		last[l.Endpoint] = l
	}
	newest := make([]*store.LaneSave, 0, len(last))
	for _, l := range saves {
		if last[l.Endpoint] == l {
			newest = append(newest, l)
		}
	}
	return newest
}

func (r *run) addLanes(saves []*store.LaneSave) {
	c := pipeline.Of(r.Pipeline, saves)
	c.Int4s(func(l *store.LaneSave) int { return l.Shard })
	c.Int8s(func(l *store.LaneSave) int64 { return l.Epoch })
	c.Int8s(func(l *store.LaneSave) int64 { return int64(l.Endpoint) })
	c.Int8s(func(l *store.LaneSave) int64 { return int64(l.Tenant) })
	c.Int2s(func(l *store.LaneSave) int { return laneState(l.Checkpoint.Open) })
	c.Int2s(func(l *store.LaneSave) int { return int(l.Checkpoint.OpenReason) })
	for _, at := range []func(*lane.Checkpoint) time.Time{
		func(p *lane.Checkpoint) time.Time { return p.OpenedAt },
		func(p *lane.Checkpoint) time.Time { return p.ClosedAt },
		func(p *lane.Checkpoint) time.Time { return p.BlockedAt },
		func(p *lane.Checkpoint) time.Time { return p.LastBadAt },
		func(p *lane.Checkpoint) time.Time { return p.NextProbeAt },
		func(p *lane.Checkpoint) time.Time { return p.HoldUntil },
		func(p *lane.Checkpoint) time.Time { return p.ThrottledAt },
	} {
		c.Times(func(l *store.LaneSave) time.Time { return at(&l.Checkpoint) })
	}
	c.Int8s(func(l *store.LaneSave) int64 { return l.Checkpoint.BaseLatency.Microseconds() })
	c.Int8s(func(l *store.LaneSave) int64 { return l.Checkpoint.SRTT.Microseconds() })
	c.Int8s(func(l *store.LaneSave) int64 { return l.Checkpoint.RetryAfter.Microseconds() })
	c.Float8s(func(l *store.LaneSave) float64 { return l.Checkpoint.Limit })
	c.Float8s(func(l *store.LaneSave) float64 { return l.Checkpoint.BaseWeight })
	c.Float8s(func(l *store.LaneSave) float64 { return l.Checkpoint.HealthyPeak })
	c.Float8s(func(l *store.LaneSave) float64 { return l.Checkpoint.Pace })
	c.Bools(func(l *store.LaneSave) bool { return l.Checkpoint.SlowStart })
	c.Bools(func(l *store.LaneSave) bool { return l.Checkpoint.PaceSlowStart })
	c.Times(func(l *store.LaneSave) time.Time { return l.Checkpoint.FailingSince })
	c.Int8s(func(l *store.LaneSave) int64 { return int64(l.Checkpoint.FailingAttempts) })
	c.Int2s(func(l *store.LaneSave) int { return l.Checkpoint.FailingWarned })
	addRates(c)
}

// addRates adds what the lanes have learnt about rates.
func addRates(c pipeline.Columns[*store.LaneSave]) {
	for _, rate := range []func(*lane.Checkpoint) float64{
		func(p *lane.Checkpoint) float64 { return p.Usual },
		func(p *lane.Checkpoint) float64 { return p.Proven },
		func(p *lane.Checkpoint) float64 { return p.Recovery },
		func(p *lane.Checkpoint) float64 { return p.Ceiling },
		func(p *lane.Checkpoint) float64 { return p.CeilingLearnt },
		func(p *lane.Checkpoint) float64 { return p.Mark },
		func(p *lane.Checkpoint) float64 { return p.Host },
	} {
		c.Float8s(func(l *store.LaneSave) float64 { return rate(&l.Checkpoint) })
	}
	c.Int8s(func(l *store.LaneSave) int64 { return l.Checkpoint.Held.Microseconds() })
	c.Int8s(func(l *store.LaneSave) int64 { return l.Checkpoint.CeilingWait.Microseconds() })
	c.Times(func(l *store.LaneSave) time.Time { return l.Checkpoint.CeilingAt })
	c.Times(func(l *store.LaneSave) time.Time { return l.Checkpoint.MarkAt })
	c.JSONs(func(dst []byte, l *store.LaneSave) []byte { return append(dst, l.HostLearnt()...) })
}

func laneState(open bool) int {
	if open {
		return 1
	}
	return 0
}

// report sets the outcomes of all checkpoints.
func (r *laneRun) report() {
	for _, l := range r.saves {
		l.Outcome = store.SettleFenced
		if slices.Contains(r.saved, int64(l.Endpoint)) {
			l.Outcome = store.SettleWritten
		}
	}
}
