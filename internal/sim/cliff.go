package sim

import (
	"math"
	"math/rand/v2"
)

// edge counts the requests of the last second, or of a window of another length,
// against those that an endpoint bears in one: it remembers so many, and one more
// comes too soon if the first of them is younger than the window is long.
type edge struct {
	over  float64   // length of the window
	times []float64 // a ring
	next  int       // the oldest
}

func newEdge(over, perSecond float64) *edge {
	const rounding = 1e-9
	e := &edge{over: over, times: make([]float64, max(1, int(over*perSecond+rounding)))}
	e.clear()
	return e
}

// bears counts a request, unless it is too much.
func (e *edge) bears(now float64) bool {
	const rounding = 1e-9 // of times in floating point
	if e.times[e.next]+e.over > now+rounding {
		return false
	}
	e.times[e.next] = now
	e.next = (e.next + 1) % len(e.times)
	return true
}

func (e *edge) clear() {
	for i := range e.times {
		e.times[i] = math.Inf(-1)
	}
}

// resize changes how many the endpoint bears. What it has had in the last window
// still counts.
func (e *edge) resize(perSecond float64) {
	other := newEdge(e.over, perSecond)
	most := len(other.times)
	for i := max(0, len(e.times)-most); i < len(e.times); i++ {
		other.times[other.next] = e.times[(e.next+i)%len(e.times)]
		other.next = (other.next + 1) % most
	}
	*e = *other
}

// warmUp moves the cliff with the warmth of an endpoint until its next fall.
func (d *destination) warmUp(epoch int) {
	const often = 0.5
	if d.s.Warmup.Over == 0 || epoch != d.epoch {
		return
	}
	share := d.warm()
	d.edge.resize(d.full * share)
	if share < 1 {
		d.w.after(often, func() { d.warmUp(epoch) })
	}
}

// becomes changes what the endpoint bears when it is warm.
func (d *destination) becomes(perSecond float64) {
	d.full = perSecond
	d.edge.resize(perSecond * d.warm())
}

// tooMuch is what a cliff does with one request more than it bears.
func (d *destination) tooMuch(r *request) {
	if d.s.Cliff.Mode == CliffRefuse {
		d.answer(r, 503)
		return
	}
	if d.s.Cliff.Mode == CliffCrash {
		d.answer(r, 0)
	}
	d.crash(d.s.Cliff.For)
}

// flap lets the endpoint go down for reasons of its own.
func (d *destination) flap(rng *rand.Rand) {
	every, lasts := d.s.Flap.Every.seconds(), d.s.Flap.For.seconds()
	var next func()
	next = func() {
		d.w.after(every*rng.ExpFloat64(), func() {
			d.startOutage(Outage{})
			d.w.metrics.flaps = append(d.w.metrics.flaps, period{d.w.now, d.w.now + lasts})
			d.w.after(lasts, func() {
				d.endOutage()
				next()
			})
		})
	}
	next()
}
