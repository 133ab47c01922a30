package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// tenantColumns are in the order of scanTenant.
const tenantColumns = `id, coalesce(uid, ''), name, policy, limits, metadata, rev, config_rev, created_at, updated_at`

func scanTenant(row pgx.Row) (t hook.Tenant, err error) {
	err = row.Scan(&t.ID, &t.UID, &t.Name, &t.Policy, &t.Limits, &t.Metadata, &t.Rev, &t.ConfigRev,
		(*moment)(&t.CreatedAt), (*moment)(&t.UpdatedAt))
	return t, err
}

// tenantUIDIndex is the name the server gives the UNIQUE constraint.
const tenantUIDIndex = "tenants_uid_key"

const insertTenant = `
INSERT INTO tenants (id, uid, name, policy, limits, metadata, rev, config_rev, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`

// CreateTenant stores a new tenant.
func (d *DB) CreateTenant(ctx context.Context, t hook.Tenant, a hook.Audit) error {
	limits, err := document(t.Limits)
	if err != nil {
		return err
	}
	metadata, err := document(notNilMap(t.Metadata))
	if err != nil {
		return err
	}
	err = d.change(ctx, a, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertTenant, t.ID, orNull(t.UID), t.Name, orEmpty(t.Policy), limits, metadata,
			max(t.Rev, 1), max(t.ConfigRev, 1), at(t.CreatedAt), at(t.UpdatedAt))
		return err
	})
	switch {
	case violates(err, tenantUIDIndex):
		return hook.ErrUIDTaken
	case err != nil:
		return failed("create tenant", err)
	}
	return nil
}

const (
	tenantByID  = `SELECT ` + tenantColumns + ` FROM tenants WHERE id = $1`
	tenantByUID = `SELECT ` + tenantColumns + ` FROM tenants WHERE uid = $1`
)

// TenantByID returns a tenant.
func (d *DB) TenantByID(ctx context.Context, id hook.ID) (hook.Tenant, error) {
	t, err := scanTenant(d.pool.QueryRow(ctx, tenantByID, id))
	if err != nil {
		return hook.Tenant{}, failed("read tenant", err)
	}
	return t, nil
}

// TenantByUID returns a tenant by the name its operator chose.
func (d *DB) TenantByUID(ctx context.Context, uid string) (hook.Tenant, error) {
	t, err := scanTenant(d.pool.QueryRow(ctx, tenantByUID, clean(uid)))
	if err != nil {
		return hook.Tenant{}, failed("read tenant by uid", err)
	}
	return t, nil
}

// listTenants searches without LIKE, so that no character has a meaning.
const listTenants = `
SELECT ` + tenantColumns + ` FROM tenants
WHERE ($1 = '' OR strpos(lower(name), lower($1)) > 0 OR strpos(lower(uid), lower($1)) > 0)`

// ListTenants returns tenants whose uid or name contains q.
func (d *DB) ListTenants(ctx context.Context, q string, p store.Page) ([]hook.Tenant, error) {
	list := query{sql: listTenants, args: []any{clean(q)}}
	list.page("id", p)
	return collect(ctx, d.pool, &list, "list tenants", scanTenant)
}

const updateTenant = `
UPDATE tenants SET uid = $3, name = $4, policy = $5, limits = $6, metadata = $7, updated_at = $8, rev = rev + 1, config_rev = config_rev + 1
WHERE id = $1 AND rev = $2 RETURNING ` + tenantColumns

// UpdateTenant stores t if the stored Rev is t.Rev.
func (d *DB) UpdateTenant(ctx context.Context, t hook.Tenant, a hook.Audit) (hook.Tenant, error) {
	limits, err := document(t.Limits)
	if err != nil {
		return hook.Tenant{}, err
	}
	metadata, err := document(notNilMap(t.Metadata))
	if err != nil {
		return hook.Tenant{}, err
	}
	var updated hook.Tenant
	err = d.change(ctx, a, func(tx pgx.Tx) (err error) {
		if err := lockConfig(ctx, tx, t.ID); err != nil {
			return err
		}
		updated, err = scanTenant(tx.QueryRow(ctx, updateTenant, t.ID, t.Rev, orNull(t.UID), t.Name, orEmpty(t.Policy),
			limits, metadata, at(t.UpdatedAt)))
		if errors.Is(err, pgx.ErrNoRows) {
			return mismatchOrAbsent(ctx, tx, `SELECT EXISTS (SELECT FROM tenants WHERE id = $1)`, t.ID)
		}
		return err
	})
	switch {
	case violates(err, tenantUIDIndex):
		return hook.Tenant{}, hook.ErrUIDTaken
	case err != nil:
		return hook.Tenant{}, failed("update tenant", err)
	}
	return updated, nil
}

// mismatchOrAbsent explains an update that found no row.
func mismatchOrAbsent(ctx context.Context, tx pgx.Tx, exists string, args ...any) error {
	var there bool
	if err := tx.QueryRow(ctx, exists, args...).Scan(&there); err != nil {
		return err
	}
	if there {
		return hook.ErrVersionMismatch
	}
	return hook.ErrNotFound
}

// lockConfig waits for the accepts of the tenant that are being committed and
// lets later ones wait for this change.
func lockConfig(ctx context.Context, tx pgx.Tx, tenant hook.ID) error {
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, $2)`, lockTenant, lockNumber(tenant))
	return err
}

const (
	tenantInUse = `
SELECT EXISTS (SELECT FROM endpoints WHERE tenant_id = $1 AND deleted_at IS NULL)
    OR EXISTS (SELECT FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL)
    OR coalesce((SELECT sum(pending) FROM tenant_usage WHERE tenant_id = $1), 0) > 0`

	deleteTenant = `DELETE FROM tenants WHERE id = $1`
)

// tenantRemains are what a tenant without endpoints, keys and pending
// deliveries still has. Its events leave by retention.
var tenantRemains = []string{
	`DELETE FROM secrets WHERE tenant_id = $1`,
	`DELETE FROM lanes WHERE endpoint_id IN (SELECT id FROM endpoints WHERE tenant_id = $1)`,
	`DELETE FROM endpoints WHERE tenant_id = $1`,
	`DELETE FROM api_keys WHERE tenant_id = $1`,
	`DELETE FROM tenant_usage WHERE tenant_id = $1`,
	`DELETE FROM replays WHERE tenant_id = $1`,
}

// DeleteTenant removes a tenant that is empty.
func (d *DB) DeleteTenant(ctx context.Context, id hook.ID, a hook.Audit) error {
	err := d.change(ctx, a, func(tx pgx.Tx) error {
		if err := lockConfig(ctx, tx, id); err != nil {
			return err
		}
		var inUse bool
		if err := tx.QueryRow(ctx, tenantInUse, id).Scan(&inUse); err != nil {
			return err
		}
		if inUse {
			return hook.ErrTenantNotEmpty
		}
		for _, remove := range tenantRemains {
			if _, err := tx.Exec(ctx, remove, id); err != nil {
				return err
			}
		}
		tag, err := tx.Exec(ctx, deleteTenant, id)
		if err == nil && tag.RowsAffected() == 0 {
			return hook.ErrNotFound
		}
		return err
	})
	if err != nil {
		return failed("delete tenant", err)
	}
	return nil
}

const configRev = `SELECT config_rev FROM tenants WHERE id = $1`

// ConfigRev returns the tenant's ConfigRev.
func (d *DB) ConfigRev(ctx context.Context, tenant hook.ID) (int64, error) {
	var rev int64
	if err := d.pool.QueryRow(ctx, configRev, tenant).Scan(&rev); err != nil {
		return 0, failed("read configuration version", err)
	}
	return rev, nil
}

const usage = `
SELECT tenant_id, sum(pending)::bigint, sum(bytes)::bigint, greatest(sum(stored), 0)::bigint FROM tenant_usage GROUP BY tenant_id
HAVING sum(pending) <> 0 OR sum(stored) > 0`

// Usage returns what each tenant has pending and stored, over all nodes.
func (d *DB) Usage(ctx context.Context) (map[hook.ID]store.Usage, error) {
	rows, err := d.pool.Query(ctx, usage)
	if err != nil {
		return nil, failed("read usage", err)
	}
	all := map[hook.ID]store.Usage{}
	var id hook.ID
	var u store.Usage
	if _, err := pgx.ForEachRow(rows, []any{&id, &u.Pending, &u.Bytes, &u.Stored}, func() error {
		all[id] = u
		return nil
	}); err != nil {
		return nil, failed("read usage", err)
	}
	return all, nil
}

// notNilMap keeps missing metadata from becoming null.
func notNilMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
