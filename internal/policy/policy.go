// Package policy decides what an outcome means for a delivery and how long to
// wait before the next attempt. It also holds the policies themselves: the
// presets, the levels (server, tenant, endpoint) that override each other, the
// rules they must keep, and the hash under which an expanded policy is stored.
//
// It is pure: no clock, no goroutine, no I/O, no global randomness, no log.
// The caller passes the time and draws one uniform number u in [0,1) per
// decision, so every wait is a function of (policy, ceiling, u) and can be
// tested, simulated and explained later from the attempt log.
//
// It runs no lane: when a request may start, and what an outcome teaches about
// the destination, is decided in package lane. Policy only gives a lane its
// parameters (Policy.Lane).
package policy

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Policy is a fully expanded policy. Fields that belong to another kind of
// backoff, jitter or concurrency than the chosen one are zero.
type Policy struct {
	Preset       string // the preset it started from; not part of the hash
	Retry        Retry
	RetryAfter   RetryAfter
	Classify     Classify
	Timeout      Timeout
	Concurrency  Concurrency
	RateLimit    RateLimit
	Breaker      Breaker
	Replay       Replay
	DisableAfter time.Duration // without one success; 0: never
}

// Retry is how often and when a delivery is tried again.
type Retry struct {
	MaxAttempts  int           // charged attempts of a run, the first included
	MaxElapsed   time.Duration // from the run's first due time to the last moment a retry may be due
	InitialDelay time.Duration // before the first attempt, when the event names no time itself
	MinDelay     time.Duration // floor of every retry
	Backoff      Backoff
	Jitter       Jitter
}

// BackoffKind is how the ceilings of successive retries follow each other.
type BackoffKind string

// The kinds of backoff.
const (
	Exponential BackoffKind = "exponential"
	Schedule    BackoffKind = "schedule"
)

// Backoff gives every retry its ceiling.
type Backoff struct {
	Kind       BackoffKind
	Base       time.Duration   // exponential
	Multiplier float64         // exponential
	Cap        time.Duration   // exponential
	Delays     []time.Duration // schedule; beyond its end the last one repeats
}

// JitterKind is how a wait is drawn below or around its ceiling.
type JitterKind string

// The kinds of jitter.
const (
	JitterFull         JitterKind = "full"
	JitterEqual        JitterKind = "equal"
	JitterDecorrelated JitterKind = "decorrelated"
	JitterPercent      JitterKind = "percent"
	JitterRange        JitterKind = "range"
	JitterNone         JitterKind = "none"
)

// Jitter spreads the waits of events that failed together.
type Jitter struct {
	Kind    JitterKind
	Percent float64 // percent: to either side of the ceiling
	Low     float64 // range: factors of the ceiling
	High    float64
}

// RetryAfter is how far the destination's own wishes are obeyed.
type RetryAfter struct {
	Honor              bool
	Max                time.Duration // longer wishes are cut to it
	LatePercent        float64       // waits are spread later by up to this share,
	LateMin            time.Duration // at least by this much
	ThrottleMultiplier float64       // factor for a throttle without a usable header
	Patience           int           // throttles in a row from which the delivery's own backoff applies too
}

// Action is what a policy makes of a status or an error.
type Action string

// The actions. Errors know only retry, down and permanent.
const (
	ActionRetry     Action = "retry"
	ActionDown      Action = "down"
	ActionThrottle  Action = "throttle"
	ActionPermanent Action = "permanent"
	ActionSuccess   Action = "success"
)

// RedirectMode says whether redirects are followed.
type RedirectMode string

// The redirect modes.
const (
	RedirectFail   RedirectMode = "fail"
	RedirectFollow RedirectMode = "follow"
)

// GoneAction is what a 410 does beyond ending the delivery.
type GoneAction string

// The answers to a 410.
const (
	GoneDisable    GoneAction = "disable"
	GoneDeadLetter GoneAction = "dead_letter"
)

// Classify overrides the built-in meaning of statuses and errors.
type Classify struct {
	Statuses  map[string]Action      // "409" or "4xx"; the exact code wins
	Errors    map[hook.Reason]Action // reasons of attempts without a status
	Limits    map[hook.Reason]int    // charged attempts of that reason in one run
	Redirects Redirects
	OnGone    GoneAction
}

// Redirects says whether 307 and 308 are followed and how far.
type Redirects struct {
	Mode    RedirectMode
	MaxHops int
}

// Timeout bounds one attempt.
type Timeout struct {
	Connect time.Duration
	Total   time.Duration
}

// ConcurrencyMode says who sets the limit of requests in flight.
type ConcurrencyMode string

// The concurrency modes.
const (
	Fixed    ConcurrencyMode = "fixed"
	Adaptive ConcurrencyMode = "adaptive"
)

// Concurrency limits the requests in flight to one endpoint.
type Concurrency struct {
	Mode    ConcurrencyMode
	Limit   int // fixed
	Initial int // adaptive: limit at rest
	Max     int // adaptive: ceiling
}

// RateLimit bounds the requests started per second; PerSecond 0 means off.
type RateLimit struct {
	PerSecond float64
	Burst     int
}

// OpenAction is what happens to deliveries while the lane is open.
type OpenAction string

// The answers to an open lane.
const (
	OpenHold       OpenAction = "hold"
	OpenDeadLetter OpenAction = "dead_letter"
)

// Breaker says when a lane opens and how it is probed.
type Breaker struct {
	Enabled     bool
	Consecutive int
	Window      Window
	OnOpen      OpenAction
	MaxHold     time.Duration
	Probe       Probe
}

// Window opens the lane when Failed of the last Of first attempts failed.
type Window struct {
	Failed int
	Of     int
}

// Probe sets the gaps between probes: a fraction of the time the lane has been
// open, within Min and Max, spread by Jitter to either side.
type Probe struct {
	Fraction float64
	Min      time.Duration
	Max      time.Duration
	Jitter   float64
}

// Replay is the pace of replays: it starts at PerMinute, grows by Ramp after
// each clean minute up to MaxMultiple times the start, and pauses itself when
// more than PauseErrorPercent of a minute's answers are errors.
type Replay struct {
	PerMinute         int
	Ramp              float64
	MaxMultiple       int
	PauseErrorPercent float64
}

// FirstDue returns when a delivery is first due: at the time the event names,
// or after the delay it names, or after the policy's initial delay. It is never
// before the event was accepted.
func (p *Policy) FirstDue(accepted, deliverAt time.Time, delay time.Duration) time.Time {
	switch {
	case !deliverAt.IsZero() && deliverAt.Before(accepted):
		return accepted
	case !deliverAt.IsZero():
		return deliverAt
	case delay > 0:
		return accepted.Add(delay)
	default:
		return accepted.Add(p.Retry.InitialDelay)
	}
}
