package api

import (
	"context"
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

type endpointPreviewInput struct {
	EndpointPath
	Body struct {
		Policy json.RawMessage `json:"policy" doc:"The policy level that the endpoint would have, all of it."`
	}
}

// previewEndpointPolicy shows what would change for an endpoint if it had another
// policy level. Nothing is saved.
func (a *API) previewEndpointPolicy(ctx context.Context, c *rest.Call, in *endpointPreviewInput) (*rest.Output[view.PolicyChanges], error) {
	s, err := a.shownEndpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	bad := &rest.Invalid{}
	level, err := a.policies.Given(ctx, bad, in.Body.Policy)
	if err != nil {
		return nil, err
	}
	next, err := a.policies.Check(bad, s.TenantLevel, level, false)
	if err != nil {
		return nil, err
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	now, err := a.policies.Resolve(s.TenantLevel, s.Endpoint.Level())
	if err != nil {
		return nil, err
	}
	before, err := view.OfPolicy(now)
	if err != nil {
		return nil, err
	}
	out := &rest.Output[view.PolicyChanges]{}
	if out.Body.Policy, err = view.OfPolicy(next); err != nil {
		return nil, err
	}
	out.Body.Changes, err = view.ChangesOf(&before, &out.Body.Policy)
	return out, err
}
