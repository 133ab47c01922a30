package sim

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Scenario describes an endpoint, its traffic and what befalls it. ReadScenario
// reads the form that a user saves.
type Scenario struct {
	Name string `json:"name"`

	Capacity  float64  `json:"capacity"`      // requests per second the endpoint can serve
	Latency   Duration `json:"latency"`       // mean time to serve one request
	LatencyCV float64  `json:"latency_cv"`    // spread of that time: standard deviation over mean
	Network   Duration `json:"network"`       // both ways together
	Load      float64  `json:"load"`          // live events as a share of the capacity
	Endpoints int      `json:"endpoints"`     // so many alike, each with a lane of its own
	New       bool     `json:"new,omitempty"` // nobody has ever sent to it: the lane has no history
	// Shared makes the endpoints paths of one host: capacity, load and batch are
	// those of all together.
	Shared bool `json:"shared,omitempty"`

	Outages []Outage `json:"outages,omitempty"`
	// Batch is an extra load of so many seconds' worth of capacity, at once:
	// at BatchAt, or when that is zero 10 s into the first outage.
	Batch   float64  `json:"batch"`
	BatchAt Duration `json:"batch_at,omitzero"`

	Crash     Crash     `json:"crash"`
	Warmup    Warmup    `json:"warmup,omitzero"`
	After     float64   `json:"capacity_after,omitzero"` // share of the capacity that comes back; 0: all
	Poison    float64   `json:"poison,omitzero"`         // share of events that always get 500
	Flaky     float64   `json:"flaky,omitzero"`          // share of requests that get 503 while up
	Swallow   float64   `json:"swallow,omitzero"`        // share of requests that get no answer while up
	AtOnce    int       `json:"at_once,omitzero"`        // one request more at a time gets 503; 0: none does
	RateLimit RateLimit `json:"rate_limit,omitzero"`
	Failover  Failover  `json:"failover,omitzero"`

	Cliff   Cliff    `json:"cliff,omitzero"`
	Stray   Stray    `json:"stray,omitzero"`
	Singles []Single `json:"single_429s,omitempty"`
	Flap    Flap     `json:"flap,omitzero"`
	Again   Again    `json:"again,omitzero"`

	Timeout Duration `json:"timeout"` // of a request; 0: the policy's
	// Horizon is how long after the last recovery to look; 0: long enough for
	// three optimal drains.
	Horizon Duration `json:"horizon,omitzero"`
	// Goals is what the law should reach here, as ParseGoals reads it.
	Goals string `json:"goals,omitzero"`
}

// Outage is a time in which the endpoint is down: it refuses at once, or, as a
// black hole, answers nothing.
type Outage struct {
	At        Duration `json:"at"`
	For       Duration `json:"for"`
	BlackHole bool     `json:"black_hole,omitempty"`
}

func (o Outage) end() float64 { return (o.At + o.For).seconds() }

// Crash says what overload does to the endpoint.
type Crash struct {
	Queue    Duration `json:"queue"`    // work that may wait; more crashes it. 0: never
	Overload float64  `json:"overload"` // arrivals over capacity, three seconds in a row, that crash it. 0: never
	For      Duration `json:"for"`      // how long it is down then
}

// Warmup is a capacity that rises after each start.
type Warmup struct {
	From float64  `json:"from"` // share of the capacity right after the start
	Over Duration `json:"over"`
}

// RateLimit answers 429 above a rate.
type RateLimit struct {
	PerSecond  float64  `json:"per_second"`
	Burst      float64  `json:"burst"`
	RetryAfter Duration `json:"retry_after"`
}

// Failover moves the lane to a new owner now and then.
type Failover struct {
	Every Duration `json:"every"`
	Gap   Duration `json:"gap"` // without an owner
}

// Duration is a time.Duration in the syntax of policies.
type Duration time.Duration

// MarshalText writes the syntax of policies.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string { return quantity.FormatDuration(time.Duration(d)) }

func (d Duration) seconds() float64 { return time.Duration(d).Seconds() }

// Base is the scenario that the others are variations of: an endpoint of 50
// requests per second that is half loaded, five minutes of outage, and a crash
// when three seconds of work wait.
func Base() Scenario {
	return Scenario{
		Name: "base", Capacity: 50, Latency: Duration(200 * time.Millisecond), LatencyCV: 0.7,
		Network: Duration(10 * time.Millisecond), Load: 0.5, Endpoints: 1,
		Outages: []Outage{{At: Duration(2 * time.Minute), For: Duration(5 * time.Minute)}},
		Batch:   10,
		Crash:   Crash{Queue: Duration(3 * time.Second), Overload: 2, For: Duration(time.Minute)},
		Timeout: Duration(15 * time.Second),
		Goals:   ordinaryGoals,
	}
}

// firstRecovery is when the first outage ends: crashes count from there.
func (s *Scenario) firstRecovery() float64 {
	if len(s.Outages) == 0 {
		return 0
	}
	return s.Outages[0].end()
}

// recovery is when the last outage ends: from there the drain is measured.
func (s *Scenario) recovery() float64 {
	if len(s.Outages) == 0 {
		return s.batchAt()
	}
	return max(s.BatchAt.seconds(), s.Outages[len(s.Outages)-1].end())
}

func (s *Scenario) batchAt() float64 {
	if s.BatchAt > 0 || len(s.Outages) == 0 {
		return s.BatchAt.seconds()
	}
	return s.Outages[0].At.seconds() + 10
}

// down is the time spent in outages.
func (s *Scenario) down() float64 {
	var sum float64
	for _, o := range s.Outages {
		sum += o.For.seconds()
	}
	return sum
}

// served is the capacity that a drain can use.
func (s *Scenario) served() float64 {
	c := s.Capacity
	if s.After > 0 {
		c *= s.After
	}
	if s.RateLimit.PerSecond > 0 {
		c = min(c, s.RateLimit.PerSecond)
	}
	return c
}

// spare is what live traffic leaves for the drain.
func (s *Scenario) spare() float64 { return s.served() - s.Load*s.Capacity }

// slack is how long a run may take beyond three optimal drains.
const slack = 4000

// end is when the simulation stops at the latest.
func (s *Scenario) end() float64 {
	if s.Horizon > 0 {
		return s.recovery() + s.Horizon.seconds()
	}
	optimum := (s.Load*s.Capacity*s.down() + s.Batch*s.Capacity) / s.spare()
	return s.recovery() + 3*optimum + slack
}

// hosts is how many of the endpoints have a capacity of their own.
func (s *Scenario) hosts() float64 {
	if s.Shared {
		return 1
	}
	return float64(s.Endpoints)
}

// share is what a lane has of a host's load.
func (s *Scenario) share() float64 { return s.hosts() / float64(s.Endpoints) }
