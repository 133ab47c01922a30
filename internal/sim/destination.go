package sim

import (
	"math"
	"math/rand/v2"
)

// destination is the model of an endpoint: so many servers, a queue before
// them, and a limit of what it bears. It ranks strategies; it is no promise
// about real servers.
type destination struct {
	s   *Scenario
	w   *world
	rng *rand.Rand

	servers int
	service float64 // mean seconds per request
	mu, sd  float64 // of the lognormal service time

	epoch   int // grows with every fall: what was being served is gone
	serving []*request
	waiting queue[*request]
	down    bool
	hole    bool // requests wait in vain
	outages int  // scripted ones that are going on
	upAt    float64

	tokens   float64
	tokensAt float64

	edge   *edge   // of a cliff; nil: there is none
	full   float64 // requests per second that the edge is at when it is warm
	steady bool    // every request takes the same time
	single float64 // Retry-After of the next answer, which is 429; 0: it is not

	second   int // of the arrivals counted below
	arrived  int
	hot      int   // seconds in a row above the overload
	arrivals []int // per second, from the beginning
}

func newDestination(w *world, rng *rand.Rand) *destination {
	s := w.s
	d := &destination{s: s, w: w, rng: rng, tokens: s.RateLimit.Burst, full: s.Capacity}
	d.servers = max(1, int(math.Round(s.Capacity*s.Latency.seconds())))
	d.service = float64(d.servers) / s.Capacity
	if s.Cliff.Mode != "" {
		d.servers, d.service = math.MaxInt, s.Latency.seconds()
		d.edge = newEdge(s.Cliff.window(), s.Capacity)
		d.steady = s.steady()
	}
	if s.LatencyCV > 0 {
		v := math.Log(1 + s.LatencyCV*s.LatencyCV)
		d.sd, d.mu = math.Sqrt(v), -v/2
	}
	return d
}

// serviceTime draws how long a request takes now.
func (d *destination) serviceTime() float64 {
	t := d.service
	if d.sd > 0 {
		t *= math.Exp(d.mu + d.sd*d.rng.NormFloat64())
	}
	share := 1.0
	if d.edge == nil { // latency tells nothing of a cliff
		share = d.warm()
	}
	if d.s.After > 0 && d.w.now > d.w.recovery {
		share *= d.s.After
	}
	return t / share
}

// warm is the share of the capacity that is there so long after a start.
func (d *destination) warm() float64 {
	over, since := d.s.Warmup.Over.seconds(), d.w.now-d.upAt
	if over == 0 || d.upAt == 0 || since >= over {
		return 1
	}
	return d.s.Warmup.From + (1-d.s.Warmup.From)*since/over
}

// arrive takes a request that has come over the network.
func (d *destination) arrive(r *request) {
	d.count()
	switch {
	case d.down && d.hole:
	case d.down:
		d.answer(r, 503)
	case d.hot >= 3:
		d.hot = 0
		d.answer(r, 0)
		d.crash(d.s.Crash.For)
	case d.edge != nil && !d.edge.bears(d.w.now):
		d.tooMuch(r)
	case d.single > 0:
		r.retryAfter, d.single = d.single, 0
		d.answer(r, 429)
	case d.s.Stray.Share > 0 && d.rng.Float64() < d.s.Stray.Share:
		r.retryAfter = d.s.Stray.RetryAfter.seconds()
		d.answer(r, 429)
	case d.s.Flaky > 0 && d.rng.Float64() < d.s.Flaky:
		d.answer(r, 503)
	case d.s.Swallow > 0 && d.rng.Float64() < d.s.Swallow:
	case d.s.AtOnce > 0 && len(d.serving)+d.waiting.len() >= d.s.AtOnce:
		d.answer(r, 503)
	case !d.takeToken():
		r.retryAfter = d.s.RateLimit.RetryAfter.seconds()
		d.answer(r, 429)
	case len(d.serving) < d.servers:
		d.serve(r)
	default:
		d.waiting.push(r)
		if q := d.s.Crash.Queue.seconds(); q > 0 && float64(d.waiting.len()) > max(leastQueue, q*d.s.Capacity) {
			d.crash(d.s.Crash.For)
		}
	}
}

// leastQueue is how many requests even a small endpoint can let wait.
const leastQueue = 20

// count keeps the arrivals per second and the seconds above the overload.
func (d *destination) count() {
	second := int(d.w.now)
	if second != d.second {
		over := d.s.Crash.Overload
		if over > 0 && second == d.second+1 && float64(d.arrived) > over*d.s.Capacity && d.arrived > 10 {
			d.hot++
		} else {
			d.hot = 0
		}
		d.second, d.arrived = second, 0
	}
	d.arrived++
	d.arrivals = grow(d.arrivals, second)
	d.arrivals[second]++
}

func (d *destination) takeToken() bool {
	limit := &d.s.RateLimit
	if limit.PerSecond <= 0 {
		return true
	}
	d.tokens = min(limit.Burst, d.tokens+(d.w.now-d.tokensAt)*limit.PerSecond)
	d.tokensAt = d.w.now
	if d.tokens < 1 {
		return false
	}
	d.tokens--
	return true
}

func (d *destination) serve(r *request) {
	r.place, r.epoch = len(d.serving), d.epoch
	d.serving = append(d.serving, r)
	if d.steady {
		d.w.agenda.steady.push(d.w.agenda.stamp(task{at: d.w.now + d.service, step: served, r: r}))
		return
	}
	d.w.agenda.push(task{at: d.w.now + d.serviceTime(), step: served, r: r})
}

// served ends the service of a request, unless a fall has taken it.
func (d *destination) served(r *request) {
	if r.epoch != d.epoch {
		return
	}
	last := len(d.serving) - 1
	d.serving[r.place] = d.serving[last]
	d.serving[r.place].place = r.place
	d.serving[last] = nil
	d.serving = d.serving[:last]
	status := 200
	if r.event.poison {
		status = 500
	}
	d.answer(r, status)
	if d.waiting.len() > 0 {
		d.serve(d.waiting.pop())
	}
}

// answer sends a status back; 0 is a connection that breaks.
func (d *destination) answer(r *request, status int) {
	if !r.ended {
		r.status = status
		d.w.travel(r, answered)
	}
}

// fall resets everything in progress and stays down.
func (d *destination) fall() {
	d.epoch++
	d.down = true
	for _, r := range d.serving {
		if !d.hole {
			d.answer(r, 0)
		}
	}
	if d.steady {
		d.w.agenda.forget(d)
	}
	for d.waiting.len() > 0 {
		d.answer(d.waiting.pop(), 0)
	}
	clear(d.serving)
	d.serving = d.serving[:0]
}

// crash is a fall by overload; the endpoint comes back by itself.
func (d *destination) crash(lasts Duration) {
	d.w.metrics.crashed()
	d.hole = d.s.Cliff.Mode == CliffHang
	d.fall()
	fallen := d.epoch
	d.w.after(lasts.seconds(), func() {
		if fallen == d.epoch && d.outages == 0 {
			d.rise()
		}
	})
}

func (d *destination) rise() {
	d.down, d.hole = false, false
	d.upAt = d.w.now
	d.hot = 0
	if d.edge != nil {
		d.edge.clear()
		d.warmUp(d.epoch)
	}
}

func (d *destination) startOutage(o Outage) {
	d.hole = false
	d.fall()
	d.outages++
	d.hole = o.BlackHole
}

func (d *destination) endOutage() {
	d.outages--
	if d.outages == 0 {
		d.rise()
	}
}
