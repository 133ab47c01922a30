package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const keyColumns = `id, tenant_id, name, prefix, hash, scope, created_at, last_used_at, expires_at, revoked_at`

func scanKey(r scannable, k *hook.APIKey) error {
	return r.Scan(&k.ID, number(&k.TenantID), &k.Name, &k.Prefix, fixed(k.Hash[:]), &k.Scope,
		when(&k.CreatedAt), when(&k.LastUsedAt), when(&k.ExpiresAt), when(&k.RevokedAt))
}

const insertKey = `
INSERT INTO api_keys (` + keyColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`

// CreateKey implements store.Keys.
func (db *DB) CreateKey(ctx context.Context, k hook.APIKey, a hook.Audit) error {
	return db.update(ctx, "create key", func(t tx) error {
		if _, err := t.exec(insertKey, k.ID, orNull(k.TenantID), k.Name, k.Prefix, k.Hash[:], int64(k.Scope),
			k.CreatedAt.UnixMicro(), stamp(k.LastUsedAt), stamp(k.ExpiresAt), stamp(k.RevokedAt)); err != nil {
			return parentMissing(err)
		}
		return t.audit(a)
	})
}

const keyByHash = `SELECT ` + keyColumns + ` FROM api_keys WHERE hash = ?1`

// KeyByHash implements store.Keys.
func (db *DB) KeyByHash(ctx context.Context, hash [32]byte) (k hook.APIKey, err error) {
	err = scanKey(db.row(ctx, keyByHash, hash[:]), &k)
	return k, db.readErr("read key", err)
}

// ListKeys implements store.Keys.
func (db *DB) ListKeys(ctx context.Context, p store.Page) ([]hook.APIKey, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var f filter
	f.page("id", p)
	out, err := search(ctx, db.read, scanKey, `SELECT `+keyColumns+` FROM api_keys`+f.text(), f.args...)
	return out, db.readErr("list keys", err)
}

const (
	keyByID = `SELECT ` + keyColumns + ` FROM api_keys WHERE id = ?1`

	otherAdminKeys = `
SELECT count(*) FROM api_keys
WHERE scope = ?1 AND id <> ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3)`

	revokeKey = `UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1`
)

// RevokeKey implements store.Keys. Revoking a revoked key changes nothing.
func (db *DB) RevokeKey(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) error {
	return db.update(ctx, "revoke key", func(t tx) error {
		var k hook.APIKey
		if err := scanKey(t.row(keyByID, id), &k); err != nil {
			return notFound(err)
		}
		if !k.RevokedAt.IsZero() {
			return nil
		}
		usable := k.ExpiresAt.IsZero() || k.ExpiresAt.After(now)
		if k.Scope == hook.ScopeAdmin && usable {
			var others int
			if err := t.row(otherAdminKeys, int64(hook.ScopeAdmin), id, now.UnixMicro()).Scan(&others); err != nil {
				return err
			}
			if others == 0 {
				return hook.ErrLastAdminKey
			}
		}
		if _, err := t.exec(revokeKey, id, now.UnixMicro()); err != nil {
			return err
		}
		return t.audit(a)
	})
}

const countAdminKeys = `
SELECT count(*) FROM api_keys WHERE scope = ?2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?1)`

// CountAdminKeys implements store.Keys.
func (db *DB) CountAdminKeys(ctx context.Context, now time.Time) (n int, err error) {
	err = db.row(ctx, countAdminKeys, now.UnixMicro(), hook.ScopeAdmin).Scan(&n)
	return n, db.readErr("count admin keys", err)
}

const touchKey = `UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1`

// TouchKeys implements store.Keys.
func (db *DB) TouchKeys(ctx context.Context, used map[hook.ID]time.Time) error {
	if len(used) == 0 {
		return db.usable()
	}
	return db.update(ctx, "touch keys", func(t tx) error {
		for id, at := range used {
			if _, err := t.exec(touchKey, id, stamp(at)); err != nil {
				return err
			}
		}
		return nil
	})
}
