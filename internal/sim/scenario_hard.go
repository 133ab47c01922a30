package sim

import (
	"slices"
	"time"
)

// What endpoints do whose latency tells nothing.

// Cliff is an endpoint that serves everything in the same time, up to its
// capacity: so many requests in any one second. One more is too much.
type Cliff struct {
	Mode   string   `json:"mode"`            // CliffCrash, CliffHang, CliffRefuse; empty: there is none
	For    Duration `json:"for,omitzero"`    // how long a crash lasts
	Window Duration `json:"window,omitzero"` // in which requests are counted; 0: a second
}

func (c *Cliff) window() float64 {
	if c.Window == 0 {
		return 1
	}
	return c.Window.seconds()
}

// What a cliff does with a request that is too much.
const (
	CliffCrash  = "crash"  // it resets everything and is down
	CliffHang   = "hang"   // it is down and lets everything wait in vain
	CliffRefuse = "refuse" // it answers 503 at once, and serves the others
)

// defaultCliffFor is how long a crash lasts when a file does not say.
const defaultCliffFor = Duration(10 * time.Second)

// Stray is a share of answers that are 429 whatever the rate, such as those of
// one full shard behind a gateway.
type Stray struct {
	Share      float64  `json:"share"`
	RetryAfter Duration `json:"retry_after"`
}

// Single is an event that is answered with 429 at a time, once.
type Single struct {
	At         Duration `json:"at"`
	RetryAfter Duration `json:"retry_after"`
}

// Flap makes an endpoint go down for reasons of its own, all the time.
type Flap struct {
	Every Duration `json:"every"` // from one end to the next beginning, on average
	For   Duration `json:"for"`
}

// Again plays a second outage. When the first is drained, the lane moves to a new
// owner; then there is a time of ordinary traffic, then the outage.
type Again struct {
	After    Duration `json:"after"`             // ordinary traffic; 0: there is no second outage
	Gap      Duration `json:"gap"`               // without an owner
	For      Duration `json:"for,omitzero"`      // of the second outage; 0: as long as the first
	Capacity float64  `json:"capacity,omitzero"` // share of the capacity of a cliff that is left, or there is, half-way to the second outage; 0: all
}

// steady reports whether every request takes the same time.
func (s *Scenario) steady() bool {
	return s.Cliff.Mode != "" && s.LatencyCV == 0
}

// prompt reports whether every request is answered before its timeout.
func (s *Scenario) prompt(timeout float64) bool {
	swallows := slices.ContainsFunc(s.Outages, func(o Outage) bool { return o.BlackHole })
	return s.steady() && s.Cliff.Mode != CliffHang && !swallows && s.Swallow == 0 && (s.Latency+s.Network).seconds() < timeout
}

// againFor is how long the second outage lasts.
func (s *Scenario) againFor() float64 {
	if s.Again.For > 0 {
		return s.Again.For.seconds()
	}
	return s.Outages[0].For.seconds()
}

// capacityAgain is the capacity in the second outage.
func (s *Scenario) capacityAgain() float64 {
	if s.Again.Capacity > 0 {
		return s.Again.Capacity * s.Capacity
	}
	return s.served()
}

// spareAgain is what live traffic leaves for the second drain.
func (s *Scenario) spareAgain() float64 { return s.capacityAgain() - s.Load*s.Capacity }

// patienceAgain is how long to look after the second recovery.
func (s *Scenario) patienceAgain() float64 {
	if s.Horizon > 0 {
		return s.Horizon.seconds()
	}
	return 3*s.Load*s.Capacity*s.againFor()/s.spareAgain() + slack
}

// longest is how long a run can take.
func (s *Scenario) longest() float64 {
	if s.Again.After == 0 {
		return s.end()
	}
	return s.end() + settleTime + s.Again.After.seconds() + s.againFor() + s.patienceAgain()
}
