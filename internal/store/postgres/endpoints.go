package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	// cancelChunk ends pending deliveries in the order in which settles lock
	// them. The usage is booked on node 0; a replay counts them as failed.
	cancelChunk visible.SQL = `
WITH chunk AS (
  SELECT id FROM (SELECT id FROM deliveries WHERE endpoint_id = $1 AND state = 0 ORDER BY due_at, id LIMIT $2) c ORDER BY id),
ended AS (
  UPDATE deliveries d SET state = 3, reason = $3, settled_at = $4, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
  FROM chunk WHERE d.id = chunk.id AND d.state = 0 RETURNING d.tenant_id, d.size, d.replay_id),
failed AS (
  UPDATE replays p SET failed = p.failed + e.n
  FROM (SELECT replay_id, count(*) AS n FROM ended WHERE replay_id IS NOT NULL GROUP BY replay_id ORDER BY replay_id) e WHERE p.id = e.replay_id),
freed AS (
  INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes)
  SELECT tenant_id, 0, -count(*), -sum(size) FROM ended GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id, node_id) DO UPDATE SET pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes)
SELECT (SELECT count(*) FROM chunk), (SELECT count(*) FROM ended)`
)

// cancelAtOnce bounds the deliveries that one transaction of DeleteEndpoint
// cancels: settles of the same lane wait for it.
const cancelAtOnce = 500

// cancelPending cancels chunk by chunk until nothing is pending.
func (d *DB) cancelPending(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (int64, error) {
	seen, err := d.makeVisible(ctx, deferred.Scope{Endpoint: endpoint})
	if err != nil {
		return 0, err
	}
	var total int64
	for {
		var found, ended int64
		err := d.slowly(ctx, func(t pgx.Tx) error {
			err := t.QueryRow(ctx, seen.Text(cancelChunk), endpoint, cancelAtOnce, hook.CancelledEndpointDeleted, at(now)).Scan(&found, &ended)
			if err != nil {
				return err
			}
			return d.Count(tx{ctx, t}, now, stats.Owner{Tenant: tenant, Endpoint: endpoint}, stats.Cancelled, ended)
		})
		if err != nil {
			return total, failed("cancel deliveries of deleted endpoint", err)
		}
		total += ended
		if found < cancelAtOnce {
			return total, nil
		}
	}
}
