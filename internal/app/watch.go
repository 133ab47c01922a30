package app

import (
	"context"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/door"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// buildWatch makes whoever looks on. The dispatcher, which it asks for its
// shards, is made after it.
func (a *App) buildWatch() (err error) {
	a.watch, err = watch.New(watch.Config{
		Store: telling{a.db, a}, IDs: a.ids, Node: a.node.ID, Log: a.log,
		Owns:   func(shard int) bool { return a.dispatcher.Owns(shard) },
		Health: a.sharedHealth(), Calm: a.opts.AlertOptions.ResolveAfter, Worst: a.opts.MetricsWorst,
	})
	if err != nil {
		return err
	}
	if err := a.buildMetrics(); err != nil {
		return err
	}
	record := func(t hook.OperationalType, detail any) { a.watch.Record(0, 0, t, detail) }
	a.storeWatch.record.Store(&record)
	return nil
}

// fanout hands what the dispatcher tells to the watcher and to the metrics.
type fanout struct {
	watch   *watch.Watcher
	metrics *metric.Metrics
}

var _ dispatch.Observer = fanout{}

func (f fanout) Attempted(a dispatch.Attempted) {
	f.watch.Attempted(a.Tenant, a.Endpoint, a.Kind)
	f.metrics.Attempted(a.Kind, a.Class, a.Reason, a.Took)
}

func (f fanout) LaneOpened(o dispatch.Opening) {
	f.watch.LaneOpened(o.Tenant, o.Endpoint, watch.Opening{
		URL: o.URL, UID: o.UID, Failures: o.Failures, Reason: o.Reason.String(), Status: o.Status, Error: o.Error,
	})
	f.metrics.BreakerOpened()
}

func (f fanout) LaneFound(tenant, endpoint hook.ID) { f.watch.LaneFound(tenant, endpoint) }

func (f fanout) LaneClosed(tenant, endpoint hook.ID) {
	if wasOpen := f.watch.LaneClosed(tenant, endpoint); wasOpen {
		f.metrics.BreakerClosed()
	}
}

func (f fanout) LaneNews(n dispatch.LaneNews) {
	f.watch.LaneNews(n.Tenant, n.Endpoint, watch.News{Type: n.Type, Reason: n.Reason, Wait: n.Wait})
}

func (f fanout) NodeNews(n dispatch.NodeNews) { f.watch.Record(0, 0, n.Type, nodeDetail(&n)) }

// nodeDetail says which node, and what of it was lost.
func nodeDetail(n *dispatch.NodeNews) any {
	detail := struct {
		Node   string `json:"node"`
		Name   string `json:"name"`
		Shards *int   `json:"shards,omitempty"`
	}{Node: hook.NodePrefix.Format(n.Node.ID), Name: n.Node.Name}
	if n.Type == hook.NodeLeaseLost {
		detail.Shards = &n.Shards
	}
	return detail
}

func (f fanout) LaneLeft(tenant, endpoint hook.ID) { f.watch.LaneLeft(tenant, endpoint) }

// metricsAccess says who may read the metrics on the main listener: nobody when
// they have an address of their own.
func (a *App) metricsAccess() rest.MetricsAccess {
	if a.opts.MetricsListen != "" {
		return rest.MetricsAccess{}
	}
	return rest.MetricsAccess{Handler: a.metrics.Handler(), Open: a.onLoopback, Token: a.opts.MetricsToken}
}

// onLoopback reports whether only this machine can reach the main listener.
func (a *App) onLoopback() bool {
	addr := a.ports.api.addr.Load()
	return addr != nil && addr.IP.IsLoopback()
}

// metricsConnections is far more than there are scrapers.
const metricsConnections = 32

// serveMetrics serves the metrics on an address of their own when asked to.
func (a *App) serveMetrics(ctx context.Context) error {
	if a.opts.MetricsListen == "" {
		return nil
	}
	guarded, err := door.New(a.ports.metrics.Listener, door.Config{Max: metricsConnections, PerAddress: metricsConnections, Log: a.log})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", rest.RequireToken(a.opts.MetricsToken, a.metrics.Handler()))
	server := &http.Server{
		Handler: mux, ConnState: guarded.State,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	return serveUntil(ctx, server, guarded, "metrics")
}
