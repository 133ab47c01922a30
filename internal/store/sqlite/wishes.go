package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	endpointLives = `SELECT EXISTS (SELECT 1 FROM endpoints WHERE id = ?1 AND deleted_at IS NULL)`

	// wishRetry keeps settled_at: when the manual send fails, the delivery is
	// again exactly what it was. A delivery that has ended leaves its replay,
	// which has counted that end and must not count another one.
	wishRetry = `
UPDATE deliveries SET restore_state = state, restore_due_at = due_at, restore_reason = reason, state = 0, due_at = ?2, reason = NULL,
  replay_id = CASE state WHEN 0 THEN replay_id END
WHERE id = ?1`

	// wishAgain makes the wish a later one than that which is under way.
	wishAgain = `UPDATE deliveries SET due_at = max(?2, due_at + 1) WHERE id = ?1`
)

// RetryDelivery implements store.DeliveryLog.
func (db *DB) RetryDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (row store.DeliveryRow, err error) {
	err = db.update(ctx, "retry delivery", func(t tx) error {
		row, err = t.delivery(tenant, id)
		if err != nil {
			return err
		}
		var lives bool
		if err := t.row(endpointLives, row.EndpointID).Scan(&lives); err != nil {
			return err
		}
		if !lives {
			return hook.ErrStateConflict
		}
		if row.DueAt.Equal(now) {
			now = now.Add(time.Microsecond) // the due time tells a wish from what was before
		}
		wish := wishRetry
		if row.Restore != nil {
			wish = wishAgain
		}
		if _, err := t.exec(wish, id, now.UnixMicro()); err != nil {
			return err
		}
		if row.State != hook.Pending {
			if err := t.addUsage(row.TenantID, 1, int64(row.Size)); err != nil {
				return err
			}
		}
		if row, err = t.delivery(tenant, id); err != nil {
			return err
		}
		return t.audit(a)
	})
	return row, err
}

const wishCancel = `
UPDATE deliveries SET state = 3, reason = ?2, settled_at = ?3, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id = ?1`

// CancelDelivery implements store.DeliveryLog.
func (db *DB) CancelDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (row store.DeliveryRow, err error) {
	err = db.update(ctx, "cancel delivery", func(t tx) error {
		row, err = t.delivery(tenant, id)
		if err != nil {
			return err
		}
		if row.State != hook.Pending {
			return hook.ErrStateConflict
		}
		if _, err := t.exec(wishCancel, id, int64(hook.CancelledByUser), now.UnixMicro()); err != nil {
			return err
		}
		if err := t.addUsage(row.TenantID, -1, -int64(row.Size)); err != nil {
			return err
		}
		if err := t.failReplayed(row.ReplayID, 1); err != nil {
			return err
		}
		if row, err = t.delivery(tenant, id); err != nil {
			return err
		}
		return t.audit(a)
	})
	return row, err
}

// delivery reads a delivery inside a change of it.
func (t tx) delivery(tenant, id hook.ID) (row store.DeliveryRow, err error) {
	err = scanDeliveryRow(t.row(deliveryByID, id, tenant), &row)
	return row, notFound(err)
}
