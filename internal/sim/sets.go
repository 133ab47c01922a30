package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Set is a group of scenarios that belong together.
type Set struct {
	Name      string
	About     string
	Scenarios []Scenario
}

// Sets returns every set of built-in scenarios.
func Sets() []Set {
	return []Set{
		{"matrix", "what the law is judged by: twelve outages", Matrix()},
		{"capacity", "capacities and latencies that the law does not know", capacities()},
		{"new", "an endpoint without history and 200 s of work at once", newcomers()},
		{"flaky", "a share of requests that is lost whatever is sent: it fails, or is never answered", flaky()},
		{"throttle", "an endpoint that answers 429 above its rate, and 200 s of work at once", throttles()},
		{"failover", "the matrix while the lane changes its owner every 2 min, 15 s without one", failovers()},
		{"fleet", "several endpoints, several outages", fleets()},
		{"cliff", "endpoints whose latency tells nothing: cliffs, stray 429s, flapping ones, shared hosts", Cliffs()},
	}
}

// FindScenario returns a built-in scenario by its name.
func FindScenario(name string) (Scenario, bool) {
	for _, set := range Sets() {
		for _, s := range set.Scenarios {
			if s.Name == name {
				return s, true
			}
		}
	}
	return Scenario{}, false
}

// The goals of the law.
const (
	safeGoals     = "recrashes==0,dead==0"
	shortGoals    = "live_p99<=30s,detect<=17s,detect_max<=33s" // after an outage of five minutes
	longGoals     = "live_p99<=75s,detect<=60s,detect_max<=87s" // after an hour
	ordinaryGoals = safeGoals + ",drain<=1.2,peak<=1.5,waste<=0.01," + shortGoals
	throttleGoals = safeGoals + ",throttled<=0.02,broken_holds==0"
)

// vary returns the base scenario with a change.
func vary(name, goals string, change func(*Scenario)) Scenario {
	s := Base()
	s.Name, s.Goals = name, goals
	s.Outages = slices.Clone(s.Outages)
	change(&s)
	return s
}

// Matrix returns the scenarios that the law is judged by.
func Matrix() []Scenario {
	const (
		hour = Duration(time.Hour)
		// A noisy latency, a cold cache and many poisoned events make a drain
		// longer than the optimum for good reasons. With a noisy latency the most
		// arrivals of one second are a matter of chance too: 1.50 or 1.52.
		noDrain = safeGoals + ",peak<=1.5,waste<=0.01," + shortGoals
		noisy   = safeGoals + ",peak<=1.6,waste<=0.01," + shortGoals
		// A probe may take a poisoned event, which keeps the lane open for another
		// gap, of up to 20 s here. How often that happens in a row is chance, which
		// has no maximum. detect_max allows for one such probe at 5 % of poison; at
		// 20 % two or three in a row are nothing special.
		poisoned = safeGoals + ",peak<=1.5,waste<=0.01,live_p99<=30s,detect<=17s"
		longLast = safeGoals + ",drain<=1.2,waste<=0.01," + longGoals
		slow     = safeGoals + ",drain<=1.5,waste<=0.01,detect<=17s,detect_max<=33s"
	)
	return []Scenario{
		Base(),
		vary("slow-answers", slow, func(s *Scenario) { s.Latency = Duration(2 * time.Second) }),
		vary("load-80", ordinaryGoals, func(s *Scenario) { s.Load = 0.8 }),
		vary("cold-restart", noDrain, func(s *Scenario) { s.Warmup = Warmup{From: 0.3, Over: Duration(2 * time.Minute)} }),
		vary("fragile", ordinaryGoals, func(s *Scenario) { s.Crash.Queue = Duration(time.Second) }),
		vary("black-hole", ordinaryGoals, func(s *Scenario) { s.Outages[0].BlackHole = true }),
		vary("poison-5", poisoned+",detect_max<=53s,drain<=1.2", func(s *Scenario) { s.Poison = 0.05 }),
		vary("comes-back-at-70", ordinaryGoals, func(s *Scenario) { s.After, s.Load = 0.7, 0.3 }),
		vary("noisy-latency", noisy, func(s *Scenario) { s.LatencyCV = 1.5 }),
		vary("outage-1h", longLast, func(s *Scenario) { s.Outages[0].For, s.Capacity = hour, 20 }),
		vary("drain-4h", longLast, func(s *Scenario) { s.Outages[0].For, s.Capacity, s.Load = hour, 10, 0.8 }),
		vary("poison-20", poisoned, func(s *Scenario) { s.Poison = 0.2 }),
	}
}

var (
	someCapacities = []float64{5, 50, 500}
	someLatencies  = []Duration{
		Duration(5 * time.Millisecond), Duration(50 * time.Millisecond),
		Duration(200 * time.Millisecond), Duration(2 * time.Second),
	}
)

// sized makes a scenario per capacity, latency and load. Five requests per
// second at 50 ms or less are no more than one server now and then.
func sized(prefix string, loads []float64, change func(*Scenario)) []Scenario {
	var list []Scenario
	for _, capacity := range someCapacities {
		for _, latency := range someLatencies {
			if capacity < 50 && latency < Duration(200*time.Millisecond) {
				continue
			}
			for _, load := range loads {
				name := fmt.Sprintf("%sc%g-%s-r%.0f", prefix, capacity, latency, 100*load)
				list = append(list, vary(name, sizedGoals(latency), func(s *Scenario) {
					s.Capacity, s.Latency, s.Load = capacity, latency, load
					change(s)
				}))
			}
		}
	}
	return list
}

func sizedGoals(latency Duration) string {
	if latency > Duration(200*time.Millisecond) {
		return safeGoals + ",drain<=1.5"
	}
	return safeGoals + ",drain<=1.2"
}

func capacities() []Scenario {
	return sized("", []float64{0.3, 0.5, 0.8}, func(*Scenario) {})
}

func newcomers() []Scenario {
	return sized("new-", []float64{0.3, 0.8}, func(s *Scenario) {
		s.New, s.Outages = true, nil
		s.Batch, s.BatchAt = 200, Duration(time.Second)
		s.Goals = safeGoals
	})
}

func flaky() []Scenario {
	var list []Scenario
	for _, lost := range []struct{ share, drain float64 }{
		{0.001, 1.2}, {0.005, 1.2}, {0.01, 1.2}, {0.02, 1.2}, {0.05, 1.3}, {0.1, 1.5},
	} {
		goals := fmt.Sprintf("%s,drain<=%g", safeGoals, lost.drain)
		list = append(list, vary("flaky-"+percent(lost.share), goals, func(s *Scenario) { s.Flaky = lost.share }))
	}
	// Of those that are lost again and again some wait for hours, by their own schedule: no
	// drain in the sense of the others.
	for _, share := range []float64{0.2, 0.33} {
		list = append(list, vary("flaky-"+percent(share), "recrashes==0,dead<=0.001,max_waiting<=14000", func(s *Scenario) { s.Flaky = share }))
	}
	return append(list, vary("swallow-3", safeGoals+",drain<=1.6,max_waiting<=14000", func(s *Scenario) { s.Swallow = 0.03 }))
}

// percent writes a share as a whole number, or with as many digits as it needs.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(1e4*share)/100, 'f', -1, 64)
}

// throttles are endpoints whose rate limit is a tenth of what they could serve.
func throttles() []Scenario {
	var list []Scenario
	for _, rate := range []float64{2, 20, 200} {
		for _, wait := range []Duration{Duration(time.Second), Duration(10 * time.Second)} {
			list = append(list, vary(fmt.Sprintf("throttle-%g-%s", rate, wait), throttleGoals, func(s *Scenario) {
				s.Capacity, s.Latency, s.Load = 10*rate, Duration(50*time.Millisecond), 0.05
				s.RateLimit = RateLimit{PerSecond: rate, Burst: rate, RetryAfter: wait}
				s.Outages, s.Crash = nil, Crash{}
				s.Batch, s.BatchAt = 20, Duration(time.Minute)
				s.Horizon = Duration(6000 * time.Second)
			}))
		}
	}
	return list
}

func failovers() []Scenario {
	list := Matrix()
	for i := range list {
		list[i].Name = "failover-" + list[i].Name
		list[i].Goals = safeGoals
		list[i].Failover = Failover{Every: Duration(2 * time.Minute), Gap: Duration(15 * time.Second)}
	}
	return list
}

func fleets() []Scenario {
	minutes := func(n int) Duration { return Duration(time.Duration(n) * time.Minute) }
	return []Scenario{
		vary("fleet-20", ordinaryGoals, func(s *Scenario) { s.Endpoints = 20 }),
		vary("three-outages", safeGoals+",drain<=1.2", func(s *Scenario) {
			s.Endpoints = 5
			s.Outages = []Outage{
				{At: minutes(2), For: minutes(5)},
				{At: minutes(10), For: minutes(2), BlackHole: true},
				{At: minutes(20), For: minutes(10)},
			}
		}),
	}
}
