package view

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Stats is what happened in a window of time.
type Stats struct {
	From        Stamp        `json:"from"`
	To          Stamp        `json:"to"`
	StepSeconds int64        `json:"step_seconds"`
	Counting    bool         `json:"counting" doc:"false: nothing is counted now (stats.enabled is false), so what is not in the figures may have happened all the same."`
	Totals      Figures      `json:"totals"`
	SuccessRate *float64     `json:"success_rate" doc:"delivered / (delivered + dead); null: nothing ended."`
	RetryRatio  float64      `json:"retry_ratio" doc:"retry / max(first, 1)"`
	AttemptMS   Latency      `json:"attempt_ms" doc:"How long attempts took."`
	DeliveryMS  Latency      `json:"delivery_ms" doc:"From when deliveries were due to the answer that ended them."`
	Series      []StatsPoint `json:"series" doc:"Oldest first, without gaps. The first may begin before the window; of it only what is in the window counts."`
}

// Figures are counts of a piece of time.
type Figures struct {
	Events          uint64            `json:"events" doc:"Accepted; of an endpoint always 0: see accepted."`
	Accepted        uint64            `json:"accepted" doc:"Deliveries of accepted events."`
	Attempts        uint64            `json:"attempts" doc:"Of all kinds."`
	First           uint64            `json:"first"`
	Retry           uint64            `json:"retry"`
	Probe           uint64            `json:"probe"`
	Replay          uint64            `json:"replay"`
	Manual          uint64            `json:"manual"`
	Failed          uint64            `json:"failed" doc:"Attempts."`
	FailedBy        map[string]uint64 `json:"failed_by" doc:"The same by reason."`
	Delivered       uint64            `json:"delivered"`
	DeliveredFirst  uint64            `json:"delivered_first" doc:"With the first attempt."`
	DeliveredSecond uint64            `json:"delivered_second"`
	DeliveredLater  uint64            `json:"delivered_later"`
	Dead            uint64            `json:"dead"`
	DeadBy          map[string]uint64 `json:"dead_by" doc:"The same by reason."`
	Cancelled       uint64            `json:"cancelled"`
	Reopened        uint64            `json:"reopened" doc:"Had ended, and became pending again by a replay or by hand, or was created by a replay, or was dead and is discarded: then it is cancelled, too."`
	Restored        uint64            `json:"restored" doc:"Of these, sent by hand in vain: they are again what they were. accepted + reopened = delivered + dead + cancelled + restored + what became pending."`
}

// Latency is how long things took, to a fifth.
type Latency struct {
	P50 *float64 `json:"p50"`
	P95 *float64 `json:"p95"`
	P99 *float64 `json:"p99"`
}

// StatsPoint is one piece of a series.
type StatsPoint struct {
	At         Stamp   `json:"at"`
	Events     uint64  `json:"events"`
	Accepted   uint64  `json:"accepted"`
	First      uint64  `json:"first"`
	Retry      uint64  `json:"retry"`
	Probe      uint64  `json:"probe"`
	Replay     uint64  `json:"replay"`
	Manual     uint64  `json:"manual"`
	Other      uint64  `json:"other" doc:"Probes, replays and manual sends."`
	Failed     uint64  `json:"failed"`
	Delivered  uint64  `json:"delivered"`
	Dead       uint64  `json:"dead"`
	Cancelled  uint64  `json:"cancelled"`
	AttemptMS  Latency `json:"attempt_ms"`
	DeliveryMS Latency `json:"delivery_ms"`
	Gauges     Gauges  `json:"gauges"`
}

// Gauges are what there was at most in a piece of time; null: nobody looked.
type Gauges struct {
	Limit    *uint64 `json:"limit" doc:"Of an endpoint: requests in flight that its lane allowed."`
	LimitLow *uint64 `json:"limit_low" doc:"The same at least."`
	InFlight *uint64 `json:"in_flight" doc:"Of an endpoint."`
	Breaker  *string `json:"breaker" enum:"closed,open" doc:"Of an endpoint, at worst."`
	Pending  *uint64 `json:"pending" doc:"Of a tenant or all: deliveries that had not ended."`
	Ready    *uint64 `json:"ready" doc:"Due and never tried. Of an endpoint: at most, while it is retried or held. Of a tenant or all: on average, which is also true of the next three."`
	Delayed  *uint64 `json:"delayed" doc:"Not due yet."`
	Retrying *uint64 `json:"retrying" doc:"Tried before."`
	Held     *uint64 `json:"held" doc:"Due while nothing is sent."`
	OldestS  *uint64 `json:"oldest_s" doc:"Of an endpoint that is retried or held: how long the oldest had waited, in seconds."`
}

// OfStats shows a window as a series of pieces of one length.
func OfStats(series []stats.Point, from, to time.Time, step time.Duration) Stats {
	total := stats.Total(series)
	v := Stats{
		From: Stamp(from), To: Stamp(to), StepSeconds: int64(step.Seconds()), Totals: ofCounts(&total),
		AttemptMS: ofTimes(total.AttemptTimes()), DeliveryMS: ofTimes(total.DeliveryTimes()), Series: make([]StatsPoint, len(series)),
	}
	if ended := v.Totals.Delivered + v.Totals.Dead; ended > 0 {
		rate := round(float64(v.Totals.Delivered)/float64(ended), 1e4)
		v.SuccessRate = &rate
	}
	v.RetryRatio = round(float64(v.Totals.Retry)/float64(max(v.Totals.First, 1)), 1e2)
	for i := range series {
		c := &series[i].Counts
		p := StatsPoint{
			At: Stamp(series[i].At), Events: c.Get(stats.Events), Accepted: c.Get(stats.Accepted),
			First: c.Get(stats.Attempts(hook.First)), Retry: c.Get(stats.Attempts(hook.Retry)), Failed: c.AllFailed(),
			Probe: c.Get(stats.Attempts(hook.Probe)), Replay: c.Get(stats.Attempts(hook.Replay)), Manual: c.Get(stats.Attempts(hook.Manual)),
			Delivered: c.AllDelivered(), Dead: c.AllDead(), Cancelled: c.Get(stats.Cancelled), AttemptMS: ofTimes(c.AttemptTimes()), DeliveryMS: ofTimes(c.DeliveryTimes()),
		}
		p.Other = c.AllAttempts() - p.First - p.Retry
		p.Gauges = ofGauges(c)
		v.Series[i] = p
	}
	return v
}

func ofCounts(c *stats.Counts) Figures {
	f := Figures{
		Events: c.Get(stats.Events), Accepted: c.Get(stats.Accepted), Attempts: c.AllAttempts(),
		First: c.Get(stats.Attempts(hook.First)), Retry: c.Get(stats.Attempts(hook.Retry)), Probe: c.Get(stats.Attempts(hook.Probe)),
		Replay: c.Get(stats.Attempts(hook.Replay)), Manual: c.Get(stats.Attempts(hook.Manual)),
		Failed: c.AllFailed(), FailedBy: make(map[string]uint64), Delivered: c.AllDelivered(), DeliveredFirst: c.Get(stats.Delivered(1)),
		DeliveredSecond: c.Get(stats.Delivered(2)), DeliveredLater: c.Get(stats.Delivered(stats.MostTries)),
		Dead: c.AllDead(), DeadBy: make(map[string]uint64), Cancelled: c.Get(stats.Cancelled), Reopened: c.Get(stats.Reopened),
		Restored: c.Get(stats.Restored),
	}
	c.ByFailure(func(r hook.Reason, n uint64) { f.FailedBy[r.String()] = n })
	c.ByReason(func(r hook.EndReason, n uint64) { f.DeadBy[r.String()] = n })
	return f
}

func ofGauges(c *stats.Counts) Gauges {
	of := func(g stats.Counter) *uint64 {
		if v, told := c.Gauge(g); told {
			return &v
		}
		return nil
	}
	g := Gauges{
		Limit: of(stats.Limit), LimitLow: of(stats.LimitLow), InFlight: of(stats.InFlight), Pending: of(stats.Pending), Ready: of(stats.Ready),
		Delayed: of(stats.Delayed), Retrying: of(stats.Retrying), Held: of(stats.Held), OldestS: of(stats.Oldest),
	}
	if b := of(stats.Breaker); b != nil {
		name := []string{LaneClosed, LaneOpen}[min(*b, 1)]
		g.Breaker = &name
	}
	return g
}

func ofTimes(h *stats.Histogram) Latency {
	if h.Count() == 0 {
		return Latency{}
	}
	at := func(q float64) *float64 {
		ms := round(Millis(h.Quantile(q)), 10)
		return &ms
	}
	return Latency{P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}

// round rounds to the given part of one.
func round(f, part float64) float64 { return math.Round(f*part) / part }
