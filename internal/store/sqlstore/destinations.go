package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// laneColumns are in the order of scanLane.
const laneColumns = `endpoint_id, state = 1, coalesce(open_reason, 0), opened_at, closed_at, blocked_at, last_bad_at, next_probe_at, hold_until,
  throttled_at, base_us, srtt_us, retry_after_us, lim, base_weight, healthy_peak, pace, slow_start, pace_slow_start,
  failing_since, failing_attempts, failing_warned, usual, proven, recovery_rate, held_us, ceiling, ceiling_learnt, ceiling_at,
  ceiling_wait_us, mark, marked_at, host_rate, host_learnt, updated_at, epoch`

// savedLane is a checkpoint, and under which epoch of its shard it was saved.
type savedLane struct {
	lane.Checkpoint
	epoch int64
}

func scanLane(r Row, endpoint *hook.ID, p *savedLane) error {
	return r.Scan(endpoint, &p.Open, &p.OpenReason, Time(&p.OpenedAt), Time(&p.ClosedAt), Time(&p.BlockedAt), Time(&p.LastBadAt),
		Time(&p.NextProbeAt), Time(&p.HoldUntil), Time(&p.ThrottledAt), Span(&p.BaseLatency, time.Microsecond), Span(&p.SRTT, time.Microsecond),
		Span(&p.RetryAfter, time.Microsecond), &p.Limit, &p.BaseWeight, &p.HealthyPeak, &p.Pace, &p.SlowStart, &p.PaceSlowStart,
		Time(&p.FailingSince), &p.FailingAttempts, &p.FailingWarned, &p.Usual, &p.Proven, &p.Recovery, Span(&p.Held, time.Microsecond),
		&p.Ceiling, &p.CeilingLearnt, Time(&p.CeilingAt), Span(&p.CeilingWait, time.Microsecond), &p.Mark, Time(&p.MarkAt), &p.Host, Document(&p.HostLearnt),
		Time(&p.SavedAt), &p.epoch)
}

// Part is one of several queries that are run together.
type Part struct {
	Query
	Scan func(Row) error
}

// Destinations implements store.LaneReader.
func (t *Tables) Destinations(ctx context.Context, endpoints []hook.ID) ([]store.Destination, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	var all []store.Destination
	secrets, lanes := map[hook.ID][]hook.Secret{}, map[hook.ID]*savedLane{}
	err := t.dialect.ReadTogether(ctx, "read destinations",
		Part{Query{SQL: `SELECT ` + endpointColumns + `, t.policy, coalesce(t.policy_name, ''), ` + namedBody("t") + ` FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
WHERE e.deleted_at IS NULL AND ` + t.dialect.Among("e.id", "$1"), Args: []any{endpoints}}, func(r Row) error {
			var d store.Destination
			err := r.Scan(append(endpointFields(&d.Endpoint), Document(&d.TenantLevel.JSON), &d.TenantLevel.Name, Document(&d.TenantLevel.Named))...)
			all = append(all, d)
			return err
		}},
		Part{Query{SQL: `SELECT ` + secretColumns + ` FROM secrets` + t.dialect.Hint("secrets_endpoint") + ` WHERE ` +
			t.dialect.Among("endpoint_id", "$1") + ` ORDER BY id DESC`, Args: []any{endpoints}}, func(r Row) error {
			var s hook.Secret
			err := scanSecret(r, &s)
			secrets[s.EndpointID] = append(secrets[s.EndpointID], s)
			return err
		}},
		Part{Query{SQL: `SELECT ` + laneColumns + ` FROM lanes WHERE ` + t.dialect.Among("endpoint_id", "$1"), Args: []any{endpoints}}, func(r Row) error {
			var endpoint hook.ID
			var p savedLane
			err := scanLane(r, &endpoint, &p)
			lanes[endpoint] = &p
			return err
		}})
	for i := range all {
		d := &all[i]
		d.Secrets = secrets[d.Endpoint.ID]
		if saved := lanes[d.Endpoint.ID]; saved != nil {
			d.Lane, d.LaneEpoch = &saved.Checkpoint, saved.epoch
		}
	}
	return all, err
}
