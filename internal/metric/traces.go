package metric

import "github.com/prometheus/client_golang/prometheus"

// Traces are the spans of this process so far.
type Traces struct {
	Sent    uint64 // taken by the collector
	Dropped uint64 // too many were waiting
	Failed  uint64 // given up after the collector refused them or did not answer
}

// WatchTraces adds the metrics of traces, which are asked for when they are read.
func (m *Metrics) WatchTraces(state func() Traces) {
	spans := func(outcome string, value func(Traces) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "breakwater_trace_spans_total", Help: "Spans that were sent to the collector, dropped because too many waited, or failed to be sent.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(value(state())) })
	}
	m.registry.MustRegister(
		spans("sent", func(t Traces) uint64 { return t.Sent }),
		spans("dropped", func(t Traces) uint64 { return t.Dropped }),
		spans("failed", func(t Traces) uint64 { return t.Failed }),
	)
}
