package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const policyColumns = `p.id, p.name, p.description, p.body, p.version, p.created_at, p.updated_at,
  (SELECT count(*) FROM tenants t WHERE t.policy_name = p.name),
  (SELECT count(*) FROM endpoints e WHERE e.policy_name = p.name AND e.deleted_at IS NULL)`

func scanPolicy(r Row, p *hook.NamedPolicy) error {
	return r.Scan(&p.ID, &p.Name, &p.Description, Document(&p.Policy), &p.Version, Time(&p.CreatedAt), Time(&p.UpdatedAt), &p.Tenants, &p.Endpoints)
}

// namedBody is what the named policy says that a row of another table refers to.
func namedBody(table string) string {
	return `(SELECT p.body FROM named_policies p WHERE p.name = ` + table + `.policy_name)`
}

const (
	countPolicies = `SELECT count(*) FROM named_policies`

	insertPolicy = `
INSERT INTO named_policies (id, name, description, body, version, created_at, updated_at) VALUES ($1, $2, $3, $4, 1, $5, $6)`
)

// CreatePolicy implements store.Policies.
func (t *Tables) CreatePolicy(ctx context.Context, p hook.NamedPolicy, most int64, a hook.Audit) error {
	return t.change(ctx, "create policy", a, func(tx Tx) error {
		if err := tx.Lock(LockPolicies, 0); err != nil {
			return err
		}
		n, err := one(tx, ScanValue[int64], countPolicies)
		if err == nil && n >= most {
			err = hook.ErrTooManyPolicies
		}
		if err == nil {
			_, err = tx.Exec(insertPolicy, p.ID, p.Name, p.Description, raw(p.Policy), p.CreatedAt, p.UpdatedAt)
		}
		return err
	})
}

const policyByName = `SELECT ` + policyColumns + ` FROM named_policies p WHERE p.name = $1`

// PolicyByName implements store.Policies.
func (t *Tables) PolicyByName(ctx context.Context, name string) (hook.NamedPolicy, error) {
	return get(ctx, t, "read policy", scanPolicy, policyByName, name)
}

// ListPolicies implements store.Policies.
func (t *Tables) ListPolicies(ctx context.Context, p store.Page) ([]hook.NamedPolicy, error) {
	q := &Query{SQL: `SELECT ` + policyColumns + ` FROM named_policies p WHERE true`}
	q.Page("p.id", p)
	return list(ctx, t, "list policies", scanPolicy, q)
}

const (
	updatePolicy = `
UPDATE named_policies SET description = $2, body = $3, updated_at = $4, version = version + 1 WHERE name = $1 AND version = $5`

	policyExists = `SELECT EXISTS (SELECT 1 FROM named_policies WHERE name = $1)`

	// moveUsersOn makes what was read of those who use a policy stale.
	moveUsersOn = `
UPDATE tenants SET config_rev = config_rev + 1
WHERE policy_name = $1 OR id IN (SELECT tenant_id FROM endpoints WHERE policy_name = $1 AND deleted_at IS NULL) RETURNING id`
)

// UpdatePolicy implements store.Policies. It does not wait for accepts, as a change
// of one tenant does: an accept that runs beside it may go by either version.
func (t *Tables) UpdatePolicy(ctx context.Context, p hook.NamedPolicy, a hook.Audit) (stored hook.NamedPolicy, tenants []hook.ID, err error) {
	err = t.change(ctx, "update policy", a, func(tx Tx) error {
		if err := tx.Lock(LockPolicies, 0); err != nil {
			return err
		}
		err := mustChange(tx, updatePolicy, p.Name, p.Description, raw(p.Policy), p.UpdatedAt, p.Version)
		if errors.Is(err, hook.ErrNotFound) {
			return mismatchOrAbsent(tx, policyExists, p.Name)
		}
		if err != nil {
			return err
		}
		tenants = nil
		if err := tx.Query(moveUsersOn, []any{p.Name}, Collect(&tenants, ScanValue[hook.ID])); err != nil {
			return err
		}
		stored, err = one(tx, scanPolicy, policyByName, p.Name)
		return err
	})
	return stored, tenants, err
}

const deletePolicy = `DELETE FROM named_policies WHERE name = $1`

// DeletePolicy implements store.Policies. Whoever begins to use the policy holds the
// lock too.
func (t *Tables) DeletePolicy(ctx context.Context, name string, a hook.Audit) (p hook.NamedPolicy, err error) {
	err = t.change(ctx, "delete policy", a, func(tx Tx) error {
		if err := tx.Lock(LockPolicies, 0); err != nil {
			return err
		}
		if p, err = one(tx, scanPolicy, policyByName, name); err != nil {
			return err
		}
		if p.Tenants+p.Endpoints > 0 {
			return hook.ErrStateConflict
		}
		return mustChange(tx, deletePolicy, name)
	})
	return p, err
}

var (
	// endpointsUnder groups the endpoints that a named policy reaches by what they
	// and their tenants say. JSON cannot be compared, its text can.
	endpointsUnder = `
SELECT min(e.id), CAST(t.policy AS text), coalesce(t.policy_name, ''), CAST(` + namedBody("t") + ` AS text),
  CAST(e.policy AS text), coalesce(e.policy_name, ''), CAST(` + namedBody("e") + ` AS text)
FROM endpoints e JOIN tenants t ON t.id = e.tenant_id
WHERE e.deleted_at IS NULL AND (e.policy_name = $1 OR t.policy_name = $1)
GROUP BY CAST(t.policy AS text), t.policy_name, CAST(e.policy AS text), e.policy_name ORDER BY 1`

	tenantsUnder = `
SELECT min(t.id), CAST(t.policy AS text), t.policy_name, CAST(` + namedBody("t") + ` AS text), '{}', '', NULL
FROM tenants t WHERE t.policy_name = $1 GROUP BY CAST(t.policy AS text), t.policy_name ORDER BY 1`
)

func scanPolicyUser(r Row, u *store.PolicyUser) error {
	return r.Scan(&u.ID, Document(&u.Tenant.JSON), &u.Tenant.Name, Document(&u.Tenant.Named), Document(&u.Endpoint.JSON), &u.Endpoint.Name, Document(&u.Endpoint.Named))
}

// PolicyUsers implements store.Policies.
func (t *Tables) PolicyUsers(ctx context.Context, name string) (tenants, endpoints []store.PolicyUser, err error) {
	if tenants, err = list(ctx, t, "read users of policy", scanPolicyUser, &Query{SQL: tenantsUnder, Args: []any{name}}); err != nil {
		return nil, nil, err
	}
	endpoints, err = list(ctx, t, "read users of policy", scanPolicyUser, &Query{SQL: endpointsUnder, Args: []any{name}})
	return tenants, endpoints, err
}

// usePolicy makes sure that a named policy exists until the transaction ends. It comes
// before every other lock: whoever changes a policy takes rows of tenants next.
func usePolicy(tx Tx, name string) error {
	if name == "" {
		return nil
	}
	if err := tx.Lock(LockPoliciesShared, 0); err != nil {
		return err
	}
	there, err := one(tx, ScanValue[bool], policyExists, name)
	if err == nil && !there {
		err = fmt.Errorf("%w: %s", hook.ErrPolicyUnknown, name)
	}
	return err
}
