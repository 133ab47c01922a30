package api

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// learntView is what a lane knows about its endpoint. All of it fades, is saved
// with the lane, and is forgotten by reset.
type learntView struct {
	Usual    *float64      `json:"usual" doc:"Live events per second of late. A recovery begins here. null: none yet."`
	Proven   *float64      `json:"proven" doc:"The most requests per second that it carried in the last days. null: none yet."`
	Ceiling  *ceilingView  `json:"ceiling" doc:"A load that broke it. null: no load is known to."`
	Throttle *throttleView `json:"throttle" doc:"The rate that it refused to exceed, with 429 or a Retry-After. null: it refuses nothing, or did so long ago."`
	Recovery *recoveryView `json:"recovery" doc:"Its way back to full speed after an outage. null: there is none under way."`
	HostRate *float64      `json:"host_rate" doc:"Requests per second that are left for it while other endpoints of its host recover too. null: its host does not limit it."`
}

// ceilingView is a load that broke the endpoint.
type ceilingView struct {
	Rate      float64 `json:"rate" doc:"Requests per second that it is kept below. Above learnt: a higher one is being tried."`
	Learnt    float64 `json:"learnt" doc:"Requests per second at which it broke."`
	At        stamp   `json:"at" doc:"When it broke, or last did so again."`
	Sure      bool    `json:"sure" doc:"true: it broke at this load at least twice. false: a suspicion, which is given up soon if it is in the way."`
	TestAfter stamp   `json:"test_after" doc:"From then on a higher rate is tried, once the ceiling has been in the way for some minutes."`
}

// throttleView is what the endpoint refuses.
type throttleView struct {
	Rate       float64 `json:"rate" doc:"Requests per second now. It rises by itself until it limits nothing."`
	At         stamp   `json:"at" doc:"When it was last refused."`
	RetryAfter string  `json:"retry_after" doc:"How long it asked to wait. The longer, the slower the rate rises."`
}

// recoveryView is a recovery that is under way.
type recoveryView struct {
	Rate float64 `json:"rate" doc:"Requests per second now. It rises while the endpoint bears it."`
	Held string  `json:"held" doc:"How long what is sent now was held. It decides how fast the backlog is drained."`
}

// showLearnt shows what a lane that was saved knows at now.
func showLearnt(d store.Destination, now time.Time) learntView {
	cp := d.Lane
	v := learntView{Usual: shownRate(cp.Usual), Proven: shownRate(cp.Proven), HostRate: shownRate(cp.Host)}
	if r := shownRate(cp.Ceiling); r != nil {
		v.Ceiling = &ceilingView{
			Rate: *r, Learnt: *r, At: stamp(cp.CeilingAt), Sure: cp.CeilingSure(),
		}
		if l := shownRate(cp.CeilingLearnt); l != nil {
			v.Ceiling.Learnt = *l
		}
		if !cp.CeilingAt.IsZero() {
			v.Ceiling.TestAfter = stamp(cp.CeilingTestAt())
		}
	}
	if r := shownRate(cp.ThrottleRate(now)); r != nil {
		v.Throttle = &throttleView{Rate: *r, At: stamp(cp.ThrottledAt), RetryAfter: quantity.FormatDuration(cp.RetryAfter)}
	}
	if r := shownRate(cp.Recovery); r != nil {
		v.Recovery = &recoveryView{Rate: *r, Held: quantity.FormatDuration(cp.Held.Round(time.Millisecond))}
	}
	return v
}

// pacingOf returns what keeps the requests of a lane apart at now and at which
// rate, null and null for nothing. limit is the policy's own, 0: none.
func pacingOf(d store.Destination, limit float64, now time.Time) (by *string, perSecond *float64) {
	pacing := d.Pacing(now, limit)
	if perSecond = shownRate(pacing.Rate); perSecond != nil {
		by = nullable(string(pacing.By))
	}
	return by, perSecond
}

// shownRate shows requests per second, null for none: a rate that has grown beyond
// all numbers limits nothing, and JSON has no word for it.
func shownRate(r float64) *float64 {
	if !(r > 0) || math.IsInf(r, 1) {
		return nil
	}
	return &r
}
