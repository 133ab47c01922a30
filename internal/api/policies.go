package api

import (
	"context"
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/trial"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

type presetInput struct {
	Name string `path:"name" maxLength:"64"`
}

type previewInput struct {
	Body struct {
		Policy   json.RawMessage `json:"policy" doc:"A policy level, tried over the server's."`
		Tenant   string          `json:"tenant,omitempty" maxLength:"64" doc:"ten_…: tried over the level of this tenant too."`
		Simulate *trial.Outage   `json:"simulate,omitempty" doc:"An outage to play in virtual time: nothing is sent. One runs at a time; what would take more than 2 s of computing is refused with 422."`
	}
}

func (a *API) addPolicyRoutes() {
	g := a.server.Group("policies")
	rest.Add(g, rest.NeedRead, "GET /v1/presets", "list-presets", "List presets", a.listPresets)
	rest.Add(g, rest.NeedRead, "GET /v1/presets/{name}", "get-preset", "Get a preset", a.getPreset)
	rest.Add(g, rest.NeedRead, "POST /v1/policies/preview", "preview-policy", "Resolve a policy without saving it, and play an outage with it", a.previewPolicy)
	rest.Add(g, rest.NeedRead, "POST "+endpointPath+"/policy/preview", "preview-endpoint-policy",
		"Show what another policy would change for an endpoint", a.previewEndpointPolicy)
	a.policies.AddRoutes(a.server)
}

func (a *API) listPresets(context.Context, *rest.Call, *struct{}) (*rest.ListOutput[view.Preset], error) {
	out := &rest.ListOutput[view.Preset]{}
	for _, p := range policy.Presets() {
		v, err := view.OfPreset(p)
		if err != nil {
			return nil, err
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	return out, nil
}

func (a *API) getPreset(_ context.Context, _ *rest.Call, in *presetInput) (*rest.Output[view.Preset], error) {
	for _, p := range policy.Presets() {
		if p.Name == in.Name {
			v, err := view.OfPreset(p)
			return &rest.Output[view.Preset]{Body: v}, err
		}
	}
	return nil, hook.ErrNotFound
}

// previewPolicy resolves a candidate as an endpoint's level, so that the
// operator's limits hold for it.
func (a *API) previewPolicy(ctx context.Context, c *rest.Call, in *previewInput) (*rest.Output[view.PolicyPreview], error) {
	below, err := a.levelOfTenant(ctx, c, in.Body.Tenant)
	if err != nil {
		return nil, err
	}
	bad := &rest.Invalid{}
	level, err := a.policies.Given(ctx, bad, in.Body.Policy)
	if err != nil {
		return nil, err
	}
	resolved, err := a.policies.Check(bad, below, level, false)
	if err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	out := &rest.Output[view.PolicyPreview]{}
	if out.Body.Policy, err = view.OfPolicy(resolved); err != nil || in.Body.Simulate == nil {
		return out, err
	}
	out.Body.Simulation, err = a.bench.Play(ctx, &resolved.Policy, in.Body.Simulate)
	return out, err
}

// levelOfTenant reads the policy level of a tenant; none for no tenant.
func (a *API) levelOfTenant(ctx context.Context, c *rest.Call, text string) (hook.PolicyLevel, error) {
	if text == "" {
		return hook.PolicyLevel{}, nil
	}
	id, err := hook.TenantPrefix.Parse(text)
	if err != nil || c.Key.TenantID != 0 && c.Key.TenantID != id {
		return hook.PolicyLevel{}, hook.ErrNotFound
	}
	t, err := a.cfg.Store.TenantByID(ctx, id)
	return t.Level(), err
}

func (a *API) getPolicy(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[view.Policy], error) {
	s, err := a.shownEndpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	r, err := a.policies.Resolve(s.TenantLevel, s.Endpoint.Level())
	if err != nil {
		return nil, err
	}
	return outputPolicy(r)
}

func outputPolicy(r *policy.Resolved) (*rest.Output[view.Policy], error) {
	v, err := view.OfPolicy(r)
	if err != nil {
		return nil, err
	}
	return &rest.Output[view.Policy]{Body: v}, nil
}
