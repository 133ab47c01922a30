package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// secretColumns are in the order of scanSecret.
const secretColumns = `id, tenant_id, endpoint_id, scheme, kek_id, sealed, created_at, expires_at`

// scanSecret reads secretColumns.
func scanSecret(r Row, s *hook.Secret) error {
	return r.Scan(&s.ID, &s.TenantID, &s.EndpointID, &s.Scheme, &s.KeyID, &s.Sealed, Time(&s.CreatedAt), Time(&s.ExpiresAt))
}

const insertSecret = `INSERT INTO secrets (` + secretColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

func addSecret(tx Tx, s hook.Secret) error {
	_, err := tx.Exec(insertSecret, s.ID, s.TenantID, s.EndpointID, s.Scheme, s.KeyID, s.Sealed, s.CreatedAt, s.ExpiresAt)
	return err
}

const secretsOf = `SELECT ` + secretColumns + ` FROM secrets WHERE endpoint_id = $1 ORDER BY id DESC`

// SecretsOf implements store.Endpoints.
func (t *Tables) SecretsOf(ctx context.Context, endpoint hook.ID) ([]hook.Secret, error) {
	return list(ctx, t, "read secrets", scanSecret, &Query{SQL: secretsOf, Args: []any{endpoint}})
}

const (
	touchEndpoint = `UPDATE endpoints SET rev = rev + 1, updated_at = $3 WHERE id = $1 AND tenant_id = $2 AND deleted_at IS NULL`

	// endSecrets shortens lives and never lengthens one.
	endSecrets = `
UPDATE secrets SET expires_at = $3 WHERE endpoint_id = $1 AND scheme = $2 AND (expires_at IS NULL OR expires_at > $3)`

	activeSecrets = `SELECT count(*) FROM secrets WHERE endpoint_id = $1 AND (expires_at IS NULL OR expires_at > $2)`
)

// RotateSecret implements store.Endpoints.
func (t *Tables) RotateSecret(ctx context.Context, s hook.Secret, previousExpire, now time.Time, a hook.Audit) error {
	return t.changeConfig(ctx, "rotate secret", s.TenantID, a, func(tx Tx) error {
		if err := mustChange(tx, touchEndpoint, s.EndpointID, s.TenantID, now); err != nil {
			return err
		}
		if _, err := tx.Exec(endSecrets, s.EndpointID, s.Scheme, previousExpire); err != nil {
			return err
		}
		if err := addSecret(tx, s); err != nil {
			return err
		}
		active, err := one(tx, ScanValue[int], activeSecrets, s.EndpointID, now)
		if err == nil && active > hook.MaxActiveSecrets {
			return hook.ErrTooManySecrets
		}
		return err
	})
}
