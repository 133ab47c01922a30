package view

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// What a delivery waits for that is pending and due. A lane sends what is due at
// once unless it has one of these reasons not to; the first that holds counts.
const (
	WaitPaused = "paused" // the endpoint is paused or disabled
	WaitOpen   = "open"   // the breaker is open
	WaitHold   = "hold"   // the endpoint asked for silence
	WaitPace   = "pace"   // requests are kept apart
)

// Waits are all of them.
var Waits = []string{WaitPaused, WaitOpen, WaitHold, WaitPace}

// WaitAt says what deliveries to a destination wait for at now, "" for nothing.
// limit is the rate limit of its policy, 0: none.
func WaitAt(d store.Destination, limit float64, now time.Time) string {
	switch {
	case d.Endpoint.State != hook.Active:
		return WaitPaused
	case LaneState(d) == LaneOpen:
		return WaitOpen
	case d.Lane != nil && d.Lane.HoldUntil.After(now):
		return WaitHold
	}
	if by, _ := pacingOf(d, limit, now); by != nil {
		return WaitPace
	}
	return ""
}

// LaneFacts are what the deliveries of one endpoint need of its lane to be
// shown.
type LaneFacts struct {
	Held       bool
	Waiting    string        // what is due waits for this
	MaxElapsed time.Duration // how long deliveries may take
}

// FactsOf returns what deliveries to a destination under a policy need at now.
func FactsOf(d store.Destination, p *policy.Policy, now time.Time) LaneFacts {
	return LaneFacts{Held: IsHolding(d), Waiting: WaitAt(d, p.RateLimit.PerSecond, now), MaxElapsed: p.Retry.MaxElapsed}
}

// IsHolding reports whether a destination holds its deliveries.
func IsHolding(d store.Destination) bool {
	return d.Endpoint.State != hook.Active || LaneState(d) == LaneOpen
}
