package sim

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// metrics watches a run.
type metrics struct {
	w *world

	crashes      int // by overload, since the first recovery
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

	isRecovered bool
	before      int // events accepted before the recovery
	backlog     int // of them, pending at the recovery
	backlogLeft int
	pending     int // accepted and not settled, without poison
	firstOK     float64
	drainedAt   float64

	delays []float64 // of live events that were delivered
	lost   []float64 // when those were accepted that were given up
}

func newMetrics(w *world) *metrics { return &metrics{w: w, firstOK: -1, drainedAt: -1} }

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
		if m.isRecovered && m.firstOK < 0 {
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
	if m.isRecovered && e.created <= m.w.recovery {
		m.backlogLeft--
	}
}

// recovered is the end of the last outage: the drain begins.
func (m *metrics) recovered() {
	m.isRecovered = true
	m.before = m.events
	m.backlog, m.backlogLeft = m.pending, m.pending
}

func (m *metrics) crashed() {
	if m.w.now >= m.w.s.firstRecovery() {
		m.crashes++
	}
}

// settleTime is how long a run goes on after the drain, to see that it stays.
const settleTime = 120

// checkDrained notes when all but a thousandth of the backlog is gone and live
// traffic is normal.
func (m *metrics) checkDrained() {
	if !m.isRecovered || m.drainedAt >= 0 || float64(m.backlogLeft) > 0.001*float64(m.before) {
		return
	}
	s := m.w.s
	normal := max(20, 3*s.Load*s.Capacity*float64(s.Endpoints)*max(1, s.Latency.seconds()))
	if float64(m.pending) <= normal {
		m.drainedAt = m.w.now
		m.w.stopAt = min(m.w.stopAt, m.w.now+settleTime)
	}
}
