package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

const (
	endpointLives = `SELECT EXISTS (SELECT 1 FROM endpoints WHERE id = $1 AND deleted_at IS NULL)`

	// requestSend keeps settled_at: when the manual send fails, the delivery is
	// again exactly what it was. A delivery that has ended leaves its replay,
	// which has counted that end and must not count another one.
	requestSend visible.SQL = `
UPDATE deliveries SET restore_state = state, restore_due_at = due_at, restore_reason = coalesce(reason, 0), state = 0, due_at = $2, reason = NULL,
  replay_id = CASE state WHEN 0 THEN replay_id END
WHERE id = $1`

	// requestAgain makes the request a later one than that which is under way.
	requestAgain visible.SQL = `UPDATE deliveries SET due_at = $2 WHERE id = $1`
)

// RetryDelivery implements store.DeliveryLog.
func (t *Tables) RetryDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (store.DeliveryRow, error) {
	return t.applyRequest(ctx, "retry delivery", tenant, id, a, func(tx Tx, row *store.DeliveryRow) error {
		lives, err := one(tx, ScanValue[bool], endpointLives, row.EndpointID)
		if err != nil {
			return err
		}
		if !lives {
			return hook.ErrStateConflict
		}
		send, due := requestSend, now.Truncate(time.Microsecond)
		if row.Restore != nil {
			send = requestAgain
		}
		// The due time tells a request from what was before.
		if row.DueAt.Equal(due) || row.Restore != nil && !due.After(row.DueAt) {
			due = row.DueAt.Add(time.Microsecond)
		}
		if _, err := tx.Exec(visible.Found.Text(send), id, due); err != nil || row.State == hook.Pending {
			return err
		}
		if err := AddUsage(tx, row.TenantID, store.Usage{Pending: 1, Bytes: int64(row.Size)}); err != nil {
			return err
		}
		return t.Count(tx, now, stats.Owner{Tenant: row.TenantID, Endpoint: row.EndpointID}, stats.Reopened, 1)
	})
}

const cancelDelivery visible.SQL = `
UPDATE deliveries SET state = 3, reason = $2, settled_at = $3, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id = $1`

// CancelDelivery implements store.DeliveryLog.
func (t *Tables) CancelDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (store.DeliveryRow, error) {
	return t.applyRequest(ctx, "cancel delivery", tenant, id, a, func(tx Tx, row *store.DeliveryRow) error {
		if row.State != hook.Pending {
			return hook.ErrStateConflict
		}
		if _, err := tx.Exec(visible.Found.Text(cancelDelivery), id, hook.CancelledByUser, now); err != nil {
			return err
		}
		if err := AddUsage(tx, row.TenantID, store.Usage{Pending: -1, Bytes: -int64(row.Size)}); err != nil {
			return err
		}
		if err := t.Count(tx, now, stats.Owner{Tenant: row.TenantID, Endpoint: row.EndpointID}, stats.Cancelled, 1); err != nil {
			return err
		}
		return FailReplayed(tx, row.ReplayID, 1)
	})
}

const failReplayed = `UPDATE replays SET failed = failed + $2 WHERE id = $1`

// FailReplayed counts deliveries of a replay, if they belong to one, that a person
// ended.
func FailReplayed(tx Tx, replay hook.ID, n int64) error {
	if replay == 0 {
		return nil
	}
	_, err := tx.Exec(failReplayed, replay, n)
	return err
}

// applyRequest locks a delivery that a person wants changed, runs fn and returns
// the delivery as it is then. The tenant's configuration is locked before, as
// batches do, so that no endpoint is deleted meanwhile.
func (t *Tables) applyRequest(ctx context.Context, doing string, tenant, id hook.ID, a hook.Audit,
	fn func(Tx, *store.DeliveryRow) error,
) (row store.DeliveryRow, err error) {
	seen, err := t.dialect.MakeVisible(ctx, &store.DeliveryFilter{IDs: []hook.ID{id}})
	if err != nil {
		return row, err
	}
	read := seen.Text(deliveryByID)
	err = t.change(ctx, doing, a, func(tx Tx) error {
		if row, err = one(tx, scanDeliveryRow, read, id, tenant); err != nil {
			return err
		}
		if err := tx.Lock(LockConfigShared, row.TenantID); err != nil {
			return err
		}
		if row, err = one(tx, scanDeliveryRow, read+t.dialect.ForUpdate("d"), id, tenant); err != nil {
			return err
		}
		if err := fn(tx, &row); err != nil {
			return err
		}
		row, err = one(tx, scanDeliveryRow, read, id, tenant)
		return err
	})
	return row, err
}
