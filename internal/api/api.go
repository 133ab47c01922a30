// Package api is the JSON API under /v1: it authenticates, checks scopes,
// decodes strictly, and turns what the parts below answer into JSON or into a
// problem document. Its OpenAPI 3.1 description is served at /openapi.json.
//
// It decides nothing about events: accepting them is ingest's job and sending
// them dispatch's. Both are reached through the small interfaces below. It sets
// no timeouts of the HTTP server and opens no listener.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/api/alerts"
	"github.com/breakwaterhq/breakwater/internal/api/attempts"
	"github.com/breakwaterhq/breakwater/internal/api/eventtypes"
	"github.com/breakwaterhq/breakwater/internal/api/policies"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/spec"
	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/strip"
	"github.com/breakwaterhq/breakwater/internal/api/tap"
	"github.com/breakwaterhq/breakwater/internal/api/trial"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Notifier tells the owners of lanes, here or on other nodes, and the caches that
// something changed. It never fails and never blocks: whoever misses it finds
// the change in the store a little later.
type Notifier interface {
	EndpointChanged(tenant, endpoint hook.ID)
	TenantChanged(tenant hook.ID)
	// DeliveryChanged tells that a delivery of the endpoint was cancelled or asked
	// for by hand.
	DeliveryChanged(tenant, endpoint hook.ID)
}

// URLChecker returns the URL in its normal form, or an error whose text names
// the rule that the URL broke.
type URLChecker interface {
	CheckURL(raw string) (string, error)
}

// Store is what the API asks of the database.
type Store interface {
	store.Tenants
	store.Endpoints
	store.Policies
	store.EventTypes
	store.Keys
	store.EventLog
	store.DeliveryLog
	store.AttemptLog
	store.DeadLetters
	store.AuditLog
	store.NodeLog
	store.Replays
	store.LaneLog
	store.StatsReader
	store.Overview
	store.AlertLog
	store.AlertChannels
	store.Answers
	ListOperational(ctx context.Context, f store.OperationalFilter, p store.Page) ([]hook.OperationalEvent, error)
	Destinations(ctx context.Context, endpoints []hook.ID) ([]store.Destination, error)
	Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error)
	WriteAudit(ctx context.Context, a hook.Audit) error
}

// MissingCounter counts events that an endpoint has no delivery of; backfill.Finder
// does.
type MissingCounter interface {
	// Count counts up to limit events of a new replay; false: there may be more.
	Count(ctx context.Context, now time.Time, j *hook.ReplayJob, limit int64) (n int64, exact bool, err error)
}

// Config is what New needs. Fields are required unless a default is named.
type Config struct {
	Store    Store
	Missing  MissingCounter
	Ingest   accept.Ingest
	Notifier Notifier
	URLs     URLChecker
	Health   rest.Health
	Vault    *vault.Vault
	IDs      *hook.IDSource

	Metrics rest.MetricsAccess // zero: not served
	Backups Backups            // nil: the store has tools of its own
	Tracer  accept.Tracer      // nil: nobody traces
	Alerts  alerts.Parts

	TrustedProxies rest.Proxies // whose X-Forwarded-For is believed; none: nobody's

	ServerPolicy []byte         // the server's policy level, JSON; nil: none
	PolicyLimits *policy.Limits // nil: none
	MaxPayload   int64          // 0: 1 MiB
	MaxBatchBody int64          // 0: 16 MiB
	MaxEndpoints int64          // of a tenant without a limit of its own; 0: no limit
	KeyWriteRate float64        // changes a second of a tenant's key; 0: no limit
	ControlRoom  func() error   // says why there is no room for changes; nil: there always is
	// TenantRoom says why a tenant may store nothing more; nil: it always may.
	TenantRoom   func(hook.Tenant) error
	SignScheme   string        // of new endpoints; empty: standard
	StripeHeader string        // header of the stripe scheme; empty: must be given per endpoint
	Uncounted    bool          // no figures are kept
	ReadTimeout  time.Duration // of routes that only read; 0: 2 s
	PublicURL    func() string // address of the dashboard for people; nil: unknown, links have a path alone
	ServerURL    string        // where clients reach the API; empty: where they got its document
	Settings     []view.Setting
	LeaseTTL     time.Duration // of nodes and shards; 0: leases do not end
	Retention    time.Duration // age at which data is removed; 0: it stays
	StreamEvery  time.Duration // how often streams look for what is new; 0: 500 ms
	Version      string
	Log          *slog.Logger     // nil: discarded
	Now          func() time.Time // nil: time.Now
}

const (
	defaultMaxPayload   = 1 << 20
	defaultMaxBatchBody = 16 << 20
)

// API serves the routes. Make one with New.
type API struct {
	cfg      Config
	scheme   hook.Scheme // of new endpoints
	server   *rest.Server
	bench    *trial.Bench
	policies *policies.Book
	strips   strip.Memory
	streams  *sse.Room[hook.ID]
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*API, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	scheme, err := hook.ParseScheme(cfg.SignScheme)
	if err != nil {
		return nil, fmt.Errorf("api: sign scheme: %w", err)
	}
	if cfg.StripeHeader != "" {
		if err := hook.CheckHeaderName(cfg.StripeHeader); err != nil {
			return nil, fmt.Errorf("api: stripe header: %w", err)
		}
	}
	a := &API{cfg: cfg, scheme: scheme, bench: trial.New(), streams: sse.Keys()}
	if a.policies, err = policies.New(policies.Config{
		Store: cfg.Store, IDs: cfg.IDs, Server: cfg.ServerPolicy, Limits: cfg.PolicyLimits, Changed: cfg.Notifier.TenantChanged,
	}); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if a.server, err = rest.New(rest.Config{
		Title: "Breakwater", About: "Storm-proof webhook delivery.", Version: cfg.Version, Complete: spec.Complete, URL: cfg.ServerURL,
		Keys: cfg.Store, Answers: cfg.Store, FindTenant: a.findTenant, Vault: cfg.Vault, IDs: cfg.IDs,
		TrustedProxies: cfg.TrustedProxies, KeyWriteRate: cfg.KeyWriteRate, ControlRoom: cfg.ControlRoom,
		LargestAnswer: cfg.MaxPayload, ReadTimeout: cfg.ReadTimeout, Log: cfg.Log, Now: cfg.Now,
	}); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	a.addRoutes()
	if err := a.server.Finish(cfg.Health, cfg.Metrics); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return a, nil
}

// complete checks what is required and fills in defaults.
func (cfg *Config) complete() error {
	switch {
	case cfg.Store == nil, cfg.Missing == nil, cfg.Ingest == nil, cfg.Notifier == nil, cfg.URLs == nil, cfg.Health == nil:
		return errors.New("the fields Store, Missing, Ingest, Notifier, URLs and Health are required")
	case cfg.Vault == nil, cfg.IDs == nil:
		return errors.New("the fields Vault and IDs are required")
	}
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, defaultMaxPayload)
	cfg.MaxBatchBody = cmp.Or(cfg.MaxBatchBody, defaultMaxBatchBody)
	cfg.SignScheme = cmp.Or(cfg.SignScheme, hook.SchemeStandard.String())
	if cfg.PublicURL == nil {
		cfg.PublicURL = func() string { return "" }
	}
	if cfg.TenantRoom == nil {
		cfg.TenantRoom = func(hook.Tenant) error { return nil }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// addRoutes registers every route; each file of routes has its own method.
func (a *API) addRoutes() {
	a.addTenantRoutes()
	a.addEndpointRoutes()
	a.addEndpointActionRoutes()
	a.addSecretRoutes()
	a.addLaneRoutes()
	a.addStatsRoutes()
	accept.AddRoutes(a.server, accept.Config{
		Path: eventsPath, Ingest: a.cfg.Ingest, EndpointByUID: a.cfg.Store.EndpointByUID,
		MaxPayload: a.cfg.MaxPayload, MaxBatchBody: a.cfg.MaxBatchBody, Tracer: a.cfg.Tracer,
	})
	tap.AddRoute(a.server, tap.Config{Path: eventsPath + "/stream", Store: a.cfg.Store, Streams: a.streams, Every: a.cfg.StreamEvery})
	eventtypes.AddRoutes(a.server, eventtypes.Config{
		Path: tenantPath, Store: a.cfg.Store, IDs: a.cfg.IDs, Changed: a.cfg.Notifier.TenantChanged,
	})
	a.addEventRoutes()
	a.addDeliveryRoutes()
	a.addDeadRoutes()
	a.addCurlRoute()
	attempts.AddRoutes(a.server, attempts.Config{
		Path: tenantPath + "/attempts", Store: a.cfg.Store, EndpointIDs: a.filterEndpoints, Streams: a.streams, Every: a.cfg.StreamEvery,
	})
	a.addReplayRoutes()
	a.addOperationalRoutes()
	a.addAuditRoutes()
	alerts.AddRoutes(a.server, alerts.Config{
		Parts: a.cfg.Alerts, Store: a.cfg.Store, Vault: a.cfg.Vault, IDs: a.cfg.IDs, CheckURL: a.cfg.URLs.CheckURL,
		TenantID: a.findTenant, EndpointIDs: a.filterEndpoints,
	})
	a.addPolicyRoutes()
	a.addKeyRoutes()
	a.addPortalRoutes()
	a.addConfigRoute()
	a.addBackupRoute()
}

// Handler returns the handler of all routes. It answers paths it does not know
// with a problem document too.
func (a *API) Handler() http.Handler { return a.server }

// Stop ends the streams that are open, and those that are opened afterwards: a server
// that stops waits for its connections.
func (a *API) Stop() { a.streams.Stop() }

// Routes returns the route table, in the order of registration.
func (a *API) Routes() []rest.Route { return a.server.Routes() }

// Document returns the OpenAPI document. Nobody may change it.
func (a *API) Document() []byte { return a.server.Document() }

// Run records when keys were last used until ctx ends; it then writes what is
// left. The API answers requests without it.
func (a *API) Run(ctx context.Context) error { return a.server.Run(ctx) }

// diffOf compares two shown objects for the audit log.
func diffOf(before, after any) map[string]any { return rest.Diff(before, after, unaudited) }

// unaudited fields change with every write or describe something else.
var unaudited = map[string]bool{"version": true, "updated_at": true, "policy_hash": true, "health": true}
