package api

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// AuditQuery selects audit records.
type AuditQuery struct {
	rest.PageParams
	rest.WindowParams
	Actor   []string `query:"actor,explode" doc:"key_…, or the name of a part of the server; repeat for alternatives."`
	Action  []string `query:"action,explode" doc:"endpoint.pause or endpoint.*; repeat for alternatives."`
	Subject []string `query:"subject,explode" doc:"Id of what changed; repeat for alternatives."`
}

type auditList struct {
	rest.TenantPath
	AuditQuery
}

// watchedFor is how long it counts what a node told of itself.
const watchedFor = 15 * time.Minute

func (a *API) addAuditRoutes() {
	g := a.server.Group("audit")
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/audit", "list-audit", "List the changes of a tenant",
		func(ctx context.Context, c *rest.Call, in *auditList) (*rest.ListOutput[view.Audit], error) {
			return a.listAudit(ctx, c, &in.AuditQuery)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/audit", "list-all-audit", "List all changes, those of the server included", a.listAudit)
	rest.Add(a.server.Group("nodes"), rest.NeedAdminRead, "GET /v1/nodes", "list-nodes", "List the processes that work on the store", a.listNodes)
}

func (a *API) listAudit(ctx context.Context, c *rest.Call, in *AuditQuery) (*rest.ListOutput[view.Audit], error) {
	f, err := auditFilter(c, in)
	if err != nil {
		return nil, err
	}
	page, err := a.server.Page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	rows, next, err := a.cfg.Store.ListAudit(ctx, f, page)
	if err != nil {
		return nil, err
	}
	show := func(rec hook.Audit) view.Audit { return view.OfAudit(rec, c.Key.TenantID == 0) }
	return rest.PagedUpTo(a.server, c, in.PageParams, rows, next, func(rec hook.Audit) hook.ID { return rec.ID }, show)
}

func auditFilter(c *rest.Call, in *AuditQuery) (f store.AuditFilter, err error) {
	f.Tenant, f.Actors, f.Actions, f.Subjects = c.Tenant, in.Actor, in.Action, in.Subject
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return f, err
	}
	for i, pattern := range in.Action {
		if hook.CheckPattern(pattern) != nil {
			return f, rest.BadParameter("query.action", fmt.Sprintf("value %d must be an action such as endpoint.pause, or endpoint.*", i+1))
		}
	}
	for name, values := range map[string][]string{"query.actor": in.Actor, "query.subject": in.Subject} {
		for _, text := range values {
			if text == "" || len(text) > 128 {
				return f, rest.BadParameter(name, "must have 1 to 128 characters")
			}
		}
	}
	return f, nil
}

func (a *API) listNodes(ctx context.Context, c *rest.Call, _ *struct{}) (*rest.Output[view.Nodes], error) {
	fleet := view.Fleet{TTL: a.cfg.LeaseTTL}
	var err error
	if fleet.Nodes, err = a.cfg.Store.Nodes(ctx); err != nil {
		return nil, err
	}
	if fleet.Leases, err = a.cfg.Store.Shards(ctx, a.cfg.LeaseTTL); err != nil {
		return nil, err
	}
	if fleet.Watches, err = a.cfg.Store.NodeWatches(ctx, c.Now.Add(-watchedFor)); err != nil {
		return nil, err
	}
	return &rest.Output[view.Nodes]{Body: view.OfFleet(fleet)}, nil
}
