package app

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// parse turns the settings into bounds on the fields of a policy. One setting
// may bound several fields: a short wait is a short wait however it is spelled.
func (l PolicyLimits) parse() (*policy.Limits, error) {
	type object = map[string]any
	least := func(d time.Duration) any { return end("min", d != 0, quantity.FormatDuration(d)) }
	most := func(n int) any { return end("max", n != 0, n) }
	breaker := object{"probe": object{"min": least(l.MinProbe), "max": least(l.MinProbe)}}
	if l.RequireBreaker {
		breaker["enabled"] = true
	}
	doc, err := json.Marshal(object{
		"retry": object{
			"min_delay": least(l.MinDelay), "max_attempts": most(l.MaxAttempts),
			"backoff": object{"base": least(l.MinBackoff), "cap": least(l.MinBackoff), "delays": least(l.MinBackoff)},
		},
		"timeout":     object{"total": end("max", l.MaxTimeout != 0, quantity.FormatDuration(l.MaxTimeout))},
		"concurrency": object{"limit": most(l.MaxConcurrency), "initial": most(l.MaxConcurrency), "max": most(l.MaxConcurrency)},
		"breaker":     breaker,
	})
	if err != nil {
		return nil, fmt.Errorf("encode policy limits: %w", err)
	}
	limits, err := policy.ParseLimits(doc)
	if err != nil {
		return nil, fmt.Errorf("policy limits: %w", err)
	}
	return limits, nil
}

// end is one end of a bound, if it is set.
func end(name string, set bool, value any) any {
	if !set {
		return struct{}{}
	}
	return map[string]any{name: value}
}
