package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// operationalEventView is something an operator wants to know of.
type operationalEventView struct {
	ID       string          `json:"id"`
	Type     string          `json:"type" doc:"Such as storm.started or breaker.opened."`
	Tenant   *string         `json:"tenant" doc:"null: the whole server."`
	Endpoint *string         `json:"endpoint"`
	At       stamp           `json:"at"`
	Detail   json.RawMessage `json:"detail" doc:"Figures; which ones depends on the type."`
}

// OperationalParams select operational events.
type OperationalParams struct {
	WindowParams
	Type     []string `query:"type,explode" doc:"storm.started, storm.*; repeat for alternatives."`
	Endpoint []string `query:"endpoint,explode" doc:"Id or uid; repeat for alternatives."`
}

type operationalList struct {
	TenantPath
	PageParams
	OperationalParams
}

type allOperationalList struct {
	PageParams
	OperationalParams
}

func (a *API) addOperationalRoutes() {
	tags := []string{"operational events"}
	register(a, huma.Operation{
		OperationID: "list-operational-events", Method: http.MethodGet, Path: tenantPath + "/operational-events",
		Summary: "List what happened to a tenant's endpoints", Tags: tags,
	}, needRead, func(ctx context.Context, c *call, in *operationalList) (*listOutput[operationalEventView], error) {
		return a.listOperational(ctx, c, in.PageParams, in.OperationalParams)
	})
	register(a, huma.Operation{
		OperationID: "list-all-operational-events", Method: http.MethodGet, Path: "/v1/operational-events",
		Summary: "List what happened, the whole server included", Tags: tags,
	}, needAdminRead, func(ctx context.Context, c *call, in *allOperationalList) (*listOutput[operationalEventView], error) {
		return a.listOperational(ctx, c, in.PageParams, in.OperationalParams)
	})
}

func (a *API) listOperational(ctx context.Context, c *call, p PageParams, in OperationalParams) (*listOutput[operationalEventView], error) {
	page, err := a.cursors.page(c, p)
	if err != nil {
		return nil, err
	}
	f := store.OperationalFilter{Tenant: c.tenant}
	if f.Since, f.Until, err = in.times(c.now); err != nil {
		return nil, err
	}
	if f.Endpoints, err = a.filterEndpoints(ctx, c, in.Endpoint); err != nil {
		return nil, err
	}
	for _, pattern := range in.Type {
		types, err := hook.MatchOperational(pattern)
		if err != nil {
			return nil, badParameter("query.type", err.Error())
		}
		f.Types = append(f.Types, types...)
	}
	rows, err := a.cfg.Store.ListOperational(ctx, f, page)
	if err != nil {
		return nil, fmt.Errorf("list operational events: %w", err)
	}
	return paged(a, c, p, rows, func(e hook.OperationalEvent) hook.ID { return e.ID }, showOperational)
}

func showOperational(e hook.OperationalEvent) operationalEventView {
	v := operationalEventView{
		ID: hook.OperationalPrefix.Format(e.ID), Type: string(e.Type), At: stamp(e.At), Detail: orEmpty(e.Detail),
	}
	if e.TenantID != 0 {
		v.Tenant = nullable(hook.TenantPrefix.Format(e.TenantID))
	}
	if e.EndpointID != 0 {
		v.Endpoint = nullable(hook.EndpointPrefix.Format(e.EndpointID))
	}
	return v
}
