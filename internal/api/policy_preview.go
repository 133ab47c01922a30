package api

import (
	"context"
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

type endpointPreview struct {
	EndpointPath
	Body struct {
		Policy json.RawMessage `json:"policy" doc:"Instead of the endpoint's own level, over those of its tenant and of the server."`
	}
}

// previewEndpointPolicy resolves a candidate as the endpoint would have it, and tells
// what would change. It saves nothing.
func (a *API) previewEndpointPolicy(ctx context.Context, c *rest.Call, in *endpointPreview) (*rest.Output[view.PolicyPreview], error) {
	s, err := a.shownEndpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	before, err := a.resolve(s.TenantPolicy, s.Endpoint.Policy)
	if err != nil {
		return nil, err
	}
	bad := &rest.Invalid{}
	level := newPolicy(bad, in.Body.Policy)
	after, err := a.checkPolicy(bad, s.TenantPolicy, level, false)
	if err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	v, err := view.OfPolicyPreview(before, after)
	if err != nil {
		return nil, err
	}
	return &rest.Output[view.PolicyPreview]{Body: v}, nil
}
