package lane

import "time"

// PacedBy says what keeps the requests of a closed lane apart.
type PacedBy string

// What a lane may be paced by.
const (
	PacedByNothing   PacedBy = ""
	PacedByThrottle  PacedBy = "throttle"   // the endpoint refused more
	PacedByCeiling   PacedBy = "ceiling"    // more broke it before
	PacedByRecovery  PacedBy = "recovery"   // it has just come back
	PacedByHost      PacedBy = "host"       // other endpoints of its host came back with it
	PacedByRateLimit PacedBy = "rate_limit" // the policy says so
)

// Pacing is the strictest rate of a lane and where it comes from.
type Pacing struct {
	By   PacedBy
	Rate float64 // requests per second
}

// Pacing returns what paced the lane when it was saved, as it is at now. limit
// is the policy's own rate limit, 0: none.
func (c Checkpoint) Pacing(now time.Time, limit float64) Pacing {
	var p Pacing
	for _, q := range []Pacing{
		{PacedByRateLimit, limit},
		{PacedByThrottle, c.ThrottleRate(now)},
		{PacedByCeiling, ceilingShare * c.Ceiling},
		{PacedByRecovery, c.Recovery},
		{PacedByHost, c.Host},
	} {
		if q.Rate > 0 && (p.Rate == 0 || q.Rate < p.Rate) {
			p = q
		}
	}
	return p
}

// ThrottleRate returns the rate that the endpoint is thought not to refuse at
// now; 0: any.
func (c Checkpoint) ThrottleRate(now time.Time) float64 {
	r := refused{learnt: c.Pace, at: c.ThrottledAt, asked: c.RetryAfter}
	return r.rate(now)
}

// CeilingSure reports whether the ceiling is knowledge, not a suspicion.
func (c Checkpoint) CeilingSure() bool { return c.Ceiling > 0 && c.CeilingWait > 0 }

// CeilingTestAt returns when the ceiling may be tested next, if it is in the way
// then.
func (c Checkpoint) CeilingTestAt() time.Time { return c.CeilingAt.Add(c.CeilingWait) }
