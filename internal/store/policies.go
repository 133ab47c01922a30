package store

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Policies keeps policies that were saved by name. Tenants and endpoints are stored
// with the name that their level refers to: those fail with hook.ErrPolicyUnknown
// when it does not exist.
type Policies interface {
	// CreatePolicy fails with hook.ErrUIDTaken when the name is, and with
	// hook.ErrTooManyPolicies when there are most already.
	CreatePolicy(ctx context.Context, p hook.NamedPolicy, most int64, a hook.Audit) error
	PolicyByName(ctx context.Context, name string) (hook.NamedPolicy, error)
	ListPolicies(ctx context.Context, p Page) ([]hook.NamedPolicy, error)
	// UpdatePolicy stores p under its name if the stored Version is p.Version, else
	// it fails with hook.ErrVersionMismatch. It bumps the ConfigRev of all tenants
	// that use the policy, or have endpoints that do, and returns them.
	UpdatePolicy(ctx context.Context, p hook.NamedPolicy, a hook.Audit) (stored hook.NamedPolicy, tenants []hook.ID, err error)
	// DeletePolicy fails with hook.ErrStateConflict while somebody uses the policy,
	// and returns it as it was.
	DeletePolicy(ctx context.Context, name string, a hook.Audit) (hook.NamedPolicy, error)
	// PolicyUsers returns the tenants that use a policy, and the endpoints that it
	// reaches, by themselves or through their tenants. Of several that say the same
	// it returns one.
	PolicyUsers(ctx context.Context, name string) (tenants, endpoints []PolicyUser, err error)
}

// PolicyUser is what an endpoint and its tenant say about their policy, or a tenant
// alone.
type PolicyUser struct {
	ID               hook.ID // of the endpoint, or of the tenant
	Tenant, Endpoint hook.PolicyLevel
}
