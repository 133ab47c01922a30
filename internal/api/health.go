package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/strip"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// HealthQuery names endpoints.
type HealthQuery struct {
	Endpoint []string `query:"endpoint,explode" required:"true" minItems:"1" maxItems:"50" doc:"Ids or uids; may be repeated."`
}

type tenantHealth struct {
	rest.TenantPath
	HealthQuery
}

func (a *API) addHealthRoutes() {
	g := a.server.Group("stats")
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/endpoint-health", "get-endpoint-health",
		"Get what happened to up to 50 endpoints in the last 24 hours, by the half hour",
		func(ctx context.Context, c *rest.Call, in *tenantHealth) (*rest.Output[view.Strips], error) {
			return a.health(ctx, c, in.Endpoint)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/endpoint-health", "get-all-endpoint-health",
		"Get what happened to up to 50 endpoints of any tenant in the last 24 hours, by the half hour",
		func(ctx context.Context, c *rest.Call, in *HealthQuery) (*rest.Output[view.Strips], error) {
			return a.health(ctx, c, in.Endpoint)
		})
}

func (a *API) health(ctx context.Context, c *rest.Call, names []string) (*rest.Output[view.Strips], error) {
	ids, err := a.filterEndpoints(ctx, c, names)
	if err != nil {
		return nil, err
	}
	own, err := a.ownEndpoints(ctx, c.Tenant, ids)
	if err != nil {
		return nil, err
	}
	strips, err := a.strips.Of(own, c.Now, func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error) {
		return a.cfg.Store.EndpointStats(ctx, ids, from, c.Now)
	})
	if err != nil {
		return nil, err
	}
	from := strip.Begins(c.Now)
	v := view.Strips{From: view.Stamp(from), To: view.Stamp(c.Now), CellSeconds: int64(strip.Cell.Seconds())}
	for _, id := range ids {
		v.Endpoints = append(v.Endpoints, view.OfStrip(id, strips[id]))
	}
	return &rest.Output[view.Strips]{Body: v}, nil
}

// ownEndpoints keeps those of a tenant: figures know endpoints alone.
func (a *API) ownEndpoints(ctx context.Context, tenant hook.ID, ids []hook.ID) ([]hook.ID, error) {
	found, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	found = slices.DeleteFunc(found, func(d store.Destination) bool { return tenant != 0 && d.Endpoint.TenantID != tenant })
	own := make([]hook.ID, len(found))
	for i := range found {
		own[i] = found[i].Endpoint.ID
	}
	return own, nil
}
