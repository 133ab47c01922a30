package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

const (
	// cancelSome ends up to cancelChunk pending deliveries of an endpoint.
	cancelSome = `
UPDATE deliveries SET state = 3, reason = ?2, settled_at = ?3, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id IN (SELECT id FROM deliveries WHERE endpoint_id = ?1 AND state = 0 ORDER BY due_at LIMIT ?4)
RETURNING size, coalesce(replay_id, 0)`

	// cancelChunk bounds how long accepts wait behind the end of an endpoint.
	cancelChunk = 1000
)

// CancelPending implements sqlstore.Dialect. Once the endpoint is marked no event
// can be matched to it, so its backlog only shrinks.
func (d dialect) CancelPending(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (total int64, err error) {
	for {
		n, err := d.cancelSome(ctx, tenant, endpoint, now)
		total += n
		if err != nil || n < cancelChunk {
			return total, err
		}
	}
}

// cancelSome cancels one chunk of an endpoint's backlog.
func (d *DB) cancelSome(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (n int64, err error) {
	err = d.update(ctx, "cancel deliveries", func(t tx) error {
		bytes, replays := int64(0), map[hook.ID]int64{}
		err := t.Query(cancelSome, []any{endpoint, hook.CancelledEndpointDeleted, now, cancelChunk}, func(r sqlstore.Row) error {
			var size int64
			var replay hook.ID
			err := r.Scan(&size, &replay)
			n, bytes = n+1, bytes+size
			replays[replay]++
			return err
		})
		if err != nil || n == 0 {
			return err
		}
		for replay, failed := range replays {
			if err := sqlstore.FailReplayed(t, replay, failed); err != nil {
				return err
			}
		}
		if err := sqlstore.AddUsage(t, tenant, store.Usage{Pending: -n, Bytes: -bytes}); err != nil {
			return err
		}
		return d.Count(t, now, stats.Owner{Tenant: tenant, Endpoint: endpoint}, stats.Cancelled, n)
	})
	return n, err
}
