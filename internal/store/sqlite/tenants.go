package sqlite

import (
	"cmp"
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const tenantColumns = `t.id, t.uid, t.name, t.policy, t.limits, t.metadata, t.rev, t.config_rev, t.created_at, t.updated_at`

func scanTenant(r scannable, t *hook.Tenant) error {
	return r.Scan(&t.ID, text(&t.UID), &t.Name, document(&t.Policy), document(&t.Limits), document(&t.Metadata),
		&t.Rev, &t.ConfigRev, when(&t.CreatedAt), when(&t.UpdatedAt))
}

const insertTenant = `
INSERT INTO tenants (id, uid, name, policy, limits, metadata, rev, config_rev, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`

// CreateTenant implements store.Tenants.
func (db *DB) CreateTenant(ctx context.Context, ten hook.Tenant, a hook.Audit) error {
	limits, metadata, err := tenantDocuments(ten)
	if err != nil {
		return fmt.Errorf("create tenant: %w", err)
	}
	return db.update(ctx, "create tenant", func(t tx) error {
		if _, err := t.exec(insertTenant, ten.ID, textOrNull(ten.UID), ten.Name, rawText(ten.Policy), limits, metadata,
			cmp.Or(ten.Rev, 1), cmp.Or(ten.ConfigRev, 1), ten.CreatedAt.UnixMicro(), ten.UpdatedAt.UnixMicro()); err != nil {
			return uidTaken(err)
		}
		return t.audit(a)
	})
}

func tenantDocuments(ten hook.Tenant) (limits, metadata string, err error) {
	if limits, err = jsonText(ten.Limits, "{}"); err != nil {
		return "", "", err
	}
	metadata, err = jsonText(ten.Metadata, "{}")
	return limits, metadata, err
}

const (
	tenantByID  = `SELECT ` + tenantColumns + ` FROM tenants t WHERE t.id = ?1`
	tenantByUID = `SELECT ` + tenantColumns + ` FROM tenants t WHERE t.uid = ?1`
)

// TenantByID implements store.Tenants.
func (db *DB) TenantByID(ctx context.Context, id hook.ID) (ten hook.Tenant, err error) {
	err = scanTenant(db.row(ctx, tenantByID, id), &ten)
	return ten, db.readErr("read tenant", err)
}

// TenantByUID implements store.Tenants.
func (db *DB) TenantByUID(ctx context.Context, uid string) (ten hook.Tenant, err error) {
	err = scanTenant(db.row(ctx, tenantByUID, uid), &ten)
	return ten, db.readErr("read tenant", err)
}

// ListTenants implements store.Tenants.
func (db *DB) ListTenants(ctx context.Context, q string, p store.Page) ([]hook.Tenant, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var f filter
	if q != "" {
		like := "%" + escapeLike(q) + "%"
		f.and(`(t.name LIKE ? ESCAPE '\' OR t.uid LIKE ? ESCAPE '\')`, like, like)
	}
	f.page("t.id", p)
	out, err := search(ctx, db.read, scanTenant, `SELECT `+tenantColumns+` FROM tenants t`+f.text(), f.args...)
	return out, db.readErr("list tenants", err)
}

const updateTenant = `
UPDATE tenants SET uid = ?3, name = ?4, policy = ?5, limits = ?6, metadata = ?7, updated_at = ?8,
  rev = rev + 1, config_rev = config_rev + 1
WHERE id = ?1 AND rev = ?2`

// UpdateTenant implements store.Tenants.
func (db *DB) UpdateTenant(ctx context.Context, ten hook.Tenant, a hook.Audit) (stored hook.Tenant, err error) {
	limits, metadata, err := tenantDocuments(ten)
	if err != nil {
		return stored, fmt.Errorf("update tenant: %w", err)
	}
	err = db.update(ctx, "update tenant", func(t tx) error {
		changed, err := t.exec(updateTenant, ten.ID, ten.Rev, textOrNull(ten.UID), ten.Name, rawText(ten.Policy), limits,
			metadata, ten.UpdatedAt.UnixMicro())
		if err != nil {
			return uidTaken(err)
		}
		if err := scanTenant(t.row(tenantByID, ten.ID), &stored); err != nil {
			return notFound(err)
		}
		if changed == 0 {
			return hook.ErrVersionMismatch
		}
		return t.audit(a)
	})
	return stored, err
}

const (
	// tenantContents tells what keeps a tenant from being deleted. Deliveries
	// are found through endpoints, deleted ones included, because only their
	// index knows what is pending.
	tenantContents = `
SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1),
  EXISTS (SELECT 1 FROM endpoints WHERE tenant_id = ?1 AND deleted_at IS NULL)
  OR EXISTS (SELECT 1 FROM api_keys WHERE tenant_id = ?1 AND revoked_at IS NULL)
  OR EXISTS (SELECT 1 FROM endpoints e JOIN deliveries d ON d.endpoint_id = e.id AND d.state = 0 WHERE e.tenant_id = ?1)`

	deleteTenantSecrets   = `DELETE FROM secrets WHERE endpoint_id IN (SELECT id FROM endpoints WHERE tenant_id = ?1)`
	deleteTenantLanes     = `DELETE FROM lanes WHERE endpoint_id IN (SELECT id FROM endpoints WHERE tenant_id = ?1)`
	deleteTenantEndpoints = `DELETE FROM endpoints WHERE tenant_id = ?1`
	deleteTenantKeys      = `DELETE FROM api_keys WHERE tenant_id = ?1`
	deleteTenantUsage     = `DELETE FROM tenant_usage WHERE tenant_id = ?1`
	deleteTenantReplays   = `DELETE FROM replays WHERE tenant_id = ?1`
	deleteTenant          = `DELETE FROM tenants WHERE id = ?1`
)

// DeleteTenant implements store.Tenants. What is left of deleted endpoints and
// revoked keys goes with it; events and deliveries leave by age.
func (db *DB) DeleteTenant(ctx context.Context, id hook.ID, a hook.Audit) error {
	return db.update(ctx, "delete tenant", func(t tx) error {
		var exists, full bool
		if err := t.row(tenantContents, id).Scan(&exists, &full); err != nil {
			return err
		}
		if !exists {
			return hook.ErrNotFound
		}
		if full {
			return hook.ErrTenantNotEmpty
		}
		for _, stmt := range []string{
			deleteTenantSecrets, deleteTenantLanes, deleteTenantEndpoints, deleteTenantKeys, deleteTenantUsage, deleteTenantReplays, deleteTenant,
		} {
			if _, err := t.exec(stmt, id); err != nil {
				return err
			}
		}
		return t.audit(a)
	})
}

const configRev = `SELECT config_rev FROM tenants WHERE id = ?1`

// ConfigRev implements store.Tenants.
func (db *DB) ConfigRev(ctx context.Context, tenant hook.ID) (rev int64, err error) {
	err = db.row(ctx, configRev, tenant).Scan(&rev)
	return rev, db.readErr("read configuration revision", err)
}

const bumpConfigRev = `UPDATE tenants SET config_rev = config_rev + 1 WHERE id = ?1`

// bumpConfigRev makes events that were matched against the old endpoints stale.
func (t tx) bumpConfigRev(tenant hook.ID) error {
	changed, err := t.exec(bumpConfigRev, tenant)
	if err == nil && changed == 0 {
		return hook.ErrNotFound
	}
	return err
}

const usage = `
SELECT tenant_id, sum(pending), sum(bytes), max(sum(stored), 0) FROM tenant_usage GROUP BY tenant_id
HAVING sum(pending) <> 0 OR sum(bytes) <> 0 OR sum(stored) > 0`

// Usage implements store.Tenants.
func (db *DB) Usage(ctx context.Context) (map[hook.ID]store.Usage, error) {
	type row struct {
		tenant hook.ID
		store.Usage
	}
	rows, err := list(ctx, db, func(r scannable, u *row) error { return r.Scan(&u.tenant, &u.Pending, &u.Bytes, &u.Stored) }, usage)
	out := make(map[hook.ID]store.Usage, len(rows))
	for _, r := range rows {
		out[r.tenant] = r.Usage
	}
	return out, db.readErr("read usage", err)
}

// dropStored takes away what left a tenant. What a tenant that is gone leaves
// behind is nobody's.
const dropStored = `
INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes, stored) SELECT ?1, ?2, 0, 0, -?3 WHERE EXISTS (SELECT 1 FROM tenants WHERE id = ?1)
ON CONFLICT (tenant_id, node_id) DO UPDATE SET stored = stored + excluded.stored`

// byHand is the node that usage is counted under when a person, not a node's
// batch, changes what is pending.
const byHand = hook.ID(0)

// addUsage counts deliveries that a person's wish made pending or ended.
func (t tx) addUsage(tenant hook.ID, pending, bytes int64) error {
	_, err := t.exec(addUsage, tenant, byHand, pending, bytes, 0)
	return err
}
