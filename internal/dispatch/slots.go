package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lane"
)

// slots is the budget of attempts that are in flight or not yet settled. A slot
// is given back when the result is committed, not when the answer comes: with
// the store down nothing new is sent, so an outage of the store cannot become
// a flood of repeats.
type slots struct {
	mu    sync.Mutex
	max   int
	inUse int
	// starved counts loops that wait for a slot.
	starved atomic.Int64
}

func (s *slots) used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

func (s *slots) free() int { return s.max - s.used() }

// next asks the lane for its next request and takes the slot for it. Both
// happen under the lock: a slot that was only tried on would look taken to
// another loop, which then waited for a release that never comes.
func (s *slots) next(now time.Time, l *lane.Lane) lane.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	dec := l.Next(now, s.max-s.inUse)
	if dec.Send {
		s.inUse++
	}
	return dec
}

func (s *slots) giveBack(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse -= n
}

// release gives n slots back and wakes the loops that wait for one.
func (d *Dispatcher) release(n int) {
	if n == 0 {
		return
	}
	d.slots.giveBack(n)
	if d.slots.starved.Load() > 0 {
		for _, l := range d.loops {
			l.wakeUp()
		}
	}
}
