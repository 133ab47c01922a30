package lane

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Decision is the answer to "may I send now?".
type Decision struct {
	Send bool
	Ref  Ref
	Kind hook.AttemptKind
	Tag  Tag
	// Empty is set when a request could start but the lane has no delivery in
	// memory; for an open lane that means a probe is due.
	Empty bool
	// Starved is set when only the dispatcher's free slots were missing.
	Starved bool
}

// Next decides whether a request may start now. free is how many slots the
// dispatcher has left for all lanes; a lane gets another one only while it uses
// fewer than are left, so one slow destination can never take them all.
func (l *Lane) Next(now time.Time, free int) Decision {
	if l.paused || now.Before(l.hold) || l.state == HalfOpen {
		return Decision{}
	}
	if l.state == Open {
		return l.nextProbe(now, free)
	}
	l.unblock(now)
	l.decay(now)
	switch {
	case l.Queued() == 0:
		l.flow.emptied(now)
		return Decision{Empty: l.hasRoom(now)}
	case !l.hasRoom(now):
		return Decision{}
	case l.flight.n >= free:
		return Decision{Starved: true}
	case !l.takeTokens(now):
		l.flow.short(now)
		return Decision{}
	}
	r := l.pick()
	l.flight.start(now)
	if l.Queued() == 0 {
		l.flow.emptied(now)
	}
	return Decision{
		Send: true, Ref: r, Kind: r.kind(),
		Tag: Tag{
			Gen: l.gen, Round: l.join(now), Closed: true, First: r.Charged == 0 && !r.Manual,
			Load: l.flow.start(now), At: now,
		},
	}
}

// hasRoom reports whether one more request may be in flight. Under a rate there
// are never many more than it and the latency make: answers that stop coming
// must not let a heap of requests gather.
func (l *Lane) hasRoom(now time.Time) bool {
	if float64(l.flight.n+1) > max(1, l.cfg.most()) {
		return false
	}
	l.flight.age(now, l.ramp.srtt)
	n := float64(l.flight.young + 1)
	if n > l.Limit() && n > l.Limit()+l.release(now) {
		return false
	}
	rate := l.flow.rate(now)
	return rate == 0 || n <= 2+rate*(l.flow.late()+2*l.ramp.srtt)
}

// releaseFor is for how long after a hold what gathered in it may leave together.
const releaseFor = 100 * time.Millisecond

// release is how many requests may be in flight beside the limit after a hold that has
// taught nothing: as many as one second usually brings. An endpoint that answers at
// once would get them one by one within a moment anyway. But the next refusal that has
// nothing to do with the load would find some of them still here, and hold them again.
func (l *Lane) release(now time.Time) float64 {
	if now.Sub(l.hold) > releaseFor || l.cfg.Fixed || l.flow.rate(now) > 0 {
		return 0
	}
	if r := &l.ramp; r.base == 0 || r.base > baseLeast.Seconds() || r.srtt > releaseFor.Seconds() || l.latest.sum > 0 {
		return 0
	}
	return max(0, min(l.flow.load.usual, l.cfg.most()-l.Limit()))
}

// HasManual reports whether what a person asked for waits in memory.
func (l *Lane) HasManual() bool { return l.live.len() > 0 && l.live.at(0).Manual }

// Wants reports whether Next may send, without asking for slots and tokens.
func (l *Lane) Wants(now time.Time) bool {
	switch {
	case l.Queued() == 0 || l.paused || now.Before(l.hold) || l.state == HalfOpen:
		return false
	case l.state == Open:
		return !now.Before(l.probeAt)
	default:
		return l.hasRoom(now) && !l.tokensAt(now).After(now)
	}
}

func (l *Lane) nextProbe(now time.Time, free int) Decision {
	if now.Before(l.probeAt) {
		return Decision{}
	}
	if l.Queued() == 0 {
		return Decision{Empty: true}
	}
	if l.flight.n >= free {
		return Decision{Starved: true}
	}
	r := l.pickProbe()
	l.state = HalfOpen
	l.flight.start(now)
	kind := hook.Probe
	if r.Manual {
		kind = hook.Manual
	}
	return Decision{Send: true, Ref: r, Kind: kind, Tag: Tag{Gen: l.gen, Probe: true, At: now}}
}

// idleTooLong is how long a limit is trusted without any answer.
const idleTooLong = 10 * time.Minute

// decay takes back a high limit that nothing has confirmed for long.
func (l *Lane) decay(now time.Time) {
	if l.cfg.Fixed || l.flight.n > 0 || l.lastAny.IsZero() || now.Sub(l.lastAny) <= idleTooLong {
		return
	}
	l.ramp.limit = min(l.ramp.limit, max(l.cfg.rest(), 2*l.ramp.healthyPeak))
	l.lastAny = now
	l.newRound(now)
}

// backEvery gives the backlog every tenth slot while live events wait too.
const backEvery = 10

// pick takes the head of the live queue, and of the backlog every tenth time,
// so that neither starves.
func (l *Lane) pick() Ref {
	switch {
	case l.back.len() == 0:
		return l.live.popFront()
	case l.live.len() == 0:
		return l.back.popFront()
	}
	l.turn++
	if l.turn >= backEvery {
		l.turn = 0
		return l.back.popFront()
	}
	return l.live.popFront()
}

// HasFresh reports whether a delivery that never failed waits in memory. A
// probe should carry one: an event that fails by itself says nothing about the
// endpoint.
func (l *Lane) HasFresh() bool {
	for _, q := range []*queue{&l.live, &l.back} {
		for i := range q.len() {
			if r := q.at(i); r.FailedAttempts == 0 || r.Manual {
				return true
			}
		}
	}
	return false
}

// pickProbe takes what a person asked for, else the delivery with the fewest
// failures, and among those the newest.
func (l *Lane) pickProbe() Ref {
	var from *queue
	var index int
	var best Ref
	for _, q := range []*queue{&l.live, &l.back} {
		for i := range q.len() {
			r := *q.at(i)
			if from == nil || betterProbe(r, best) {
				from, index, best = q, i, r
			}
		}
	}
	return from.remove(index)
}

func betterProbe(a, b Ref) bool {
	if a.Manual != b.Manual {
		return a.Manual
	}
	if a.FailedAttempts != b.FailedAttempts {
		return a.FailedAttempts < b.FailedAttempts
	}
	return a.FirstDue.After(b.FirstDue)
}

// Wake returns when Next should be asked again without any other input; zero
// when only an input can change the answer.
func (l *Lane) Wake(now time.Time) time.Time {
	if l.paused || l.state == HalfOpen {
		return time.Time{}
	}
	at := l.hold
	switch {
	case l.state == Open:
		at = later(at, l.probeAt)
	default:
		at = later(at, l.restAt)
		if l.Queued() == 0 {
			break
		}
		if l.hasRoom(now) {
			at = later(at, l.tokensAt(now))
		} else if !l.cfg.Fixed {
			at = later(at, l.flight.stuckAt(l.ramp.srtt))
		}
	}
	if !at.After(now) {
		return time.Time{}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ProbeDue reports whether an open lane may send its next probe now.
func (l *Lane) ProbeDue(now time.Time) bool {
	return l.state == Open && !l.paused && !now.Before(l.hold) && !now.Before(l.probeAt)
}

// Resting reports whether the lane waits a moment after a failure of the
// destination; it is then refilled by its wake-up or by another answer.
func (l *Lane) Resting(now time.Time) bool {
	return l.state == Closed && now.Before(l.restAt)
}
