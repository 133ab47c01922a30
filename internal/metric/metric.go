// Package metric holds the metrics of one server and serves them in the
// Prometheus text format.
//
// One table describes all of them: what is served, docs/metrics.md and the
// dashboard follow from it. Names and labels are API. No label carries an id, a
// URL or anything else that a customer chose, unless the operator asks for the
// worst endpoints by name; all other values come from closed lists, so that the
// number of series is bounded.
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

// Sources are asked when somebody reads the metrics, all of them once. They must
// answer at once. Those that are nil have nothing to tell.
type Sources struct {
	Version string
	Lanes   func() hook.LaneFigures
	Queues  func() hook.QueueFigures
	Node    func() Node
	// Embedded is the embedded store, if that is the one.
	Embedded func() Embedded
	// Alerts counts the open alerts of the fleet, on the node that judges them.
	Alerts func() []AlertCount
	// Traces counts spans, if anybody traces.
	Traces func() Traces
}

// Traces are the spans of this process so far.
type Traces struct {
	Sent    uint64 // taken by the collector
	Dropped uint64 // too many were waiting
	Failed  uint64 // given up after the collector refused them or did not answer
}

// Node is what this process knows of itself.
type Node struct {
	InFlight, InFlightLimit int
	Shards                  int
	LeaseAge                time.Duration // below 0: no leases are needed

	// What waits for the writer, and how many rows may.
	WaitingRows, WaitingRowsLimit int
	WaitingBytes                  int64
	WaitingResults                int
	OldestResult                  time.Duration // how long one has waited to be stored

	ConnsInUse, ConnsIdle, ConnsMax int
	ConnWaits                       int64

	DamagedFigures uint64 // rows of figures that could not be read
}

// Embedded is the state of the embedded store at one moment.
type Embedded struct {
	DamagedReads uint64 // reads that met damage
	LogBytes     int64  // length of the log
	LogWritten   int64  // bytes written to it
	LogLimit     int64  // length at which events are refused
	DiskFree     int64  // below 0: not known
	DiskReserve  int64  // below which events are refused
}

// AlertCount is how many alerts of a rule are open with a severity.
type AlertCount struct {
	Rule     string
	Severity hook.Severity
	Open     int
}

// Metrics are the metrics of one server, in a registry of its own.
type Metrics struct {
	registry *prometheus.Registry
	sources  Sources
	counts   counts
}

// New returns metrics of which nothing has been counted yet.
func New(s Sources) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), sources: s}
	m.counts.setUp()
	m.registry.MustRegister(
		newCollector(m),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

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
