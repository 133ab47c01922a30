package sqlite

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

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
	out, err := list(ctx, d, scanPending, pendingEndpoints)
	return store.InShards(out, shards), d.vitalErr("read pending endpoints", err)
}

func scanPending(r sqlstore.Row, p *store.PendingEndpoint) error {
	return r.Scan(&p.ID, sqlstore.Time(&p.Due))
}

// WaitingEndpoints implements store.QueueReader.
func (d *DB) WaitingEndpoints(ctx context.Context, shards []int) ([]hook.ID, error) {
	out, err := list(ctx, d, scanPending, pendingEndpoints)
	return store.EndpointIDs(store.InShards(out, shards)), d.readErr("count endpoints with work", err)
}

// acceptedSince walks the newest ids only.
const acceptedSince = `SELECT DISTINCT endpoint_id FROM deliveries WHERE id >= ?1`

// AcceptedSince implements store.LaneReader.
func (d *DB) AcceptedSince(ctx context.Context, since hook.ID) ([]hook.ID, error) {
	out, err := list(ctx, d, sqlstore.ScanValue[hook.ID], acceptedSince, since)
	return out, d.readErr("read accepted endpoints", err)
}
