package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// slots is the budget of attempts that are in flight or not yet settled. A slot
// is given back when the result is committed, not when the answer comes: with
// the store down nothing new is sent, so an outage of the store cannot become
// a flood of repeats.
//
// The budget is shared between tenants, and what a tenant gets between its
// lanes, by the same rule: see more.
type slots struct {
	mu      sync.Mutex
	max     int
	inUse   int
	tenants map[hook.ID]int // slots in use, by tenant
	// starved counts loops that wait for a slot.
	starved atomic.Int64
}

// Of a pool of slots an eighth is kept for those who have few. Of the rest a tenant
// may have eight times what is left, a lane twice: much when it is alone, an
// equal share when others take theirs. Of what is kept it may have a quarter of
// what is left, so that very many have to come until nothing is.
const (
	keptPart    = 8
	tenantShare = 8
	laneShare   = 2
	partOfKept  = 4
)

// more returns how many more slots one may take who has used some of a pool of
// which free are left. One who has none gets one as long as there is one.
func more(used, free, size, share int) int {
	kept := (size + keptPart - 1) / keptPart
	open := ceil(share*(free-kept)-used, share+1)
	return min(max(open, ceil(free-partOfKept*used, partOfKept+1), 0), max(free, 0))
}

func ceil(n, by int) int {
	if n <= 0 {
		return 0
	}
	return (n + by - 1) / by
}

// room returns how many more slots a tenant may take now. It is called with mu
// held.
func (s *slots) room(tenant hook.ID) int {
	return more(s.tenants[tenant], s.max-s.inUse, s.max, tenantShare)
}

// allows reports whether a lane of the tenant may take a slot. It is called with
// mu held.
func (s *slots) allows(tenant hook.ID, l *lane.Lane) bool {
	room := s.room(tenant)
	return more(l.InFlight(), room, s.tenants[tenant]+room, laneShare) > 0
}

func (s *slots) used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}

// next asks the lane for its next request and takes the slot for it. Both
// happen under the lock: a slot that was only tried on would look taken to
// another loop, which then waited for a release that never comes.
func (s *slots) next(now time.Time, tenant hook.ID, l *lane.Lane) lane.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := 0
	if s.allows(tenant, l) {
		free = l.InFlight() + 1 // all that the lane asks for
	}
	dec := l.Next(now, free)
	if dec.Send {
		s.inUse++
		s.tenants[tenant]++
	}
	return dec
}

// feed picks those of the tenant's waiting lanes that may take a slot now, first
// come, first served, but no more of them than there are slots. The others go on
// waiting.
func (s *slots) feed(tenant hook.ID, waiting []*runner, pick func(*runner)) (rest []*runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.room(tenant)
	rest = waiting[:0]
	for i, r := range waiting {
		switch {
		case room == 0:
			return append(rest, waiting[i:]...)
		case s.allows(tenant, r.lane):
			pick(r)
			room--
		default:
			rest = append(rest, r)
		}
	}
	return rest
}

func (s *slots) giveBack(tenants []hook.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse -= len(tenants)
	for _, t := range tenants {
		s.tenants[t]--
		if s.tenants[t] == 0 {
			delete(s.tenants, t)
		}
	}
}

// release gives one slot of each of the tenants back and wakes the loops that
// wait for one.
func (d *Dispatcher) release(tenants ...hook.ID) {
	if len(tenants) == 0 {
		return
	}
	d.slots.giveBack(tenants)
	if d.slots.starved.Load() > 0 {
		for _, l := range d.loops {
			l.wake.ring()
		}
	}
}
