package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// tick is the least time to the next wake-up: the law counts nanoseconds, the
// simulation seconds in floating point.
const tick = 1e-6

// slots is how many requests the simulated node may have in flight: so many
// that the node is never the limit.
const slots = 1 << 20

// window is how many deliveries a lane has in memory; more of them wait on disk.
// It is so large that a probe finds whatever it wants, and no more than that: a
// lane looks at all of them for each probe.
// While it is closed what is new has room of its own, so that a backlog does not
// delay it.
const (
	window     = 1 << 18
	roomForNew = 1 << 22
)

// law drives the lane and policy code of the server.
type law struct {
	w      *world
	d      *destination
	rng    *rand.Rand
	p      *policy.Policy
	lane   *lane.Lane
	disk   shelf
	window int
	wake   float64 // time of the latest wake-up asked for
	pumped func()  // pump, made once: it is put on the agenda very often

	host *lane.Host // of all lanes; nil: each has its own
	seat lane.Seat

	quietUntil float64 // the endpoint has asked for no request before

	owner int  // grows with every fail-over
	gone  bool // no owner: a fail-over is going on
}

// newLaw makes the lane of an endpoint under a policy.
func newLaw(p *policy.Policy, w *world, d *destination, rng *rand.Rand) sender {
	l := &law{w: w, d: d, rng: rng, p: p, window: window}
	l.pumped = l.pump
	cfg := p.Lane()
	if w.s.New {
		l.lane = lane.New(cfg, w.clock())
	} else {
		l.lane = lane.Restore(cfg, healthy(w.s, d, cfg), w.clock(), 0.5, false)
	}
	if w.s.Shared {
		l.host = w.hostOf(l)
	}
	if every := w.s.Failover.Every.seconds(); every > 0 {
		w.after(every, l.failover)
	}
	return l
}

// healthy is the checkpoint of a lane that has seen its endpoint work.
func healthy(s *Scenario, d *destination, cfg lane.Config) lane.Checkpoint {
	servers, median := float64(d.servers), d.service*0.82 // of a lognormal, below its mean
	if s.Cliff.Mode != "" {
		servers, median = s.Capacity*d.service, d.service*math.Exp(d.mu)
	}
	peak := max(1, s.Load*servers*s.share())
	return lane.Checkpoint{
		Limit:       max(float64(cfg.Initial), 1.5*peak),
		HealthyPeak: peak,
		BaseLatency: seconds(median + s.Network.seconds()),
		BaseWeight:  8,
		SRTT:        seconds(d.service),
	}
}

func (l *law) asked() *float64 { return &l.quietUntil }

func (l *law) stored() *shelf { return &l.disk }

func (l *law) accept(poison bool) {
	if l.shelves() {
		l.disk.push(l.w.now, poison)
		return
	}
	l.arrive(l.w.newEvent(l, l.w.now, poison))
}

// shelves reports whether a new event has to wait on disk.
func (l *law) shelves() bool {
	if !l.gone && l.lane.State() == lane.Closed {
		return l.lane.Queued() >= roomForNew
	}
	return l.disk.len() > 0 || l.lane.Queued() >= l.window
}

// load reads ahead when the window runs low.
func (l *law) load() {
	for l.disk.len() > 0 && l.lane.Queued() < l.window/2 {
		created, poison := l.disk.pop()
		e := l.w.newEvent(l, created, poison)
		e.held = true
		l.lane.Arrive(ref(e))
	}
}

// arrive takes an event that is due.
func (l *law) arrive(e *event) {
	e.held = true
	if l.gone {
		return // the next owner reads it from disk
	}
	l.lane.Arrive(ref(e))
	l.hostOffered(ref(e))
	l.pump()
}

func ref(e *event) lane.Ref {
	return lane.Ref{
		ID: e.id, FirstDue: e.progress.RunDueAt, Charged: e.progress.Charged, FailedAttempts: e.progress.FailedAttempts,
		Tried: e.progress.BackoffSteps > 0,
	}
}

// limit is what the lane allows; nothing while it is open or has no owner.
func (l *law) limit() float64 {
	if l.gone || l.lane.State() != lane.Closed {
		return 0
	}
	return l.lane.Limit()
}

// pump sends what the lane allows and asks for its next wake-up.
func (l *law) pump() {
	if l.gone {
		return
	}
	l.load()
	now := l.w.clock()
	for {
		if ok, at := l.hostAllows(now); !ok {
			l.wakeAt(at)
			return
		}
		dec := l.lane.Next(now, slots)
		if !dec.Send {
			break
		}
		if l.w.observe != nil {
			sent := dec // a copy: dec itself need not be on the heap
			l.tell(&sent)
		}
		l.w.send(request{
			event: l.w.events[dec.Ref.ID-1], from: l, to: l.d,
			kind: dec.Kind, tag: dec.Tag, owner: l.owner, hostLoad: l.hostStarted(now),
		})
	}
	l.sleep(now)
}

// sleep asks for the lane's next wake-up. An earlier one that is superseded
// does no harm.
func (l *law) sleep(now time.Time) {
	if wake := l.lane.Wake(now); !wake.IsZero() {
		l.wakeAt(wake)
	}
}

func (l *law) wakeAt(wake time.Time) {
	at := max(l.w.secondsOf(wake), l.w.now+tick)
	if l.wake > l.w.now && l.wake <= at {
		return
	}
	l.wake = at
	l.w.at(at, l.pumped)
}

func (l *law) result(r *request) {
	if r.owner != l.owner {
		return // its sender is gone; what it carried is pending on disk
	}
	l.w.heard(r)
	now, e := l.w.clock(), r.event
	v := l.p.Judge(e.progress, e.due, outcome(r, r.tag.Closed, now, l.rng.Float64()))
	e.progress = v.Progress
	change := l.lane.Result(now, l.rng.Float64(), r.tag, lane.Outcome{
		Class: v.Class, RTT: seconds(l.w.now - r.started), Hold: v.Hold, RetryAfter: v.RetryAfter,
		HostSilent: l.hostSilent(now, r, v.Class),
	})
	l.hostHeard(now, r, v.Class, change)
	switch {
	case v.Unchanged:
		l.lane.Return(ref(e))
	case v.State == hook.Pending:
		e.held = false
		e.due = v.DueAt
		l.w.at(l.w.secondsOf(v.DueAt), func() { l.arrive(e) })
	default:
		l.w.metrics.settle(e, v.State)
	}
	if l.w.observe != nil {
		l.tell(nil)
	}
	if change.Refill {
		l.pump()
	} else {
		l.sleep(now)
	}
}

// outcome is what a sender would have seen.
func outcome(r *request, closed bool, now time.Time, u float64) policy.Outcome {
	o := policy.Outcome{Kind: r.kind, LaneClosed: closed, Status: r.status, At: now, U: u}
	switch {
	case r.timedOut:
		o.Reason = hook.Timeout
	case r.status == 0:
		o.Reason = hook.ConnectReset
	case r.retryAfter > 0:
		o.RetryAfter = []string{strconv.Itoa(int(r.retryAfter))}
	}
	return o
}

// failover is the crash of the lane's owner, again and again.
func (l *law) failover() {
	l.restart(l.w.s.Failover.Gap.seconds())
	l.w.after(l.w.s.Failover.Every.seconds(), l.failover)
}

// restart is a gap without an owner, then what the checkpoint brings back. What
// was in flight is pending on disk and sent again; its old answers reach nobody.
func (l *law) restart(gap float64) {
	l.gone = true
	l.owner++
	saved := l.lane.Checkpoint()
	saved.SavedAt = l.w.clock()
	l.leaveHost()
	l.w.after(gap, func() {
		l.gone = false
		l.lane = lane.Restore(l.p.Lane(), saved, l.w.clock(), l.rng.Float64(), true)
		l.rejoinHost(l.w.clock())
		for _, e := range l.due() {
			l.lane.Arrive(ref(e))
		}
		l.pump()
	})
}

// due are the events in memory that wait to be sent, as the store hands them
// out: what is due longest first.
func (l *law) due() []*event {
	var list []*event
	for _, e := range l.w.events {
		if e.of == l && e.state == hook.Pending && e.held {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *event) int { return cmp.Or(a.due.Compare(b.due), a.serial-b.serial) })
	return list
}

// Moment is a move of a lane, for those who watch a run.
type Moment struct {
	At   time.Duration  // since the beginning of the run
	Lane *lane.Lane     // to look at, during the call
	Sent *lane.Decision // what leaves now; nil: the lane has learnt a result
}

// tell shows the lane to whoever watches the run.
func (l *law) tell(sent *lane.Decision) {
	l.w.observe(Moment{At: seconds(l.w.now), Lane: l.lane, Sent: sent})
}
