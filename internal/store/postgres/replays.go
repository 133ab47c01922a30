package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// replayColumns are in the order of scanReplay.
const replayColumns = `id, tenant_id, coalesce(endpoint_id, 0), filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, paced_at, coalesce(total, -1), fed, skipped, delivered, failed, answers, errors, refused,
  self_pauses, delivered_at_pause, created_by, created_at, updated_at, started_at, paused_at, finished_at, version`

func scanReplay(row pgx.Row) (j hook.ReplayJob, err error) {
	c := &j.Counts
	err = row.Scan(&j.ID, &j.TenantID, &j.EndpointID, &j.Filter, &j.State, &j.PauseReason, &j.PerMinute, &j.CurrentPerMinute, &j.Ramp,
		&j.MaxMultiple, &j.PauseErrorPercent, &j.Cursor, &j.EndID, (*moment)(&j.PacedAt), &j.Total, &c.Fed, &c.Skipped, &c.Delivered,
		&c.Failed, &c.Answers, &c.Errors, &c.Refused, &j.SelfPauses, &j.DeliveredAtPause, &j.CreatedBy, (*moment)(&j.CreatedAt),
		(*moment)(&j.UpdatedAt), (*moment)(&j.StartedAt), (*moment)(&j.PausedAt), (*moment)(&j.FinishedAt), &j.Version)
	return j, err
}

const insertReplay = `
INSERT INTO replays (id, tenant_id, endpoint_id, filter, state, state_reason, per_minute, current_per_minute, ramp, max_multiple,
  pause_error_percent, cursor_id, upto_id, total, created_by, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`

// CreateReplay stores a new replay.
func (d *DB) CreateReplay(ctx context.Context, j hook.ReplayJob, a hook.Audit) error {
	filter, err := document(j.Filter)
	if err != nil {
		return err
	}
	err = d.change(ctx, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertReplay, j.ID, j.TenantID, orNull(j.EndpointID), filter, j.State, string(j.PauseReason), j.PerMinute,
			j.CurrentPerMinute, j.Ramp, j.MaxMultiple, j.PauseErrorPercent, j.Cursor, j.EndID, knownTotal(j.Total), clean(j.CreatedBy),
			at(j.CreatedAt), at(j.UpdatedAt))
		return err
	})
	if err != nil {
		return failed("create replay", err)
	}
	return nil
}

// knownTotal stores a total that was not counted as NULL.
func knownTotal(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

const replayByID = `SELECT ` + replayColumns + ` FROM replays WHERE id = $1 AND ($2::bigint = 0 OR tenant_id = $2)`

// ReplayByID returns a replay.
func (d *DB) ReplayByID(ctx context.Context, tenant, id hook.ID) (hook.ReplayJob, error) {
	j, err := scanReplay(d.pool.QueryRow(ctx, replayByID, id, int64(tenant)))
	if err != nil {
		return hook.ReplayJob{}, failed("read replay", err)
	}
	return j, nil
}

// ListReplays returns replays in one of the given states; none: in any.
func (d *DB) ListReplays(ctx context.Context, tenant hook.ID, states []hook.ReplayState, p store.Page) ([]hook.ReplayJob, error) {
	list := query{sql: `SELECT ` + replayColumns + ` FROM replays WHERE true`}
	if tenant != 0 {
		list.and("tenant_id = ?", tenant)
	}
	if len(states) > 0 {
		list.and("state IN (" + numbers(states) + ")")
	}
	list.page("id", p)
	return collect(ctx, d.pool, &list, "list replays", scanReplay)
}

// numbers lists enum members as literals, which partial indexes need to see.
func numbers[E ~uint8](members []E) string {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = strconv.Itoa(int(m))
	}
	return strings.Join(texts, ", ")
}

const activeReplays = `SELECT ` + replayColumns + ` FROM replays WHERE state < 3 ORDER BY id LIMIT $1`

// ActiveReplays returns replays that have not ended, oldest first.
func (d *DB) ActiveReplays(ctx context.Context, limit int) ([]hook.ReplayJob, error) {
	return collect(ctx, d.pool, &query{activeReplays, []any{limit}}, "list active replays", scanReplay)
}

// updateReplay settles total and skipped when the replay is done.
const updateReplay = `
UPDATE replays SET state = $3, state_reason = $4, per_minute = $5, current_per_minute = $6, max_multiple = $7, self_pauses = $8,
  delivered_at_pause = $9, updated_at = $10, started_at = $11, paused_at = $12, finished_at = $13, paced_at = $14,
  total = CASE $3::smallint WHEN 3 THEN $15 ELSE total END, skipped = CASE $3::smallint WHEN 3 THEN $16 ELSE skipped END, version = version + 1
WHERE id = $1 AND version = $2 RETURNING ` + replayColumns

// UpdateReplay stores the state, the pace and the times of j if the stored
// Version is j.Version.
func (d *DB) UpdateReplay(ctx context.Context, j hook.ReplayJob, a *hook.Audit) (stored hook.ReplayJob, err error) {
	err = d.slowly(ctx, func(tx pgx.Tx) (err error) {
		stored, err = scanReplay(tx.QueryRow(ctx, updateReplay, j.ID, j.Version, j.State, string(j.PauseReason), j.PerMinute,
			j.CurrentPerMinute, j.MaxMultiple, j.SelfPauses, j.DeliveredAtPause, at(j.UpdatedAt), at(j.StartedAt), at(j.PausedAt),
			at(j.FinishedAt), at(j.PacedAt), knownTotal(j.Total), j.Counts.Skipped))
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return mismatchOrAbsent(ctx, tx, `SELECT EXISTS (SELECT FROM replays WHERE id = $1)`, j.ID)
		case err != nil || a == nil:
			return err
		}
		return writeAudit(ctx, tx, *a)
	})
	if err != nil {
		return hook.ReplayJob{}, failed("update replay", err)
	}
	return stored, nil
}

const (
	// lockStarts lets replays start one after the other: each then sees the one
	// before.
	lockStarts = `SELECT pg_advisory_xact_lock($1, 0)`

	// startReplay looks for another replay in the way: one that is being fed,
	// or pauses by itself and goes on, or has waited longer. One that has been
	// walked to its end only waits for its last deliveries.
	startReplay = `
UPDATE replays r SET state = 1, state_reason = '', current_per_minute = per_minute, paced_at = $2, updated_at = $2,
  started_at = coalesce(started_at, $2), version = version + 1
WHERE id = $1 AND state = 0 AND NOT EXISTS (
  SELECT FROM replays o WHERE o.state < 3 AND o.tenant_id = r.tenant_id AND o.id <> r.id AND o.cursor_id < o.upto_id
    AND (o.endpoint_id = r.endpoint_id OR o.endpoint_id IS NULL OR r.endpoint_id IS NULL)
    AND (o.state = 1 OR o.state = 2 AND o.state_reason NOT IN ('user', 'stuck') OR o.state = 0 AND o.id < r.id))`
)

// StartReplay makes a queued replay run unless another one is in its way.
func (d *DB) StartReplay(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) (started bool, err error) {
	err = d.slowly(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockStarts, lockReplays); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, startReplay, id, at(now))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		started = true
		return writeAudit(ctx, tx, a)
	})
	if err != nil {
		return false, failed("start replay", err)
	}
	return started, nil
}
