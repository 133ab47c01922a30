package sqlite

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

const (
	// prunable finds the oldest events that nothing keeps: no delivery that is
	// pending or died too recently.
	prunable = `
SELECT e.id FROM events e WHERE e.id < ?1 AND NOT EXISTS (
  SELECT 1 FROM deliveries d WHERE d.event_id = e.id AND (d.state = 0 OR d.state = 2 AND d.settled_at > ?2))
ORDER BY e.id LIMIT ?3`

	// stillPrunable asks again inside the transaction: a person may have asked
	// for a retry since.
	stillPrunable = `
SELECT NOT EXISTS (
  SELECT 1 FROM deliveries d WHERE d.event_id = ?1 AND (d.state = 0 OR d.state = 2 AND d.settled_at > ?2))`

	// weighEvent returns what leaves with an event, by the weights of
	// store.StoredBy and store.StoredByAttempt.
	weighEvent = `
SELECT e.tenant_id, 256 + length(e.payload) + 512 * (SELECT count(*) FROM deliveries d WHERE d.event_id = e.id)
  + (SELECT coalesce(sum(256 + octet_length(f.document) + coalesce(length(f.excerpt), 0)), 0) FROM first_attempts f
     WHERE f.id IN (SELECT d.first_attempt_id FROM deliveries d WHERE d.event_id = e.id))
  + (SELECT coalesce(sum(256 + coalesce(octet_length(a.detail), 0) + coalesce(octet_length(a.error), 0) + coalesce(length(a.excerpt), 0)), 0)
     FROM attempts a WHERE a.delivery_id IN (SELECT d.id FROM deliveries d WHERE d.event_id = e.id))
FROM events e WHERE e.id = ?1`

	deleteFirstAttempts = `DELETE FROM first_attempts WHERE id IN (SELECT first_attempt_id FROM deliveries WHERE event_id = ?1)`
	deleteAttempts      = `DELETE FROM attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE event_id = ?1)`
	deleteDeliveries    = `DELETE FROM deliveries WHERE event_id = ?1`
	deleteEvent         = `DELETE FROM events WHERE id = ?1`

	deleteExpiredKeys = `
DELETE FROM idempotency_keys WHERE (tenant_id, scope, key) IN (
  SELECT tenant_id, scope, key FROM idempotency_keys WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)`

	// dropStored takes away what left a tenant, on node 0 as all that no batch
	// does. What a tenant that is gone leaves behind is nobody's.
	dropStored = `
INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes, stored) SELECT ?1, 0, 0, 0, -?2 WHERE EXISTS (SELECT 1 FROM tenants WHERE id = ?1)
ON CONFLICT (tenant_id, node_id) DO UPDATE SET stored = stored + excluded.stored`
)

// Prune implements store.Maintenance. It looks for events without the writer's
// turn, so that a long search past kept events delays nobody.
func (d *DB) Prune(ctx context.Context, p store.PruneStep) (store.Pruned, error) {
	events, err := list(ctx, d, sqlstore.ScanValue[hook.ID], prunable, hook.IDFloor(p.Before), p.DeadAfter, p.Limit)
	if err != nil {
		return store.Pruned{}, d.readErr("find old events", err)
	}
	var out store.Pruned
	err = d.update(ctx, "prune", func(t tx) error {
		left := map[hook.ID]int64{} // by tenant, how much
		for _, id := range events {
			if err := t.pruneEvent(id, p, &out, left); err != nil {
				return err
			}
		}
		for tenant, bytes := range left {
			if _, err := t.Exec(dropStored, tenant, bytes); err != nil {
				return err
			}
		}
		more, err := sqlstore.Prune(t.Exec, p, deleteExpiredKeys, &out)
		out.Done = len(events) < p.Limit && !more
		return err
	})
	if err != nil {
		return store.Pruned{}, err
	}
	return out, nil
}

func (t tx) pruneEvent(id hook.ID, p store.PruneStep, out *store.Pruned, left map[hook.ID]int64) error {
	var still bool
	if _, err := t.row(stillPrunable, []any{id, p.DeadAfter}, &still); err != nil || !still {
		return err
	}
	var tenant hook.ID
	var bytes int64
	if _, err := t.row(weighEvent, []any{id}, &tenant, &bytes); err != nil {
		return err
	}
	left[tenant] += bytes
	for _, step := range []struct {
		stmt  string
		count *int64
	}{{deleteFirstAttempts, &out.Attempts}, {deleteAttempts, &out.Attempts}, {deleteDeliveries, &out.Deliveries}, {deleteEvent, &out.Events}} {
		n, err := t.Exec(step.stmt, id)
		if err != nil {
			return err
		}
		*step.count += n
	}
	return nil
}
