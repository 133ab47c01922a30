package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// The three queries below walk deliveries_due and nothing else. state = 0 is
// written out, not bound: a parameter cannot be proven to match the partial
// index, and the planner would then sort the whole backlog of the endpoint.
const (
	readAhead = `
SELECT ` + deliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = ?1 AND d.state = 0 AND d.due_at <= ?2 ORDER BY d.due_at, d.id LIMIT ?3`

	newestDue = `
SELECT ` + deliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = ?1 AND d.state = 0 AND d.due_at <= ?2 ORDER BY d.due_at DESC, d.id DESC LIMIT ?3`

	nextDue = `
SELECT due_at FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at > ?2 ORDER BY due_at LIMIT 1`
)

// ReadAhead implements store.LaneReader.
func (db *DB) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	out, err := list(ctx, db, scanDelivery, readAhead, endpoint, now.UnixMicro(), limit)
	return out, db.readErr("read ahead", err)
}

// NewestDue implements store.LaneReader.
func (db *DB) NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	out, err := list(ctx, db, scanDelivery, newestDue, endpoint, now.UnixMicro(), limit)
	return out, db.readErr("read newest due", err)
}

// NextDue implements store.LaneReader.
func (db *DB) NextDue(ctx context.Context, endpoint hook.ID, now time.Time) (time.Time, error) {
	var due time.Time
	err := db.row(ctx, nextDue, endpoint, now.UnixMicro()).Scan(when(&due))
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return due, db.readErr("read next due", err)
}

// pendingEndpoints jumps from endpoint to endpoint on deliveries_due: two
// probes of the index each, however long their backlogs are.
const pendingEndpoints = `
WITH RECURSIVE e(id) AS (
  SELECT (SELECT endpoint_id FROM deliveries WHERE state = 0 ORDER BY endpoint_id LIMIT 1)
  UNION ALL
  SELECT (SELECT endpoint_id FROM deliveries WHERE state = 0 AND endpoint_id > e.id ORDER BY endpoint_id LIMIT 1)
  FROM e WHERE e.id IS NOT NULL)
SELECT e.id, (SELECT due_at FROM deliveries WHERE state = 0 AND endpoint_id = e.id ORDER BY due_at LIMIT 1)
FROM e WHERE e.id IS NOT NULL`

// PendingEndpoints implements store.LaneReader.
func (db *DB) PendingEndpoints(ctx context.Context, shards []int) ([]store.PendingEndpoint, error) {
	out, err := list(ctx, db, func(r scannable, p *store.PendingEndpoint) error {
		return r.Scan(&p.ID, when(&p.Due))
	}, pendingEndpoints)
	var wanted [hook.Shards]bool
	for _, s := range shards {
		wanted[s] = true
	}
	out = slices.DeleteFunc(out, func(p store.PendingEndpoint) bool { return !wanted[hook.ShardOf(p.ID)] })
	return out, db.vitalErr("read pending endpoints", err)
}

// acceptedSince walks the newest ids only.
const acceptedSince = `SELECT DISTINCT endpoint_id FROM deliveries WHERE id >= ?1`

// AcceptedSince implements store.LaneReader.
func (db *DB) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	out, err := list(ctx, db, func(r scannable, id *hook.ID) error { return r.Scan(id) }, acceptedSince, since)
	return out, db.readErr("read accepted endpoints", err)
}

const (
	// destinations reads endpoints with their tenant's policy and their lane.
	destinations = `
SELECT ` + endpointColumns + `, t.policy, l.endpoint_id, ` + laneColumns + `
FROM json_each(?1) AS wanted
JOIN endpoints e ON e.id = wanted.value AND e.deleted_at IS NULL
JOIN tenants t ON t.id = e.tenant_id
LEFT JOIN lanes l ON l.endpoint_id = e.id`

	// destinationSecrets reads the secrets of all of them, newest first.
	destinationSecrets = `
SELECT ` + secretColumns + ` FROM json_each(?1) AS wanted JOIN secrets s ON s.endpoint_id = wanted.value ORDER BY s.id DESC`

	laneColumns = `l.state, l.open_reason, l.opened_at, l.closed_at, l.blocked_at, l.last_bad_at, l.next_probe_at, l.hold_until,
  coalesce(l.lim, 0.0), l.slow_start, l.base_us, coalesce(l.base_weight, 0.0), l.srtt_us, coalesce(l.healthy_peak, 0.0),
  coalesce(l.pace, 0.0), l.pace_slow_start, l.throttled_at, l.retry_after_us,
  coalesce(l.usual, 0.0), coalesce(l.proven, 0.0), coalesce(l.recovery_rate, 0.0), l.held_us,
  coalesce(l.ceiling, 0.0), coalesce(l.ceiling_learnt, 0.0), l.ceiling_at, l.ceiling_wait_us, coalesce(l.mark, 0.0), l.marked_at,
  coalesce(l.host_rate, 0.0), l.failing_since, l.failing_attempts, l.failing_warned`
)

// Destinations implements store.LaneReader.
func (db *DB) Destinations(ctx context.Context, endpoints []hook.ID) ([]store.Destination, error) {
	var out []store.Destination
	err := db.snapshot(ctx, func(q querier) error {
		wanted := idList(endpoints)
		var err error
		if out, err = search(ctx, q, scanDestination, destinations, wanted); err != nil {
			return err
		}
		secrets, err := search(ctx, q, scanSecret, destinationSecrets, wanted)
		if err != nil {
			return err
		}
		byEndpoint := make(map[hook.ID][]hook.Secret, len(out))
		for _, s := range secrets {
			byEndpoint[s.EndpointID] = append(byEndpoint[s.EndpointID], s)
		}
		for i := range out {
			out[i].Secrets = byEndpoint[out[i].Endpoint.ID]
		}
		return nil
	})
	return out, db.readErr("read destinations", err)
}

func scanDestination(r scannable, d *store.Destination) error {
	var saved hook.ID
	var p lane.Checkpoint
	var open, slowStart, paceSlowStart int64
	columns := append(endpointFields(&d.Endpoint), &d.TenantPolicy, number(&saved),
		number(&open), number(&p.OpenReason), when(&p.OpenedAt), when(&p.ClosedAt), when(&p.BlockedAt), when(&p.LastBadAt),
		when(&p.NextProbeAt), when(&p.HoldUntil), &p.Limit, number(&slowStart), span(&p.BaseLatency, time.Microsecond),
		&p.BaseWeight, span(&p.SRTT, time.Microsecond), &p.HealthyPeak, &p.Pace, number(&paceSlowStart),
		when(&p.ThrottledAt), span(&p.RetryAfter, time.Microsecond),
		&p.Usual, &p.Proven, &p.Recovery, span(&p.Held, time.Microsecond), &p.Ceiling, &p.CeilingLearnt, when(&p.CeilingAt),
		span(&p.CeilingWait, time.Microsecond), &p.Mark, when(&p.MarkAt), &p.Host,
		when(&p.FailingSince), number(&p.FailingAttempts), number(&p.FailingWarned))
	if err := r.Scan(columns...); err != nil {
		return err
	}
	if saved != 0 {
		p.Open, p.SlowStart, p.PaceSlowStart = open != 0, slowStart != 0, paceSlowStart != 0
		d.Lane = &p
	}
	return nil
}

const savePolicy = `
INSERT INTO policies (hash, name, body, updated_at) VALUES (?1, '', ?2, ?3) ON CONFLICT DO NOTHING`

// SavePolicy implements store.LaneReader.
func (db *DB) SavePolicy(ctx context.Context, hash hook.PolicyHash, body []byte, now time.Time) error {
	return db.update(ctx, "save policy", func(t tx) error {
		_, err := t.exec(savePolicy, hash[:], string(body), now.UnixMicro())
		return err
	})
}
