package policy

import "github.com/breakwaterhq/breakwater/internal/lane"

// Lane returns what the control law needs of the policy.
func (p *Policy) Lane() lane.Config {
	return lane.Config{
		Fixed: p.Concurrency.Mode == Fixed, Limit: p.Concurrency.Limit,
		Initial: p.Concurrency.Initial, Max: p.Concurrency.Max,
		Breaker: p.Breaker.Enabled, Consecutive: p.Breaker.Consecutive,
		WindowFailed: p.Breaker.Window.Failed, WindowOf: p.Breaker.Window.Of,
		ProbeFraction: p.Breaker.Probe.Fraction, ProbeMin: p.Breaker.Probe.Min,
		ProbeMax: p.Breaker.Probe.Max, ProbeJitter: p.Breaker.Probe.Jitter,
		Rate: p.RateLimit.PerSecond, Burst: p.RateLimit.Burst, DisableAfter: p.DisableAfter,
	}
}
