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
)

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
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

// breakerTransitions counts lanes that opened or closed.
func breakerTransitions(to string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "breakwater_breaker_transitions_total", Help: "Breakers that opened or closed.",
		ConstLabels: prometheus.Labels{"to": to},
	})
}

// laneMetrics ask for the state of the lanes when they are read.
func laneMetrics(lanes func() hook.LaneFigures) []prometheus.Collector {
	breakers := func(state string, count func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "breakwater_breakers", Help: "Breakers of this node's lanes; closed ones only with traffic in the last 15 minutes.",
			ConstLabels: prometheus.Labels{"state": state},
		}, count)
	}
	return []prometheus.Collector{
		breakers("open", func() float64 { return float64(lanes().Open) }),
		breakers("closed", func() float64 { return float64(lanes().Closed) }),
		gauge("breakwater_storms_active", "Endpoints in a retry storm.",
			func() float64 { return float64(lanes().Storms) }),
		gauge("breakwater_retry_ratio_max", "Greatest ratio of retries to first attempts in 15 minutes, of lanes with at least 20 attempts.",
			func() float64 { return lanes().MaxRatio }),
		gauge("breakwater_retry_queue_warnings", "Endpoints whose retry queue grows.",
			func() float64 { return float64(lanes().Warnings) }),
		total("breakwater_operational_events_dropped_total", "Operational events that were not stored because too many waited.",
			func() float64 { return float64(lanes().EventsDropped) }),
	}
}

// storeMetrics ask for the state of the embedded store when they are read.
func storeMetrics(state func() Store) []prometheus.Collector {
	return []prometheus.Collector{
		total("breakwater_store_damaged_reads_total", "Reads that failed because a part of the store is damaged.",
			func() float64 { return float64(state().DamagedReads) }),
		gauge("breakwater_store_log_bytes", "Length of the log beside the database file.",
			func() float64 { return float64(state().LogBytes) }),
		total("breakwater_store_log_written_bytes_total", "Bytes written to the log.",
			func() float64 { return float64(max(state().LogWritten, 0)) }),
		gauge("breakwater_store_log_limit_bytes", "Length of the log at which new events are refused.",
			func() float64 { return float64(state().LogLimit) }),
	}
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func total(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
}
