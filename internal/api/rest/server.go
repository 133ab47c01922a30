// Package rest is the kit that the API's server is made of: it routes,
// authenticates, checks scopes and limits, reads bodies, queries and cursors
// strictly, turns errors into problem documents, and describes every route in
// an OpenAPI 3.1 document.
//
// It knows no resource: what a route reads or changes is the business of the
// package that registers it. It sets no timeouts of the HTTP server and opens no
// listener.
package rest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Config is what New needs. Fields are required unless a default is named.
type Config struct {
	Title, About, Version string // of the document
	// Complete adds to the document what the routes do not say of themselves; nil: nothing.
	Complete func(doc map[string]any, typeOf func(ref string) reflect.Type)
	URL      string // where clients reach the server; empty: where they got the document

	Keys    store.Keys
	Answers store.Answers // to requests under idempotency keys; nil: keys are not heeded
	// FindTenant returns the tenant that a path names by id or uid, or
	// hook.ErrNotFound.
	FindTenant func(ctx context.Context, text string) (hook.ID, error)
	Vault      *vault.Vault // seals cursors and kept answers
	IDs        *hook.IDSource

	TrustedProxies Proxies          // whose X-Forwarded-For is believed; none: nobody's
	KeyWriteRate   float64          // changes a second of a tenant's key; 0: no limit
	ControlRoom    func() error     // says why there is no room for changes; nil: there always is
	LargestAnswer  int64            // that a key must always be able to get; 0: 8 MiB
	ReadTimeout    time.Duration    // of routes that only read; 0: 2 s
	Log            *slog.Logger     // nil: discarded
	Now            func() time.Time // nil: time.Now
}

// Server serves routes. Make one with New, register all routes, then Finish.
type Server struct {
	cfg     Config
	log     *slog.Logger
	mux     *http.ServeMux
	huma    huma.API
	routes  []*route
	auth    *authenticator
	control *control
	tenants *freshCache[string, hook.ID]
	shelf   *shelf
	spec    []byte
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Server, error) {
	if cfg.Keys == nil || cfg.FindTenant == nil || cfg.Vault == nil || cfg.IDs == nil {
		return nil, errors.New("the fields Keys, FindTenant, Vault and IDs are required")
	}
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, defaultReadTimeout)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{
		cfg:     cfg,
		log:     cfg.Log,
		mux:     http.NewServeMux(),
		auth:    newAuthenticator(cfg.Keys, cfg.Now),
		control: newControl(&cfg),
		tenants: newFreshCache[string, hook.ID](maxCachedTenants, cacheFor),
		shelf:   newShelf(maxLargeReads, max(maxLargeOfKey, cfg.LargestAnswer)),
	}
	s.huma = newHuma(s)
	return s, nil
}

// Finish adds the routes of the server itself, health, metrics and the OpenAPI
// document, and the answers to everything that no route takes. No route may be
// added after it.
func (s *Server) Finish(h Health, m MetricsAccess) error {
	s.addHealthRoutes(h)
	s.addMetricsRoute(m)
	s.addSpecRoute()
	s.addFallbacks()
	s.openAnswers()
	s.describeProblems()
	return s.complete()
}

// ServeHTTP serves all routes. It answers paths it does not know with a problem
// document too.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r) }

// Run records when keys were last used until ctx ends; it then writes what is
// left. The server answers requests without it.
func (s *Server) Run(ctx context.Context) error { return s.auth.run(ctx, s.log) }

// Now returns the time to store: UTC, cut to what both stores keep.
func (s *Server) Now() time.Time { return s.cfg.Now().UTC().Truncate(time.Microsecond) }

// KeyMade tells that this process made a key.
func (s *Server) KeyMade(hash [32]byte) { s.auth.index.add(hash) }

// KeyRevoked makes this process forget one key at once.
func (s *Server) KeyRevoked(id hook.ID) { s.auth.revoked(id) }
