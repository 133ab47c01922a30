package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

func (a *API) addLaneRoutes() {
	tags := []string{"endpoints"}
	rest.Register(a.server, huma.Operation{
		OperationID: "get-lane", Method: http.MethodGet, Path: endpointPath + "/lane",
		Summary: "Get the lane of an endpoint", Tags: tags,
	}, rest.NeedRead, func(ctx context.Context, c *rest.Call, in *endpointInput) (*rest.Output[view.Lane], error) {
		e, err := a.endpoint(ctx, c, in.Endpoint)
		if err != nil {
			return nil, err
		}
		return a.laneOf(ctx, e)
	})
	rest.Register(a.server, huma.Operation{
		OperationID: "get-endpoint-policy", Method: http.MethodGet, Path: endpointPath + "/policy",
		Summary: "Get the resolved policy and where each value came from", Tags: tags,
	}, rest.NeedRead, a.getPolicy)
	rest.Register(a.server, huma.Operation{
		OperationID: "list-lanes", Method: http.MethodGet, Path: tenantPath + "/lanes",
		Summary: "List lanes", Tags: tags,
	}, rest.NeedRead, func(ctx context.Context, c *rest.Call, in *laneList) (*rest.ListOutput[view.Lane], error) {
		return a.listLanes(ctx, c, in.PageParams, in.LaneParams)
	})
	rest.Register(a.server, huma.Operation{
		OperationID: "list-all-lanes", Method: http.MethodGet, Path: "/v1/lanes",
		Summary: "List lanes of all tenants", Tags: tags,
	}, rest.NeedAdminRead, func(ctx context.Context, c *rest.Call, in *allLaneList) (*rest.ListOutput[view.Lane], error) {
		return a.listLanes(ctx, c, in.PageParams, in.LaneParams)
	})
}

// laneOf shows the lane of an endpoint.
func (a *API) laneOf(ctx context.Context, e hook.Endpoint) (*rest.Output[view.Lane], error) {
	s, err := a.surroundOne(ctx, e)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(s.TenantPolicy, e.Policy)
	if err != nil {
		return nil, err
	}
	v := view.OfLane(s.Destination, &r.Policy, a.server.Now())
	if v.Storm, v.RetryQueue, err = a.watchOf(ctx, e.ID); err != nil {
		return nil, err
	}
	return &rest.Output[view.Lane]{Body: v}, nil
}

func (a *API) getPolicy(ctx context.Context, c *rest.Call, in *endpointInput) (*rest.Output[view.Policy], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	s, err := a.surroundOne(ctx, e)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(s.TenantPolicy, e.Policy)
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
