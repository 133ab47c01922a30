package api

import (
	"context"
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

type presetInput struct {
	Name string `path:"name" maxLength:"64"`
}

type previewInput struct {
	Body struct {
		Policy json.RawMessage `json:"policy" doc:"A policy level, tried over the server's."`
	}
}

func (a *API) addPresetRoutes() {
	g := a.server.Group("policies")
	rest.Add(g, rest.NeedRead, "GET /v1/presets", "list-presets", "List presets", a.listPresets)
	rest.Add(g, rest.NeedRead, "GET /v1/presets/{name}", "get-preset", "Get a preset", a.getPreset)
	rest.Add(g, rest.NeedRead, "POST /v1/policies/preview", "preview-policy", "Resolve a policy without saving it", a.previewPolicy)
}

// presets returns the built-in presets and the operator's own.
func (a *API) presets() []policy.PresetInfo {
	all := policy.Presets()
	if l := a.cfg.PolicyLimits; l != nil {
		all = append(all, l.Presets...)
	}
	return all
}

func (a *API) listPresets(context.Context, *rest.Call, *struct{}) (*rest.ListOutput[view.Preset], error) {
	out := &rest.ListOutput[view.Preset]{}
	for _, p := range a.presets() {
		v, err := view.OfPreset(p)
		if err != nil {
			return nil, err
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	return out, nil
}

func (a *API) getPreset(_ context.Context, _ *rest.Call, in *presetInput) (*rest.Output[view.Preset], error) {
	for _, p := range a.presets() {
		if p.Name == in.Name {
			v, err := view.OfPreset(p)
			return &rest.Output[view.Preset]{Body: v}, err
		}
	}
	return nil, hook.ErrNotFound
}

// previewPolicy resolves a candidate as an endpoint's level, so that the
// operator's limits hold for it.
func (a *API) previewPolicy(_ context.Context, _ *rest.Call, in *previewInput) (*rest.Output[view.Policy], error) {
	bad := &rest.Invalid{}
	level := newPolicy(bad, in.Body.Policy)
	resolved, err := a.checkPolicy(bad, nil, level, false)
	if err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return outputPolicy(resolved)
}
