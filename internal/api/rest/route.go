package rest

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Need is what a route asks of a key.
type Need uint8

// What routes ask for.
const (
	NeedNothing   Need = iota // no key at all
	NeedAnyKey                // any valid key
	NeedSend                  // may hand over events
	NeedRead                  // may read a tenant's objects
	NeedWrite                 // may change a tenant's objects
	NeedAdminRead             // may read across tenants
	NeedAdmin                 // may do everything
)

// scopesFor lists the scopes that satisfy each need. What is not listed is
// refused.
var scopesFor = map[Need][]hook.Scope{
	NeedAnyKey:    {hook.ScopeAdmin, hook.ScopeAdminRead, hook.ScopeTenantWrite, hook.ScopeTenantRead, hook.ScopeTenantSend},
	NeedSend:      {hook.ScopeAdmin, hook.ScopeTenantWrite, hook.ScopeTenantSend},
	NeedRead:      {hook.ScopeAdmin, hook.ScopeAdminRead, hook.ScopeTenantWrite, hook.ScopeTenantRead},
	NeedWrite:     {hook.ScopeAdmin, hook.ScopeTenantWrite},
	NeedAdminRead: {hook.ScopeAdmin, hook.ScopeAdminRead},
	NeedAdmin:     {hook.ScopeAdmin},
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
	need    Need
	params  map[string]bool // query parameters; true: may be repeated
	body    bodyRule
	maxBody int64
	once    bool // takes an idempotency key
	stream  bool // answers as long as the client listens
}

// bodyRule says how a request body is read before the handler runs.
type bodyRule uint8

const (
	bodyNone     bodyRule = iota // not read: there is none, or the handler reads it
	bodyOptional                 // empty or JSON
	bodyRequired                 // JSON
)

// maxControlBody bounds the bodies of all routes but those that take events.
const maxControlBody = 256 << 10

// defaultReadTimeout bounds routes that only read, so that one expensive filter
// cannot hold a connection of the store.
const defaultReadTimeout = 2 * time.Second

// Routes returns the route table, in the order of registration.
func (s *Server) Routes() []Route {
	out := make([]Route, len(s.routes))
	for i, rt := range s.routes {
		out[i] = rt.Route
		out[i].Scopes = slices.Clone(rt.Scopes)
	}
	return out
}

// These are how an operation tells handle what it does not say in the document.
const (
	metaNeed    = "need"
	metaOwnBody = "own body"
	metaOnce    = "once"
	metaStream  = "stream"
	// metaProblems are statuses that a route may answer with beside those that follow
	// from what it takes.
	metaProblems = "problems"
)

// Group adds routes that stand under one tag in the document.
type Group struct {
	server *Server
	tag    string
}

// Group returns the group of a tag.
func (s *Server) Group(tag string) Group { return Group{s, tag} }

// Detail is what a route's description has beyond the usual.
type Detail func(*huma.Operation)

// Describe says more about a route than its summary.
func Describe(text string) Detail { return func(op *huma.Operation) { op.Description = text } }

// MayAnswer describes an answer beside the usual one.
func MayAnswer(status string, r *huma.Response) Detail {
	return func(op *huma.Operation) { op.Responses = map[string]*huma.Response{status: r} }
}

// Add adds a route whose input and output huma describes and decodes. The pattern
// is a method and a path; id names the operation for generated clients.
func Add[I, O any](g Group, n Need, pattern, id, summary string, fn func(context.Context, *Call, *I) (*O, error), more ...Detail) {
	method, path, _ := strings.Cut(pattern, " ")
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{g.tag},
		MaxBodyBytes:    maxControlBody + 1, // huma refuses a body of exactly the limit
		BodyReadTimeout: -1,                 // the body has been read by then
	}
	if o, ok := any(new(O)).(interface{ DefaultStatus() int }); ok {
		op.DefaultStatus = o.DefaultStatus()
	}
	for _, detail := range more {
		detail(&op)
	}
	s := g.server
	s.describe(&op, n)
	describeKey(&op, n, reflect.TypeFor[I]())
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		out, err := fn(ctx, c, in)
		if err != nil {
			return nil, s.Problem(c, err)
		}
		return out, nil
	})
}

// Plain adds a route that net/http serves by itself. op describes it in full. A
// body is the handler's to read.
func (s *Server) Plain(op *huma.Operation, n Need, h http.HandlerFunc) {
	s.describe(op, n)
	op.Metadata[metaOwnBody] = true
	s.huma.OpenAPI().AddOperation(op)
	s.handle(op, h)
}

// Stream adds a route as Plain does, whose answer goes on as long as its client
// listens. The handler bounds what it reads and asks Allowed now and then.
func (s *Server) Stream(op *huma.Operation, n Need, h http.HandlerFunc) {
	op.Metadata = map[string]any{metaStream: true}
	s.Plain(op, n, h)
}

// Allowed checks again that the key of a call may use its route: keys are revoked
// while streams are open.
func (s *Server) Allowed(r *http.Request, c *Call) error {
	key, err := s.auth.key(r.Context(), r.Header, c)
	if err != nil {
		return err
	}
	if !slices.Contains(c.route.Scopes, key.Scope) {
		return errForbidden(key.Scope)
	}
	return nil
}

// describe adds to op what all routes share.
func (s *Server) describe(op *huma.Operation, n Need) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	op.Metadata[metaNeed] = n
	if n != NeedNothing {
		op.Security = []map[string][]string{{securityName: {}}}
		op.Extensions = map[string]any{"x-scopes": scopeNames(n)}
	}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = s.problemResponse()
}

// scopeNames lists the scopes that satisfy a need.
func scopeNames(n Need) []string {
	var out []string
	for _, s := range scopesFor[n] {
		out = append(out, s.String())
	}
	return out
}

// humaAdapter lets huma register its operations on our mux, behind admit.
type humaAdapter struct{ server *Server }

func (h humaAdapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	h.server.handle(op, func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(withCall(r.Context(), CallBy(w)))
		handler(humago.NewContext(op, r, w))
	})
}

func (h humaAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.server.serve(w, r) }

// handle puts a described operation on the mux.
func (s *Server) handle(op *huma.Operation, h http.HandlerFunc) {
	rt := newRoute(op)
	s.routes = append(s.routes, rt)
	s.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		s.serveRoute(rt, w, r, h)
	})
}

func newRoute(op *huma.Operation) *route {
	n, _ := op.Metadata[metaNeed].(Need)
	rt := &route{
		Route:   Route{Method: op.Method, Path: op.Path, Scopes: scopesFor[n]},
		need:    n,
		params:  map[string]bool{},
		maxBody: maxControlBody,
		once:    op.Metadata[metaOnce] != nil,
		stream:  op.Metadata[metaStream] != nil,
	}
	for _, p := range op.Parameters {
		if p.In == "query" {
			rt.params[p.Name] = p.Explode != nil && *p.Explode
		}
	}
	switch {
	case op.Metadata[metaOwnBody] != nil, op.RequestBody == nil:
		rt.body = bodyNone
	case op.RequestBody.Required:
		rt.body = bodyRequired
	default:
		rt.body = bodyOptional
	}
	return rt
}

// serveRoute admits the request and hands it to the route's handler.
func (s *Server) serveRoute(rt *route, w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	c := CallBy(w)
	c.route, c.path = rt, r.URL.Path
	defer c.letGo()
	if err := s.admit(c, w, r); err != nil {
		s.Fail(w, c, err)
		return
	}
	if rt.Method == http.MethodGet && rt.need != NeedNothing && !rt.stream {
		ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ReadTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if rt.once && s.cfg.Answers != nil && len(r.Header[idempotencyKey]) > 0 {
		s.once(c, w, r, h)
		return
	}
	h(w, r)
}

// admit checks a request in the order that gives least away: key, scope,
// tenant, then its form.
func (s *Server) admit(c *Call, w http.ResponseWriter, r *http.Request) error {
	if c.route.need != NeedNothing {
		key, err := s.auth.key(r.Context(), r.Header, c)
		if err != nil {
			return err
		}
		c.Key = key
		if !slices.Contains(c.route.Scopes, key.Scope) {
			return errForbidden(key.Scope)
		}
		if c.Tenant, err = s.pathTenant(r.Context(), key, r.PathValue("tenant"), c.Now); err != nil {
			return err
		}
		if err := s.control.admit(c); err != nil {
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
