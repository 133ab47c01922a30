package view

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// The states of a lane as its checkpoint tells them: a probe in flight is saved
// as open.
const (
	LaneClosed = "closed"
	LaneOpen   = "open"
)

// Lane is the lane of an endpoint, from its last checkpoint.
type Lane struct {
	Endpoint      string   `json:"endpoint"`
	Tenant        string   `json:"tenant"`
	URL           string   `json:"url" doc:"Of the endpoint."`
	UID           *string  `json:"uid" doc:"Of the endpoint."`
	Types         []string `json:"types" nullable:"false" doc:"Of the endpoint."`
	Shard         int      `json:"shard"`
	State         string   `json:"state" enum:"closed,open" doc:"Of the breaker. An open lane holds its deliveries and sends one probe at a time."`
	Status        string   `json:"status" enum:"active,paused,disabled" doc:"Of the endpoint."`
	Paused        bool     `json:"paused" doc:"The endpoint is paused or disabled."`
	OpenedAt      Stamp    `json:"opened_at" doc:"null: it is closed."`
	OpenReason    *string  `json:"open_reason" doc:"consecutive: too many failures in a row. ratio: too many of the latest first attempts failed. null: it is closed."`
	ClosedAt      Stamp    `json:"closed_at" doc:"When it last closed; null: it never opened."`
	HoldUntil     Stamp    `json:"hold_until" doc:"The destination asked for silence until then."`
	NextProbeAt   Stamp    `json:"next_probe_at" doc:"null: it is closed."`
	Limit         float64  `json:"limit" doc:"Requests in flight."`
	LimitMode     string   `json:"limit_mode" enum:"adaptive,fixed"`
	SlowStart     bool     `json:"slow_start" doc:"The limit is on its way up from 1, by leaps: no queue has shown yet."`
	BaseLatencyMS *float64 `json:"base_latency_ms" doc:"How long the endpoint takes without load, which is what the adaptive limit compares with; null: not known yet."`
	PacedBy       *string  `json:"paced_by" doc:"What keeps requests apart, the strictest if several do. throttle: the endpoint refused more. ceiling: more broke it before. recovery: it has just come back. host: other endpoints of its host came back with it. rate_limit: the policy says so. null: nothing. Of an open lane: what will pace it once it is closed."`
	RatePerSecond *float64 `json:"rate_per_second" doc:"Requests that may start per second now; null: not paced."`

	Learnt Learnt `json:"learnt" doc:"What it knows of its endpoint, in requests per second. reset forgets it."`

	Storm      Storm      `json:"storm" doc:"Retries compared with first attempts."`
	RetryQueue RetryQueue `json:"retry_queue" doc:"What waits for another attempt."`
}

// LaneState says whether a destination's lane is open.
func LaneState(d store.Destination) string {
	if d.Lane != nil && d.Lane.Open {
		return LaneOpen
	}
	return LaneClosed
}

// OfLane shows a lane from its checkpoint, at now.
func OfLane(d store.Destination, p *policy.Policy, now time.Time) Lane {
	e := d.Endpoint
	v := Lane{
		Endpoint:  hook.EndpointPrefix.Format(e.ID),
		Tenant:    hook.TenantPrefix.Format(e.TenantID),
		URL:       e.URL,
		UID:       Nullable(e.UID),
		Types:     e.Types,
		Shard:     hook.ShardOf(e.ID),
		State:     LaneState(d),
		Status:    e.State.String(),
		Paused:    e.State != hook.Active,
		LimitMode: string(p.Concurrency.Mode),
		Limit:     float64(max(p.Concurrency.Limit, p.Concurrency.Initial)),
	}
	v.PacedBy, v.RatePerSecond = pacingOf(d, p.RateLimit.PerSecond, now)
	cp := d.Lane
	if cp == nil {
		return v
	}
	v.Learnt = learntOf(d, now)
	if cp.Open {
		v.OpenedAt, v.OpenReason = Stamp(cp.OpenedAt), Nullable(cp.OpenReason.String())
		v.NextProbeAt = Stamp(cp.NextProbeAt)
	}
	v.ClosedAt, v.HoldUntil = Stamp(cp.ClosedAt), Stamp(cp.HoldUntil)
	v.SlowStart = cp.SlowStart
	if cp.Limit > 0 {
		v.Limit = Rounded(cp.Limit)
	}
	if cp.BaseLatency > 0 {
		ms := Millis(cp.BaseLatency)
		v.BaseLatencyMS = &ms
	}
	return v
}

// Learnt is what a lane knows about its endpoint. All of it fades, is saved
// with the lane, and is forgotten by reset.
type Learnt struct {
	Usual    *float64  `json:"usual" doc:"Live events per second of late. A recovery begins here. null: none yet."`
	Proven   *float64  `json:"proven" doc:"The most requests per second that it carried in the last days. null: none yet."`
	Ceiling  *Ceiling  `json:"ceiling" doc:"A load that broke it. null: no load is known to."`
	Throttle *Throttle `json:"throttle" doc:"The rate that it refused to exceed, with 429 or a Retry-After. null: it refuses nothing, or did so long ago."`
	Recovery *Recovery `json:"recovery" doc:"Its way back to full speed after an outage. null: there is none under way."`
	HostRate *float64  `json:"host_rate" doc:"Requests per second that are left for it while other endpoints of its host recover too. null: its host does not limit it."`
}

// Ceiling is a load that broke the endpoint.
type Ceiling struct {
	Rate      float64 `json:"rate" doc:"Requests per second that it is kept below. Above learnt: a higher one is being tried."`
	Learnt    float64 `json:"learnt" doc:"Requests per second at which it broke."`
	At        Stamp   `json:"at" doc:"When it broke, or last did so again."`
	Sure      bool    `json:"sure" doc:"true: it broke at this load at least twice. false: a suspicion, which is given up soon if it is in the way."`
	TestAfter Stamp   `json:"test_after" doc:"From then on a higher rate is tried, once the ceiling has been in the way for some minutes."`
}

// Throttle is what the endpoint refuses.
type Throttle struct {
	Rate       float64 `json:"rate" doc:"Requests per second now. It rises by itself until it limits nothing."`
	At         Stamp   `json:"at" doc:"When it was last refused."`
	RetryAfter string  `json:"retry_after" doc:"How long it asked to wait. The longer, the slower the rate rises."`
}

// Recovery is a recovery that is under way.
type Recovery struct {
	Rate float64 `json:"rate" doc:"Requests per second now. It rises while the endpoint bears it."`
	Held string  `json:"held" doc:"How long what is sent now was held. It decides how fast the backlog is drained."`
}

// learntOf shows what a lane that was saved knows at now.
func learntOf(d store.Destination, now time.Time) Learnt {
	cp := d.Lane
	v := Learnt{Usual: shownRate(cp.Usual), Proven: shownRate(cp.Proven), HostRate: shownRate(cp.Host)}
	if r := shownRate(cp.Ceiling); r != nil {
		v.Ceiling = &Ceiling{
			Rate: *r, Learnt: *r, At: Stamp(cp.CeilingAt), Sure: cp.CeilingSure(),
		}
		if l := shownRate(cp.CeilingLearnt); l != nil {
			v.Ceiling.Learnt = *l
		}
		if !cp.CeilingAt.IsZero() {
			v.Ceiling.TestAfter = Stamp(cp.CeilingTestAt())
		}
	}
	if r := shownRate(cp.ThrottleRate(now)); r != nil {
		v.Throttle = &Throttle{Rate: *r, At: Stamp(cp.ThrottledAt), RetryAfter: quantity.FormatDuration(cp.RetryAfter)}
	}
	if r := shownRate(cp.Recovery); r != nil {
		v.Recovery = &Recovery{Rate: *r, Held: quantity.FormatDuration(cp.Held.Round(time.Millisecond))}
	}
	return v
}

// pacingOf returns what keeps the requests of a lane apart at now and at which
// rate, null and null for nothing. limit is the policy's own, 0: none.
func pacingOf(d store.Destination, limit float64, now time.Time) (by *string, perSecond *float64) {
	pacing := d.Pacing(now, limit)
	if perSecond = shownRate(pacing.Rate); perSecond != nil {
		by = Nullable(string(pacing.By))
	}
	return by, perSecond
}

// shownRate shows requests per second, null for none: a rate that has grown beyond
// all numbers limits nothing, and JSON has no word for it.
func shownRate(r float64) *float64 {
	if !(r > 0) || math.IsInf(r, 1) {
		return nil
	}
	r = Rounded(r)
	return &r
}
