package metric

import (
	"runtime"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Names that this package looks up.
const (
	attemptDuration = "breakwater_attempt_duration_seconds"
	deliveryLatency = "breakwater_delivery_latency_seconds"
	commitDuration  = "breakwater_store_commit_duration_seconds"
	commitRows      = "breakwater_store_commit_rows"
)

// The bounds of histograms. Those of the delivery latency have the limits of the
// rule about it among them, so that Prometheus and the server judge alike.
var (
	attemptBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	latencyBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600, 72 * 3600}
	commitBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15}
	rowBuckets     = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
)

// members are the names of some members of a list.
func members[E interface{ String() string }](list ...E) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.String()
	}
	return out
}

// upTo lists the members of a list that begins at first.
func upTo[E ~uint8](first, last E) (out []E) {
	for e := first; e <= last; e++ {
		out = append(out, e)
	}
	return out
}

var (
	attemptKinds = upTo(hook.First, hook.Manual)
	deadReasons  = upTo(hook.DeadExhausted, hook.DeadBreakerOpen)
	severities   = upTo(hook.SeverityInfo, hook.SeverityPage)
	allRefusals  = upTo(RefusedInvalid, refusals-1)
	allReplayed  = upTo(ReplayDelivered, replayResults-1)
	settledEnds  = []hook.DeliveryState{hook.Delivered, hook.Dead, hook.Cancelled}
)

func ruleNames() (names []string) {
	for _, r := range alert.Rules() {
		names = append(names, r.Name)
	}
	return names
}

// table is every metric.
var table = concat(overviewTable, destinationTable, queueTable, storeTable, processTable)

func concat(parts ...[]*Desc) (all []*Desc) {
	for i, part := range parts {
		for _, d := range part {
			d.Section = Sections()[i]
			all = append(all, d)
		}
	}
	return all
}

// one is the collect of a metric with one series.
func one(value func(s *sample) float64) func(*sample, emit) {
	return func(s *sample, out emit) { out(value(s)) }
}

func total(n uint64) float64 { return float64(n) }

var overviewTable = []*Desc{
	{
		Name: "breakwater_events_accepted_total", Type: Counter, Over: Sum,
		Help:    "Events that were stored and answered with 202; repeats of an idempotency key are not counted again.",
		collect: one(func(s *sample) float64 { return total(s.counts.accepted.Load()) }),
	},
	{
		Name: "breakwater_events_refused_total", Type: Counter, Over: Sum,
		Help:   "Events of well-formed requests that were not taken, by reason.",
		Labels: []Label{{"reason", members(allRefusals...)}},
		collect: func(s *sample, out emit) {
			for _, r := range allRefusals {
				out(total(s.counts.refused[r].Load()), r.String())
			}
		},
	},
	{
		Name: "breakwater_deliveries_settled_total", Type: Counter, Over: Sum,
		Help: "Deliveries that were delivered or given up, by the number of their attempts; 0 when one was held until it expired. " +
			"Those cancelled by hand are counted only if an attempt was under way.",
		Labels: []Label{{"state", members(settledEnds...)}, {"attempts", tries}},
		// What ends well or badly is there from the start, so that rates begin at zero.
		collect: func(s *sample, out emit) {
			for _, state := range settledEnds {
				for i, label := range tries {
					n := s.counts.settled[state][i].Load()
					if n > 0 || state == hook.Dead || state == hook.Delivered && i > 0 {
						out(total(n), state.String(), label)
					}
				}
			}
		},
	},
	{
		Name: deliveryLatency, Type: Histogram, Unit: Seconds, Over: Sum, Buckets: latencyBuckets,
		Help:    "Time from when a delivery was due to the answer that ended it well, retries and waiting included.",
		collect: func(s *sample, _ emit) { s.histograms(&s.counts.latency) },
	},
	{
		Name: "breakwater_dead_letters_total", Type: Counter, Over: Sum,
		Help:   "Deliveries that were given up, by reason.",
		Labels: []Label{{"reason", members(deadReasons...)}},
		collect: func(s *sample, out emit) {
			for _, r := range deadReasons {
				out(total(s.counts.dead[r].Load()), r.String())
			}
		},
	},
	{
		Name: "breakwater_alerts_open", Type: Gauge, Over: Fleet,
		Help:   "Open alerts by rule and severity; nodes that do not judge alerts report 0.",
		Labels: []Label{{"alert", ruleNames()}, {"severity", members(severities...)}},
		collect: func(s *sample, out emit) {
			open := make(map[string]map[hook.Severity]int)
			for _, a := range s.alerts {
				if open[a.Rule] == nil {
					open[a.Rule] = make(map[hook.Severity]int)
				}
				open[a.Rule][a.Severity] += a.Open
			}
			for _, r := range alert.Rules() {
				for _, severity := range r.Severities() {
					out(float64(open[r.Name][severity]), r.Name, severity.String())
				}
			}
		},
	},
}

var destinationTable = []*Desc{
	{
		Name: "breakwater_attempts_total", Type: Counter, Over: Sum, By: []string{"class"},
		Help:   "Attempts that have ended, by kind and by what came of them.",
		Labels: []Label{{"kind", members(attemptKinds...)}, {"class", members(hook.Classes()...)}, {"reason", members(hook.Reasons()...)}},
		// What never happened is left out: most combinations cannot. Errors of our
		// own are there from the start, because an alert watches for the first.
		collect: func(s *sample, out emit) {
			for _, kind := range attemptKinds {
				for _, class := range hook.Classes() {
					for _, reason := range hook.Reasons() {
						n := s.counts.attempts[kind][class][reason].Load()
						if n > 0 || class == hook.Local && reason == hook.LocalError {
							out(total(n), kind.String(), class.String(), reason.String())
						}
					}
				}
			}
		},
	},
	{
		Name: attemptDuration, Type: Histogram, Unit: Seconds, Over: Sum, Buckets: attemptBuckets,
		Help:   "Time that attempts took, from the start of the request to the end of the answer.",
		Labels: []Label{{"class", members(hook.Classes()...)}},
		collect: func(s *sample, _ emit) {
			for _, class := range hook.Classes() {
				s.histograms(&s.counts.took[class], class.String())
			}
		},
	},
	{
		Name: "breakwater_breakers", Type: Gauge, Over: Sum,
		Help:   "Breakers of this node's lanes; closed ones only with traffic in the last 15 minutes.",
		Labels: []Label{{"state", []string{"open", "closed"}}},
		collect: func(s *sample, out emit) {
			out(float64(s.lanes.Open), "open")
			out(float64(s.lanes.Closed), "closed")
		},
	},
	{
		Name: "breakwater_breaker_transitions_total", Type: Counter, Over: Sum,
		Help:   "Breakers that opened or closed.",
		Labels: []Label{{"to", []string{"open", "closed"}}},
		collect: func(s *sample, out emit) {
			out(total(s.counts.opened.Load()), "open")
			out(total(s.counts.closed.Load()), "closed")
		},
	},
	{
		Name: "breakwater_storms_active", Type: Gauge, Over: Sum,
		Help:    "Endpoints of this node's lanes in a retry storm.",
		collect: one(func(s *sample) float64 { return float64(s.lanes.Storms) }),
	},
	{
		Name: "breakwater_retry_ratio_max", Type: Gauge, Over: Max,
		Help:    "Greatest ratio of retries to first attempts in 15 minutes, of lanes with at least 20 attempts.",
		collect: one(func(s *sample) float64 { return s.lanes.MaxRatio }),
	},
	{
		Name: "breakwater_retry_queue_warnings", Type: Gauge, Over: Sum,
		Help:    "Endpoints of this node's lanes whose retry queue grows: a storm may be forming.",
		collect: one(func(s *sample) float64 { return float64(s.lanes.Warnings) }),
	},
	{
		Name: "breakwater_retry_after_holds", Type: Gauge, Over: Sum,
		Help:    "Lanes of this node that wait because their destination asked for it, with Retry-After or a 429.",
		collect: counted(func(q *hook.QueueFigures) float64 { return float64(q.Holds) }),
	},
	worst("breakwater_endpoint_retry_ratio", "Ratio of retries to first attempts in 15 minutes, of the endpoints in the worst state.",
		func(l *hook.WorstLane) float64 { return l.Storm.Ratio() }),
	worst("breakwater_endpoint_retry_queue", "Deliveries that wait for another attempt or are held, of the endpoints in the worst state; counting stops at 10,000.",
		func(l *hook.WorstLane) float64 { return float64(l.Queue.Depth) }),
	worst("breakwater_endpoint_breaker_open", "1 when the breaker is open, of the endpoints in the worst state.",
		func(l *hook.WorstLane) float64 {
			if l.Open {
				return 1
			}
			return 0
		}),
}

// worst describes a metric of the worst endpoints, which go by their ids.
func worst(name, help string, value func(*hook.WorstLane) float64) *Desc {
	return &Desc{
		Name: name, Type: Gauge, Over: Each, Help: help, Only: "`metrics.worst_endpoints` above 0",
		Labels: []Label{{Name: "tenant"}, {Name: "endpoint"}},
		collect: func(s *sample, out emit) {
			for i := range s.lanes.Worst {
				l := &s.lanes.Worst[i]
				out(value(l), hook.TenantPrefix.Format(l.TenantID), hook.EndpointPrefix.Format(l.EndpointID))
			}
		},
	}
}

// counted is the collect of a metric of the last count of the queues. Before the
// first one it is not there.
func counted(value func(q *hook.QueueFigures) float64) func(*sample, emit) {
	return func(s *sample, out emit) {
		if !s.queues.At.IsZero() {
			out(value(&s.queues))
		}
	}
}

// fleet is the same of what one node counts for all.
func fleet(value func(f *hook.FleetFigures) float64) func(*sample, emit) {
	return func(s *sample, out emit) {
		if s.queues.Fleet != nil {
			out(value(s.queues.Fleet))
		}
	}
}

var queueTable = []*Desc{
	{
		Name: "breakwater_queue_depth", Type: Gauge, Over: Sum,
		Help: "Pending deliveries of this node's lanes: ready to be sent, delayed by their publisher, waiting for another attempt, " +
			"held by a breaker, a pause or a Retry-After, and in flight. Those in flight are also counted where they were before.",
		Labels: []Label{{"state", []string{"ready", "delayed", "retrying", "held", "inflight"}}},
		collect: func(s *sample, out emit) {
			if q := &s.queues; !q.At.IsZero() {
				out(float64(q.Ready), "ready")
				out(float64(q.Delayed), "delayed")
				out(float64(q.Retrying), "retrying")
				out(float64(q.Held), "held")
			}
			out(float64(s.node.InFlight), "inflight")
		},
	},
	{
		Name: "breakwater_queue_oldest_age_seconds", Type: Gauge, Unit: Seconds, Over: Max,
		Help:   "How long the oldest pending delivery of this node's lanes has been due; for one that waits for another attempt, since it was first due. 0 when there is none.",
		Labels: []Label{{"state", []string{"ready", "retrying", "held"}}},
		collect: func(s *sample, out emit) {
			if q := &s.queues; !q.At.IsZero() {
				out(s.age(q.ReadySince), "ready")
				out(s.age(q.RetryingSince), "retrying")
				out(s.age(q.HeldSince), "held")
			}
		},
	},
	{
		Name: "breakwater_queue_count_age_seconds", Type: Gauge, Unit: Seconds, Over: Max,
		Help:    "How long ago the queues were counted. Counting takes a twentieth of the time at most, so it is rarer when much waits.",
		collect: func(s *sample, out emit) { counted(func(q *hook.QueueFigures) float64 { return s.age(q.At) })(s, out) },
	},
	{
		Name: "breakwater_in_flight_limit", Type: Gauge, Over: Sum,
		Help:    "Attempts that this node may have in flight at the same time.",
		collect: one(func(s *sample) float64 { return float64(s.node.InFlightLimit) }),
	},
	{
		Name: "breakwater_lanes", Type: Gauge, Over: Sum,
		Help:    "Lanes in this node's memory.",
		collect: counted(func(q *hook.QueueFigures) float64 { return float64(q.Lanes) }),
	},
	{
		Name: "breakwater_pending_deliveries", Type: Gauge, Over: Fleet,
		Help:    "Deliveries that have not ended, all of them.",
		collect: fleet(func(f *hook.FleetFigures) float64 { return float64(f.Pending) }),
	},
	{
		Name: "breakwater_pending_bytes", Type: Gauge, Unit: Bytes, Over: Fleet,
		Help:    "Payloads of deliveries that have not ended, each counted by itself.",
		collect: fleet(func(f *hook.FleetFigures) float64 { return float64(f.PendingBytes) }),
	},
	{
		Name: "breakwater_dead_letters", Type: Gauge, Over: Fleet,
		Help:   "Dead letters that are stored, by reason; counting stops at 100,000.",
		Labels: []Label{{"reason", members(deadReasons...)}},
		collect: func(s *sample, out emit) {
			if f := s.queues.Fleet; f != nil {
				for _, r := range deadReasons {
					out(float64(f.Dead[r]), r.String())
				}
			}
		},
	},
	{
		Name: "breakwater_replay_events_total", Type: Counter, Over: Sum,
		Help:   "Deliveries of replays that were delivered, failed again, or were skipped because they were pending or had no destination any more.",
		Labels: []Label{{"result", members(allReplayed...)}},
		collect: func(s *sample, out emit) {
			for _, r := range allReplayed {
				out(total(s.counts.replayed[r].Load()), r.String())
			}
		},
	},
}

// age is how long ago a moment was; 0 for none.
func (s *sample) age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(s.now.Sub(t).Seconds(), 0)
}

var processTable = []*Desc{
	{
		Name: "breakwater_build_info", Type: Gauge, Over: Each,
		Help:    "Always 1; the labels say which version runs.",
		Labels:  []Label{{Name: "version"}, {Name: "go"}},
		collect: func(s *sample, out emit) { out(1, s.version, runtime.Version()) },
	},
	{
		Name: "breakwater_shards_owned", Type: Gauge, Over: Sum,
		Help:    "Shards that this node delivers for; all nodes together own " + strconv.Itoa(hook.Shards) + ".",
		collect: one(func(s *sample) float64 { return float64(s.node.Shards) }),
	},
	{
		Name: "breakwater_lease_age_seconds", Type: Gauge, Unit: Seconds, Over: Max, Only: "Postgres",
		Help: "How long ago this node renewed its leases. At `lease.ttl` it stops sending and others take over.",
		collect: func(s *sample, out emit) {
			if s.node.LeaseAge >= 0 {
				out(s.node.LeaseAge.Seconds())
			}
		},
	},
	{
		Name: "breakwater_operational_events_dropped_total", Type: Counter, Over: Sum,
		Help:    "Operational events that were not stored because too many waited.",
		collect: one(func(s *sample) float64 { return total(s.lanes.EventsDropped) }),
	},
}
