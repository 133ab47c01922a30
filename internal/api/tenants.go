package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/policies"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

type tenantCreate struct {
	Body struct {
		UID      string            `json:"uid,omitempty" doc:"Your own name for it, unique; letters, digits, _ . -"`
		Name     string            `json:"name" minLength:"1" maxLength:"200"`
		Policy   json.RawMessage   `json:"policy,omitempty" doc:"The tenant's policy level."`
		Limits   view.Limits       `json:"limits,omitzero"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
}

type tenantPatch struct {
	rest.TenantPath
	rest.IfMatch
	Body struct {
		UID      rest.Change[string]             `json:"uid,omitzero"`
		Name     rest.Change[string]             `json:"name,omitzero" minLength:"1" maxLength:"200"`
		Policy   rest.Change[json.RawMessage]    `json:"policy,omitzero" doc:"Merged into the stored level."`
		Limits   rest.Change[limitsPatch]        `json:"limits,omitzero"`
		Metadata rest.Change[map[string]*string] `json:"metadata,omitzero"`
	}
}

type limitsPatch struct {
	EventsPerSecond rest.Change[float64] `json:"events_per_second,omitzero" minimum:"0" maximum:"1000000"`
	MaxPending      rest.Change[int64]   `json:"max_pending,omitzero" minimum:"0"`
	MaxEndpoints    rest.Change[int64]   `json:"max_endpoints,omitzero" minimum:"0"`
	MaxStoredBytes  rest.Change[int64]   `json:"max_stored_bytes,omitzero" minimum:"0"`
}

type tenantList struct {
	rest.PageParams
	Q string `query:"q" maxLength:"200" doc:"Part of the uid or name."`
}

const (
	tenantsPath = "/v1/tenants"
	tenantPath  = tenantsPath + "/{tenant}"
)

func (a *API) addTenantRoutes() {
	g := a.server.Group("tenants")
	rest.Add(g, rest.NeedAdminRead, "GET "+tenantsPath, "list-tenants", "List tenants", a.listTenants)
	rest.Add(g, rest.NeedAdmin, "POST "+tenantsPath, "create-tenant", "Create a tenant", a.createTenant)
	rest.Add(g, rest.NeedRead, "GET "+tenantPath, "get-tenant", "Get a tenant", a.getTenant)
	rest.Add(g, rest.NeedAdmin, "PATCH "+tenantPath, "change-tenant", "Change a tenant", a.patchTenant)
	rest.Add(g, rest.NeedAdmin, "DELETE "+tenantPath, "delete-tenant", "Delete a tenant", a.deleteTenant,
		rest.MayAnswer("204", &huma.Response{Description: "Deleted; without force"}))
}

func (a *API) listTenants(ctx context.Context, c *rest.Call, in *tenantList) (*rest.ListOutput[view.Tenant], error) {
	read := func(p store.Page) ([]hook.Tenant, error) { return a.cfg.Store.ListTenants(ctx, in.Q, p) }
	return rest.ListOf(a.server, c, in.PageParams, read, func(t hook.Tenant) hook.ID { return t.ID }, view.OfTenant)
}

func (a *API) createTenant(ctx context.Context, c *rest.Call, in *tenantCreate) (*rest.Created[view.Tenant], error) {
	bad := &rest.Invalid{}
	t := hook.Tenant{
		ID:        a.cfg.IDs.Next(c.Now),
		UID:       in.Body.UID,
		Name:      in.Body.Name,
		Limits:    hook.TenantLimits(in.Body.Limits),
		Metadata:  in.Body.Metadata,
		Rev:       1,
		ConfigRev: 1,
		CreatedAt: c.Now,
		UpdatedAt: c.Now,
	}
	level, err := a.policies.Given(ctx, bad, in.Body.Policy)
	if err != nil {
		return nil, err
	}
	t.SetLevel(level)
	resolved, err := a.checkTenant(bad, t, false)
	if err != nil {
		return nil, err
	}
	id := hook.TenantPrefix.Format(t.ID)
	rec := a.server.Audit(c, t.ID, "tenant.create", id, diffOf(nil, view.OfTenant(t)))
	if err := a.cfg.Store.CreateTenant(ctx, t, rec); err != nil {
		return nil, fmt.Errorf("create tenant: %w", policies.Gone(err))
	}
	a.cfg.Notifier.TenantChanged(t.ID)
	return &rest.Created[view.Tenant]{Location: tenantsPath + "/" + id, Body: showTenantWith(t, resolved)}, nil
}

// checkTenant checks a tenant for storing.
func (a *API) checkTenant(bad *rest.Invalid, t hook.Tenant, storedPolicy bool) (*policy.Resolved, error) {
	bad.CheckUID("uid", t.UID, string(hook.TenantPrefix))
	bad.CheckText("name", t.Name, rest.MaxName)
	bad.CheckMetadata(t.Metadata)
	resolved, err := a.policies.Check(bad, t.Level(), hook.PolicyLevel{}, storedPolicy)
	if err != nil {
		return nil, err
	}
	return resolved, bad.Err()
}

func (a *API) getTenant(ctx context.Context, c *rest.Call, _ *rest.TenantPath) (*rest.Versioned[view.Tenant], error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	return &rest.Versioned[view.Tenant]{ETag: rest.ETag(t.Rev), Body: view.OfTenant(t)}, nil
}

// tenant reads the one tenant of the path.
func (a *API) tenant(ctx context.Context, c *rest.Call) (hook.Tenant, error) {
	id, err := c.OneTenant()
	if err != nil {
		return hook.Tenant{}, err
	}
	t, err := a.cfg.Store.TenantByID(ctx, id)
	if err != nil {
		return hook.Tenant{}, fmt.Errorf("read tenant: %w", err)
	}
	return t, nil
}

// findTenant returns the id of a tenant given by id or uid.
func (a *API) findTenant(ctx context.Context, text string) (hook.ID, error) {
	t, err := a.readTenant(ctx, text)
	return t.ID, err
}

func (a *API) readTenant(ctx context.Context, text string) (hook.Tenant, error) {
	if strings.HasPrefix(text, string(hook.TenantPrefix)) {
		id, err := hook.TenantPrefix.Parse(text)
		if err != nil {
			return hook.Tenant{}, hook.ErrNotFound
		}
		return a.cfg.Store.TenantByID(ctx, id)
	}
	if !rest.ValidUID(text) {
		return hook.Tenant{}, hook.ErrNotFound
	}
	return a.cfg.Store.TenantByUID(ctx, text)
}

func (a *API) patchTenant(ctx context.Context, c *rest.Call, in *tenantPatch) (*rest.Versioned[view.Tenant], error) {
	return rest.Update(in.IfMatch, func() (*rest.Versioned[view.Tenant], error) {
		before, err := a.tenant(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := in.Check(before.Rev); err != nil {
			return nil, err
		}
		return a.storeTenant(ctx, c, before, in)
	})
}

// storeTenant applies the patch to before and stores the result.
func (a *API) storeTenant(ctx context.Context, c *rest.Call, before hook.Tenant, in *tenantPatch) (*rest.Versioned[view.Tenant], error) {
	bad := &rest.Invalid{}
	t := in.apply(bad, before)
	level, err := a.policies.Patched(ctx, bad, t.Level(), in.Body.Policy)
	if err != nil {
		return nil, err
	}
	t.SetLevel(level)
	resolved, err := a.checkTenant(bad, t, !in.Body.Policy.Set)
	if err != nil {
		return nil, err
	}
	if in.Body.Policy.Set {
		if err := a.checkEndpointsUnder(ctx, t); err != nil {
			return nil, err
		}
	}
	t.UpdatedAt = c.Now
	rec := a.server.Audit(c, t.ID, "tenant.change", hook.TenantPrefix.Format(t.ID), diffOf(view.OfTenant(before), view.OfTenant(t)))
	t, err = a.cfg.Store.UpdateTenant(ctx, t, rec)
	if err != nil {
		return nil, fmt.Errorf("change tenant: %w", policies.Gone(err))
	}
	a.server.ForgetTenants() // its uid may have moved
	a.cfg.Notifier.TenantChanged(t.ID)
	return &rest.Versioned[view.Tenant]{ETag: rest.ETag(t.Rev), Body: showTenantWith(t, resolved)}, nil
}

// apply returns the tenant after the patch, but for its policy.
func (in *tenantPatch) apply(bad *rest.Invalid, t hook.Tenant) hook.Tenant {
	if in.Body.UID.Set && t.UID == hook.DefaultTenantUID && in.Body.UID.To != t.UID {
		bad.Add("uid", "not_allowed", "of the default tenant cannot change")
	}
	if in.Body.Name.Null {
		bad.Add("name", "required", "is required")
	}
	in.Body.UID.Apply(&t.UID)
	in.Body.Name.Apply(&t.Name)
	switch l := in.Body.Limits; {
	case l.Null:
		t.Limits = hook.TenantLimits{}
	case l.Set:
		l.To.EventsPerSecond.Apply(&t.Limits.EventsPerSecond)
		l.To.MaxPending.Apply(&t.Limits.MaxPending)
		l.To.MaxEndpoints.Apply(&t.Limits.MaxEndpoints)
		l.To.MaxStoredBytes.Apply(&t.Limits.MaxStoredBytes)
	}
	t.Metadata = rest.PatchTexts(t.Metadata, in.Body.Metadata)
	return t
}

// checkEndpointsUnder refuses a tenant's policy that one of its endpoints could
// not be resolved under: its lane would have no policy to go by.
func (a *API) checkEndpointsUnder(ctx context.Context, t hook.Tenant) error {
	endpoints, _, err := a.cfg.Store.EndpointsOf(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("read endpoints of tenant: %w", err)
	}
	bad := &rest.Invalid{}
	for _, e := range endpoints {
		if bad.Full() {
			break
		}
		_, err := a.policies.Resolve(t.Level(), e.Level())
		if refused, ok := errors.AsType[*hook.Invalid](err); ok {
			bad.AddAs("invalid_policy", "policy", fmt.Sprintf("does not fit endpoint %s: %s", hook.EndpointPrefix.Format(e.ID), refused))
			continue
		}
		if err != nil {
			return fmt.Errorf("resolve policy: %w", err)
		}
	}
	return bad.Err()
}

func showTenantWith(t hook.Tenant, r *policy.Resolved) view.Tenant {
	v := view.OfTenant(t)
	v.Warnings = r.Warnings
	return v
}
