package sqlstore

import (
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	deleteOldAudit = `
DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE id < $1 ORDER BY id LIMIT $2)`
	deleteExpiredSecrets = `
DELETE FROM secrets WHERE id IN (SELECT id FROM secrets WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`
	deleteExpiredAnswers = `
DELETE FROM kept_answers WHERE expires_at IN (SELECT expires_at FROM kept_answers WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)`
	deleteOldReplays = `
DELETE FROM replays WHERE id IN (SELECT id FROM replays WHERE state >= 3 AND finished_at < $1 LIMIT $2)`
	deleteOldOperational = `
DELETE FROM operational_events WHERE id IN (SELECT id FROM operational_events WHERE id < $1 ORDER BY id LIMIT $2)`

	// The next two remove rows that no owner has saved or removed for long:
	// their endpoints, or nodes, are gone.
	deleteLostLanes = `DELETE FROM lane_watch WHERE updated_at < $1 AND storm_since IS NULL AND growing_since IS NULL`
	deleteLostNodes = `DELETE FROM node_watch WHERE updated_at < $1`
)

// Prune removes one step of what is old, but for events with their deliveries and
// attempts; more tells that some is left. The dialect says how it removes
// idempotency keys that have expired by a moment, up to a limit.
func Prune(exec func(query string, args ...any) (int64, error), p store.PruneStep, expiredKeys string, out *store.Pruned) (more bool, err error) {
	var secrets, answers, operational, rest int64
	lost := p.Now.Add(-store.WatchLostAfter)
	for _, step := range []struct {
		what  string
		count *int64
		query string
		args  []any
	}{
		{"expired keys", &out.Keys, expiredKeys, []any{p.Now, p.Limit}},
		{"expired secrets", &secrets, deleteExpiredSecrets, []any{p.Now, p.Limit}},
		{"expired answers", &answers, deleteExpiredAnswers, []any{p.Now, p.Limit}},
		{"old audit records", &out.Audit, deleteOldAudit, []any{hook.IDFloor(p.AuditBefore), p.Limit}},
		{"old operational events", &operational, deleteOldOperational, []any{hook.IDFloor(p.Before), p.Limit}},
		{"old replays", &rest, deleteOldReplays, []any{p.Before, p.Limit}},
		{"lost watches", &rest, deleteLostLanes, []any{lost}},
		{"lost watches", &rest, deleteLostNodes, []any{lost}},
	} {
		if *step.count, err = exec(step.query, step.args...); err != nil {
			return false, fmt.Errorf("remove %s: %w", step.what, err)
		}
	}
	full := int64(p.Limit)
	return out.Keys == full || out.Audit == full || secrets == full || answers >= full || operational == full, nil
}
