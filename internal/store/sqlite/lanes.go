package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// The three queries below walk deliveries_due and nothing else. state = 0 is
// written out, not bound: a parameter cannot be proven to match the partial
// index, and the planner would then sort the whole backlog of the endpoint.
const (
	readAhead = `
SELECT ` + sqlstore.DeliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = ?1 AND d.state = 0 AND d.due_at <= ?2 ORDER BY d.due_at, d.id LIMIT ?3`

	newestDue = `
SELECT ` + sqlstore.DeliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = ?1 AND d.state = 0 AND d.due_at <= ?2 ORDER BY d.due_at DESC, d.id DESC LIMIT ?3`

	nextDue = `
SELECT due_at FROM deliveries WHERE endpoint_id = ?1 AND state = 0 AND due_at > ?2 ORDER BY due_at LIMIT 1`
)

// ReadAhead implements store.LaneReader.
func (d *DB) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	out, err := list(ctx, d, sqlstore.ScanDelivery, readAhead, endpoint, now.UnixMicro(), limit)
	return out, d.readErr("read ahead", err)
}

// NewestDue implements store.LaneReader.
func (d *DB) NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	out, err := list(ctx, d, sqlstore.ScanDelivery, newestDue, endpoint, now.UnixMicro(), limit)
	return out, d.readErr("read newest due", err)
}

// NextDue implements store.LaneReader.
func (d *DB) NextDue(ctx context.Context, endpoint hook.ID, now time.Time) (time.Time, error) {
	var due time.Time
	err := d.row(ctx, nextDue, endpoint, now.UnixMicro()).Scan(sqlstore.Time(&due))
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return due, d.readErr("read next due", err)
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
func (d *DB) PendingEndpoints(ctx context.Context, shards []int) ([]store.PendingEndpoint, error) {
	out, err := list(ctx, d, func(r sqlstore.Row, p *store.PendingEndpoint) error {
		return r.Scan(&p.ID, sqlstore.Time(&p.Due))
	}, pendingEndpoints)
	var wanted [hook.Shards]bool
	for _, s := range shards {
		wanted[s] = true
	}
	out = slices.DeleteFunc(out, func(p store.PendingEndpoint) bool { return !wanted[hook.ShardOf(p.ID)] })
	return out, d.vitalErr("read pending endpoints", err)
}

// acceptedSince walks the newest ids only.
const acceptedSince = `SELECT DISTINCT endpoint_id FROM deliveries WHERE id >= ?1`

// AcceptedSince implements store.LaneReader.
func (d *DB) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	out, err := list(ctx, d, scanID, acceptedSince, since)
	return out, d.readErr("read accepted endpoints", err)
}
