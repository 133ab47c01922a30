package sim

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Measure is a number that may be missing: infinite for what never happened,
// NaN for what could not be measured. Both are null in JSON.
type Measure float64

// MarshalJSON writes null for what is missing.
func (m Measure) MarshalJSON() ([]byte, error) {
	if !m.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(m))
}

// Known reports whether there is a number.
func (m Measure) Known() bool { return !math.IsInf(float64(m), 0) && !math.IsNaN(float64(m)) }

// Text writes m with so many decimals; "never" and "-" for what is missing.
func (m Measure) Text(decimals int) string {
	switch {
	case math.IsNaN(float64(m)):
		return "-"
	case !m.Known():
		return "never"
	default:
		return strconv.FormatFloat(float64(m), 'f', decimals, 64)
	}
}

// Result is what one run showed. Peak and drain are relative, so that
// endpoints of every size compare.
type Result struct {
	Seed         uint64  `json:"seed"`
	Crashes      int     `json:"recrashes"`        // by overload, after the first recovery; at ten per endpoint the run stops
	Peak         float64 `json:"peak"`             // most arrivals of a second over the capacity, within 5 min of the recovery
	Drain        Measure `json:"drain"`            // time to drain over the optimum; infinite: not drained
	DrainSeconds Measure `json:"drain_seconds"`    // the same in seconds
	Waste        float64 `json:"waste"`            // failed attempts per event, poison excepted
	Dead         float64 `json:"dead"`             // share of events given up, poison excepted
	LiveP99      Measure `json:"live_p99_seconds"` // extra delay of events accepted within 10 min of the recovery
	Detect       Measure `json:"detect_seconds"`   // recovery to the first success
	Throttled    float64 `json:"throttled"`        // 429 answers per event
	BrokenHolds  int     `json:"broken_holds"`     // requests sent before a Retry-After had passed
	InFlight     int     `json:"max_in_flight"`
	Events       int     `json:"events"`
	Backlog      int     `json:"backlog"`     // at the recovery
	Waiting      int     `json:"max_waiting"` // most events that were not delivered yet

	First   Recovery  `json:"first"`
	Between int       `json:"crashes_between"`  // by overload, from the restart to the second outage
	Second  *Recovery `json:"second,omitempty"` // where there is a second outage

	Trace *Trace `json:"-"`
	Steps int    `json:"-"` // that the run took
}

// Trace is what happened in every second from the beginning, of all endpoints
// together.
type Trace struct {
	Arrivals  []int
	Delivered []int
	Limit     []float64 // requests that might be in flight; 0: nothing, or no limit
	Capacity  float64   // per second; the rate limit where there is one
	Outages   []Outage  // that were played
}

// peakTime is how long after the recovery the peak is looked for, liveTime how
// long accepted events count as live traffic after it.
const (
	peakTime = 300
	liveTime = 600
)

func (m *metrics) result(seed uint64) Result {
	first := m.firstSeen
	if first == nil {
		first = m.seen(&m.first)
	}
	r := Result{
		Seed: seed, Crashes: m.crashes, Peak: m.peak(), LiveP99: m.liveP99(),
		Drain: first.Drain, DrainSeconds: first.DrainSeconds, Detect: Measure(math.Inf(1)),
		BrokenHolds: m.brokenHolds, InFlight: m.mostInFlight, Events: m.events, Backlog: first.Backlog,
		Waiting: m.mostPending, First: *first, Between: m.between, Second: m.secondSeen(),
		Trace: m.trace(),
	}
	if m.firstOK >= 0 {
		r.Detect = Measure(m.firstOK - m.w.recovery)
	}
	if n := float64(m.goodEvents); n > 0 {
		r.Waste, r.Dead, r.Throttled = float64(m.failed)/n, float64(m.deadCount)/n, float64(m.throttled)/n
	}
	return r
}

// peak is that of the endpoint with the highest one.
func (m *metrics) peak() float64 {
	from := int(m.w.recovery)
	most := 0
	for _, d := range m.w.dests {
		for i := from; i < min(from+peakTime, len(d.arrivals)); i++ {
			most = max(most, d.arrivals[i])
		}
	}
	return float64(most) / m.w.s.Capacity
}

// live reports whether an event that was accepted then is live traffic after the
// recovery.
func (m *metrics) live(created float64) bool {
	return m.first.isRecovered && created > m.w.recovery && created <= m.w.recovery+liveTime
}

// usual is the delay of an event that nothing delays.
func (m *metrics) usual() float64 { return m.w.s.Latency.seconds() + m.w.s.Network.seconds() }

// liveP99 is the 99th percentile of the extra delay of live events.
func (m *metrics) liveP99() Measure {
	delays := slices.Clone(m.delays)
	waits := func(created float64, poison bool) {
		if !poison && m.live(created) && created < m.w.now-60 { // not even now
			delays = append(delays, m.w.now-created)
		}
	}
	for _, created := range m.lost {
		waits(created, false)
	}
	for _, e := range m.w.events {
		if e.state == hook.Pending {
			waits(e.created, e.poison)
		}
	}
	for _, p := range m.w.places {
		if disk := p.send.stored(); disk != nil {
			disk.each(waits)
		}
	}
	return Quantile(delays, 0.99)
}

func (m *metrics) trace() *Trace {
	s := m.w.s
	capacity := s.Capacity
	if allowed := s.RateLimit.PerSecond; allowed > 0 {
		capacity = min(capacity, allowed)
	}
	length := int(m.w.now) + 1
	t := &Trace{
		Arrivals: make([]int, length), Delivered: make([]int, length), Limit: make([]float64, length),
		Capacity: capacity * s.hosts(), Outages: slices.Clone(s.Outages),
	}
	copy(t.Delivered, m.delivered)
	copy(t.Limit, m.limits)
	if m.span == &m.second {
		t.Outages = append(t.Outages, Outage{At: Duration(seconds(m.second.at)), For: Duration(seconds(s.againFor()))})
	}
	for _, d := range m.w.dests {
		for second, n := range d.arrivals[:min(len(d.arrivals), length)] {
			t.Arrivals[second] += n
		}
	}
	return t
}

// Quantile returns the q-quantile of values, NaN of none.
func Quantile(values []float64, q float64) Measure {
	if len(values) == 0 {
		return Measure(math.NaN())
	}
	sorted := slices.Sorted(slices.Values(values))
	return Measure(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}
