package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Bounds of a run, so that no scenario keeps a machine busy for ever.
const (
	maxEvents  = 500e6
	maxOutages = 100
	maxSingles = 100
	maxTime    = 30 * 24 * time.Hour
)

// Check names every field that is out of bounds. The error is a *hook.Invalid.
func (s *Scenario) Check() error {
	r := reader{}
	r.number("capacity", s.Capacity, 0.1, 100_000)
	r.duration("latency", s.Latency, 100*time.Microsecond, 2*time.Minute)
	r.number("latency_cv", s.LatencyCV, 0, 5)
	r.duration("network", s.Network, 0, 10*time.Second)
	r.number("load", s.Load, 0.001, 0.99)
	r.number("endpoints", float64(s.Endpoints), 1, 1000)
	r.number("batch", s.Batch, 0, 10_000)
	r.duration("batch_at", s.BatchAt, 0, maxTime)
	r.number("capacity_after", s.After, 0, 2)
	r.number("poison", s.Poison, 0, 0.99)
	r.number("flaky", s.Flaky, 0, 0.99)
	r.number("swallow", s.Swallow, 0, 0.99)
	r.number("at_once", float64(s.AtOnce), 0, 1e6)
	r.duration("crash.queue", s.Crash.Queue, 0, time.Hour)
	r.number("crash.overload", s.Crash.Overload, 0, 1000)
	r.duration("crash.for", s.Crash.For, 0, maxTime)
	r.number("warmup.from", s.Warmup.From, 0, 1)
	r.duration("warmup.over", s.Warmup.Over, 0, time.Hour)
	r.number("rate_limit.per_second", s.RateLimit.PerSecond, 0, 100_000)
	r.number("rate_limit.burst", s.RateLimit.Burst, 0, 1e6)
	r.duration("rate_limit.retry_after", s.RateLimit.RetryAfter, 0, time.Hour)
	r.duration("failover.every", s.Failover.Every, 0, maxTime)
	r.duration("failover.gap", s.Failover.Gap, 0, time.Hour)
	r.duration("timeout", s.Timeout, 0, 2*time.Minute)
	r.duration("horizon", s.Horizon, 0, maxTime)
	s.checkOutages(&r)
	s.checkHard(&r)
	if len(r.wrong) == 0 {
		s.checkWhole(&r)
	}
	return r.err()
}

// number refuses what is outside [low, high], NaN included.
func (r *reader) number(path string, v, low, high float64) {
	if !(v >= low && v <= high) {
		r.add(path, "must be between %v and %v", low, high)
	}
}

func (r *reader) duration(path string, v Duration, low, high time.Duration) {
	if time.Duration(v) < low || time.Duration(v) > high {
		r.add(path, "must be %s", quantity.Between(low, high))
	}
}

func (s *Scenario) checkOutages(r *reader) {
	if len(s.Outages) > maxOutages {
		r.add("outages", "must be at most %d", maxOutages)
		return
	}
	var last Duration
	for i, o := range s.Outages {
		path := fmt.Sprintf("outages[%d]", i)
		r.duration(path+".at", o.At, 0, maxTime)
		r.duration(path+".for", o.For, time.Second, maxTime)
		if o.At < last {
			r.add(path+".at", "must not be before the end of the outage before it")
		}
		last = min(o.At, Duration(maxTime)) + min(o.For, Duration(maxTime))
	}
}

func (s *Scenario) checkHard(r *reader) {
	switch s.Cliff.Mode {
	case "", CliffCrash, CliffHang, CliffRefuse:
	default:
		r.add("cliff.mode", "must be %s, %s or %s", CliffCrash, CliffHang, CliffRefuse)
	}
	r.duration("cliff.for", s.Cliff.For, 0, maxTime)
	r.duration("cliff.window", s.Cliff.Window, 0, time.Minute)
	r.number("stray.share", s.Stray.Share, 0, 0.99)
	r.duration("stray.retry_after", s.Stray.RetryAfter, 0, time.Hour)
	r.duration("flap.every", s.Flap.Every, 0, maxTime)
	r.duration("flap.for", s.Flap.For, 0, time.Hour)
	r.duration("again.after", s.Again.After, 0, maxTime)
	r.duration("again.gap", s.Again.Gap, 0, time.Hour)
	r.duration("again.for", s.Again.For, 0, maxTime)
	r.number("again.capacity", s.Again.Capacity, 0, 100)
	if len(s.Singles) > maxSingles {
		r.add("single_429s", "must be at most %d", maxSingles)
		return
	}
	for i, o := range s.Singles {
		path := fmt.Sprintf("single_429s[%d]", i)
		r.duration(path+".at", o.At, 0, maxTime)
		r.wholeSeconds(path+".retry_after", o.RetryAfter)
	}
}

// wholeSeconds refuses what a Retry-After cannot say.
func (r *reader) wholeSeconds(path string, v Duration) {
	if v < Duration(time.Second) || v > Duration(time.Hour) || v%Duration(time.Second) != 0 {
		r.add(path, "must be whole seconds between 1s and 1h")
	}
}

// checkHardWhole finds what only several fields together can break.
func (s *Scenario) checkHardWhole(r *reader) {
	if s.Cliff.Mode != "" && s.Capacity*s.Cliff.window() < 1 {
		r.add("capacity", "must be at least 1 with a cliff, in each window: it counts the requests of a second, or of cliff.window")
	}
	if s.Cliff.Mode != "" && s.After > 0 {
		r.add("capacity_after", "does not go with a cliff; again.capacity does")
	}
	if (s.Cliff.Mode == CliffCrash || s.Cliff.Mode == CliffHang) && s.Cliff.For == 0 {
		r.add("cliff.for", "must be above 0")
	}
	if s.Stray.Share > 0 {
		r.wholeSeconds("stray.retry_after", s.Stray.RetryAfter)
	}
	if (s.Flap.Every > 0) != (s.Flap.For > 0) {
		r.add("flap", "needs both every and for")
	}
	switch again := &s.Again; {
	case again.After == 0 && *again != Again{}:
		r.add("again.after", "must be above 0")
	case again.After == 0:
	case len(s.Outages) == 0:
		r.add("again", "needs an outage to play once more")
	case again.Gap >= again.After:
		r.add("again.gap", "must be shorter than again.after")
	case again.Capacity > 0 && s.Cliff.Mode == "":
		r.add("again.capacity", "needs a cliff")
	case s.spareAgain() < 0.005*s.Capacity || s.capacityAgain() < 1:
		r.add("again.capacity", "leaves nothing to drain a backlog with")
	}
}

// checkWhole finds what only the whole scenario can break.
func (s *Scenario) checkWhole(r *reader) {
	limit := &s.RateLimit
	if s.spare() < 0.005*s.Capacity {
		r.add("load", "leaves nothing to drain a backlog with: it must stay below capacity_after and rate_limit.per_second")
		return
	}
	if limit.PerSecond > 0 && (limit.Burst < 1 || limit.RetryAfter%Duration(time.Second) != 0) {
		r.add("rate_limit", "needs a burst of at least 1 and a retry_after of whole seconds")
	}
	if s.Failover.Every > 0 && s.Failover.Gap >= s.Failover.Every {
		r.add("failover.gap", "must be shorter than failover.every")
	}
	if s.Warmup.Over > 0 && s.Warmup.From == 0 {
		r.add("warmup.from", "must be above 0")
	}
	s.checkHardWhole(r)
	if len(r.wrong) > 0 {
		return // nobody knows how long it would take
	}
	if s.longest() > maxTime.Seconds() {
		r.add("outages", "make a run of more than 30 days")
	}
	if events := s.hosts() * s.Capacity * (s.Load*s.longest() + s.Batch); events > maxEvents {
		r.add("capacity", "makes a run of %.0f million events; at most %.0f million", math.Ceil(events/1e6), maxEvents/1e6)
	}
	if s.Goals != "" {
		if _, err := ParseGoals(s.Goals); err != nil {
			r.add("goals", "%v", err)
		}
	}
}
