// Package metric holds the metrics of one server and serves them in the
// Prometheus text format.
//
// Names and labels are API: see docs/operating.md. No label carries an id, a
// URL or anything else that a customer chose; all values come from closed
// lists, so that the number of series is bounded.
//
// It decides nothing and judges nobody: what is counted, and what is a storm,
// is known to those who tell it. Who may read the metrics is not its business
// either.
package metric

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Store is the state of the embedded store at one moment.
type Store struct {
	DamagedReads uint64 // reads that met damage
	LogBytes     int64  // length of the log
	LogWritten   int64  // bytes written to it
	LogLimit     int64  // length at which events are refused
}

// Metrics are the metrics of one server, in a registry of its own.
type Metrics struct {
	registry       *prometheus.Registry
	attempts       attempts
	settled        settled
	opened, closed prometheus.Counter
}

// New returns metrics that ask lanes for the state of the lanes when they are
// read.
func New(lanes func() hook.LaneFigures) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), opened: breakerTransitions("open"), closed: breakerTransitions("closed")}
	m.registry.MustRegister(laneMetrics(lanes)...)
	m.registry.MustRegister(
		&m.attempts, &m.settled, m.opened, m.closed,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// WatchStore adds the metrics of the embedded store, which are asked for when
// they are read.
func (m *Metrics) WatchStore(state func() Store) { m.registry.MustRegister(storeMetrics(state)...) }

// Attempted counts an attempt that has ended. It allocates nothing and never
// waits.
func (m *Metrics) Attempted(kind hook.AttemptKind, class hook.Class, reason hook.Reason) {
	if kind < kinds && class < classes && reason < reasons {
		m.attempts[kind][class][reason].Add(1)
	}
}

// Settled counts a delivery that has ended after so many attempts.
func (m *Metrics) Settled(state hook.DeliveryState, attempts int) {
	if state < states {
		m.settled[state][min(max(attempts, 0), len(tries)-1)].Add(1)
	}
}

// BreakerOpened counts a lane that opened.
func (m *Metrics) BreakerOpened() { m.opened.Inc() }

// BreakerClosed counts a lane that closed.
func (m *Metrics) BreakerClosed() { m.closed.Inc() }

const (
	// scrapesAtOnce and scrapeTimeout bound what readers can cost.
	scrapesAtOnce = 4
	scrapeTimeout = 10 * time.Second
)

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce,
		Timeout:             scrapeTimeout,
	})
}
