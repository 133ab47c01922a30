package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// keyFields are in the order of scanKey.
const keyFields = `id, coalesce(tenant_id, 0), name, prefix, hash, scope, created_at, last_used_at, expires_at, revoked_at`

func scanKey(row pgx.Row) (k hook.APIKey, err error) {
	var hash []byte
	err = row.Scan(&k.ID, &k.TenantID, &k.Name, &k.Prefix, &hash, &k.Scope, (*moment)(&k.CreatedAt), (*moment)(&k.LastUsedAt),
		(*moment)(&k.ExpiresAt), (*moment)(&k.RevokedAt))
	copy(k.Hash[:], hash)
	return k, err
}

const insertKey = `
INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scope, created_at, last_used_at, expires_at, revoked_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

// CreateKey stores a new key.
func (d *DB) CreateKey(ctx context.Context, k hook.APIKey, a hook.Audit) error {
	err := d.change(ctx, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertKey, k.ID, orNull(k.TenantID), k.Name, k.Prefix, k.Hash[:], k.Scope, at(k.CreatedAt),
			at(k.LastUsedAt), at(k.ExpiresAt), at(k.RevokedAt))
		return err
	})
	switch {
	case isCode(err, codeForeignKey):
		return fmt.Errorf("create key: tenant: %w", hook.ErrNotFound)
	case err != nil:
		return failed("create key", err)
	}
	return nil
}

const keyByHash = `SELECT ` + keyFields + ` FROM api_keys WHERE hash = $1`

// KeyByHash returns a key, revoked and expired ones included.
func (d *DB) KeyByHash(ctx context.Context, hash [32]byte) (hook.APIKey, error) {
	k, err := scanKey(d.pool.QueryRow(ctx, keyByHash, hash[:]))
	if err != nil {
		return hook.APIKey{}, failed("read key", err)
	}
	return k, nil
}

const listKeys = `SELECT ` + keyFields + ` FROM api_keys WHERE true`

// ListKeys returns all keys.
func (d *DB) ListKeys(ctx context.Context, p store.Page) ([]hook.APIKey, error) {
	list := query{sql: listKeys}
	list.page("id", p)
	return collect(ctx, d.pool, &list, "list keys", scanKey)
}

const (
	// otherAdminKeys counts usable admin keys besides one.
	otherAdminKeys = `
SELECT count(*) FROM api_keys
WHERE id <> $1 AND scope = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`

	// revokeKey keeps the time of the first revocation.
	revokeKey = `UPDATE api_keys SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1`

	// keyForRevoking tells whether the key is a usable admin key.
	keyForRevoking = `
SELECT scope = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3) FROM api_keys WHERE id = $1`
)

// RevokeKey ends a key. Revocations take turns, so that two of them cannot end
// the last two admin keys.
func (d *DB) RevokeKey(ctx context.Context, id hook.ID, now time.Time, a hook.Audit) error {
	err := d.change(ctx, a, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockKeys); err != nil {
			return err
		}
		var usableAdmin bool
		if err := tx.QueryRow(ctx, keyForRevoking, id, hook.ScopeAdmin, at(now)).Scan(&usableAdmin); err != nil {
			return err
		}
		if usableAdmin {
			var others int
			if err := tx.QueryRow(ctx, otherAdminKeys, id, hook.ScopeAdmin, at(now)).Scan(&others); err != nil {
				return err
			}
			if others == 0 {
				return hook.ErrLastAdminKey
			}
		}
		_, err := tx.Exec(ctx, revokeKey, id, at(now))
		return err
	})
	if err != nil {
		return failed("revoke key", err)
	}
	return nil
}

const countAdminKeys = `
SELECT count(*) FROM api_keys WHERE scope = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $1)`

// CountAdminKeys counts admin keys that are neither revoked nor expired at now.
func (d *DB) CountAdminKeys(ctx context.Context, now time.Time) (int, error) {
	var n int
	if err := d.pool.QueryRow(ctx, countAdminKeys, at(now), hook.ScopeAdmin).Scan(&n); err != nil {
		return 0, failed("count admin keys", err)
	}
	return n, nil
}

// touchKeys locks the rows in order, as two nodes may use the same keys.
const touchKeys = `
WITH used AS (
  SELECT k.id, u.at FROM api_keys k JOIN unnest($1::bigint[], $2::timestamptz[]) AS u(id, at) ON u.id = k.id
  ORDER BY k.id FOR UPDATE OF k)
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, used.at) FROM used WHERE k.id = used.id`

// TouchKeys records when keys were last used.
func (d *DB) TouchKeys(ctx context.Context, used map[hook.ID]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(used))
	times := make([]pgtype.Timestamptz, len(ids))
	for i, id := range ids {
		times[i] = at(used[id])
	}
	if _, err := d.pool.Exec(ctx, touchKeys, ids, times); err != nil {
		return failed("touch keys", err)
	}
	return nil
}
