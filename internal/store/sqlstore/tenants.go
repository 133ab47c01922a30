package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const tenantColumns = `id, coalesce(uid, ''), name, policy, coalesce(policy_name, ''),
  (SELECT p.body FROM named_policies p WHERE p.name = tenants.policy_name), limits, metadata, rev, config_rev, created_at, updated_at`

func scanTenant(r Row, t *hook.Tenant) error {
	return r.Scan(&t.ID, &t.UID, &t.Name, Document(&t.Policy), &t.PolicyName, Document(&t.NamedPolicy), Document(&t.Limits), Document(&t.Metadata),
		&t.Rev, &t.ConfigRev, Time(&t.CreatedAt), Time(&t.UpdatedAt))
}

// tenantValues lists the values of the columns that a person can change, in the
// order of both statements that write them.
func tenantValues(ten *hook.Tenant) ([]any, error) {
	limits, err := document(ten.Limits, "{}")
	if err != nil {
		return nil, err
	}
	metadata, err := document(ten.Metadata, "{}")
	return []any{ten.ID, OrNull(ten.UID), ten.Name, raw(ten.Policy), limits, metadata, ten.UpdatedAt, OrNull(ten.PolicyName)}, err
}

const insertTenant = `
INSERT INTO tenants (id, uid, name, policy, limits, metadata, updated_at, policy_name, rev, config_rev, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`

// CreateTenant implements store.Tenants.
func (t *Tables) CreateTenant(ctx context.Context, ten hook.Tenant, a hook.Audit) error {
	values, err := tenantValues(&ten)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	return t.change(ctx, "create tenant", a, func(tx Tx) error {
		if err := usePolicy(tx, ten.PolicyName); err != nil {
			return err
		}
		_, err := tx.Exec(insertTenant, append(values, max(ten.Rev, 1), max(ten.ConfigRev, 1), ten.CreatedAt)...)
		return err
	})
}

const (
	tenantByID  = `SELECT ` + tenantColumns + ` FROM tenants WHERE id = $1`
	tenantByUID = `SELECT ` + tenantColumns + ` FROM tenants WHERE uid = $1`
)

// TenantByID implements store.Tenants.
func (t *Tables) TenantByID(ctx context.Context, id hook.ID) (hook.Tenant, error) {
	return get(ctx, t, "read tenant", scanTenant, tenantByID, id)
}

// TenantByUID implements store.Tenants.
func (t *Tables) TenantByUID(ctx context.Context, uid string) (hook.Tenant, error) {
	return get(ctx, t, "read tenant by uid", scanTenant, tenantByUID, uid)
}

// ListTenants implements store.Tenants.
func (t *Tables) ListTenants(ctx context.Context, text string, p store.Page) ([]hook.Tenant, error) {
	q := &Query{SQL: `SELECT ` + tenantColumns + ` FROM tenants WHERE true`}
	if text != "" {
		like := containing(text)
		q.And(`(lower(name) LIKE lower(?) ESCAPE '\' OR lower(uid) LIKE lower(?) ESCAPE '\')`, like, like)
	}
	q.Page("id", p)
	return list(ctx, t, "list tenants", scanTenant, q)
}

const (
	updateTenant = `
UPDATE tenants SET uid = $2, name = $3, policy = $4, limits = $5, metadata = $6, updated_at = $7, policy_name = $8,
  rev = rev + 1, config_rev = config_rev + 1
WHERE id = $1 AND rev = $9 RETURNING ` + tenantColumns

	tenantExists = `SELECT EXISTS (SELECT 1 FROM tenants WHERE id = $1)`
)

// UpdateTenant implements store.Tenants.
func (t *Tables) UpdateTenant(ctx context.Context, ten hook.Tenant, a hook.Audit) (stored hook.Tenant, err error) {
	values, err := tenantValues(&ten)
	if err != nil {
		return stored, fmt.Errorf("update tenant: %w", err)
	}
	err = t.change(ctx, "update tenant", a, func(tx Tx) error {
		if err := usePolicy(tx, ten.PolicyName); err != nil {
			return err
		}
		if err := tx.Lock(LockConfig, ten.ID); err != nil {
			return err
		}
		stored, err = one(tx, scanTenant, updateTenant, append(values, ten.Rev)...)
		if errors.Is(err, hook.ErrNotFound) {
			return mismatchOrAbsent(tx, tenantExists, ten.ID)
		}
		return err
	})
	return stored, err
}

// tenantInUse tells what keeps a tenant from being deleted.
const tenantInUse = `
SELECT EXISTS (SELECT 1 FROM endpoints WHERE tenant_id = $1 AND deleted_at IS NULL)
    OR EXISTS (SELECT 1 FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL)
    OR coalesce((SELECT sum(pending) FROM tenant_usage WHERE tenant_id = $1), 0) > 0`

// tenantRemains are what a tenant without endpoints, keys and pending deliveries
// still has, itself last. Its events leave by age.
var tenantRemains = [...]string{
	`DELETE FROM secrets WHERE endpoint_id IN (SELECT id FROM endpoints WHERE tenant_id = $1)`,
	`DELETE FROM lanes WHERE endpoint_id IN (SELECT id FROM endpoints WHERE tenant_id = $1)`,
	`DELETE FROM endpoints WHERE tenant_id = $1`,
	`DELETE FROM event_types WHERE tenant_id = $1`,
	`DELETE FROM api_keys WHERE tenant_id = $1`,
	`DELETE FROM tenant_usage WHERE tenant_id = $1`,
	`DELETE FROM replays WHERE tenant_id = $1`,
	`DELETE FROM kept_answers WHERE tenant_id = $1`,
	`DELETE FROM notices WHERE result = 1 AND channel_id IN (SELECT id FROM alert_channels WHERE tenant_id = $1)`,
	`DELETE FROM alert_channels WHERE tenant_id = $1`,
	`DELETE FROM tenants WHERE id = $1`,
}

// DeleteTenant implements store.Tenants.
func (t *Tables) DeleteTenant(ctx context.Context, id hook.ID, a hook.Audit) error {
	return t.change(ctx, "delete tenant", a, func(tx Tx) error {
		if err := tx.Lock(LockConfig, id); err != nil {
			return err
		}
		if err := tx.Lock(LockChannels, 0); err != nil {
			return err
		}
		if used, err := one(tx, ScanValue[bool], tenantInUse, id); err != nil || used {
			return cmp.Or(err, hook.ErrTenantNotEmpty)
		}
		var removed int64
		for _, statement := range tenantRemains {
			var err error
			if removed, err = tx.Exec(statement, id); err != nil {
				return err
			}
		}
		if removed == 0 {
			return hook.ErrNotFound
		}
		return nil
	})
}

const configRev = `SELECT config_rev FROM tenants WHERE id = $1`

// ConfigRev implements store.Tenants.
func (t *Tables) ConfigRev(ctx context.Context, tenant hook.ID) (int64, error) {
	return get(ctx, t, "read configuration revision", ScanValue[int64], configRev, tenant)
}

const moveConfigOn = `UPDATE tenants SET config_rev = config_rev + 1 WHERE id = $1`

// changeConfig runs fn as a change of the tenant's configuration, which makes
// events that were matched before it stale.
func (t *Tables) changeConfig(ctx context.Context, doing string, tenant hook.ID, a hook.Audit, fn func(Tx) error) error {
	return t.changeConfigWith(ctx, doing, "", tenant, a, fn)
}

// changeConfigWith is changeConfig by which somebody may begin to use a named policy.
func (t *Tables) changeConfigWith(ctx context.Context, doing, policy string, tenant hook.ID, a hook.Audit, fn func(Tx) error) error {
	return t.change(ctx, doing, a, func(tx Tx) error {
		if err := usePolicy(tx, policy); err != nil {
			return err
		}
		if err := tx.Lock(LockConfig, tenant); err != nil {
			return err
		}
		if err := mustChange(tx, moveConfigOn, tenant); err != nil {
			return err
		}
		return fn(tx)
	})
}

// mustChange runs a statement that has to find its row.
func mustChange(tx Tx, query string, args ...any) error {
	changed, err := tx.Exec(query, args...)
	if err == nil && changed == 0 {
		return hook.ErrNotFound
	}
	return err
}

const usage = `
SELECT tenant_id, CAST(sum(pending) AS bigint), CAST(sum(bytes) AS bigint), CAST(CASE WHEN sum(stored) > 0 THEN sum(stored) ELSE 0 END AS bigint)
FROM tenant_usage GROUP BY tenant_id HAVING sum(pending) <> 0 OR sum(bytes) <> 0 OR sum(stored) > 0`

// Usage implements store.Tenants.
func (t *Tables) Usage(ctx context.Context) (map[hook.ID]store.Usage, error) {
	all := map[hook.ID]store.Usage{}
	err := t.dialect.Read(ctx, "read usage", &Query{SQL: usage}, func(r Row) error {
		var tenant hook.ID
		var u store.Usage
		if err := r.Scan(&tenant, &u.Pending, &u.Bytes, &u.Stored); err != nil {
			return err
		}
		all[tenant] = u
		return nil
	})
	return all, err
}

// addUsage counts deliveries that a person made pending or ended, on node 0: a
// node's batch counts its own.
const addUsage = `
INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes, stored) VALUES ($1, 0, $2, $3, $4)
ON CONFLICT (tenant_id, node_id) DO UPDATE SET
  pending = u.pending + excluded.pending, bytes = u.bytes + excluded.bytes, stored = u.stored + excluded.stored`

// AddUsage counts deliveries that became pending, or no longer are, by hand.
func AddUsage(tx Tx, tenant hook.ID, u store.Usage) error {
	_, err := tx.Exec(addUsage, tenant, u.Pending, u.Bytes, u.Stored)
	return err
}
