package sink

import "time"

// Destination is the pure model, for tests.
type Destination struct{ d *destination }

func NewDestination(b Behaviour, now time.Time) Destination {
	return Destination{newDestination(b, now)}
}

// Outcome is what became of one request.
type Outcome struct {
	Status, RetryAfter int
	Wait               time.Duration
	Crash              *Crash

	v decision
}

func (d Destination) Decide(now time.Time, u float64) Outcome {
	v := d.d.decide(now, u)
	return Outcome{v.status, v.retryAfter, v.wait, v.crash, v}
}

// Settle returns the status that is sent in the end.
func (d Destination) Settle(o Outcome, now time.Time) int { return d.d.settle(&o.v, now).status }

func (d Destination) Adopt(b Behaviour, now time.Time) { d.d.adopt(b, now, begins{}) }
func (d Destination) Fork() Destination                { return Destination{d.d.fork()} }

func (b *Behaviour) Check() error { return b.check() }

// Window is the sliding second.
type Window = window

func (w *window) Add(now time.Time) int { return w.add(now) }
func (w *window) Memory() int           { return cap(w.times) }

// PrintSecond tells what happened since the start.
func (s *Sink) PrintSecond(now time.Time) Counts { return s.printSecond(now, Counts{}) }

func (s *Sink) PrintTotals() { s.printTotals() }
