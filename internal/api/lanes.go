package api

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

func (a *API) addLaneRoutes() {
	g := a.server.Group("endpoints")
	rest.Add(g, rest.NeedRead, "GET "+endpointPath+"/lane", "get-lane", "Get the lane of an endpoint",
		func(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[view.Lane], error) {
			e, err := a.endpoint(ctx, c, in.Endpoint)
			if err != nil {
				return nil, err
			}
			return a.laneOf(ctx, e)
		})
	rest.Add(g, rest.NeedRead, "GET "+endpointPath+"/policy", "get-endpoint-policy",
		"Get the resolved policy and where each value came from", a.getPolicy)
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/lanes", "list-lanes", "List lanes",
		func(ctx context.Context, c *rest.Call, in *laneList) (*rest.ListOutput[view.Lane], error) {
			return a.listLanes(ctx, c, &in.LaneQuery)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/lanes", "list-all-lanes", "List lanes of all tenants", a.listLanes)
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

func (a *API) getPolicy(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[view.Policy], error) {
	s, err := a.shownEndpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	r, err := a.resolve(s.TenantPolicy, s.Endpoint.Policy)
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
