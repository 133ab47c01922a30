package sim

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// metrics watches a run.
type metrics struct {
	w *world

	crashes      int // by overload, since the first recovery
	between      int // of them, those between the two outages
	delivered    []int
	limits       []float64 // per second
	failed       int
	throttled    int
	deadCount    int
	events       int
	goodEvents   int // without poison
	brokenHolds  int
	inFlight     int
	mostInFlight int

	first, second span
	span          *span     // the latest
	firstSeen     *Recovery // once the first is over and a second follows
	calm          bool      // between the outages

	flaps []period // of an endpoint that goes down by itself

	pending     int // accepted and not settled, without poison
	mostPending int
	firstOK     float64

	delays []float64 // of live events that were delivered
	lost   []float64 // when those were accepted that were given up
}

// period is a time from a moment to another.
type period struct{ from, to float64 }

// span is what is seen of one outage and of the drain after it.
type span struct {
	at                  float64 // when it began
	failed, good, holds int     // counted before
	events              int     // accepted before that

	recovery    float64
	isRecovered bool
	before      int // events accepted before the recovery
	backlog     int // of them, pending at the recovery
	backlogLeft int
	drainedAt   float64 // negative: it is not
	crashes     int
}

func newMetrics(w *world) *metrics {
	m := &metrics{w: w, firstOK: -1, first: span{drainedAt: -1}}
	m.span = &m.first
	return m
}

// grow makes room for a second.
func grow(s []int, second int) []int {
	for len(s) <= second {
		s = append(s, 0)
	}
	return s
}

func (m *metrics) accepted(poison bool) {
	m.events++
	if !poison {
		m.pending++
		m.mostPending = max(m.mostPending, m.pending)
		m.goodEvents++
	}
}

func (m *metrics) started() {
	m.inFlight++
	m.mostInFlight = max(m.mostInFlight, m.inFlight)
}

// ended counts an answer, whether or not its sender is still there to hear it.
func (m *metrics) ended(r *request) {
	m.inFlight--
	if r.status/100 == 2 {
		second := int(m.w.now)
		m.delivered = grow(m.delivered, second)
		m.delivered[second]++
		if m.first.isRecovered && m.firstOK < 0 {
			m.firstOK = m.w.now
		}
		return
	}
	if !r.event.poison {
		m.failed++
	}
	if r.status == 429 {
		m.throttled++
	}
}

// settle ends an event.
func (m *metrics) settle(e *event, state hook.DeliveryState) {
	if e.state != hook.Pending {
		return
	}
	e.state = state
	if e.poison {
		return
	}
	switch {
	case !m.live(e.created):
	case state == hook.Delivered:
		m.delays = append(m.delays, m.w.now-e.created-m.usual())
	default:
		m.lost = append(m.lost, e.created)
	}
	if state == hook.Dead {
		m.deadCount++
	}
	m.pending--
	if s := m.span; s.isRecovered && e.created <= s.recovery {
		s.backlogLeft--
	}
}

// begin is the beginning of the first outage.
func (m *metrics) begin() {
	m.span.at = m.w.now
	m.span.failed, m.span.good, m.span.holds = m.failed, m.goodEvents, m.brokenHolds
}

// recovered is the end of the last outage: the drain begins.
func (m *metrics) recovered() {
	s := m.span
	s.isRecovered, s.recovery = true, m.w.now
	s.before = m.events - s.events
	s.backlog, s.backlogLeft = m.pending, m.pending
}

// endFirst ends what is seen of the first of two outages.
func (m *metrics) endFirst() {
	m.calm = true
	m.firstSeen = m.seen(&m.first)
}

// beginSecond is the beginning of the second outage.
func (m *metrics) beginSecond() {
	m.calm = false
	m.second = span{drainedAt: -1, events: m.events}
	m.span = &m.second
	m.begin()
}

func (m *metrics) crashed() {
	switch {
	case m.w.now < m.w.s.firstRecovery():
		return
	case m.calm:
		m.between++
	default:
		m.span.crashes++
	}
	m.crashes++
}

// settleTime is how long a run goes on after the drain, to see that it stays.
const settleTime = 120

// checkDrained notes when all but a thousandth of the backlog is gone and live
// traffic is normal.
func (m *metrics) checkDrained() {
	d := m.span
	if !d.isRecovered || d.drainedAt >= 0 || float64(d.backlogLeft) > 0.001*float64(d.before) {
		return
	}
	s := m.w.s
	normal := max(20, 3*s.Load*s.Capacity*s.hosts()*max(1, s.Latency.seconds()))
	if float64(m.pending) <= normal {
		d.drainedAt = m.w.now
		m.w.drained()
	}
}
