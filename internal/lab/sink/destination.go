package sink

import (
	"net/http"
	"time"
)

// destination is one server as the sink plays it: a behaviour, and what has
// happened to it so far. It is pure: the caller says what time it is, draws the
// random numbers, does the waiting, and guards it.
//
// A request is decided upon when it arrives. Who waited for the answer asks
// once more whether the destination survived until then.
type destination struct {
	behaviour Behaviour

	failing span
	outage  span
	flaps   time.Time // when the first period of flapping began
	crashed time.Time // down until then after a crash
	epoch   int       // counts crashes, for those who wait

	arrivals window // that found it up
	served   window // for RefuseOver
	admitted bucket // for ThrottleOver
	line     line   // for Capacity
	due429   time.Time
}

// cause is why a request was answered as it was.
type cause int

const (
	causeServed cause = iota
	causeDown
	causeFailing
	causeRefused
	causeThrottled
)

// answer is what a request gets.
type answer struct {
	status     int // 0: the connection is reset
	retryAfter int // seconds, 0: no header
	slowBody   bool
	hangs      bool // nothing comes until the sender gives up
	cause      cause
}

// decision is an answer that is due after a while.
type decision struct {
	answer

	wait  time.Duration
	epoch int
	crash *Crash // the request was one too many
}

// Crash tells when and why a destination went down.
type Crash struct {
	At   time.Time `json:"at"`
	Load int       `json:"load"` // requests within the second before
	Why  string    `json:"why"`  // "arrivals", "queue", "told"
	Path string    `json:"path,omitempty"`
}

// The reasons of crashes.
const (
	crashArrivals = "arrivals" // more than CrashOver
	crashQueue    = "queue"    // no room left in the queue of Capacity
	crashTold     = "told"     // by the control surface
)

func newDestination(b Behaviour, now time.Time) *destination {
	d := &destination{}
	d.adopt(b, now, begins{fail: true, outage: true, flaps: true, one429: true})
	return d
}

// fork returns another destination of the same behaviour and the same times of
// failing. It shares no capacity with the first.
func (d *destination) fork() *destination {
	twin := *d
	twin.arrivals, twin.served, twin.admitted, twin.line = window{}, window{}, bucket{}, line{}
	return &twin
}

// begins says which timed parts of a behaviour start with it. The others go on.
type begins struct{ fail, outage, flaps, one429 bool }

// adopt changes the behaviour. What a limit has counted stays unless the limit
// changed.
func (d *destination) adopt(b Behaviour, now time.Time, anew begins) {
	old := d.behaviour
	d.behaviour = b
	if anew.fail {
		d.failing = span{}
		if b.Fail != 0 || b.FailRate > 0 {
			d.failing = span{from: now.Add(b.After), length: b.FailFor, endless: b.FailFor == 0}
		}
	}
	if anew.outage {
		d.outage = span{from: now.Add(b.After), length: b.DownFor}
	}
	if anew.flaps {
		d.flaps = now
	}
	if anew.one429 {
		d.due429 = now.Add(b.One429Every)
	}
	if b.ThrottleOver != old.ThrottleOver || b.ThrottleBurst != old.ThrottleBurst {
		d.admitted = bucket{}
	}
	if b.Capacity != old.Capacity || b.Workers != old.Workers || b.Queue != old.Queue {
		d.line = line{}
	}
}

// decide judges a request that arrives now; u is a uniform draw in [0,1).
func (d *destination) decide(now time.Time, u float64) decision {
	if d.down(now) {
		return d.refusal()
	}
	b := &d.behaviour
	load := d.arrivals.add(now)
	if b.CrashOver > 0 && float64(load) > b.CrashOver {
		return d.crash(now, crashArrivals)
	}
	a := d.judge(now, u)
	wait := b.Latency
	switch {
	case a.cause == causeRefused: // at once: that it costs the server nothing is the point of it
		wait = 0
	case a.cause == causeServed && b.Capacity > 0:
		queued, ok := d.line.enter(now, b)
		if !ok {
			return d.crash(now, crashQueue)
		}
		wait += queued
	}
	return decision{answer: a, wait: wait, epoch: d.epoch}
}

// judge applies the rules that do not take the destination down. The first one
// that has something to say wins.
func (d *destination) judge(now time.Time, u float64) answer {
	b := &d.behaviour
	if b.Gone {
		return answer{status: http.StatusGone, cause: causeFailing}
	}
	if len(b.Next) > 0 {
		status := b.Next[0]
		b.Next = b.Next[1:]
		return d.scripted(status)
	}
	if d.failing.covers(now) {
		rate := b.FailRate
		if rate == 0 || u < rate {
			return d.failure(b.Fail)
		}
		u = (u - rate) / (1 - rate) // a uniform draw again
	}
	if u < b.Swallow {
		return answer{hangs: true, cause: causeFailing}
	}
	u = (u - b.Swallow) / (1 - b.Swallow)
	switch {
	case b.One429Every > 0 && !now.Before(d.due429):
		d.due429 = now.Add(b.One429Every)
		return d.throttle()
	case u < b.Stray429:
		return d.throttle()
	case b.RefuseOver > 0 && d.full(now):
		return answer{status: http.StatusServiceUnavailable, cause: causeRefused}
	case b.ThrottleOver > 0 && !d.admitted.take(now, b.ThrottleOver, b.burst()):
		return d.throttle()
	}
	if b.RefuseOver > 0 {
		d.served.add(now)
	}
	return answer{status: http.StatusOK, slowBody: b.SlowBody}
}

// full reports whether one more within this second is too many to serve.
func (d *destination) full(now time.Time) bool {
	withThis := d.served.count(now) + 1
	return float64(withThis) > d.behaviour.RefuseOver
}

func (d *destination) scripted(status int) answer {
	switch {
	case status == http.StatusTooManyRequests:
		return d.throttle()
	case status/100 == 2:
		return answer{status: status, slowBody: d.behaviour.SlowBody}
	default:
		return d.failure(status)
	}
}

func (d *destination) failure(status int) answer {
	if status == 0 {
		status = http.StatusServiceUnavailable
	}
	return answer{status: status, retryAfter: d.behaviour.RetryAfter, cause: causeFailing}
}

func (d *destination) throttle() answer {
	return answer{status: http.StatusTooManyRequests, retryAfter: max(d.behaviour.RetryAfter, 1), cause: causeThrottled}
}

// crash takes the destination down, and what it had in flight and in its queue
// with it.
func (d *destination) crash(now time.Time, why string) decision {
	load := d.arrivals.count(now)
	d.epoch++
	d.crashed = now.Add(d.behaviour.crashFor())
	d.arrivals, d.served, d.line = window{}, window{}, line{}
	v := d.refusal()
	v.crash = &Crash{At: now, Load: load, Why: why}
	return v
}

// heal ends a crash.
func (d *destination) heal() { d.crashed = time.Time{} }

func (d *destination) refusal() decision {
	return decision{answer: answer{status: d.behaviour.DownStatus, hangs: d.behaviour.DownHangs, cause: causeDown}, epoch: d.epoch}
}

// down reports whether nobody is there now.
func (d *destination) down(now time.Time) bool {
	return now.Before(d.crashed) || d.outage.covers(now) || d.flapping(now)
}

func (d *destination) flapping(now time.Time) bool {
	b := &d.behaviour
	if b.FlapEvery <= 0 {
		return false
	}
	return now.Sub(d.flaps)%b.FlapEvery >= b.FlapEvery-b.FlapFor
}

// settle returns what becomes of a decision when its wait is over: a
// destination that is down by then, or crashed meanwhile, does not answer.
func (d *destination) settle(v *decision, now time.Time) answer {
	if v.cause != causeDown && (d.epoch != v.epoch || d.down(now)) {
		return d.refusal().answer
	}
	return v.answer
}

// span is a stretch of time. The zero value is empty.
type span struct {
	from    time.Time
	length  time.Duration
	endless bool
}

func (s span) covers(now time.Time) bool {
	age := now.Sub(s.from)
	return age >= 0 && (s.endless || age < s.length)
}
