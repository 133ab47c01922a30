package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/backfill"
	"github.com/breakwaterhq/breakwater/internal/census"
	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/door"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/evaluate"
	"github.com/breakwaterhq/breakwater/internal/headroom"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/replay"
	"github.com/breakwaterhq/breakwater/internal/retention"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/trace"
	"github.com/breakwaterhq/breakwater/internal/ui/apidocs"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/vault"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// App is one server.
type App struct {
	opts Options
	log  *slog.Logger

	ports    ports
	draining atomic.Bool

	db         store.DB
	node       hook.Node
	ids        *hook.IDSource
	vault      *vault.Vault
	keyIDs     string // of its keys
	client     *egress.Client
	writer     *store.Writer
	dispatcher *dispatch.Dispatcher
	ingest     *ingest.Ingest
	api        *api.API
	janitor    *retention.Janitor
	replays    *replay.Runner
	watch      *watch.Watcher
	census     *census.Census
	metrics    *metric.Metrics
	tracer     *trace.Tracer // nil: nobody traces
	storeWatch *storeWatch
	outage     *outage
	evaluator  *evaluate.Evaluator // nil: switched off
	sender     *notify.Sender
	site       *site.Site
	docs       *apidocs.Page
}

// New checks the options. It opens and starts nothing.
func New(o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	outage := newOutage(o.Log.Handler())
	if o.DatabaseURL != "" {
		o.Log = slog.New(outageHandler{o.Log.Handler(), outage})
	}
	a := &App{opts: o, log: o.Log, outage: outage, storeWatch: newStoreWatch(o.Log, o.LogLimit)}
	client, err := egress.New(a.egressConfig())
	if err != nil {
		return nil, err
	}
	a.client = client
	return a, nil
}

func (a *App) egressConfig() egress.Config {
	o := &a.opts
	cfg := egress.Config{
		AllowCIDR: o.AllowCIDR, DenyCIDR: o.DenyCIDR, Ports: o.EgressPorts,
		AllowMetadata: o.AllowMetadata, RequireHTTPS: o.RequireHTTPS, Dev: o.Dev,
		Self: a.ports.own, CAFile: o.EgressCAFile, UserAgent: o.UserAgent, ResponseKeep: o.ResponseKeep,
		MaxConnsPerHost: o.MaxConnsHost, IdleTimeout: o.IdleTimeout, Descriptors: door.Descriptors(),
	}
	if o.ResponseKeep == 0 {
		cfg.ResponseKeep = -1
	}
	if o.EgressProxy != "" {
		if u, err := url.Parse(o.EgressProxy); err == nil {
			cfg.Proxy = u
		} else {
			cfg.Proxy = &url.URL{} // refused by egress.New with a clear message
		}
	}
	return cfg
}

// Run opens the store, serves until ctx ends, and then stops in order: no new
// requests, no new attempts, results settled, shards released, store closed.
func (a *App) Run(ctx context.Context) error {
	defer headroom.Take()()
	// First of all: a port that is in use must not leave a data folder behind.
	if err := a.listen(ctx); err != nil {
		return err
	}
	defer a.ports.close()
	unlock, err := a.prepareDataDir()
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.openStore(ctx); err != nil {
		return err
	}
	if err := a.removeUnfinishedCopies(); err != nil {
		return errors.Join(err, a.db.Close())
	}
	err = a.serve(ctx)
	if closeErr := a.db.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close store: %w", closeErr))
	}
	a.closeTracer()
	return err
}

// serve checks everything that can fail, joins the other nodes last of all, and
// runs the parts. A node that joined and did not serve would take shards away
// from the others until its lease ran out.
func (a *App) serve(ctx context.Context) error {
	if err := a.openVault(ctx); err != nil {
		return err
	}
	if err := a.join(ctx); err != nil {
		return err
	}
	guarded, err := a.guard(a.ports.api.Listener)
	key := ""
	if err == nil {
		err = a.noteKeys(ctx)
	}
	if err == nil {
		key, err = a.bootstrap(ctx)
	}
	if err == nil {
		err = a.build()
	}
	if err != nil {
		return errors.Join(err, a.db.Leave(context.WithoutCancel(ctx), a.node))
	}
	if a.opts.Dev {
		a.log.Warn("DEV MODE: deliveries to loopback and private addresses are allowed; never use this where untrusted people create endpoints")
	}
	return a.runParts(ctx, guarded, key)
}

// build wires the parts. The writer hands what it commits to the dispatcher,
// and the dispatcher's results go back to the writer.
func (a *App) build() error {
	o := &a.opts
	policyLevel, err := json.Marshal(map[string]string{"preset": o.DefaultPolicy})
	if err != nil {
		return fmt.Errorf("encode server policy: %w", err)
	}
	a.writer, err = store.NewWriter(store.WriterConfig{
		DB: a.db, Node: a.node.ID, MaxBatch: o.StoreBatch, MaxCommit: store.Load{Rows: o.StoreBatchRows},
		MaxQueue: store.Load{Rows: o.IngestQueue, Bytes: o.IngestQueueBytes}, Local: !a.db.Shared(), SettleWait: a.settleWait(), Log: a.log,
		Committed: a.committed, Timed: func(rows int, took time.Duration) { a.metrics.Committed(rows, took) }, Uncounted: !o.Stats,
	})
	if err != nil {
		return err
	}
	a.openTracer()
	if err := a.buildWatch(); err != nil {
		return err
	}
	hints, _ := a.db.(store.Hints)
	a.dispatcher, err = dispatch.New(dispatch.Config{
		Store: a.db, Settler: a.writer, Sender: a.client, Vault: a.vault, IDs: a.ids, Node: a.node, Log: a.log,
		Hints: hints, ServerPolicy: policyLevel, Observer: fanout{a.watch, a.metrics}, Tracer: a.attemptTracer(),
		Disabler:    &disabler{store: a.db, ids: a.ids, notify: notifier{a}, record: a.watch.Record},
		MaxInFlight: o.MaxInFlight, Window: o.Window, PayloadMemory: o.PayloadMemory,
		DrainTimeout: o.DrainTimeout, LeaseTTL: o.LeaseTTL, LeaseRenew: o.LeaseRenew,
	})
	if err != nil {
		return err
	}
	if err := a.buildAlerts(policyLevel); err != nil {
		return err
	}
	a.ingest, err = ingest.New(ingest.Config{
		Store: a.db, Writer: a.writer, IDs: a.ids, Log: a.log, ServerPolicy: policyLevel,
		MaxPayload: o.MaxPayload, MaxFanout: o.MaxFanout, MaxDeliveries: o.MaxRequestDeliveries, IdempotencyTTL: o.IdempotencyTTL,
		TenantRate: o.TenantRate, TenantMaxPending: o.TenantMaxPending, TenantMaxPendingBytes: o.TenantMaxPendingBytes,
		TenantMaxStored: o.TenantMaxStored,
		DiskFree:        a.diskFree(), DiskReserve: o.DiskReserve, StoreFull: a.storeWatch.full,
	})
	if err != nil {
		return err
	}
	a.janitor, err = retention.New(retention.Config{
		Store: a.db, Stats: a.db, Alerts: a.db, IDs: a.ids, Log: a.log, Age: o.RetentionData, AuditAge: o.RetentionAudit, AlertsAge: o.RetentionAlerts,
		MinutesAge: o.StatsMinutes, HoursAge: o.StatsHours, DaysAge: o.StatsDays,
	})
	if err != nil {
		return err
	}
	missing, err := backfill.New(backfill.Config{Store: a.db, Age: o.RetentionData})
	if err != nil {
		return err
	}
	a.replays, err = replay.New(replay.Config{
		Store: countingFeeder{a.changes(), a.metrics}, Lanes: a.db, Finder: missing, Notifier: notifier{a}, IDs: a.ids, Log: a.log,
		Owns: a.dispatcher.Owns,
	})
	if err != nil {
		return err
	}
	a.api, err = api.New(api.Config{
		Store: a.changes(), Missing: missing, Ingest: countingIngest{a.ingest, a.metrics}, Notifier: notifier{a}, URLs: a.client, Health: health{a}, Vault: a.vault, IDs: a.ids,
		TrustedProxies: o.TrustedProxies, Backups: a.backups(), Tracer: a.acceptTracer(),
		Metrics: a.metricsAccess(), ServerPolicy: policyLevel, PolicyLimits: &o.PolicyLimits,
		MaxPayload: o.MaxPayload, MaxBatchBody: o.MaxBatchBody,
		MaxEndpoints: o.TenantMaxEndpoints, KeyWriteRate: o.KeyWriteRate, ControlRoom: a.ingest.ControlRoom,
		TenantRoom: a.ingest.TenantRoom,
		SignScheme: o.SignScheme, StripeHeader: o.StripeHeader, Version: o.Version, Log: a.log, Alerts: a.alertParts(), Uncounted: !o.Stats,
		LeaseTTL: a.leaseTTL(), Retention: o.RetentionData, PublicURL: a.dashboardURL, ServerURL: o.PublicURL, Settings: o.Settings,
	})
	if err != nil {
		return err
	}
	return a.buildDashboard()
}

// leaseTTL is how long leases last; 0 where they do not end.
func (a *App) leaseTTL() time.Duration {
	if a.db.Shared() {
		return a.opts.LeaseTTL
	}
	return 0
}

// settleWait is how long results are kept back on the embedded store, where the
// log is written by the page. A result that waits holds a place of the in-flight
// budget, so there must be many.
func (a *App) settleWait() time.Duration {
	const wait, places = 100 * time.Millisecond, 128
	if a.db.Shared() || a.opts.MaxInFlight < places {
		return 0
	}
	return wait
}

// shutdownGrace is how long requests in progress may take to end.
const shutdownGrace = 10 * time.Second

// runParts runs everything until ctx ends or a part fails, and stops the parts
// in the order of the stream: API, dispatcher, writer.
func (a *App) runParts(ctx context.Context, guarded *door.Door, newKey string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outlive := context.WithoutCancel(ctx)

	failed := &failure{stop: cancel}
	writer := start(outlive, failed, a.runWriter)
	watcher := start(outlive, failed, a.watch.Run) // outlives those who tell it something
	dispatcher := start(outlive, failed, a.dispatcher.Run)
	side := start(outlive, failed, a.ingest.Run, a.janitor.Run, a.replays.Run, a.census.Run, a.api.Run, a.servePprof, a.serveMetrics,
		a.checkStore, a.awaitStoreLoss, a.outage.run, a.runEvaluator, a.sender.Run)
	server := a.httpServer(guarded)
	server.RegisterOnShutdown(a.site.Stop)
	server.RegisterOnShutdown(a.api.Stop)
	web := start(outlive, failed, func(context.Context) error { return a.serveHTTP(server, guarded) })
	a.announce(newKey)

	<-ctx.Done()
	a.draining.Store(true)
	a.log.Info("stopping", "in_flight", a.dispatcher.InFlight())
	stopCtx, stopped := context.WithTimeout(outlive, shutdownGrace)
	defer stopped()
	if shutErr := server.Shutdown(stopCtx); shutErr != nil {
		_ = server.Close()
	}
	for _, p := range []*part{web, side, dispatcher, watcher, writer} {
		p.stop()
	}
	return failed.err
}

// runWriter runs the writer. When it loses the store nothing may be sent any
// more, and the dispatcher need not wait for results to be settled.
func (a *App) runWriter(ctx context.Context) error {
	err := a.writer.Run(ctx)
	if err != nil {
		a.dispatcher.StoreLost()
	}
	return err
}

// failure remembers the first part that failed, also while stopping, and ends
// the server.
type failure struct {
	stop  context.CancelFunc
	first sync.Once
	err   error // to be read when all parts have stopped
}

func (f *failure) note(err error) {
	f.first.Do(func() { f.err = err })
	f.stop()
}

// part is a group of running functions that can be stopped and waited for.
type part struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (p *part) stop() {
	p.cancel()
	p.wg.Wait()
}

// start runs functions until the part is stopped; the first one that fails
// ends the server.
func start(ctx context.Context, failed *failure, runs ...func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(ctx)
	p := &part{cancel: cancel}
	for _, run := range runs {
		p.wg.Go(func() {
			if err := run(ctx); err != nil {
				failed.note(err)
			}
		})
	}
	return p
}

// guard bounds the connections of the API by the settings, or by what the
// process may open.
func (a *App) guard(listener net.Listener) (*door.Door, error) {
	all := cmp.Or(a.opts.MaxConnections, door.Room(door.Descriptors()))
	return door.New(listener, door.Config{
		Max: all, PerAddress: cmp.Or(a.opts.MaxConnectionsPerAddress, door.Share(all)),
		Proxies: a.opts.TrustedProxies, Silent: a.opts.TLSCertFile != "", Log: a.log,
	})
}

func (a *App) httpServer(d *door.Door) *http.Server {
	// Streams of HTTP/2 are no connections: nothing would bound them per
	// address, nor the answers that they do not read.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           a.handler(),
		Protocols:         &protocols,
		ConnState:         d.State,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
}

func (a *App) serveHTTP(server *http.Server, listener net.Listener) error {
	listener = relieved{listener, a.client.CloseIdle}
	var err error
	if a.opts.TLSCertFile != "" {
		err = server.ServeTLS(listener, a.opts.TLSCertFile, a.opts.TLSKeyFile)
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

// dashboardURL is where people find the dashboard.
func (a *App) dashboardURL() string {
	return cmp.Or(a.opts.UI.PublicURL, a.opts.PublicURL, a.listenURL())
}

// listenURL is the address that the server listens on.
func (a *App) listenURL() string {
	scheme := "http"
	if a.opts.TLSCertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + a.ports.api.addr.Load().String()
}

func (a *App) announce(newKey string) {
	s := Started{
		URL: a.listenURL(), Store: a.storeName(), Node: a.node.Name,
		AdminKey: newKey,
	}
	if newKey != "" {
		s.AdminKeyFile = a.adminKeyFile()
	}
	a.log.Info("serving", "url", s.URL, "store", s.Store, "node", s.Node, "pid", os.Getpid())
	if a.opts.Announce != nil {
		a.opts.Announce(s)
	}
}

// notifier passes changes made through the API on to whoever caches or acts on
// them.
type notifier struct{ a *App }

func (n notifier) EndpointChanged(tenant, endpoint hook.ID) {
	n.a.ingest.Forget(tenant)
	n.a.dispatcher.EndpointChanged(endpoint)
}

func (n notifier) TenantChanged(tenant hook.ID) {
	n.a.ingest.Forget(tenant)
	n.a.dispatcher.TenantChanged(tenant)
}

func (n notifier) DeliveryChanged(_, endpoint hook.ID) { n.a.dispatcher.DeliveryChanged(endpoint) }

func (n notifier) DueNow(_, endpoint hook.ID) { n.a.dispatcher.DueNow(endpoint) }

// health answers the probes of load balancers and orchestrators.
type health struct{ a *App }

func (h health) Live() error {
	if h.a.storeWatch.lost.Load() {
		return errors.New("the store failed for good; the process ends")
	}
	return nil
}

func (h health) Warnings() []string { return h.a.storeWatch.warnings() }

func (h health) Ready(ctx context.Context) []string {
	if h.a.draining.Load() {
		return []string{"the server is shutting down"}
	}
	reasons := h.a.dispatcher.Ready()
	if err := h.a.db.Ping(ctx); err != nil {
		h.a.log.Warn("store does not answer", "error", err)
		reasons = append(reasons, "the store does not answer or its schema is not current")
	}
	return reasons
}
