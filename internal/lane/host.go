package lane

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	// togetherWithin: lanes of one host that open this close to each other do so
	// for the host's sake.
	togetherWithin = 2 * time.Second
	// Behind the first lane of a host that closes the others probe one by one,
	// this far apart, and within closeWithin in all.
	closeApart  = time.Second
	closeWithin = 5 * time.Second
	// probeLost is when a probe that was never heard of again is given up.
	probeLost = time.Minute
	// turnLost is when a lane whose turn it is and that does not come loses it.
	turnLost = 50 * time.Millisecond
)

// Host is the control state of an address that several lanes send to. It has
// nothing to say until lanes of it open together; then one of them probes for
// all, they close one after the other, and the sum of what they send follows
// the same rules as the rate of a lane.
//
// It is used by one goroutine at a time.
type Host struct {
	flow flow

	openings []opening // the latest
	open     []*Seat   // whose lanes it has opened
	down     bool
	since    time.Time // of the outage
	probeAt  time.Time // nobody probes before
	closedAt time.Time
	streak   int // failures of any lane since the last success
	waiting  []*Seat
	turnAt   time.Time // since when it is the first one's turn
}

type opening struct {
	seat *Seat
	at   time.Time
}

// Seat is the place of a lane at its host.
type Seat struct {
	usual  float64 // live load of the lane when it opened
	queued bool    // waits for its turn
}

// Knows reports whether the host has anything to say.
func (h *Host) Knows(now time.Time) bool {
	f := &h.flow
	return h.down || f.recovery.rate > 0 || f.ceiling.load > 0 || f.refused.rate(now) > 0 ||
		f.ceiling.mark > 0 && now.Sub(f.ceiling.markAt) <= markFor ||
		len(h.openings) > 0 && now.Sub(h.openings[len(h.openings)-1].at) <= togetherWithin
}

// Opened notes that the lane of a seat has opened, blocked since then. It
// returns the seats whose openings are the host's, and not theirs: they should
// be pardoned.
func (h *Host) Opened(now time.Time, s *Seat, l *Lane) []*Seat {
	s.usual = l.flow.load.usual
	h.openings = slices.DeleteFunc(h.openings, func(o opening) bool {
		return o.seat == s || now.Sub(o.at) > togetherWithin
	})
	h.openings = append(h.openings, opening{seat: s, at: now})
	h.leaveTurn(s)
	if len(h.openings) < 2 && !h.down {
		return nil
	}
	if !h.down {
		h.fall(now, l)
	}
	var pardoned []*Seat
	for _, o := range h.openings {
		if !slices.Contains(h.open, o.seat) {
			h.open = append(h.open, o.seat)
			pardoned = append(pardoned, o.seat)
		}
	}
	return pardoned
}

// fall is the beginning of an outage of the host.
func (h *Host) fall(now time.Time, l *Lane) {
	recovering := !h.closedAt.IsZero() && now.Sub(h.closedAt) <= reopenWithin
	if !recovering || h.since.IsZero() {
		h.since = l.openedAt
	}
	h.flow.opened(now, OpenedByStreak, recovering)
	h.down, h.probeAt = true, time.Time{}
}

// MayProbe reports whether the seat's lane may probe now, else when to ask
// again. A probe that may leave is the only one for a while.
func (h *Host) MayProbe(now time.Time, s *Seat) (bool, time.Time) {
	switch {
	case !h.down && !slices.Contains(h.open, s):
		return true, now // an outage of its own
	case now.Before(h.probeAt):
		return false, h.probeAt
	case h.down:
		h.probeAt = now.Add(probeLost)
	default:
		h.probeAt = now.Add(min(closeApart, closeWithin/time.Duration(max(len(h.open), 1))))
	}
	return true, now
}

// ProbeFailed notes a probe without success; the lane's own next one is due at
// next, and that of all others with it.
func (h *Host) ProbeFailed(next time.Time) {
	if h.down {
		h.probeAt = next
	}
}

// Closed notes that the lane of a seat has closed. It returns the seats whose
// lanes should now probe, too.
func (h *Host) Closed(now time.Time, s *Seat) []*Seat {
	mine := slices.Contains(h.open, s)
	first := h.down && mine
	if first {
		h.rise(now)
	}
	h.open = slices.DeleteFunc(h.open, func(o *Seat) bool { return o == s })
	if !first {
		return nil
	}
	h.probeAt = now.Add(min(closeApart, closeWithin/time.Duration(max(len(h.open), 1))))
	return slices.Clone(h.open)
}

// rise begins the recovery of the host: as hasty as its lanes are used to in sum.
func (h *Host) rise(now time.Time) {
	var usual float64
	for _, o := range h.open {
		usual += o.usual
	}
	h.down, h.closedAt, h.streak = false, now, 0
	h.flow.load.usual = usual
	h.flow.begin(now, now.Sub(h.since))
}

// Ask reports whether the seat's lane may start a request now as far as the host
// goes, else when to ask again. Lanes get their turns in the order they asked.
func (h *Host) Ask(now time.Time, s *Seat) (bool, time.Time) {
	at := h.flow.ready(now)
	if h.flow.rate(now) == 0 {
		return true, now
	}
	if !at.After(now) {
		h.skipAbsent(now)
		if len(h.waiting) == 0 || h.waiting[0] == s {
			return true, now
		}
	}
	if !s.queued {
		s.queued = true
		h.waiting = append(h.waiting, s)
	}
	h.flow.short(now)
	if at.After(now) {
		h.turnAt = at
		place := max(0, slices.Index(h.waiting, s))
		return false, at.Add(seconds(float64(min(place, 1000)) / h.flow.rate(now)))
	}
	return false, now.Add(turnLost / 10)
}

// skipAbsent lets the turn of a lane pass that has not come for it.
func (h *Host) skipAbsent(now time.Time) {
	for len(h.waiting) > 0 && now.Sub(h.turnAt) > turnLost {
		h.waiting[0].queued = false
		h.waiting = h.waiting[1:]
		h.turnAt = h.turnAt.Add(turnLost)
	}
}

// Started notes that a request of the seat's lane starts and returns the load
// on the host with it.
func (h *Host) Started(now time.Time, s *Seat) float64 {
	h.leaveTurn(s)
	if len(h.waiting) == 0 {
		h.flow.emptied(now)
	}
	h.turnAt = now
	h.flow.take(now)
	return h.flow.load.start(now)
}

// leaveTurn takes a seat out of those that wait.
func (h *Host) leaveTurn(s *Seat) {
	if !s.queued {
		return
	}
	s.queued = false
	h.waiting = slices.DeleteFunc(h.waiting, func(o *Seat) bool { return o == s })
}

// Result notes the end of a request that started at a load on the host.
func (h *Host) Result(now, started time.Time, load float64, class hook.Class) {
	switch {
	case class == hook.Success:
		h.streak = 0
		h.acquit(now, started)
		if !h.down {
			h.flow.succeed(now, true, now.Sub(h.closedAt) > reopenWithin)
		}
	case isDown(class):
		h.streak++
		h.flow.ceiling.failed(now, load, h.streak == 1, &h.flow.load)
		h.flow.ease(now, load, h.streak)
	}
}

// acquit frees a host that works: a request succeeded that started after lanes of
// it had opened, so they did so for reasons of their own.
func (h *Host) acquit(now, started time.Time) {
	if !h.down || len(h.openings) == 0 || now.Sub(h.openings[0].at) > togetherWithin || !started.After(h.openings[0].at) {
		return
	}
	h.down, h.open, h.openings = false, nil, nil
	h.flow.resume()
}

// Forget is for a person who knows better.
func (h *Host) Forget() { h.flow.forget() }

// Left notes that the seat's lane is gone.
func (h *Host) Left(s *Seat) {
	h.leaveTurn(s)
	h.open = slices.DeleteFunc(h.open, func(o *Seat) bool { return o == s })
	h.openings = slices.DeleteFunc(h.openings, func(o opening) bool { return o.seat == s })
	if h.down && len(h.open) == 0 {
		h.down = false
	}
}

// Rate is the rate of all lanes of the host together, 0: none.
func (h *Host) Rate(now time.Time) float64 { return h.flow.rate(now) }

// Pardon takes back what the latest opening has taught the lane: its host was to
// blame.
func (l *Lane) Pardon() { l.flow.pardon() }

// SetHostRate tells the lane what its host allows, for those who look.
func (l *Lane) SetHostRate(rate float64) { l.flow.host = rate }

// DelayProbe puts the next probe off.
func (l *Lane) DelayProbe(until time.Time) { l.probeAt = later(l.probeAt, until) }
