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
	// turnLost is when a lane whose turn it is and that does not come loses it,
	// askAgain when to ask after an answer that nobody can foresee.
	turnLost = 50 * time.Millisecond
	askAgain = turnLost / 10
	// watchedFor is how long the load on a host is counted after it was down: if it
	// falls again, we want to know at what.
	watchedFor = time.Hour
	// carefulFor is how long there was room enough before it need not be bounded.
	carefulFor = 5 * time.Second
)

// Host is the control state of an address that several lanes send to. It knows
// nothing until lanes of it open together; then one of them probes for all, they
// close one after the other, and the sum of what they send follows the same rules
// as the rate of a lane. What they have in flight is bounded in sum, too, then and
// when they have come from another owner.
//
// It is used by one goroutine at a time.
type Host struct {
	Address string // tells what is known of it from what is known of others

	flow flow

	openings []opening // the latest
	open     []*Seat   // whose lanes it has opened
	down     bool
	since    time.Time // of the outage
	probeAt  time.Time // nobody probes before
	closedAt time.Time
	streak   int // failures of any lane since the last success
	silence  silence
	vain     int // how many have waited in vain together with the latest that failed
	waiting  []*Seat
	turnAt   time.Time // since when it is the first one's turn

	// When its first lane came with what was saved, how many came from another owner
	// with it, and until when they are careful.
	born         time.Time
	joined       int
	carefulUntil time.Time
	rememberedAt time.Time // when that was learnt that its lanes have brought

	room room
}

type opening struct {
	seat *Seat
	at   time.Time
}

// Seat is the place of a lane at its host.
type Seat struct {
	usual    float64   // live load of the lane when it opened
	since    time.Time // that its backlog is held
	base     float64   // seconds that its answers take without load
	queued   bool      // waits for its turn
	inFlight int
}

// Knows reports whether the host has anything to say, or is watched.
func (h *Host) Knows(now time.Time) bool {
	f := &h.flow
	return h.down || now.Sub(h.closedAt) <= watchedFor || !now.After(h.carefulUntil) || f.recovery.rate > 0 || f.ceiling.load > 0 || f.refused.rate(now) > 0 ||
		f.ceiling.mark > 0 && now.Sub(f.ceiling.markAt) <= markFor ||
		len(h.openings) > 0 && now.Sub(h.openings[len(h.openings)-1].at) <= togetherWithin
}

// Opened notes that the lane of a seat has opened, blocked since then. It
// returns the seats whose openings are the host's, and not theirs: they should
// be pardoned.
func (h *Host) Opened(now time.Time, s *Seat, l *Lane) []*Seat {
	s.usual, s.since, s.base = l.flow.load.usual, l.heldSince(), l.ramp.base
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

// Joined notes that the lane of a seat goes on with what was saved; newOwner: by
// another one. Lanes that opened together then are still down for the host's sake,
// and a recovery of the host goes on. Where there was none our own outage has left
// something to send to each of its lanes, and the host should not get it all at
// once. But a host that is known here for longer is known better.
func (h *Host) Joined(now time.Time, s *Seat, l *Lane, newOwner bool) {
	saved := l.flow.host
	l.flow.host.rate = 0
	if h.born.IsZero() {
		h.born = now
	}
	early := now.Sub(h.born) <= ownOutage
	if early {
		h.remember(saved.learnt)
	}
	if l.state != Closed {
		h.joinedOpen(s, l)
		return
	}
	if !newOwner || !early {
		return
	}
	s.base = l.ramp.base
	h.flow.load.usual += l.flow.load.usual
	h.outgrow()
	h.room.base += (s.base - h.room.base) / float64(h.joined+1)
	h.room.begin(now, false)
	h.joined++
	if h.joined > 1 {
		h.carefulUntil = now.Add(ownOutage)
	}
	if saved.rate > 0 && l.flow.drains() {
		h.goOn(now, saved.rate, l)
	}
}

// remember takes what a lane brings for what is known of the host, if it is not of
// another one: the latest that any of them was told. What the host refuses is not
// among it: that is soon found again, and breaks nothing.
func (h *Host) remember(told *HostLearnt) {
	if told == nil || told.Address != h.Address || !told.At.After(h.rememberedAt) {
		return
	}
	h.rememberedAt = told.At
	h.flow.ceiling = restoreCeiling(&told.Breakage)
}

// outgrow forgets a ceiling from before that does not carry what the lanes are used
// to: it was found by a node that had fewer of them.
func (h *Host) outgrow() {
	if c := &h.flow.ceiling; c.load > 0 && c.load <= h.flow.load.usual && !c.at.After(h.rememberedAt) {
		*c = ceiling{}
	}
}

// joinedOpen takes lanes that opened together for those of a host that is down.
func (h *Host) joinedOpen(s *Seat, l *Lane) {
	s.usual, s.since, s.base = l.flow.load.usual, l.heldSince(), l.ramp.base
	together := slices.ContainsFunc(h.openings, func(o opening) bool { return o.at.Sub(l.openedAt).Abs() <= togetherWithin })
	h.openings = append(h.openings, opening{seat: s, at: l.openedAt})
	switch {
	case h.down || h.flow.recovery.rate > 0:
		h.open = append(h.open, s)
	case together:
		h.down, h.since = true, l.openedAt
		for _, o := range h.openings {
			h.open = append(h.open, o.seat)
		}
	}
}

// goOn goes on with the recovery of a host that was at a rate: it is up, and those
// of its lanes that are not have not asked it yet.
func (h *Host) goOn(now time.Time, rate float64, l *Lane) {
	f, r := &h.flow, &l.flow.recovery
	rate = max(rate, f.recovery.rate)
	f.begin(now, max(r.held, f.recovery.held))
	f.recovery.rate = rate
	h.down = false
}

// fall is the beginning of an outage of the host.
func (h *Host) fall(now time.Time, l *Lane) {
	recovering := h.recovers(now)
	if !recovering || h.since.IsZero() {
		h.since = l.openedAt
	}
	h.flow.opened(now, OpenedByStreak, recovering)
	h.down, h.probeAt = true, time.Time{}
}

// recovers reports whether the host was down a moment ago.
func (h *Host) recovers(now time.Time) bool {
	return !h.closedAt.IsZero() && now.Sub(h.closedAt) <= reopenWithin
}

// MayProbe reports whether the seat's lane may probe now, else when to ask
// again. A probe that may leave is the only one for a while.
func (h *Host) MayProbe(now time.Time, s *Seat) (bool, time.Time) {
	if !slices.Contains(h.open, s) {
		if !h.down {
			return true, now // an outage of its own
		}
		h.open = append(h.open, s) // it began as one
	}
	switch {
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

// rise begins the recovery of the host, by what its lanes are used to in sum, and as
// hasty as their backlogs need.
func (h *Host) rise(now time.Time) {
	var usual, backlog float64
	for _, o := range h.open {
		usual += o.usual
		backlog += o.usual * now.Sub(o.since).Seconds()
	}
	held := now.Sub(h.since)
	if usual > 0 {
		held = max(held, seconds(backlog/usual))
	}
	h.down, h.closedAt, h.streak, h.silence = false, now, 0, silence{}
	h.flow.load.usual = usual
	h.outgrow()
	h.flow.refused.voidAt = time.Time{} // what it refused before may have had other reasons
	h.room.begin(now, false)
	h.flow.begin(now, held)
}

// Arrived notes what arrives at a lane of the host, by which it learns in a recovery
// what its lanes are used to: they may have been too young to know it.
func (h *Host) Arrived(r Ref) {
	if r.isNew() {
		h.flow.load.arrive(r.FirstDue)
	}
}

// Ask reports whether the seat's lane may start a request now as far as the host
// goes, else when to ask again. Lanes get their turns in the order they asked.
func (h *Host) Ask(now time.Time, s *Seat) (bool, time.Time) {
	at := h.flow.ready(now)
	full, bounded := h.full(now)
	if h.flow.rate(now) == 0 && !bounded {
		return true, now
	}
	if !at.After(now) && !full {
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
	place := float64(min(max(0, slices.Index(h.waiting, s)), 1000))
	switch {
	case full:
		h.carefulUntil = later(h.carefulUntil, now.Add(carefulFor))
		h.turnAt = later(now, at)
		return false, h.turnAt.Add(max(askAgain, seconds(place*h.room.base/float64(max(1, h.room.moving(now))))))
	case at.After(now):
		h.turnAt = at
		return false, at.Add(seconds(place / h.flow.rate(now)))
	default:
		return false, now.Add(askAgain)
	}
}

// full reports whether no further request may be in flight, and whether that is
// bounded at all: in a recovery, and when its lanes have come from another owner.
func (h *Host) full(now time.Time) (full, bounded bool) {
	if h.flow.recovery.rate == 0 && now.After(h.carefulUntil) {
		return false, false
	}
	d := &h.flow.load
	most := max(d.usual, roomPeak*d.ended.perSecond(now), d.carried.perSecond(now))
	return float64(h.room.moving(now)+1) > h.room.width(now, most), true
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
	h.room.start(now)
	s.inFlight++
	h.flow.take(now)
	return h.flow.start(now)
}

// leaveTurn takes a seat out of those that wait.
func (h *Host) leaveTurn(s *Seat) {
	if !s.queued {
		return
	}
	s.queued = false
	h.waiting = slices.DeleteFunc(h.waiting, func(o *Seat) bool { return o == s })
}

// Result notes the end of a request of the seat's lane that started at a load on
// the host.
func (h *Host) Result(now time.Time, s *Seat, started time.Time, load float64, class hook.Class) {
	if load > 0 && s.inFlight > 0 {
		s.inFlight--
		h.ended(now, s, started, class == hook.Success)
	}
	h.flow.try(now, started, isDown(class))
	switch {
	case class == hook.Success:
		h.streak = 0
		h.acquit(now, started)
		if !h.down {
			h.flow.succeed(now, true, now.Sub(h.closedAt) > reopenWithin)
		}
	case isDown(class):
		h.streak++
		h.flow.failed(now, load, h.streak == 1, h.vain, now.Sub(started))
		h.vain = 0
		if h.flow.recovery.rate > 0 || h.flow.inTheWay(now) { // it has no limit to be halved
			h.flow.ease(now, load, h.streak)
		}
	}
}

// ended tells the room of a request that is over.
func (h *Host) ended(now time.Time, s *Seat, started time.Time, ok bool) {
	took := max(now.Sub(started), shortestTrip).Seconds()
	switch {
	case !ok:
		h.room.end(started, took, 0)
		return
	case s.base == 0: // nobody knows what it takes there
		s.base = took
	}
	h.room.end(started, took, s.base)
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
func (h *Host) Forget() {
	h.flow.forget()
	h.carefulUntil = time.Time{}
}

// Left notes that the seat's lane is gone.
func (h *Host) Left(s *Seat) {
	h.leaveTurn(s)
	h.room.gone(s.inFlight)
	s.inFlight = 0
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

// Heed tells the lane what its host allows, for those who look, and whether other
// lanes may be why its answers take long.
func (l *Lane) Heed(now time.Time, h *Host) {
	l.flow.host.rate = h.Rate(now)
	_, l.ramp.crowded = h.full(now)
	l.Note(now, h)
}

// Note tells the lane what its host has learnt, for the next owner.
func (l *Lane) Note(now time.Time, h *Host) {
	told, broke := l.flow.host.learnt, h.flow.ceiling.save()
	if told == nil || told.Breakage != broke || told.Address != h.Address {
		l.flow.host.learnt = &HostLearnt{Address: h.Address, At: now, Breakage: broke}
	}
}

// Unheed tells it that the host has nothing to say any more.
func (l *Lane) Unheed(now time.Time) {
	l.flow.host.rate, l.ramp.crowded = 0, false
	if told := l.flow.host.learnt; told != nil && told.Breakage != (Breakage{}) {
		l.flow.host.learnt = &HostLearnt{Address: told.Address, At: now}
	}
}
