package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Limits is what the operator lays down: narrower bounds for the policies of
// tenants and endpoints. Zero bounds nothing, and so does nil.
type Limits struct {
	MinDelay       time.Duration // between two attempts of a delivery
	MinBackoff     time.Duration // of the growing wait, and of each delay of a schedule
	MaxAttempts    int
	MaxTimeout     time.Duration
	MaxConcurrency int
	MinProbe       time.Duration // between two probes of a destination that is down
	RequireBreaker bool
}

// check says how a value breaks the operator's bounds; "" when it keeps them.
// One bound may hold for several fields: a short wait is a short wait however
// it is spelled.
func (l *Limits) check(path string, value any) string {
	if l == nil {
		return ""
	}
	switch path {
	case "retry.min_delay":
		return atLeast(l.MinDelay, value.(time.Duration))
	case "retry.backoff.base", "retry.backoff.cap":
		return atLeast(l.MinBackoff, value.(time.Duration))
	case backoffDelays:
		return atLeast(l.MinBackoff, slices.Min(value.([]time.Duration)))
	case "breaker.probe.min", "breaker.probe.max":
		return atLeast(l.MinProbe, value.(time.Duration))
	case "breaker.enabled":
		if l.RequireBreaker && value == false {
			return "limited by the server to true"
		}
	case "timeout.total":
		if l.MaxTimeout > 0 && value.(time.Duration) > l.MaxTimeout {
			return "limited by the server to at most " + quantity.FormatDuration(l.MaxTimeout)
		}
	case maxAttempts:
		return atMost(l.MaxAttempts, value.(int))
	case "concurrency.limit", "concurrency.initial", "concurrency.max":
		return atMost(l.MaxConcurrency, value.(int))
	}
	return ""
}

func atLeast(bound, d time.Duration) string {
	if d < bound {
		return "limited by the server to at least " + quantity.FormatDuration(bound)
	}
	return ""
}

func atMost(bound, n int) string {
	if bound > 0 && n > bound {
		return "limited by the server to at most " + strconv.Itoa(bound)
	}
	return ""
}
