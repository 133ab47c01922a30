package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// tenantView is a tenant as the API shows it.
type tenantView struct {
	ID        string            `json:"id"`
	UID       *string           `json:"uid"`
	Name      string            `json:"name"`
	Policy    json.RawMessage   `json:"policy" doc:"The tenant's policy level."`
	Limits    limitsView        `json:"limits"`
	Metadata  map[string]string `json:"metadata"`
	CreatedAt stamp             `json:"created_at"`
	UpdatedAt stamp             `json:"updated_at"`
	Version   int64             `json:"version"`
	Warnings  []string          `json:"warnings,omitempty" doc:"Soft findings about the policy, after a write."`
}

// limitsView is what one tenant may use; 0 means the server's setting.
type limitsView struct {
	EventsPerSecond float64 `json:"events_per_second" required:"false" minimum:"0" maximum:"1000000"`
	MaxPending      int64   `json:"max_pending" required:"false" minimum:"0"`
	MaxEndpoints    int64   `json:"max_endpoints" required:"false" minimum:"0"`
	MaxStoredBytes  int64   `json:"max_stored_bytes" required:"false" minimum:"0"`
}

type tenantInput struct {
	TenantPath
}

type tenantCreate struct {
	Body struct {
		UID      string            `json:"uid,omitempty" doc:"Your own name for it, unique; letters, digits, _ . -"`
		Name     string            `json:"name" minLength:"1" maxLength:"200"`
		Policy   json.RawMessage   `json:"policy,omitempty" doc:"The tenant's policy level."`
		Limits   limitsView        `json:"limits,omitzero"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
}

type tenantPatch struct {
	TenantPath
	IfMatch
	Body struct {
		UID      change[string]             `json:"uid,omitzero"`
		Name     change[string]             `json:"name,omitzero" minLength:"1" maxLength:"200"`
		Policy   change[json.RawMessage]    `json:"policy,omitzero" doc:"Merged into the stored level."`
		Limits   change[limitsPatch]        `json:"limits,omitzero"`
		Metadata change[map[string]*string] `json:"metadata,omitzero"`
	}
}

type limitsPatch struct {
	EventsPerSecond change[float64] `json:"events_per_second,omitzero" minimum:"0" maximum:"1000000"`
	MaxPending      change[int64]   `json:"max_pending,omitzero" minimum:"0"`
	MaxEndpoints    change[int64]   `json:"max_endpoints,omitzero" minimum:"0"`
	MaxStoredBytes  change[int64]   `json:"max_stored_bytes,omitzero" minimum:"0"`
}

type tenantList struct {
	PageParams
	Q string `query:"q" maxLength:"200" doc:"Part of the uid or name."`
}

const (
	tenantsPath = "/v1/tenants"
	tenantPath  = tenantsPath + "/{tenant}"
)

func (a *API) addTenantRoutes() {
	tags := []string{"tenants"}
	register(a, huma.Operation{
		OperationID: "list-tenants", Method: http.MethodGet, Path: tenantsPath,
		Summary: "List tenants", Tags: tags,
	}, needAdminRead, a.listTenants)
	register(a, huma.Operation{
		OperationID: "create-tenant", Method: http.MethodPost, Path: tenantsPath,
		Summary: "Create a tenant", Tags: tags, DefaultStatus: http.StatusCreated,
	}, needAdmin, a.createTenant)
	register(a, huma.Operation{
		OperationID: "get-tenant", Method: http.MethodGet, Path: tenantPath,
		Summary: "Get a tenant", Tags: tags,
	}, needRead, a.getTenant)
	register(a, huma.Operation{
		OperationID: "change-tenant", Method: http.MethodPatch, Path: tenantPath,
		Summary: "Change a tenant", Tags: tags,
	}, needAdmin, a.patchTenant)
	register(a, huma.Operation{
		OperationID: "delete-tenant", Method: http.MethodDelete, Path: tenantPath,
		Summary: "Delete a tenant", Tags: tags, DefaultStatus: http.StatusAccepted,
		Responses: map[string]*huma.Response{"204": {Description: "Deleted; without force"}},
	}, needAdmin, a.deleteTenant)
}

func (a *API) listTenants(ctx context.Context, c *call, in *tenantList) (*listOutput[tenantView], error) {
	page, err := a.cursors.page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	rows, err := a.cfg.Store.ListTenants(ctx, in.Q, page)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return paged(a, c, in.PageParams, rows, func(t hook.Tenant) hook.ID { return t.ID }, showTenant)
}

func (a *API) createTenant(ctx context.Context, c *call, in *tenantCreate) (*created[tenantView], error) {
	bad := &invalid{}
	t := hook.Tenant{
		ID:        a.cfg.IDs.Next(c.now),
		UID:       in.Body.UID,
		Name:      in.Body.Name,
		Policy:    newPolicy(bad, in.Body.Policy),
		Limits:    hook.TenantLimits(in.Body.Limits),
		Metadata:  in.Body.Metadata,
		Rev:       1,
		ConfigRev: 1,
		CreatedAt: c.now,
		UpdatedAt: c.now,
	}
	resolved, err := a.checkTenant(bad, t, false)
	if err != nil {
		return nil, err
	}
	id := hook.TenantPrefix.Format(t.ID)
	rec := a.audit(c, t.ID, "tenant.create", id, diffOf(nil, showTenant(t)))
	if err := a.cfg.Store.CreateTenant(ctx, t, rec); err != nil {
		return nil, fmt.Errorf("create tenant: %w", err)
	}
	a.cfg.Bell.TenantChanged(t.ID)
	return &created[tenantView]{Location: tenantsPath + "/" + id, Body: showTenantWith(t, resolved)}, nil
}

// checkTenant checks a tenant for storing.
func (a *API) checkTenant(bad *invalid, t hook.Tenant, storedPolicy bool) (*policy.Resolved, error) {
	bad.checkUID("uid", t.UID, string(hook.TenantPrefix))
	bad.checkText("name", t.Name, maxName)
	bad.checkMetadata(t.Metadata)
	resolved, err := a.checkPolicy(bad, t.Policy, nil, storedPolicy)
	if err != nil {
		return nil, err
	}
	return resolved, bad.err()
}

func (a *API) getTenant(ctx context.Context, c *call, _ *tenantInput) (*versioned[tenantView], error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	return &versioned[tenantView]{ETag: etag(t.Rev), Body: showTenant(t)}, nil
}

// tenant reads the one tenant of the path.
func (a *API) tenant(ctx context.Context, c *call) (hook.Tenant, error) {
	id, err := c.oneTenant()
	if err != nil {
		return hook.Tenant{}, err
	}
	t, err := a.cfg.Store.TenantByID(ctx, id)
	if err != nil {
		return hook.Tenant{}, fmt.Errorf("read tenant: %w", err)
	}
	return t, nil
}

func (a *API) patchTenant(ctx context.Context, c *call, in *tenantPatch) (*versioned[tenantView], error) {
	var out *versioned[tenantView]
	err := in.retryUpdate(func() error {
		before, err := a.tenant(ctx, c)
		if err != nil {
			return err
		}
		if err := in.check(before.Rev); err != nil {
			return err
		}
		out, err = a.storeTenant(ctx, c, before, in)
		return err
	})
	return out, err
}

// storeTenant applies the patch to before and stores the result.
func (a *API) storeTenant(ctx context.Context, c *call, before hook.Tenant, in *tenantPatch) (*versioned[tenantView], error) {
	bad := &invalid{}
	t := in.apply(bad, before)
	resolved, err := a.checkTenant(bad, t, !in.Body.Policy.set)
	if err != nil {
		return nil, err
	}
	if in.Body.Policy.set {
		if err := a.checkEndpointsUnder(ctx, t); err != nil {
			return nil, err
		}
	}
	t.UpdatedAt = c.now
	rec := a.audit(c, t.ID, "tenant.change", hook.TenantPrefix.Format(t.ID), diffOf(showTenant(before), showTenant(t)))
	t, err = a.cfg.Store.UpdateTenant(ctx, t, rec)
	if err != nil {
		return nil, fmt.Errorf("change tenant: %w", err)
	}
	a.tenants.forgetAll() // its uid may have moved
	a.cfg.Bell.TenantChanged(t.ID)
	return &versioned[tenantView]{ETag: etag(t.Rev), Body: showTenantWith(t, resolved)}, nil
}

// apply returns the tenant after the patch.
func (in *tenantPatch) apply(bad *invalid, t hook.Tenant) hook.Tenant {
	if in.Body.UID.set && t.UID == hook.DefaultTenantUID && in.Body.UID.to != t.UID {
		bad.add("uid", "not_allowed", "of the default tenant cannot change")
	}
	if in.Body.Name.null {
		bad.add("name", "required", "is required")
	}
	in.Body.UID.apply(&t.UID)
	in.Body.Name.apply(&t.Name)
	t.Policy = patchPolicy(bad, t.Policy, in.Body.Policy)
	switch l := in.Body.Limits; {
	case l.null:
		t.Limits = hook.TenantLimits{}
	case l.set:
		l.to.EventsPerSecond.apply(&t.Limits.EventsPerSecond)
		l.to.MaxPending.apply(&t.Limits.MaxPending)
		l.to.MaxEndpoints.apply(&t.Limits.MaxEndpoints)
		l.to.MaxStoredBytes.apply(&t.Limits.MaxStoredBytes)
	}
	t.Metadata = patchTexts(t.Metadata, in.Body.Metadata)
	return t
}

// patchTexts applies a merge patch to a map of texts.
func patchTexts(m map[string]string, ch change[map[string]*string]) map[string]string {
	switch {
	case !ch.set:
		return m
	case ch.null:
		return nil
	default:
		return mergeTexts(m, ch.to)
	}
}

// checkEndpointsUnder refuses a tenant's policy that one of its endpoints could
// not be resolved under: its lane would have no policy to go by.
func (a *API) checkEndpointsUnder(ctx context.Context, t hook.Tenant) error {
	endpoints, _, err := a.cfg.Store.EndpointsOf(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("read endpoints of tenant: %w", err)
	}
	bad := &invalid{}
	for _, e := range endpoints {
		if bad.full() {
			break
		}
		_, err := a.resolve(t.Policy, e.Policy)
		if refused, ok := errors.AsType[*hook.Invalid](err); ok {
			bad.addAs("invalid_policy", "policy", fmt.Sprintf("does not fit endpoint %s: %s", hook.EndpointPrefix.Format(e.ID), refused))
			continue
		}
		if err != nil {
			return fmt.Errorf("resolve policy: %w", err)
		}
	}
	return bad.err()
}

func showTenant(t hook.Tenant) tenantView {
	return tenantView{
		ID:        hook.TenantPrefix.Format(t.ID),
		UID:       nullable(t.UID),
		Name:      t.Name,
		Policy:    orEmpty(t.Policy),
		Limits:    limitsView(t.Limits),
		Metadata:  orNoTexts(t.Metadata),
		CreatedAt: stamp(t.CreatedAt),
		UpdatedAt: stamp(t.UpdatedAt),
		Version:   t.Rev,
	}
}

func showTenantWith(t hook.Tenant, r *policy.Resolved) tenantView {
	v := showTenant(t)
	v.Warnings = r.Warnings
	return v
}

// orNoTexts shows no map as an empty one.
func orNoTexts(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
