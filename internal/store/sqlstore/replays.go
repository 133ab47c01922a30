package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const replayColumns = `id, tenant_id, coalesce(endpoint_id, 0), filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, paced_at, coalesce(total, -1), fed, skipped, delivered, failed, answers, errors, refused,
  self_pauses, delivered_at_pause, created_by, created_at, updated_at, started_at, paused_at, finished_at, version`

func scanReplay(r Row, j *hook.ReplayJob) error {
	c := &j.Counts
	return r.Scan(&j.ID, &j.TenantID, &j.EndpointID, Document(&j.Filter), &j.State, &j.PauseReason, &j.PerMinute, &j.CurrentPerMinute, &j.Ramp,
		&j.MaxMultiple, &j.PauseErrorPercent, &j.Cursor, &j.EndID, Time(&j.PacedAt), &j.Total, &c.Fed, &c.Skipped, &c.Delivered,
		&c.Failed, &c.Answers, &c.Errors, &c.Refused, &j.SelfPauses, &j.DeliveredAtPause, &j.CreatedBy, Time(&j.CreatedAt),
		Time(&j.UpdatedAt), Time(&j.StartedAt), Time(&j.PausedAt), Time(&j.FinishedAt), &j.Version)
}

const insertReplay = `
INSERT INTO replays (id, tenant_id, endpoint_id, filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, total, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

// CreateReplay implements store.Replays.
func (t *Tables) CreateReplay(ctx context.Context, j hook.ReplayJob, a hook.Audit) error {
	filter, err := document(j.Filter, "{}")
	if err != nil {
		return fmt.Errorf("create replay: %w", err)
	}
	return t.change(ctx, "create replay", a, func(tx Tx) error {
		_, err := tx.Exec(insertReplay, j.ID, j.TenantID, OrNull(j.EndpointID), filter, j.State, string(j.PauseReason), j.PerMinute,
			j.CurrentPerMinute, j.Ramp, j.MaxMultiple, j.PauseErrorPercent, j.Cursor, j.EndID, knownTotal(j.Total), j.CreatedBy,
			j.CreatedAt, j.UpdatedAt)
		return err
	})
}

// knownTotal stores a total that was not counted as NULL.
func knownTotal(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}

const replayByID = `SELECT ` + replayColumns + ` FROM replays WHERE id = $1 AND (tenant_id = $2 OR $2 = 0)`

// ReplayByID implements store.Replays.
func (t *Tables) ReplayByID(ctx context.Context, tenant, id hook.ID) (hook.ReplayJob, error) {
	return get(ctx, t, "read replay", scanReplay, replayByID, id, tenant)
}

// ListReplays implements store.Replays.
func (t *Tables) ListReplays(ctx context.Context, tenant hook.ID, states []hook.ReplayState, p store.Page) ([]hook.ReplayJob, error) {
	q := &Query{SQL: `SELECT ` + replayColumns + ` FROM replays WHERE true`}
	if tenant != 0 {
		q.And("tenant_id = ?", tenant)
	}
	if len(states) > 0 {
		q.And("state IN (" + numbers(states) + ")")
	}
	q.Page("id", p)
	return list(ctx, t, "list replays", scanReplay, q)
}

// ActiveReplays implements store.ReplayFeeder. Its index holds nothing else; few
// replays are active at once, so sorting them costs nothing.
func (t *Tables) ActiveReplays(ctx context.Context, limit int) ([]hook.ReplayJob, error) {
	q := &Query{SQL: `SELECT ` + replayColumns + ` FROM replays` + t.dialect.Hint("replays_active") + ` WHERE state < 3 ORDER BY id LIMIT $1`}
	q.Args = []any{limit}
	return list(ctx, t, "list active replays", scanReplay, q)
}

const (
	// updateReplay settles total and skipped when the replay is done.
	updateReplay = `
UPDATE replays SET state = $3, state_reason = $4, per_minute = $5, current_per_minute = $6, max_multiple = $7, self_pauses = $8,
  delivered_at_pause = $9, updated_at = $10, started_at = $11, paused_at = $12, finished_at = $13, paced_at = $14,
  total = CASE CAST($3 AS smallint) WHEN 3 THEN $15 ELSE total END,
  skipped = CASE CAST($3 AS smallint) WHEN 3 THEN $16 ELSE skipped END, version = version + 1
WHERE id = $1 AND version = $2 RETURNING ` + replayColumns

	replayExists = `SELECT EXISTS (SELECT 1 FROM replays WHERE id = $1)`
)

// UpdateReplay implements store.Replays.
func (t *Tables) UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (stored hook.ReplayJob, err error) {
	err = t.dialect.Change(ctx, "update replay", func(tx Tx) error {
		stored, err = one(tx, scanReplay, updateReplay, j.ID, j.Version, j.State, string(j.PauseReason), j.PerMinute, j.CurrentPerMinute,
			j.MaxMultiple, j.SelfPauses, j.DeliveredAtPause, j.UpdatedAt, j.StartedAt, j.PausedAt, j.FinishedAt, j.PacedAt,
			knownTotal(j.Total), j.Counts.Skipped)
		switch {
		case errors.Is(err, hook.ErrNotFound):
			return mismatchOrAbsent(tx, replayExists, j.ID)
		case err != nil || a == nil:
			return err
		}
		return WriteAudit(tx, *a)
	})
	return stored, err
}

// startReplay looks for another replay in the way: one that is being fed, or
// pauses by itself and goes on, or has waited longer. One that has been walked
// to its end only waits for its last deliveries.
const startReplay = `
UPDATE replays AS r SET state = 1, state_reason = '', current_per_minute = per_minute, paced_at = $2, updated_at = $2,
  started_at = coalesce(started_at, $2), version = version + 1
WHERE id = $1 AND state = 0 AND NOT EXISTS (
  SELECT 1 FROM replays o WHERE o.state < 3 AND o.tenant_id = r.tenant_id AND o.id <> r.id AND o.cursor_id < o.upto_id
    AND (o.endpoint_id = r.endpoint_id OR o.endpoint_id IS NULL OR r.endpoint_id IS NULL)
    AND (o.state = 1 OR o.state = 2 AND o.state_reason NOT IN ('user', 'stuck') OR o.state = 0 AND o.id < r.id))`

// StartReplay implements store.ReplayFeeder. Replays start one after the other:
// each sees the one before.
func (t *Tables) StartReplay(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) (started bool, err error) {
	err = t.dialect.Change(ctx, "start replay", func(tx Tx) error {
		if err := tx.Lock(LockReplays, 0); err != nil {
			return err
		}
		changed, err := tx.Exec(startReplay, id, now)
		if err != nil || changed == 0 {
			return err
		}
		started = true
		return WriteAudit(tx, a)
	})
	return started && err == nil, err
}
