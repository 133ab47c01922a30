package sim

import "math"

// Recovery is what one outage and the drain after it showed.
type Recovery struct {
	Crashes      Measure `json:"crashes"` // by overload, from the recovery until two minutes after the drain; infinite: it never came to that
	Drain        Measure `json:"drain"`   // time to drain over the optimum; infinite: not drained
	DrainSeconds Measure `json:"drain_seconds"`
	Waste        Measure `json:"waste"` // failed attempts per event since the outage began, poison excepted
	BrokenHolds  int     `json:"broken_holds"`
	Backlog      int     `json:"backlog"`
	// Found is how long after the second recovery more than the old capacity was
	// used; infinite: it was not, or there is no more.
	Found Measure `json:"found_seconds"`
}

// seen puts together what is known of an outage.
func (m *metrics) seen(d *span) *Recovery {
	never := Measure(math.Inf(1))
	r := &Recovery{
		Crashes: Measure(d.crashes), Drain: never, DrainSeconds: never, Found: never,
		BrokenHolds: m.brokenHolds - d.holds, Backlog: d.backlog,
	}
	spare := m.w.s.spare()
	if d == &m.second {
		spare = m.w.s.spareAgain()
	}
	if optimum := m.optimum(d, spare); d.drainedAt >= 0 && optimum > 0 {
		r.DrainSeconds = Measure(d.drainedAt - d.recovery)
		r.Drain = r.DrainSeconds / Measure(optimum)
	}
	if n := m.goodEvents - d.good; n > 0 {
		r.Waste = Measure(float64(m.failed-d.failed) / float64(n))
	}
	return r
}

// optimum is how long a sender would take that knows everything: it uses all that
// an endpoint can do beside the live traffic, and knows when it is down for
// reasons of its own.
func (m *metrics) optimum(d *span, spare float64) float64 {
	s := m.w.s
	left, at := float64(d.backlog)/s.hosts(), d.recovery
	for _, f := range m.flaps {
		up := max(0, f.from-at)
		if left <= up*spare {
			break
		}
		left += max(0, f.to-max(at, f.from))*s.Load*s.Capacity - up*spare
		at = max(at, f.to)
	}
	return at + left/spare - d.recovery
}

// secondSeen is nil without a second outage.
func (m *metrics) secondSeen() *Recovery {
	switch {
	case m.w.s.Again.After == 0:
		return nil
	case m.span != &m.second || !m.second.isRecovered:
		never := Measure(math.Inf(1))
		return &Recovery{Crashes: never, Drain: never, DrainSeconds: never, Waste: never, Found: never}
	}
	r := m.seen(&m.second)
	if m.w.s.Again.Capacity > 1 {
		r.Found = m.found()
	}
	return r
}

const (
	foundTime  = 60  // seconds of more than
	foundShare = 1.2 // so much of the old capacity
)

// found is how long after the second recovery a larger capacity was used.
func (m *metrics) found() Measure {
	from, sum := int(m.second.recovery), 0
	for i := from; i < len(m.delivered); i++ {
		sum += m.delivered[i]
		if i >= from+foundTime {
			sum -= m.delivered[i-foundTime]
		}
		if float64(sum) > foundTime*foundShare*m.w.s.Capacity*m.w.s.hosts() {
			return Measure(float64(i+1) - m.second.recovery)
		}
	}
	return Measure(math.Inf(1))
}
