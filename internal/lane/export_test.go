package lane

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// View is what the laws are about and only their tests look at.
type View struct {
	Control
	Live, Back []hook.ID
}

// Same reports whether two lanes look alike.
func (v View) Same(w View) bool {
	return v.Control == w.Control && slices.Equal(v.Live, w.Live) && slices.Equal(v.Back, w.Back)
}

// Control is a View without what waits.
type Control struct {
	State    State
	Gen      uint64
	InFlight int

	Limit, Base, BaseWeight, SRTT, HealthyPeak float64

	SlowStart  bool
	Doubted    bool // the base
	AtFloor    int
	ProbeUntil time.Time // of a base probe
	ProbeSaved float64

	Round        uint64
	From, Target float64
	Full         bool
	Answers      int // of the round's cohort

	Pace, Tokens, RateTokens float64
	Hold, ProbeAt, OpenedAt  time.Time
}

// View looks inside a lane.
func (l *Lane) View() View {
	r := &l.ramp
	return View{Live: ids(&l.live), Back: ids(&l.back), Control: Control{
		State: l.state, Gen: l.gen, InFlight: l.flight.n,
		Limit: r.limit, Base: r.base, BaseWeight: r.baseWeight, SRTT: r.srtt, HealthyPeak: r.healthyPeak,
		SlowStart: r.slowStart, Doubted: r.doubted, AtFloor: r.atFloor, ProbeUntil: r.probeUntil, ProbeSaved: r.probeSaved,
		Round: r.round.number, From: r.round.from, Target: r.round.target, Full: r.round.full, Answers: len(r.round.rtts),
		Pace: max(l.flow.refused.learnt, l.flow.loss.paced.learnt), Tokens: l.flow.tokens.n, RateTokens: l.rate.n,
		Hold: l.hold, ProbeAt: l.probeAt, OpenedAt: l.openedAt,
	}}
}

// Expects is the share of requests that are lost whatever is sent.
func (l *Lane) Expects(now time.Time) float64 { return l.flow.loss.expected(now) }

func ids(q *queue) []hook.ID {
	out := make([]hook.ID, q.len())
	for i := range out {
		out[i] = q.at(i).ID
	}
	return out
}

// Clone returns a lane that goes its own way.
func (l *Lane) Clone() *Lane {
	c := *l
	c.firsts.bad = slices.Clone(l.firsts.bad)
	c.latest.bad = slices.Clone(l.latest.bad)
	c.flight.starts = slices.Clone(l.flight.starts)
	c.ramp.round.rtts = slices.Clone(l.ramp.round.rtts)
	c.live.ring = slices.Clone(l.live.ring)
	c.back.ring = slices.Clone(l.back.ring)
	return &c
}

// Steering returns a copy without what the result of an earlier generation may
// change: it is no longer in flight, it is news of the destination, and a wish
// to be left alone is obeyed whoever brings it.
func (l *Lane) Steering() *Lane {
	c := l.Clone()
	c.flight, c.lastBad, c.lastAny, c.failing = flight{}, time.Time{}, time.Time{}, failing{}
	c.hold, c.blocked = time.Time{}, time.Time{}
	return c
}
