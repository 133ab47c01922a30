package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const replayColumns = `id, tenant_id, endpoint_id, filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, paced_at, coalesce(total, -1), fed, skipped, delivered, failed, answers, errors, refused,
  self_pauses, delivered_at_pause, created_by, created_at, updated_at, started_at, paused_at, finished_at, version`

func scanReplay(r scannable, j *hook.ReplayJob) error {
	c := &j.Counts
	return r.Scan(&j.ID, &j.TenantID, number(&j.EndpointID), document(&j.Filter), &j.State, &j.PauseReason, &j.PerMinute,
		&j.CurrentPerMinute, &j.Ramp, &j.MaxMultiple, &j.PauseErrorPercent, &j.Cursor, &j.EndID, when(&j.PacedAt), &j.Total,
		&c.Fed, &c.Skipped, &c.Delivered, &c.Failed, &c.Answers, &c.Errors, &c.Refused, &j.SelfPauses, &j.DeliveredAtPause,
		&j.CreatedBy, when(&j.CreatedAt), when(&j.UpdatedAt), when(&j.StartedAt), when(&j.PausedAt), when(&j.FinishedAt), &j.Version)
}

const insertReplay = `
INSERT INTO replays (id, tenant_id, endpoint_id, filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, total, created_by, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)`

// CreateReplay implements store.Replays.
func (db *DB) CreateReplay(ctx context.Context, j hook.ReplayJob, a hook.Audit) error {
	filter, err := jsonText(j.Filter, "{}")
	if err != nil {
		return fmt.Errorf("create replay: %w", err)
	}
	return db.update(ctx, "create replay", func(t tx) error {
		if _, err := t.exec(insertReplay, j.ID, j.TenantID, orNull(j.EndpointID), filter, int64(j.State), string(j.PauseReason),
			j.PerMinute, j.CurrentPerMinute, j.Ramp, j.MaxMultiple, j.PauseErrorPercent, j.Cursor, j.EndID, knownTotal(j.Total),
			j.CreatedBy, j.CreatedAt.UnixMicro(), j.UpdatedAt.UnixMicro()); err != nil {
			return err
		}
		return t.audit(a)
	})
}

// knownTotal stores a total that was not counted as NULL.
func knownTotal(n int64) any {
	if n < 0 {
		return nil
	}
	return n
}

const replayByID = `SELECT ` + replayColumns + ` FROM replays WHERE id = ?1 AND (?2 = 0 OR tenant_id = ?2)`

// ReplayByID implements store.Replays.
func (db *DB) ReplayByID(ctx context.Context, tenant, id hook.ID) (j hook.ReplayJob, err error) {
	err = scanReplay(db.row(ctx, replayByID, id, tenant), &j)
	return j, db.readErr("read replay", err)
}

// ListReplays implements store.Replays.
func (db *DB) ListReplays(ctx context.Context, tenant hook.ID, states []hook.ReplayState, p store.Page) ([]hook.ReplayJob, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var f filter
	if tenant != 0 {
		f.and("tenant_id = ?", tenant)
	}
	if len(states) > 0 {
		f.and("state IN (SELECT value FROM json_each(?))", idList(states))
	}
	f.page("id", p)
	out, err := search(ctx, db.read, scanReplay, `SELECT `+replayColumns+` FROM replays`+f.text(), f.args...)
	return out, db.readErr("list replays", err)
}

// activeReplays is bounded by its index, which holds nothing else. Few replays
// are active at once, so sorting them costs nothing.
const activeReplays = `SELECT ` + replayColumns + ` FROM replays INDEXED BY replays_active WHERE state < 3 ORDER BY id LIMIT ?1`

// ActiveReplays implements store.ReplayFeeder.
func (db *DB) ActiveReplays(ctx context.Context, limit int) ([]hook.ReplayJob, error) {
	out, err := list(ctx, db, scanReplay, activeReplays, limit)
	return out, db.readErr("list active replays", err)
}

// updateReplay settles total and skipped when the replay is done.
const updateReplay = `
UPDATE replays SET state = ?3, state_reason = ?4, per_minute = ?5, current_per_minute = ?6, max_multiple = ?7, self_pauses = ?8,
  delivered_at_pause = ?9, updated_at = ?10, started_at = ?11, paused_at = ?12, finished_at = ?13, paced_at = ?14,
  total = CASE ?3 WHEN 3 THEN ?15 ELSE total END, skipped = CASE ?3 WHEN 3 THEN ?16 ELSE skipped END, version = version + 1
WHERE id = ?1 AND version = ?2`

// UpdateReplay implements store.Replays.
func (db *DB) UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (stored hook.ReplayJob, err error) {
	err = db.update(ctx, "update replay", func(t tx) error {
		changed, err := t.exec(updateReplay, j.ID, j.Version, int64(j.State), string(j.PauseReason), j.PerMinute, j.CurrentPerMinute,
			j.MaxMultiple, j.SelfPauses, j.DeliveredAtPause, j.UpdatedAt.UnixMicro(), stamp(j.StartedAt), stamp(j.PausedAt),
			stamp(j.FinishedAt), stamp(j.PacedAt), knownTotal(j.Total), j.Counts.Skipped)
		if err != nil {
			return err
		}
		if err := scanReplay(t.row(replayByID, j.ID, j.TenantID), &stored); err != nil {
			return notFound(err)
		}
		if changed == 0 {
			return hook.ErrVersionMismatch
		}
		if a == nil {
			return nil
		}
		return t.audit(*a)
	})
	return stored, err
}

// startReplay looks for another replay in the way: one that is being fed, or
// pauses by itself and goes on, or has waited longer. One that has been walked
// to its end only waits for its last deliveries.
const startReplay = `
UPDATE replays SET state = 1, state_reason = '', current_per_minute = per_minute, paced_at = ?2, updated_at = ?2,
  started_at = coalesce(started_at, ?2), version = version + 1
WHERE id = ?1 AND state = 0 AND NOT EXISTS (
  SELECT 1 FROM replays o WHERE o.state < 3 AND o.tenant_id = replays.tenant_id AND o.id <> replays.id AND o.cursor_id < o.upto_id
    AND (o.endpoint_id = replays.endpoint_id OR o.endpoint_id IS NULL OR replays.endpoint_id IS NULL)
    AND (o.state = 1 OR o.state = 2 AND o.state_reason NOT IN ('user', 'stuck') OR o.state = 0 AND o.id < replays.id))`

// StartReplay implements store.ReplayFeeder.
func (db *DB) StartReplay(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) (started bool, err error) {
	err = db.update(ctx, "start replay", func(t tx) error {
		changed, err := t.exec(startReplay, id, now.UnixMicro())
		if err != nil || changed == 0 {
			return err
		}
		started = true
		return t.audit(a)
	})
	return started && err == nil, err
}
