package deferred

import (
	"iter"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	// ownFor is how long the row of a delivery of a lane of this node may be
	// missing while the node commits anyway.
	ownFor = time.Second
	// maxOwn bounds how many of them may be deferred.
	maxOwn = 8192
	// maxOverdue bounds how many are inserted at once because they have waited long
	// enough: whoever waits for that commit did not ask for them.
	maxOverdue = 2048
)

// set holds deferred deliveries.
type set struct {
	byID      map[hook.ID]Delivery
	order     []hook.ID       // in which they came; those that have left are skipped
	endpoints map[hook.ID]int // how many each of them has
}

func newSet() *set { return &set{byID: make(map[hook.ID]Delivery), endpoints: make(map[hook.ID]int)} }

func (s *set) add(d Delivery) {
	if _, there := s.byID[d.ID]; !there {
		s.endpoints[d.Endpoint]++
		s.order = append(s.order, d.ID)
	}
	s.byID[d.ID] = d
}

func (s *set) remove(id hook.ID) {
	d, ok := s.byID[id]
	if !ok {
		return
	}
	delete(s.byID, id)
	s.endpoints[d.Endpoint]--
	if s.endpoints[d.Endpoint] == 0 {
		delete(s.endpoints, d.Endpoint)
	}
}

// tidy forgets the order of what has left: at its head, and all of it when that is
// most.
func (s *set) tidy() {
	gone := func(id hook.ID) bool { _, there := s.byID[id]; return !there }
	n := 0
	for n < len(s.order) && gone(s.order[n]) {
		n++
	}
	s.order = slices.Delete(s.order, 0, n)
	if len(s.order) > 64 && len(s.order) > 2*len(s.byID) {
		s.order = slices.DeleteFunc(s.order, gone)
	}
}

// all walks over the deliveries, oldest first.
func (s *set) all() iter.Seq[Delivery] {
	return func(yield func(Delivery) bool) {
		for _, id := range s.order {
			if d, ok := s.byID[id]; ok && !yield(d) {
				return
			}
		}
	}
}

// oldest returns the least event with a delivery in the set, or the given one if
// that is less.
func (s *set) oldest(least hook.ID) hook.ID {
	for _, d := range s.byID {
		least = min(least, d.Event)
	}
	return least
}

// overdue returns the deliveries whose rows should be inserted now, not too many
// at once: those that have waited long enough, and the oldest ones when there are
// too many. Of very many it returns half, so that they cannot grow without end.
func (s *set) overdue(now time.Time) (out []Delivery) {
	excess := len(s.byID) - maxOwn
	most := max(maxOverdue, excess/2)
	for d := range s.all() {
		if len(out) == most || now.Sub(d.known) < ownFor && len(out) >= excess {
			break
		}
		out = append(out, d)
	}
	return out
}

// ofLanes returns the deliveries of the given endpoints but for those that are
// known, oldest first. No endpoint means all.
func (s *set) ofLanes(endpoints, known []hook.ID) (out []Delivery) {
	wanted := make(map[hook.ID]bool, len(endpoints))
	for _, id := range endpoints {
		if s.endpoints[id] > 0 {
			wanted[id] = true
		}
	}
	if len(s.byID) == 0 || len(wanted) == 0 && len(endpoints) > 0 {
		return nil
	}
	knows := make(map[hook.ID]bool, len(known))
	for _, id := range known {
		knows[id] = true
	}
	for d := range s.all() {
		if !knows[d.ID] && (len(endpoints) == 0 || wanted[d.Endpoint]) {
			out = append(out, d)
		}
	}
	return out
}
