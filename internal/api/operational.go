package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// OperationalParams select operational events.
type OperationalParams struct {
	rest.WindowParams
	Type     []string `query:"type,explode" doc:"storm.started, storm.*; repeat for alternatives."`
	Endpoint []string `query:"endpoint,explode" doc:"Id or uid; repeat for alternatives."`
}

type operationalList struct {
	rest.TenantPath
	rest.PageParams
	OperationalParams
}

type allOperationalList struct {
	rest.PageParams
	OperationalParams
}

func (a *API) addOperationalRoutes() {
	tags := []string{"operational events"}
	rest.Register(a.server, huma.Operation{
		OperationID: "list-operational-events", Method: http.MethodGet, Path: tenantPath + "/operational-events",
		Summary: "List what happened to a tenant's endpoints", Tags: tags,
	}, rest.NeedRead, func(ctx context.Context, c *rest.Call, in *operationalList) (*rest.ListOutput[view.OperationalEvent], error) {
		return a.listOperational(ctx, c, in.PageParams, in.OperationalParams)
	})
	rest.Register(a.server, huma.Operation{
		OperationID: "list-all-operational-events", Method: http.MethodGet, Path: "/v1/operational-events",
		Summary: "List what happened, the whole server included", Tags: tags,
	}, rest.NeedAdminRead, func(ctx context.Context, c *rest.Call, in *allOperationalList) (*rest.ListOutput[view.OperationalEvent], error) {
		return a.listOperational(ctx, c, in.PageParams, in.OperationalParams)
	})
}

func (a *API) listOperational(ctx context.Context, c *rest.Call, p rest.PageParams, in OperationalParams) (*rest.ListOutput[view.OperationalEvent], error) {
	page, err := a.server.Page(c, p)
	if err != nil {
		return nil, err
	}
	f := store.OperationalFilter{Tenant: c.Tenant}
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return nil, err
	}
	if f.Endpoints, err = a.filterEndpoints(ctx, c, in.Endpoint); err != nil {
		return nil, err
	}
	for _, pattern := range in.Type {
		types, err := hook.MatchOperational(pattern)
		if err != nil {
			return nil, rest.BadParameter("query.type", err.Error())
		}
		f.Types = append(f.Types, types...)
	}
	rows, err := a.cfg.Store.ListOperational(ctx, f, page)
	if err != nil {
		return nil, fmt.Errorf("list operational events: %w", err)
	}
	return rest.Paged(a.server, c, p, rows, func(e hook.OperationalEvent) hook.ID { return e.ID }, view.OfOperational)
}
