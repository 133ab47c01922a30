package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// presetView is a named, complete policy.
type presetView struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Policy      json.RawMessage `json:"policy"`
	Ladder      []stepView      `json:"ladder" nullable:"false"`
}

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
	register(a, huma.Operation{
		OperationID: "list-presets", Method: http.MethodGet, Path: "/v1/presets",
		Summary: "List presets", Tags: tags,
	}, needRead, a.listPresets)
	register(a, huma.Operation{
		OperationID: "get-preset", Method: http.MethodGet, Path: "/v1/presets/{name}",
		Summary: "Get a preset", Tags: tags,
	}, needRead, a.getPreset)
	register(a, huma.Operation{
		OperationID: "preview-policy", Method: http.MethodPost, Path: "/v1/policies/preview",
		Summary: "Resolve a policy without saving it", Tags: tags,
	}, needRead, a.previewPolicy)
}

// presets returns the built-in presets and the operator's own.
func (a *API) presets() []policy.PresetInfo {
	all := policy.Presets()
	if l := a.cfg.PolicyLimits; l != nil {
		all = append(all, l.Presets...)
	}
	return all
}

func (a *API) listPresets(context.Context, *call, *struct{}) (*listOutput[presetView], error) {
	out := &listOutput[presetView]{}
	for _, p := range a.presets() {
		v, err := showPreset(p)
		if err != nil {
			return nil, err
		}
		out.Body.Data = append(out.Body.Data, v)
	}
	return out, nil
}

func (a *API) getPreset(_ context.Context, _ *call, in *presetInput) (*output[presetView], error) {
	for _, p := range a.presets() {
		if p.Name == in.Name {
			v, err := showPreset(p)
			return &output[presetView]{Body: v}, err
		}
	}
	return nil, hook.ErrNotFound
}

func showPreset(p policy.PresetInfo) (presetView, error) {
	full, err := json.Marshal(p.Policy)
	if err != nil {
		return presetView{}, err
	}
	return presetView{Name: p.Name, Description: p.Description, Policy: full, Ladder: showLadder(&p.Policy)}, nil
}

// previewPolicy resolves a candidate as an endpoint's level, so that the
// operator's limits hold for it.
func (a *API) previewPolicy(_ context.Context, _ *call, in *previewInput) (*output[policyView], error) {
	bad := &invalid{}
	level := newPolicy(bad, in.Body.Policy)
	resolved, err := a.checkPolicy(bad, nil, level, false)
	if err != nil {
		return nil, err
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	return showPolicy(resolved)
}
