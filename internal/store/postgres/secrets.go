package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const insertSecret = `
INSERT INTO secrets (id, tenant_id, endpoint_id, scheme, kek_id, sealed, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

func addSecret(ctx context.Context, tx pgx.Tx, s hook.Secret) error {
	_, err := tx.Exec(ctx, insertSecret, s.ID, s.TenantID, s.EndpointID, s.Scheme, s.KeyID, s.Sealed, at(s.CreatedAt), at(s.ExpiresAt))
	return err
}

const secretsOf = `
SELECT id, tenant_id, endpoint_id, scheme, kek_id, sealed, created_at, expires_at FROM secrets
WHERE endpoint_id = ANY($1) ORDER BY id DESC`

func scanSecret(row pgx.Row) (s hook.Secret, err error) {
	err = row.Scan(&s.ID, &s.TenantID, &s.EndpointID, &s.Scheme, &s.KeyID, &s.Sealed, (*moment)(&s.CreatedAt), (*moment)(&s.ExpiresAt))
	return s, err
}

// SecretsOf returns all secrets of an endpoint, newest first.
func (d *DB) SecretsOf(ctx context.Context, endpoint hook.ID) ([]hook.Secret, error) {
	return collect(ctx, d.pool, &query{sql: secretsOf, args: []any{[]int64{int64(endpoint)}}}, "read secrets", scanSecret)
}

const (
	touchEndpoint = `UPDATE endpoints SET rev = rev + 1, updated_at = $3 WHERE id = $1 AND tenant_id = $2 AND deleted_at IS NULL`

	// endSecrets shortens lives and never lengthens one.
	endSecrets = `
UPDATE secrets SET expires_at = $3 WHERE endpoint_id = $1 AND scheme = $2 AND (expires_at IS NULL OR expires_at > $3)`

	activeSecrets = `SELECT count(*) FROM secrets WHERE endpoint_id = $1 AND (expires_at IS NULL OR expires_at > $2)`
)

// RotateSecret adds s and ends the older secrets of its scheme.
func (d *DB) RotateSecret(ctx context.Context, s hook.Secret, previousExpire, now time.Time, a hook.Audit) error {
	err := d.changeConfig(ctx, s.TenantID, a, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, touchEndpoint, s.EndpointID, s.TenantID, at(now))
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return hook.ErrNotFound
		}
		if _, err := tx.Exec(ctx, endSecrets, s.EndpointID, s.Scheme, at(previousExpire)); err != nil {
			return err
		}
		if err := addSecret(ctx, tx, s); err != nil {
			return err
		}
		var active int
		if err := tx.QueryRow(ctx, activeSecrets, s.EndpointID, at(now)).Scan(&active); err != nil {
			return err
		}
		if active > hook.MaxActiveSecrets {
			return hook.ErrTooManySecrets
		}
		return nil
	})
	if err != nil {
		return failed("rotate secret", err)
	}
	return nil
}
