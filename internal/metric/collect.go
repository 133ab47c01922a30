package metric

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// sample is what a reader is shown: everything is asked for once, so that the
// metrics of one answer fit together.
type sample struct {
	now      time.Time
	version  string
	counts   *counts
	lanes    hook.LaneFigures
	queues   hook.QueueFigures
	node     Node
	embedded *Embedded // nil: the store is elsewhere
	alerts   []AlertCount

	histograms func(h *histogram, labels ...string)
}

func (m *Metrics) sample() *sample {
	s := &sample{version: m.sources.Version, counts: &m.counts, node: Node{LeaseAge: -1}}
	if f := m.sources.Lanes; f != nil {
		s.lanes = f()
	}
	if f := m.sources.Queues; f != nil {
		s.queues = f()
	}
	if f := m.sources.Node; f != nil {
		s.node = f()
	}
	if f := m.sources.Embedded; f != nil {
		state := f()
		s.embedded = &state
	}
	if f := m.sources.Alerts; f != nil {
		s.alerts = f()
	}
	s.now = time.Now()
	return s
}

// collector turns the table into metrics.
type collector struct {
	metrics *Metrics
	descs   []*prometheus.Desc // of the table, in its order
}

func newCollector(m *Metrics) *collector {
	c := &collector{metrics: m}
	for _, d := range table {
		c.descs = append(c.descs, d.prometheus())
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.metrics.sample()
	for i, d := range table {
		kind := prometheus.GaugeValue
		if d.Type == Counter {
			kind = prometheus.CounterValue
		}
		s.histograms = func(h *histogram, labels ...string) {
			count, sum, below := h.state(d.Buckets)
			ch <- prometheus.MustNewConstHistogram(c.descs[i], count, sum, below, labels...)
		}
		d.collect(s, func(v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(c.descs[i], kind, v, labels...)
		})
	}
}
