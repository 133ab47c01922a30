// Package sim runs the control law in virtual time against modelled endpoints:
// the very lane and policy code that the server runs, and the classic designs
// beside it for comparison. Hours of a drain take a second.
//
// It sends nothing and stores nothing. What it says about a strategy is as good
// as its model of an endpoint, which ranks designs and promises nothing.
package sim

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// epoch is the zero of simulated time.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// event is one event on its way to one endpoint. What has ended is used again
// for another: a long run has more events than fit in memory.
type event struct {
	id       hook.ID // its place among the events in memory, from 1
	serial   int     // grows with every event
	of       sender
	created  float64
	state    hook.DeliveryState
	poison   bool
	held     bool // due: waiting to be sent or in flight
	flights  int  // requests that carry it and have not ended
	progress hook.Progress
	due      time.Time
}

// request is one attempt in flight.
type request struct {
	event      *event
	from       sender
	to         *destination
	started    float64
	status     int // of the answer, 0: the connection broke
	retryAfter float64
	ended      bool
	timedOut   bool
	place      int // among the requests that the endpoint serves
	epoch      int // of the endpoint when it began to serve

	kind     hook.AttemptKind
	tag      lane.Tag
	owner    int     // of the lane when it started
	hostLoad float64 // on a shared host, itself included
}

// sender decides when to send what to one endpoint.
type sender interface {
	// accept takes an event that was just published.
	accept(poison bool)
	result(r *request)
	// restart gives it a new owner after a gap without any.
	restart(gap float64)
	// asked is until when the endpoint wants to be left alone.
	asked() *float64
	// stored are the events that wait on disk; nil: none.
	stored() *shelf
	// limit is how many requests it would have in flight now; 0: it knows no
	// limit, or sends nothing.
	limit() float64
}

// world is one run.
type world struct {
	s        *Scenario
	seed     uint64
	rng      *rand.Rand
	now      float64
	readAt   float64 // when clock was last asked for
	read     time.Time
	agenda   agenda
	stopAt   float64
	most     Limits
	steps    int // so far
	recovery float64
	half     float64 // of a network round trip
	timeout  float64
	metrics  *metrics
	places   []place
	dests    []*destination
	prompt   bool // every request is answered in time: none expires
	spare    []*request
	events   []*event // in memory, by id
	unused   []*event // of them, those that have ended
	block    []event  // room for the next events
	serial   int
	observe  func(Moment)

	host  *lane.Host // of endpoints that share one
	seats map[*lane.Seat]*law
}

// place is one endpoint and whoever sends to it.
type place struct {
	dest *destination
	send sender
}

func (w *world) at(t float64, do func()) {
	w.agenda.push(task{at: max(t, w.now), do: do})
}

func (w *world) after(d float64, do func()) { w.at(w.now+d, do) }

// travel moves a request along half a round trip.
func (w *world) travel(r *request, then step) {
	w.agenda.soon.push(w.agenda.stamp(task{at: w.now + w.half, step: then, r: r}))
}

// clock is the simulated time as the law sees it. It is asked for several times
// a moment.
func (w *world) clock() time.Time {
	if w.now != w.readAt {
		w.readAt, w.read = w.now, epoch.Add(seconds(w.now))
	}
	return w.read
}

func (w *world) secondsOf(t time.Time) float64 { return t.Sub(epoch).Seconds() }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// newWorld prepares a run of a strategy.
func newWorld(s *Scenario, st *Strategy, seed uint64) *world {
	w := &world{
		s: s, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), stopAt: s.end(), recovery: s.recovery(),
		half: s.Network.seconds() / 2, timeout: s.Timeout.seconds(), readAt: -1,
	}
	if w.timeout == 0 {
		w.timeout = st.Policy.Timeout.Total.Seconds()
	}
	w.prompt = s.prompt(w.timeout)
	w.metrics = newMetrics(w)
	for i := range s.Endpoints {
		if i == 0 || !s.Shared {
			w.dests = append(w.dests, newDestination(w, rand.New(rand.NewPCG(seed, 1000+uint64(i)))))
		}
		d := w.dests[len(w.dests)-1]
		w.places = append(w.places, place{dest: d, send: st.sender(w, d, rand.New(rand.NewPCG(seed, 2000+uint64(i))))})
	}
	return w
}

// maxCrashes per endpoint ends a run that has shown enough.
const maxCrashes = 10

// patience is how many tasks may pass before a run notices that it is no longer
// wanted, and lets others have its processor: well below a millisecond, because
// it may run in a server that has other things to do.
const patience = 1 << 10

// run plays the scenario to its end, or until ctx is done.
func (w *world) run(ctx context.Context) error {
	w.script()
	most := maxCrashes * len(w.dests)
	for n := 1; ; n++ {
		t, ok := w.agenda.next()
		if !ok || t.at > w.stopAt || w.metrics.crashes >= most {
			return nil
		}
		if n%patience == 0 {
			if err := w.tooMuch(ctx, n); err != nil {
				return err
			}
			runtime.Gosched()
		}
		w.now, w.steps = t.at, n
		w.perform(t)
	}
}

// tooMuch says why a run ends before its time, after so many tasks.
func (w *world) tooMuch(ctx context.Context, tasks int) error {
	switch {
	case w.most.Steps > 0 && tasks > w.most.Steps:
		return ErrTooLong
	case w.most.Events > 0 && len(w.events) > w.most.Events: // what has ended is used again
		return ErrTooMany
	default:
		return ctx.Err()
	}
}

func (w *world) perform(t task) {
	switch t.step {
	case call:
		t.do()
	case reach:
		t.r.to.arrive(t.r)
	case served:
		if t.r != nil {
			t.r.to.served(t.r)
		}
	case answered:
		if !t.r.ended { // else it comes too late
			w.end(t.r)
		}
	case expire:
		t.r.timedOut, t.r.status = true, 0
		w.end(t.r)
	}
}

// script puts everything on the agenda that happens by itself.
func (w *world) script() {
	for _, p := range w.places {
		w.traffic(p)
		if w.s.Batch > 0 {
			w.at(w.s.batchAt(), func() {
				for range int(w.s.Batch * w.s.Capacity * w.s.share()) {
					w.publish(p)
				}
			})
		}
		for _, o := range w.s.Singles {
			w.at(o.At.seconds(), func() {
				p.dest.single = o.RetryAfter.seconds()
				w.publish(p)
			})
		}
	}
	for i, d := range w.dests {
		for _, o := range w.s.Outages {
			w.at(o.At.seconds(), func() { d.startOutage(o) })
			w.at(o.end(), d.endOutage)
		}
		if w.s.Flap.Every > 0 {
			d.flap(rand.New(rand.NewPCG(w.seed, 3000+uint64(i))))
		}
	}
	if len(w.s.Outages) > 0 {
		w.at(w.s.Outages[0].At.seconds(), w.metrics.begin)
	}
	w.at(w.recovery, w.metrics.recovered)
	w.everySecond()
}

// traffic makes live events come as a Poisson stream.
func (w *world) traffic(p place) {
	perSecond := w.s.Load * w.s.Capacity * w.s.share()
	var next func()
	next = func() {
		w.publish(p)
		w.after(w.rng.ExpFloat64()/perSecond, next)
	}
	w.after(w.rng.ExpFloat64()/perSecond, next)
}

// everySecond keeps the limits of the senders for the charts.
func (w *world) everySecond() {
	var next func()
	next = func() {
		var sum float64
		for _, p := range w.places {
			sum += p.send.limit()
		}
		w.metrics.limits = append(w.metrics.limits, sum)
		w.after(1, next)
	}
	next()
}

// publish hands a new event to whoever sends to a place.
func (w *world) publish(p place) {
	poison := w.s.Poison > 0 && w.rng.Float64() < w.s.Poison
	w.metrics.accepted(poison)
	p.send.accept(poison)
}

// eventBlock is how many events are made room for at once.
const eventBlock = 512

// newEvent is an event in memory.
func (w *world) newEvent(of sender, created float64, poison bool) *event {
	e := w.room()
	w.serial++
	due := epoch.Add(seconds(created))
	*e = event{
		id: e.id, serial: w.serial, of: of, created: created, due: due, poison: poison,
		progress: hook.Progress{Run: 1, RunDueAt: due},
	}
	return e
}

// room is one that has ended, else a new one.
func (w *world) room() *event {
	if last := len(w.unused) - 1; last >= 0 {
		e := w.unused[last]
		w.unused = w.unused[:last]
		return e
	}
	if len(w.block) == cap(w.block) {
		w.block = make([]event, 0, eventBlock)
	}
	w.block = append(w.block, event{id: hook.ID(len(w.events) + 1)})
	e := &w.block[len(w.block)-1]
	w.events = append(w.events, e)
	return e
}

// retire gives the room of an event back when it has ended and no request
// carries it any more.
func (w *world) retire(e *event) {
	if e.state != hook.Pending && e.flights == 0 {
		w.unused = append(w.unused, e)
	}
}

// send starts a request; its sender hears of its end.
func (w *world) send(as request) {
	r := w.newRequest(as)
	r.started = w.now
	if w.now+tick < *r.from.asked() {
		w.metrics.brokenHolds++
	}
	r.event.flights++
	w.metrics.started()
	w.travel(r, reach)
	if !w.prompt {
		w.agenda.expires.push(w.agenda.stamp(task{at: w.now + w.timeout, step: expire, r: r}))
	}
}

// newRequest uses the room of one that has ended, where nothing can still lead to
// it.
func (w *world) newRequest(as request) *request {
	var r *request
	if last := len(w.spare) - 1; last >= 0 {
		r = w.spare[last]
		w.spare = w.spare[:last]
	} else {
		r = new(request)
	}
	*r = as
	return r
}

func (w *world) end(r *request) {
	r.ended = true
	r.event.flights--
	w.metrics.ended(r)
	r.from.result(r)
	w.retire(r.event)
	if w.prompt {
		w.spare = append(w.spare, r)
	}
	w.metrics.checkDrained()
}

// heard notes a wish to be left alone that has reached its sender: what is
// sent before then is a broken promise.
func (w *world) heard(r *request) {
	if r.retryAfter > 0 && !r.timedOut {
		asked := r.from.asked()
		*asked = max(*asked, w.now+r.retryAfter)
	}
}
