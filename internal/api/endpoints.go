package api

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/destination"
	"github.com/breakwaterhq/breakwater/internal/api/policies"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

type endpointList struct {
	rest.TenantPath
	rest.PageParams
	EndpointParams
}

// endpointCreated is a new endpoint with its secret, which is shown here and by
// the explicit read only.
type endpointCreated struct {
	EndpointFields
	Secret    string `json:"secret" doc:"Shown once."`
	PublicKey string `json:"public_key,omitempty" doc:"Verifies the signatures of scheme standard_ed25519."`
}

// EndpointFields embeds an endpoint in another answer. Its name is exported
// because huma skips embedded types whose name is not.
type EndpointFields view.Endpoint

const (
	endpointsPath = tenantPath + "/endpoints"
	endpointPath  = endpointsPath + "/{endpoint}"
)

func (a *API) addEndpointRoutes() {
	g := a.server.Group("endpoints")
	rest.Add(g, rest.NeedRead, "GET "+endpointsPath, "list-endpoints", "List endpoints", a.listEndpoints)
	rest.Add(g, rest.NeedWrite, "POST "+endpointsPath, "create-endpoint", "Create an endpoint", a.createEndpoint)
	rest.Add(g, rest.NeedRead, "GET "+endpointPath, "get-endpoint", "Get an endpoint", a.getEndpoint)
	rest.Add(g, rest.NeedWrite, "PATCH "+endpointPath, "change-endpoint", "Change an endpoint", a.patchEndpoint,
		rest.Describe("A new url restarts the lane at slow start."))
	rest.Add(g, rest.NeedWrite, "DELETE "+endpointPath, "delete-endpoint", "Delete an endpoint and cancel its pending deliveries", a.deleteEndpoint)
}

func (a *API) listEndpoints(ctx context.Context, c *rest.Call, in *endpointList) (*rest.ListOutput[view.Endpoint], error) {
	read := func(p store.Page) ([]shown, error) {
		f, err := in.filter(c)
		if err != nil {
			return nil, err
		}
		rows, err := a.cfg.Store.ListLanes(ctx, f, p)
		if err != nil {
			return nil, err
		}
		return a.surround(ctx, rows)
	}
	return rest.ListOf(a.server, c, in.PageParams, read,
		func(s shown) hook.ID { return s.Endpoint.ID },
		func(s shown) view.Endpoint { return a.view(s, c.Now) })
}

// endpoint reads the endpoint of the path, by id or uid. A uid means nothing
// without its tenant.
func (a *API) endpoint(ctx context.Context, c *rest.Call, text string) (hook.Endpoint, error) {
	if strings.HasPrefix(text, string(hook.EndpointPrefix)) {
		id, err := hook.EndpointPrefix.Parse(text)
		if err != nil {
			return hook.Endpoint{}, hook.ErrNotFound
		}
		return a.cfg.Store.EndpointByID(ctx, c.Tenant, id)
	}
	tenant, err := c.OneTenant()
	if err != nil {
		return hook.Endpoint{}, err
	}
	if !rest.ValidUID(text) {
		return hook.Endpoint{}, hook.ErrNotFound
	}
	return a.cfg.Store.EndpointByUID(ctx, tenant, text)
}

func (a *API) getEndpoint(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Versioned[view.Endpoint], error) {
	s, err := a.shownEndpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return &rest.Versioned[view.Endpoint]{ETag: rest.ETag(s.Endpoint.Rev), Body: a.view(s, c.Now)}, nil
}

func (a *API) createEndpoint(ctx context.Context, c *rest.Call, in *endpointCreate) (*rest.Created[endpointCreated], error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	d, err := a.newEndpoint(ctx, c, t, in)
	if err != nil {
		return nil, err
	}
	secrets, err := a.newSecrets(c, d.endpoint, in.Body.Secret)
	if err != nil {
		return nil, err
	}
	s := shown{headers: d.headers}
	s.Endpoint, s.TenantLevel, s.Secrets = d.endpoint, t.Level(), secrets.stored
	v := a.view(s, c.Now)
	rec := a.server.Audit(c, t.ID, "endpoint.create", v.ID, diffOf(nil, v))
	most, rule := a.endpointLimit(t)
	err = a.cfg.Store.CreateEndpoint(ctx, d.endpoint, secrets.stored, most, rec)
	switch {
	case errors.Is(err, hook.ErrTooManyEndpoints):
		return nil, rest.FieldError(rule, "out_of_range", fmt.Sprintf("of %d is reached for this tenant", most))
	case err != nil:
		return nil, fmt.Errorf("create endpoint: %w", policies.Gone(err))
	}
	a.cfg.Notifier.EndpointChanged(t.ID, d.endpoint.ID)
	v.Warnings = warningsOf(d.resolved)
	return &rest.Created[endpointCreated]{
		Location: tenantsPath + "/" + v.Tenant + "/endpoints/" + v.ID,
		Body: endpointCreated{
			EndpointFields: EndpointFields(v),
			Secret:         secrets.shown.Reveal(),
			PublicKey:      secrets.public,
		},
	}, nil
}

// endpointLimit returns how many endpoints a tenant may have, 0 for any number,
// and the name of the setting that says so.
func (a *API) endpointLimit(t hook.Tenant) (most int64, rule string) {
	if t.Limits.MaxEndpoints > 0 {
		return t.Limits.MaxEndpoints, "limits.max_endpoints"
	}
	return a.cfg.MaxEndpoints, "ingest.tenant_max_endpoints"
}

func (a *API) patchEndpoint(ctx context.Context, c *rest.Call, in *endpointPatch) (*rest.Versioned[view.Endpoint], error) {
	return rest.Update(in.IfMatch, func() (*rest.Versioned[view.Endpoint], error) {
		before, err := a.shownEndpoint(ctx, c, in.Endpoint)
		if err != nil {
			return nil, err
		}
		if err := in.Check(before.Endpoint.Rev); err != nil {
			return nil, err
		}
		return a.storeEndpoint(ctx, c, before, in)
	})
}

// shownEndpoint reads the endpoint of the path with what surrounds it.
func (a *API) shownEndpoint(ctx context.Context, c *rest.Call, text string) (shown, error) {
	e, err := a.endpoint(ctx, c, text)
	if err != nil {
		return shown{}, err
	}
	return a.surroundOne(ctx, e)
}

// storeEndpoint applies the patch to before and stores the result.
func (a *API) storeEndpoint(ctx context.Context, c *rest.Call, before shown, in *endpointPatch) (*rest.Versioned[view.Endpoint], error) {
	t, err := a.cfg.Store.TenantByID(ctx, before.Endpoint.TenantID)
	if err != nil {
		return nil, fmt.Errorf("read tenant: %w", err)
	}
	d, err := a.patchedEndpoint(ctx, c, t, before, in)
	if err != nil {
		return nil, err
	}
	if err := a.addMissingSecrets(ctx, c, d, before.Secrets); err != nil {
		return nil, err
	}
	after := before
	after.Endpoint, after.headers = d.endpoint, d.headers
	diff := diffOf(a.view(before, c.Now), a.view(after, c.Now))
	if h := destination.HeaderDiff(before.headers, after.headers); len(h) > 0 {
		diff["headers"] = h
	}
	id := hook.EndpointPrefix.Format(d.endpoint.ID)
	if after.Endpoint, err = a.cfg.Store.UpdateEndpoint(ctx, d.endpoint, a.server.Audit(c, t.ID, "endpoint.change", id, diff)); err != nil {
		return nil, fmt.Errorf("change endpoint: %w", policies.Gone(err))
	}
	a.cfg.Notifier.EndpointChanged(t.ID, after.Endpoint.ID)
	if after, err = a.surroundOne(ctx, after.Endpoint); err != nil {
		return nil, err
	}
	v := a.view(after, c.Now)
	v.Warnings = warningsOf(d.resolved)
	return &rest.Versioned[view.Endpoint]{ETag: rest.ETag(after.Endpoint.Rev), Body: v}, nil
}

type cancelledView struct {
	Cancelled int64 `json:"cancelled" doc:"Pending deliveries that were cancelled."`
}

func (a *API) deleteEndpoint(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[cancelledView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	n, err := a.removeEndpoint(ctx, c, e)
	if err != nil {
		return nil, err
	}
	return &rest.Output[cancelledView]{Body: cancelledView{Cancelled: n}}, nil
}

// removeEndpoint deletes an endpoint and tells how many deliveries it cancelled.
func (a *API) removeEndpoint(ctx context.Context, c *rest.Call, e hook.Endpoint) (int64, error) {
	rec := a.server.Audit(c, e.TenantID, "endpoint.delete", hook.EndpointPrefix.Format(e.ID), nil)
	n, err := a.cfg.Store.DeleteEndpoint(ctx, e.TenantID, e.ID, c.Now, rec)
	if err != nil {
		return n, fmt.Errorf("delete endpoint: %w", err)
	}
	a.cfg.Notifier.EndpointChanged(e.TenantID, e.ID)
	return n, nil
}
