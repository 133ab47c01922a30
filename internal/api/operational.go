package api

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// OperationalQuery selects operational events.
type OperationalQuery struct {
	rest.PageParams
	rest.WindowParams
	Type     []string `query:"type,explode" doc:"storm.started, storm.*; repeat for alternatives."`
	Endpoint []string `query:"endpoint,explode" doc:"Id or uid; repeat for alternatives."`
}

type operationalList struct {
	rest.TenantPath
	OperationalQuery
}

func (a *API) addOperationalRoutes() {
	g := a.server.Group("operational events")
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/operational-events", "list-operational-events", "List what happened to a tenant's endpoints",
		func(ctx context.Context, c *rest.Call, in *operationalList) (*rest.ListOutput[view.OperationalEvent], error) {
			return a.listOperational(ctx, c, &in.OperationalQuery)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/operational-events", "list-all-operational-events",
		"List what happened, the whole server included", a.listOperational)
}

func (a *API) listOperational(ctx context.Context, c *rest.Call, in *OperationalQuery) (*rest.ListOutput[view.OperationalEvent], error) {
	read := func(p store.Page) ([]hook.OperationalEvent, error) {
		f, err := a.operationalFilter(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return a.cfg.Store.ListOperational(ctx, f, p)
	}
	return rest.ListOf(a.server, c, in.PageParams, read, func(e hook.OperationalEvent) hook.ID { return e.ID }, view.OfOperational)
}

func (a *API) operationalFilter(ctx context.Context, c *rest.Call, in *OperationalQuery) (f store.OperationalFilter, err error) {
	f.Tenant = c.Tenant
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return f, err
	}
	if f.Endpoints, err = a.filterEndpoints(ctx, c, in.Endpoint); err != nil {
		return f, err
	}
	for _, pattern := range in.Type {
		types, err := hook.MatchOperational(pattern)
		if err != nil {
			return f, rest.BadParameter("query.type", err.Error())
		}
		f.Types = append(f.Types, types...)
	}
	return f, nil
}
