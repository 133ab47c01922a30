package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// need is what a route asks of a key.
type need uint8

const (
	needNothing   need = iota // no key at all
	needAnyKey                // any valid key
	needSend                  // may hand over events
	needRead                  // may read a tenant's objects
	needWrite                 // may change a tenant's objects
	needAdminRead             // may read across tenants
	needAdmin                 // may do everything
)

// scopesFor lists the scopes that satisfy each need. What is not listed is
// refused.
var scopesFor = map[need][]hook.Scope{
	needAnyKey:    {hook.ScopeAdmin, hook.ScopeAdminRead, hook.ScopeTenantWrite, hook.ScopeTenantRead, hook.ScopeTenantSend},
	needSend:      {hook.ScopeAdmin, hook.ScopeTenantWrite, hook.ScopeTenantSend},
	needRead:      {hook.ScopeAdmin, hook.ScopeAdminRead, hook.ScopeTenantWrite, hook.ScopeTenantRead},
	needWrite:     {hook.ScopeAdmin, hook.ScopeTenantWrite},
	needAdminRead: {hook.ScopeAdmin, hook.ScopeAdminRead},
	needAdmin:     {hook.ScopeAdmin},
}

// Route is one row of the route table.
type Route struct {
	Method string
	Path   string
	Scopes []hook.Scope // that may use it; none: no key is needed
}

// route is a Route with what serving it takes.
type route struct {
	Route
	need    need
	params  map[string]bool // query parameters; true: may be repeated
	body    bodyRule
	maxBody int64
}

// bodyRule says how a request body is read before the handler runs.
type bodyRule uint8

const (
	bodyNone     bodyRule = iota // not read at all
	bodyOptional                 // empty or JSON
	bodyRequired                 // JSON
	bodyOwn                      // the handler reads it
)

// maxControlBody bounds the bodies of all routes but those that take events.
const maxControlBody = 256 << 10

// readTimeout bounds routes that only read, so that one expensive filter cannot
// hold a connection of the store.
const readTimeout = 2 * time.Second

// takesEvents reports whether the route accepts events.
func (rt *route) takesEvents() bool {
	return rt.Method == http.MethodPost && (rt.Path == eventsPath || rt.Path == batchPath)
}

// Routes returns the route table, in the order of registration.
func (a *API) Routes() []Route {
	out := make([]Route, len(a.routes))
	for i, rt := range a.routes {
		out[i] = rt.Route
		out[i].Scopes = slices.Clone(rt.Scopes)
	}
	return out
}

const (
	metaNeed = "need"
	metaBody = "body"
)

// register adds a route whose input and output huma describes and decodes.
func register[I, O any](a *API, op huma.Operation, n need, fn func(context.Context, *call, *I) (*O, error)) {
	a.describe(&op, n)
	op.MaxBodyBytes = maxControlBody + 1 // huma refuses a body of exactly the limit
	op.BodyReadTimeout = -1              // the body has been read by then
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		out, err := fn(ctx, c, in)
		if err != nil {
			return nil, a.problem(c, err)
		}
		return out, nil
	})
}

// plain adds a route that net/http serves by itself. op describes it in full.
func (a *API) plain(op *huma.Operation, n need, h http.HandlerFunc) {
	a.describe(op, n)
	a.huma.OpenAPI().AddOperation(op)
	a.handle(op, h)
}

// describe adds to op what all routes share.
func (a *API) describe(op *huma.Operation, n need) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[metaNeed] = n
	if n != needNothing {
		op.Security = []map[string][]string{{securityName: {}}}
	}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = a.problemResponse()
}

// humaAdapter lets huma register its operations on our mux, behind admit.
type humaAdapter struct{ api *API }

func (h humaAdapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	h.api.handle(op, func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(withCall(r.Context(), callBy(w)))
		handler(humago.NewContext(op, r, w))
	})
}

func (h humaAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.api.serve(w, r) }

// handle puts a described operation on the mux.
func (a *API) handle(op *huma.Operation, h http.HandlerFunc) {
	rt := newRoute(op)
	a.routes = append(a.routes, rt)
	a.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		a.serveRoute(rt, w, r, h)
	})
}

func newRoute(op *huma.Operation) *route {
	n, _ := op.Metadata[metaNeed].(need)
	rt := &route{
		Route:   Route{Method: op.Method, Path: op.Path, Scopes: scopesFor[n]},
		need:    n,
		params:  map[string]bool{},
		maxBody: maxControlBody,
	}
	for _, p := range op.Parameters {
		if p.In == "query" {
			rt.params[p.Name] = p.Explode != nil && *p.Explode
		}
	}
	switch rule, ok := op.Metadata[metaBody].(bodyRule); {
	case ok:
		rt.body = rule
	case op.RequestBody == nil:
		rt.body = bodyNone
	case op.RequestBody.Required:
		rt.body = bodyRequired
	default:
		rt.body = bodyOptional
	}
	return rt
}

// serveRoute admits the request and hands it to the route's handler.
func (a *API) serveRoute(rt *route, w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	c := callBy(w)
	c.route, c.path = rt, r.URL.Path
	defer c.letGo()
	if err := a.admit(c, w, r); err != nil {
		a.fail(w, c, err)
		return
	}
	if rt.Method == http.MethodGet && rt.need != needNothing {
		ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	h(w, r)
}

// admit checks a request in the order that gives least away: key, scope,
// tenant, then its form.
func (a *API) admit(c *call, w http.ResponseWriter, r *http.Request) error {
	if c.route.need != needNothing {
		key, err := a.auth.key(r.Context(), r.Header, c)
		if err != nil {
			return err
		}
		c.key = key
		if !slices.Contains(c.route.Scopes, key.Scope) {
			return errForbidden(key.Scope)
		}
		if c.tenant, err = a.pathTenant(r.Context(), key, r.PathValue("tenant"), c.now); err != nil {
			return err
		}
		if err := a.control.admit(c); err != nil {
			return err
		}
	}
	if err := c.readQuery(r); err != nil {
		return err
	}
	if err := c.readHops(r.Header); err != nil {
		return err
	}
	return readControlBody(c.route, w, r)
}

// pathTenant resolves the tenant of the path: an id, a uid, or "-". Another
// tenant and no tenant at all look the same to a tenant's key.
func (a *API) pathTenant(ctx context.Context, key *hook.APIKey, text string, now time.Time) (hook.ID, error) {
	switch {
	case text == "":
		return key.TenantID, nil
	case text == "-":
		return key.TenantID, nil // 0 for admin keys: every tenant
	}
	if key.TenantID != 0 && text == hook.TenantPrefix.Format(key.TenantID) {
		return key.TenantID, nil
	}
	id, err := a.findTenant(ctx, text, now)
	if err != nil {
		return 0, err
	}
	if key.TenantID != 0 && key.TenantID != id {
		return 0, hook.ErrNotFound
	}
	return id, nil
}

// findTenant returns the id of a tenant given by id or uid. What exists is
// remembered for a moment: every posted event asks.
func (a *API) findTenant(ctx context.Context, text string, now time.Time) (hook.ID, error) {
	if id, ok := a.tenants.fresh(text, now); ok {
		return id, nil
	}
	t, err := a.readTenant(ctx, text)
	if err != nil {
		return 0, err
	}
	a.tenants.put(text, t.ID, now)
	return t.ID, nil
}

func (a *API) readTenant(ctx context.Context, text string) (hook.Tenant, error) {
	if strings.HasPrefix(text, string(hook.TenantPrefix)) {
		id, err := hook.TenantPrefix.Parse(text)
		if err != nil {
			return hook.Tenant{}, hook.ErrNotFound
		}
		return a.cfg.Store.TenantByID(ctx, id)
	}
	if !validUID(text) {
		return hook.Tenant{}, hook.ErrNotFound
	}
	return a.cfg.Store.TenantByUID(ctx, text)
}
