package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const keyColumns = `id, coalesce(tenant_id, 0), name, prefix, hash, scope, created_at, last_used_at, expires_at, revoked_at`

func scanKey(r Row, k *hook.APIKey) error {
	return r.Scan(&k.ID, &k.TenantID, &k.Name, &k.Prefix, Fixed(k.Hash[:]), &k.Scope,
		Time(&k.CreatedAt), Time(&k.LastUsedAt), Time(&k.ExpiresAt), Time(&k.RevokedAt))
}

const insertKey = `
INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scope, created_at, last_used_at, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

// CreateKey implements store.Keys.
func (t *Tables) CreateKey(ctx context.Context, k hook.APIKey, a hook.Audit) error {
	return t.change(ctx, "create key", a, func(tx Tx) error {
		_, err := tx.Exec(insertKey, k.ID, OrNull(k.TenantID), k.Name, k.Prefix, k.Hash[:], k.Scope, k.CreatedAt, k.LastUsedAt, k.ExpiresAt, k.RevokedAt)
		return err
	})
}

const keyByHash = `SELECT ` + keyColumns + ` FROM api_keys WHERE hash = $1`

// KeyByHash implements store.Keys.
func (t *Tables) KeyByHash(ctx context.Context, hash [32]byte) (hook.APIKey, error) {
	return get(ctx, t, "read key", scanKey, keyByHash, hash[:])
}

// ListKeys implements store.Keys.
func (t *Tables) ListKeys(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.APIKey, error) {
	q := &Query{SQL: `SELECT ` + keyColumns + ` FROM api_keys WHERE true`}
	if tenant != 0 {
		q.And("tenant_id = ?", tenant)
	}
	q.Page("id", p)
	return list(ctx, t, "list keys", scanKey, q)
}

const (
	keyByID = `SELECT ` + keyColumns + ` FROM api_keys WHERE id = $1`

	countAdminKeys = `
SELECT count(*) FROM api_keys WHERE scope = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`

	revokeKey = `UPDATE api_keys SET revoked_at = $2 WHERE id = $1`
)

// RevokeKey implements store.Keys. Revoking a revoked key changes nothing.
func (t *Tables) RevokeKey(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) error {
	return t.dialect.Change(ctx, "revoke key", func(tx Tx) error {
		if err := tx.Lock(LockKeys, 0); err != nil {
			return err
		}
		k, err := one(tx, scanKey, keyByID, id)
		if err != nil || !k.RevokedAt.IsZero() {
			return err
		}
		if k.Scope == hook.ScopeAdmin && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(now)) {
			usable, err := one(tx, ScanValue[int], countAdminKeys, hook.ScopeAdmin, now)
			if err != nil {
				return err
			}
			if usable == 1 { // this one
				return hook.ErrLastAdminKey
			}
		}
		if _, err := tx.Exec(revokeKey, id, now); err != nil {
			return err
		}
		return WriteAudit(tx, a)
	})
}

// CountAdminKeys implements store.Keys.
func (t *Tables) CountAdminKeys(ctx context.Context, now time.Time) (int, error) {
	return get(ctx, t, "count admin keys", ScanValue[int], countAdminKeys, hook.ScopeAdmin, now)
}

// touchKey never moves the last use back: another node may have seen a later one.
const touchKey = `UPDATE api_keys SET last_used_at = CASE WHEN last_used_at > $2 THEN last_used_at ELSE $2 END WHERE id = $1`

// TouchKeys implements store.Keys. It goes by id: two nodes that use the same
// keys cannot wait for each other.
func (t *Tables) TouchKeys(ctx context.Context, used map[hook.ID]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(used)) {
		rows = append(rows, []any{id, used[id]})
	}
	return t.dialect.Change(ctx, "touch keys", func(tx Tx) error { return tx.ExecAll(touchKey, rows) })
}
