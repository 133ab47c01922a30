package sqlite

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// prunable finds the oldest events that nothing keeps: no delivery that is
	// pending or died too recently.
	prunable = `
SELECT e.id FROM events e WHERE e.id < ?1 AND NOT EXISTS (
  SELECT 1 FROM deliveries d WHERE d.event_id = e.id AND (d.state = 0 OR d.state = 2 AND d.settled_at > ?2))
ORDER BY e.id LIMIT ?3`

	// stillPrunable asks again inside the transaction: a person may have wished
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

	deleteOldAudit = `
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < ?1 ORDER BY id LIMIT ?2)`

	deleteExpiredSecrets = `
DELETE FROM secrets WHERE id IN (SELECT id FROM secrets WHERE expires_at <= ?1 LIMIT ?2)`
)

// Prune implements store.Maintenance. It looks for events without the writer's
// turn, so that a long search past kept events delays nobody.
func (db *DB) Prune(ctx context.Context, p store.PruneStep) (store.Pruned, error) {
	events, err := list(ctx, db, func(r scannable, id *hook.ID) error { return r.Scan(id) },
		prunable, hook.IDFloor(p.Before), p.DeadAfter.UnixMicro(), p.Limit)
	if err != nil {
		return store.Pruned{}, db.readErr("find old events", err)
	}
	var out store.Pruned
	err = db.update(ctx, "prune", func(t tx) error {
		left := map[hook.ID]int64{} // by tenant, how much
		for _, id := range events {
			if err := t.pruneEvent(id, p, &out, left); err != nil {
				return err
			}
		}
		for tenant, bytes := range left {
			if _, err := t.exec(dropStored, tenant, byHand, bytes); err != nil {
				return err
			}
		}
		if err := t.pruneReplays(p.Before, p.Limit); err != nil {
			return err
		}
		more, err := t.pruneWatch(p)
		if err != nil {
			return err
		}
		if out.Keys, err = t.exec(deleteExpiredKeys, p.Now.UnixMicro(), p.Limit); err != nil {
			return err
		}
		if out.Audit, err = t.exec(deleteOldAudit, hook.IDFloor(p.AuditBefore), p.Limit); err != nil {
			return err
		}
		secrets, err := t.exec(deleteExpiredSecrets, p.Now.UnixMicro(), p.Limit)
		full := int64(p.Limit)
		out.Done = int64(len(events)) < full && out.Keys < full && out.Audit < full && secrets < full && !more
		return err
	})
	if err != nil {
		return store.Pruned{}, err
	}
	return out, nil
}

func (t tx) pruneEvent(id hook.ID, p store.PruneStep, out *store.Pruned, left map[hook.ID]int64) error {
	var still bool
	if err := t.row(stillPrunable, id, p.DeadAfter.UnixMicro()).Scan(&still); err != nil || !still {
		return err
	}
	var tenant hook.ID
	var bytes int64
	if err := t.row(weighEvent, id).Scan(&tenant, &bytes); err != nil {
		return notFound(err)
	}
	left[tenant] += bytes
	for _, step := range []struct {
		stmt  string
		count *int64
	}{{deleteFirstAttempts, &out.Attempts}, {deleteAttempts, &out.Attempts}, {deleteDeliveries, &out.Deliveries}, {deleteEvent, &out.Events}} {
		n, err := t.exec(step.stmt, id)
		if err != nil {
			return err
		}
		*step.count += n
	}
	return nil
}
