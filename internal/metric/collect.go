package metric

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The counters of the hot paths are plain numbers in tables, one for each
// combination of labels, and become metrics only when somebody reads them. All
// labels are closed lists, so the tables are small.

var (
	attemptsDesc = prometheus.NewDesc("breakwater_attempts_total",
		"Attempts that have ended.", []string{"kind", "class", "reason"}, nil)
	settledDesc = prometheus.NewDesc("breakwater_deliveries_settled_total",
		"Deliveries that were delivered or given up, by the number of their attempts.", []string{"state", "attempts"}, nil)
	transitionsDesc = prometheus.NewDesc("breakwater_breaker_transitions_total",
		"Breakers that opened or closed.", []string{"to"}, nil)
	breakersDesc = prometheus.NewDesc("breakwater_breakers",
		"Breakers of this node's lanes; closed ones only with traffic in the last 15 minutes.", []string{"state"}, nil)
	stormsDesc = prometheus.NewDesc("breakwater_storms_active",
		"Endpoints in a retry storm.", nil, nil)
	ratioDesc = prometheus.NewDesc("breakwater_retry_ratio_max",
		"Greatest ratio of retries to first attempts in 15 minutes, of lanes with at least 20 attempts.", nil, nil)
	warningsDesc = prometheus.NewDesc("breakwater_retry_queue_warnings",
		"Endpoints whose retry queue grows.", nil, nil)
	droppedDesc = prometheus.NewDesc("breakwater_operational_events_dropped_total",
		"Operational events that were not stored because too many waited.", nil, nil)
	damagedDesc = prometheus.NewDesc("breakwater_store_damaged_reads_total",
		"Reads that failed because a part of the store is damaged.", nil, nil)
	logDesc = prometheus.NewDesc("breakwater_store_log_bytes",
		"Length of the log beside the database file.", nil, nil)
	logWrittenDesc = prometheus.NewDesc("breakwater_store_log_written_bytes_total",
		"Bytes written to the log.", nil, nil)
	logLimitDesc = prometheus.NewDesc("breakwater_store_log_limit_bytes",
		"Length of the log at which new events are refused.", nil, nil)
)

func counter(d *prometheus.Desc, v uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// The sizes of the tables: powers of two above the greatest member of each
// list.
const (
	kinds   = 8
	classes = 8
	reasons = 32
	states  = 4
)

type attempts [kinds][classes][reasons]atomic.Uint64

func (t *attempts) add(k hook.AttemptKind, c hook.Class, r hook.Reason) {
	if k < kinds && c < classes && r < reasons {
		t[k][c][r].Add(1)
	}
}

// Describe implements prometheus.Collector.
func (t *attempts) Describe(ch chan<- *prometheus.Desc) { ch <- attemptsDesc }

// Collect implements prometheus.Collector. What never happened is left out:
// most combinations cannot.
func (t *attempts) Collect(ch chan<- prometheus.Metric) {
	for k := range t {
		for c := range t[k] {
			for r := range t[k][c] {
				if n := t[k][c][r].Load(); n > 0 {
					ch <- counter(attemptsDesc, n, hook.AttemptKind(k).String(), hook.Class(c).String(), hook.Reason(r).String())
				}
			}
		}
	}
}

// tries are the values of the label attempts, by number of attempts; a delivery
// that was held until it expired may have had none.
var tries = []string{"0", "1", "2", "3+"}

type settled [states][4]atomic.Uint64

func (t *settled) add(s hook.DeliveryState, attempts int) {
	if s < states {
		t[s][min(max(attempts, 0), len(tries)-1)].Add(1)
	}
}

// Describe implements prometheus.Collector.
func (t *settled) Describe(ch chan<- *prometheus.Desc) { ch <- settledDesc }

// Collect implements prometheus.Collector. Both ends are always there, so that
// rates begin at zero.
func (t *settled) Collect(ch chan<- prometheus.Metric) {
	for _, s := range []hook.DeliveryState{hook.Delivered, hook.Dead, hook.Cancelled} {
		for i, label := range tries {
			n := t[s][i].Load()
			if n > 0 || i > 0 && s != hook.Cancelled {
				ch <- counter(settledDesc, n, s.String(), label)
			}
		}
	}
}

type transitions struct{ opened, closed atomic.Uint64 }

// Describe implements prometheus.Collector.
func (t *transitions) Describe(ch chan<- *prometheus.Desc) { ch <- transitionsDesc }

// Collect implements prometheus.Collector.
func (t *transitions) Collect(ch chan<- prometheus.Metric) {
	ch <- counter(transitionsDesc, t.opened.Load(), "open")
	ch <- counter(transitionsDesc, t.closed.Load(), "closed")
}

// laneCollector asks for the state of the lanes when it is read.
type laneCollector struct{ lanes func() Lanes }

// Describe implements prometheus.Collector.
func (laneCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{breakersDesc, stormsDesc, ratioDesc, warningsDesc, droppedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c laneCollector) Collect(ch chan<- prometheus.Metric) {
	l := c.lanes()
	ch <- gauge(breakersDesc, float64(l.Open), "open")
	ch <- gauge(breakersDesc, float64(l.Closed), "closed")
	ch <- gauge(stormsDesc, float64(l.Storms))
	ch <- gauge(ratioDesc, l.MaxRatio)
	ch <- gauge(warningsDesc, float64(l.Warnings))
	ch <- counter(droppedDesc, l.EventsDropped)
}

// storeCollector asks for the state of the embedded store when it is read.
type storeCollector struct{ state func() Store }

// Describe implements prometheus.Collector.
func (storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{damagedDesc, logDesc, logWrittenDesc, logLimitDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c storeCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.state()
	ch <- counter(damagedDesc, s.DamagedReads)
	ch <- gauge(logDesc, float64(s.LogBytes))
	ch <- counter(logWrittenDesc, uint64(max(s.LogWritten, 0)))
	ch <- gauge(logLimitDesc, float64(s.LogLimit))
}
