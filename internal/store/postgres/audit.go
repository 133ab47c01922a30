package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// slowly runs fn in a transaction of the pool whose statements may take longer
// than a read: they wait for batches, or walk over many rows.
func (d *DB) slowly(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = '15s'`); err != nil {
			return err
		}
		return fn(tx)
	})
}

// change runs fn and stores the record of it in one transaction.
func (d *DB) change(ctx context.Context, a hook.Audit, fn func(tx pgx.Tx) error) error {
	return d.slowly(ctx, func(tx pgx.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return writeAudit(ctx, tx, a)
	})
}

const insertAudit = `
INSERT INTO audit (id, tenant_id, actor, action, subject, diff, request_id, remote_ip, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

func writeAudit(ctx context.Context, tx pgx.Tx, a hook.Audit) error {
	var diff any
	if len(a.Diff) > 0 {
		diff = a.Diff
	}
	_, err := tx.Exec(ctx, insertAudit, a.ID, orNull(a.TenantID), clean(a.Actor), a.Action, clean(a.Subject), diff,
		orNull(clean(a.RequestID)), orNull(clean(a.RemoteIP)), at(a.At))
	if err != nil {
		return failed("write audit record", err)
	}
	return nil
}

// WriteAudit stores an audit record by itself.
func (d *DB) WriteAudit(ctx context.Context, a hook.Audit) error {
	return d.change(ctx, a, func(pgx.Tx) error { return nil })
}
