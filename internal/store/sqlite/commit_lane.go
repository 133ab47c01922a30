package sqlite

import (
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// saveLane writes a lane's checkpoint over the last one.
const saveLane = `
INSERT INTO lanes (endpoint_id, tenant_id, epoch, state, open_reason, opened_at, closed_at, blocked_at, last_bad_at, next_probe_at,
  hold_until, lim, slow_start, base_us, base_weight, srtt_us, healthy_peak, pace, pace_slow_start, throttled_at, retry_after_us,
  usual, proven, recovery_rate, held_us, ceiling, ceiling_learnt, ceiling_at, ceiling_wait_us, mark, marked_at, host_rate, host_learnt,
  failing_since, failing_attempts, failing_warned, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (endpoint_id) DO UPDATE SET
  tenant_id = excluded.tenant_id, epoch = excluded.epoch, state = excluded.state, open_reason = excluded.open_reason,
  opened_at = excluded.opened_at, closed_at = excluded.closed_at, blocked_at = excluded.blocked_at,
  last_bad_at = excluded.last_bad_at, next_probe_at = excluded.next_probe_at, hold_until = excluded.hold_until,
  lim = excluded.lim, slow_start = excluded.slow_start, base_us = excluded.base_us, base_weight = excluded.base_weight,
  srtt_us = excluded.srtt_us, healthy_peak = excluded.healthy_peak, pace = excluded.pace,
  pace_slow_start = excluded.pace_slow_start, throttled_at = excluded.throttled_at, retry_after_us = excluded.retry_after_us,
  usual = excluded.usual, proven = excluded.proven, recovery_rate = excluded.recovery_rate, held_us = excluded.held_us,
  ceiling = excluded.ceiling, ceiling_learnt = excluded.ceiling_learnt, ceiling_at = excluded.ceiling_at,
  ceiling_wait_us = excluded.ceiling_wait_us, mark = excluded.mark, marked_at = excluded.marked_at, host_rate = excluded.host_rate,
  host_learnt = excluded.host_learnt,
  failing_since = excluded.failing_since, failing_attempts = excluded.failing_attempts,
  failing_warned = excluded.failing_warned, updated_at = excluded.updated_at`

// writeLanes saves the checkpoints of lanes whose shard the node owns.
func (c *commit) writeLanes() error {
	for _, l := range c.batch.Lanes {
		if !c.owns(l.Shard, l.Epoch) {
			l.Outcome = store.SettleFenced
			continue
		}
		if err := c.writeLane(l, &l.Checkpoint); err != nil {
			return err
		}
		l.Outcome = store.SettleWritten
	}
	return nil
}

func (c *commit) writeLane(l *store.LaneSave, p *lane.Checkpoint) error {
	_, err := c.exec(c.saveLane.bind(
		int64(l.Endpoint), int64(l.Tenant), l.Epoch, bit(p.Open), int64(p.OpenReason), stamp(p.OpenedAt), stamp(p.ClosedAt),
		stamp(p.BlockedAt), stamp(p.LastBadAt), stamp(p.NextProbeAt), stamp(p.HoldUntil), p.Limit, bit(p.SlowStart),
		p.BaseLatency.Microseconds(), p.BaseWeight, p.SRTT.Microseconds(), p.HealthyPeak, p.Pace, bit(p.PaceSlowStart),
		stamp(p.ThrottledAt), p.RetryAfter.Microseconds(), p.Usual, p.Proven, p.Recovery, p.Held.Microseconds(),
		p.Ceiling, p.CeilingLearnt, stamp(p.CeilingAt), p.CeilingWait.Microseconds(), p.Mark, stamp(p.MarkAt), p.Host, sqlstore.OrNull(l.HostLearnt()),
		stamp(p.FailingSince), int64(p.FailingAttempts), int64(p.FailingWarned), c.batch.Now.UnixMicro()))
	return err
}
