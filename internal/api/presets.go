package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

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
	tags := []string{"policies"}
	rest.Register(a.server, huma.Operation{
		OperationID: "list-presets", Method: http.MethodGet, Path: "/v1/presets",
		Summary: "List presets", Tags: tags,
	}, rest.NeedRead, a.listPresets)
	rest.Register(a.server, huma.Operation{
		OperationID: "get-preset", Method: http.MethodGet, Path: "/v1/presets/{name}",
		Summary: "Get a preset", Tags: tags,
	}, rest.NeedRead, a.getPreset)
	rest.Register(a.server, huma.Operation{
		OperationID: "preview-policy", Method: http.MethodPost, Path: "/v1/policies/preview",
		Summary: "Resolve a policy without saving it", Tags: tags,
	}, rest.NeedRead, a.previewPolicy)
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
