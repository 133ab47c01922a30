package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const secretColumns = `s.id, s.tenant_id, s.endpoint_id, s.scheme, s.kek_id, s.sealed, s.created_at, s.expires_at`

func scanSecret(r scannable, s *hook.Secret) error {
	return r.Scan(&s.ID, &s.TenantID, &s.EndpointID, &s.Scheme, &s.KeyID, &s.Sealed, when(&s.CreatedAt), when(&s.ExpiresAt))
}

const secretsOf = `SELECT ` + secretColumns + ` FROM secrets s WHERE s.endpoint_id = ?1 ORDER BY s.id DESC`

// SecretsOf implements store.Endpoints.
func (db *DB) SecretsOf(ctx context.Context, endpoint hook.ID) ([]hook.Secret, error) {
	out, err := list(ctx, db, scanSecret, secretsOf, endpoint)
	return out, db.readErr("read secrets", err)
}

const insertSecret = `
INSERT INTO secrets (id, tenant_id, endpoint_id, scheme, kek_id, sealed, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)`

func (t tx) addSecret(s hook.Secret) error {
	_, err := t.exec(insertSecret, s.ID, s.TenantID, s.EndpointID, int64(s.Scheme), s.KeyID, s.Sealed,
		s.CreatedAt.UnixMicro(), stamp(s.ExpiresAt))
	return err
}

const (
	touchEndpoint = `
UPDATE endpoints SET rev = rev + 1, updated_at = ?3 WHERE id = ?1 AND tenant_id = ?2 AND deleted_at IS NULL`

	// endSecrets never lengthens the life of a secret.
	endSecrets = `
UPDATE secrets SET expires_at = ?3 WHERE endpoint_id = ?1 AND scheme = ?2 AND (expires_at IS NULL OR expires_at > ?3)`

	activeSecrets = `
SELECT count(*) FROM secrets WHERE endpoint_id = ?1 AND (expires_at IS NULL OR expires_at > ?2)`
)

// RotateSecret implements store.Endpoints.
func (db *DB) RotateSecret(ctx context.Context, s hook.Secret, previousExpire, now time.Time, a hook.Audit) error {
	return db.update(ctx, "rotate secret", func(t tx) error {
		changed, err := t.exec(touchEndpoint, s.EndpointID, s.TenantID, now.UnixMicro())
		if err != nil {
			return err
		}
		if changed == 0 {
			return hook.ErrNotFound
		}
		if _, err := t.exec(endSecrets, s.EndpointID, int64(s.Scheme), previousExpire.UnixMicro()); err != nil {
			return err
		}
		if err := t.addSecret(s); err != nil {
			return err
		}
		var active int
		if err := t.row(activeSecrets, s.EndpointID, now.UnixMicro()).Scan(&active); err != nil {
			return err
		}
		if active > hook.MaxActiveSecrets {
			return hook.ErrTooManySecrets
		}
		if err := t.bumpConfigRev(s.TenantID); err != nil {
			return err
		}
		return t.audit(a)
	})
}
