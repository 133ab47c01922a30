package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// An endpoint that hangs answers nothing at all, and may be up again when the requests
// that it has swallowed time out, one by one and with successes between them: they are
// never many in a row. Where answers are fast they are few, too, for few are in flight.
const (
	// silenceLeast is how long a request waits in vain for it to be more than a slow
	// answer, silenceTimes how many times as long as others take.
	silenceLeast = 3 * time.Second
	silenceTimes = 4
	// silenceFew is how many failures in a silence show that the endpoint is down, or was
	// a moment ago, at least: one may be the fault of a single event.
	silenceFew = 2
)

// silence counts the failures of requests that were under way while nothing was answered.
type silence struct {
	heardAt time.Time // latest answer that shows that the endpoint is up
	until   time.Time // when the first of them failed
	failed  int
}

// learn takes the outcome of a request. It returns how many have waited in vain together,
// if this is one of them. usual is how many seconds others take.
func (s *silence) learn(now time.Time, class hook.Class, waited time.Duration, usual float64) int {
	switch {
	case class == hook.Local:
		return 0
	case !isDown(class):
		s.heardAt = now
		return 0
	case waited < silenceLeast || waited.Seconds() < silenceTimes*usual:
		return 0
	}
	switch began := now.Add(-waited); {
	case began.Before(s.until):
		s.failed++
	case !s.heardAt.After(began):
		s.until, s.failed = now, 1
	default:
		return 0
	}
	return s.failed
}

// hung is what was known when an endpoint began to hang: its failures come much later.
type hung struct {
	at     time.Time // zero: it does not
	steady bool
}

// failed notes a failure of the destination under a load; first: of a streak. vain is how
// many have waited in vain together with it, for so long; 0: this one has not.
func (f *flow) failed(now time.Time, under float64, first bool, vain int, waited time.Duration) {
	f.ceiling.failed(now, under, first, &f.load)
	switch began := now.Add(-waited); {
	case vain == 1:
		f.hung = hung{began, f.steady(began)}
	case vain == 0 && first:
		f.hung = hung{}
	}
}

// hangs reports whether so many that have waited in vain show that the endpoint is down,
// where so many failures in a row show it otherwise.
func hangs(vain, inRow int) bool { return vain >= max(silenceFew, inRow*2/5) }

// Silent takes the outcome of a request of the seat's lane before the lane does, and
// reports whether the host lets those of all its lanes wait in vain. It is likely to be up
// again: what broke it is learnt, and its recovery begins anew.
func (h *Host) Silent(now time.Time, s *Seat, started time.Time, class hook.Class) bool {
	h.vain = h.silence.learn(now, class, now.Sub(started), s.base)
	if h.down || h.vain < silenceFew {
		return false
	}
	if h.vain == silenceFew {
		h.anew(now)
	}
	return true
}

// anew begins a recovery of a host that has fallen and is up again.
func (h *Host) anew(now time.Time) {
	var held time.Duration
	if h.flow.drains() {
		held = h.flow.recovery.held
	}
	h.flow.opened(now, OpenedByStreak, h.recovers(now))
	h.flow.begin(now, held)
	h.closedAt = now
}
