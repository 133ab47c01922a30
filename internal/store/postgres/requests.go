package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// lockDelivery keeps the owner's settle away until the request is stored.
const lockDelivery = deliveryByID + ` FOR UPDATE OF d`

// changeUsage books what a request makes pending, or no longer pending, on node 0.
const changeUsage = `
INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes) VALUES ($1, 0, $2, $3)
ON CONFLICT (tenant_id, node_id) DO UPDATE SET pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes`

func bookUsage(ctx context.Context, tx pgx.Tx, d *hook.Delivery, deliveries int) error {
	_, err := tx.Exec(ctx, changeUsage, d.TenantID, deliveries, deliveries*d.Size)
	return err
}

const (
	endpointAlive = `SELECT EXISTS (SELECT FROM endpoints WHERE id = $1 AND deleted_at IS NULL)`

	// retryDelivery keeps settled_at: it comes back with the old state. A
	// delivery that has ended leaves its replay, which has counted that end and
	// must not count another one.
	retryDelivery visible.SQL = `
UPDATE deliveries SET restore_state = state, restore_due_at = due_at, restore_reason = coalesce(reason, 0), state = 0, due_at = $2, reason = NULL,
  replay_id = CASE state WHEN 0 THEN replay_id END
WHERE id = $1`

	// retryAgain makes the request a later one than that which is under way.
	retryAgain visible.SQL = `UPDATE deliveries SET due_at = greatest($2, due_at + interval '1 microsecond') WHERE id = $1`
)

// RetryDelivery makes the delivery due at now for one manual send and keeps
// what it was before.
func (d *DB) RetryDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (store.DeliveryRow, error) {
	return d.applyRequest(ctx, tenant, id, a, func(tx pgx.Tx, row *store.DeliveryRow) error {
		var alive bool
		if err := tx.QueryRow(ctx, endpointAlive, row.EndpointID).Scan(&alive); err != nil {
			return err
		}
		if !alive {
			return hook.ErrStateConflict
		}
		if row.DueAt.Equal(now) {
			now = now.Add(time.Microsecond) // the due time tells a request from what was before
		}
		request := retryDelivery
		if row.Restore != nil {
			request = retryAgain
		}
		if _, err := tx.Exec(ctx, visible.Found.Text(request), id, at(now)); err != nil {
			return err
		}
		if row.State == hook.Pending {
			return nil
		}
		return bookUsage(ctx, tx, &row.Delivery, 1)
	})
}

const cancelDelivery visible.SQL = `
UPDATE deliveries SET state = 3, reason = $2, settled_at = $3, restore_state = NULL, restore_due_at = NULL, restore_reason = NULL
WHERE id = $1`

// CancelDelivery ends a pending delivery.
func (d *DB) CancelDelivery(ctx context.Context, tenant, id hook.ID, now time.Time, a hook.Audit) (store.DeliveryRow, error) {
	return d.applyRequest(ctx, tenant, id, a, func(tx pgx.Tx, row *store.DeliveryRow) error {
		if row.State != hook.Pending {
			return hook.ErrStateConflict
		}
		if _, err := tx.Exec(ctx, visible.Found.Text(cancelDelivery), id, hook.CancelledByUser, at(now)); err != nil {
			return err
		}
		if err := bookUsage(ctx, tx, &row.Delivery, -1); err != nil || row.ReplayID == 0 {
			return err
		}
		_, err := tx.Exec(ctx, failReplayed, row.ReplayID, 1)
		return err
	})
}

// applyRequest locks the delivery, runs fn and returns the delivery as it is then. The
// tenant's configuration is locked before, as batches do, so that no endpoint
// is deleted meanwhile.
func (d *DB) applyRequest(ctx context.Context, tenant, id hook.ID, a hook.Audit, fn func(pgx.Tx, *store.DeliveryRow) error) (store.DeliveryRow, error) {
	row, err := d.DeliveryByID(ctx, tenant, id)
	if err != nil {
		return store.DeliveryRow{}, err
	}
	err = d.change(ctx, a, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, lockTenants, []int32{lockNumber(row.TenantID)}); err != nil {
			return err
		}
		if row, err = scanDeliveryRow(tx.QueryRow(ctx, visible.Found.Text(lockDelivery), id, int64(tenant))); err != nil {
			return err
		}
		if err := fn(tx, &row); err != nil {
			return err
		}
		row, err = scanDeliveryRow(tx.QueryRow(ctx, visible.Found.Text(deliveryByID), id, int64(tenant)))
		return err
	})
	if err != nil {
		return store.DeliveryRow{}, failed("change delivery", err)
	}
	return row, nil
}
