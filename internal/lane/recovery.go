package lane

import (
	"math"
	"time"
)

// A recovery is as hasty as there is need: it begins with what the endpoint is
// used to, and grows to what drains the backlog in a minute, or in a tenth of
// the outage.
const (
	recoveryLeast   = 5.0 // a start is not below, where nothing is known
	recoveryFloor   = 1.0
	recoveryDouble  = 5 * time.Second
	recoveryCatchUp = recoveryDouble / 2 // below what comes in
	recoveryLeisure = 25 * time.Second   // doubling time beyond the need
	recoveryAim     = 60 * time.Second
	// recoveryQuiet: a recovery that was in nobody's way for so long is over.
	recoveryQuiet = 30 * time.Second
	// recoverySpare is what a rate should leave beside the live load; with less
	// the backlog would never end.
	recoverySpare = 1.25
	// usualGrew is by how much the usual load must have grown for a suspicion to be
	// asked again whether it is cheap: that of a young lane is known late.
	usualGrew = 1.25
	// rateOff: a rate this high is none.
	rateOff = 1e5
)

// recovery is the rate after a close.
type recovery struct {
	rate  float64       // requests per second, 0: there is none
	began time.Time     // the latest one
	usual float64       // load at its beginning
	want  float64       // what should do until ...
	until time.Time     // ... then
	held  time.Duration // how long the backlog was held
	left  time.Duration // how long what an outage before has left was held, 0: all is drained
	oks   int           // successes since the close

	falls
}

// begin starts a recovery of a lane whose deliveries were held for so long. half
// is that of a known ceiling, 0: there is none.
func (r *recovery) begin(now time.Time, held time.Duration, d *loads, half float64) {
	r.began, r.held, r.oks = now, held, 0
	r.usual, r.until = d.usual, now.Add(patience(held))
	r.needs(d)
	r.rate = max(d.usual, recoveryLeast, half)
	if r.flaps(now) {
		r.rate = max(r.rate, min(r.want, d.borne(now)))
	} else {
		r.rate = max(recoveryFloor, r.rate/math.Exp2(float64(r.reopened)))
	}
}

// needs takes what drains the backlog beside the usual load for what should do. Where
// none had been carried before, what comes in is the best that is known of it.
func (r *recovery) needs(d *loads) {
	usual := d.usual
	if r.usual == 0 {
		usual = max(usual, d.offered.latest())
	}
	r.want = max(2*recoveryLeast, need(usual, r.held, aim(r.held)))
	if usual == 0 {
		r.want = math.Inf(1)
	}
}

// aim is in how long a backlog should be drained that was held for so long, and
// patience how long that may take before more is tried.
func aim(held time.Duration) time.Duration      { return max(recoveryAim, held/10) }
func patience(held time.Duration) time.Duration { return aim(held) * 3 / 2 }

// need is the rate that drains what was held within a time, beside the live load.
func need(usual float64, held, within time.Duration) float64 {
	return usual * (1 + held.Seconds()/within.Seconds())
}

// grow raises the rate while it is in use. offered is the live load that comes in: the
// endpoint has to bear that anyway, so it is reached soon unless a recovery has failed.
func (r *recovery) grow(now time.Time, passed time.Duration, offered float64) {
	switch {
	case r.rate < min(r.want, offered) && r.reopened == 0:
		r.rate = min(r.want, r.rate*doubling(passed, recoveryCatchUp))
	case r.rate < r.want:
		r.rate = min(r.want, r.rate*doubling(passed, r.slowly()))
	case now.After(r.until) || r.rate < recoverySpare*offered:
		r.rate *= doubling(passed, recoveryLeisure)
	}
}

// slowly is the doubling time. An endpoint that has fallen in two recoveries in a row may
// bear less right after its start than when it is warm, and the time to get warm is not known.
func (r *recovery) slowly() time.Duration { return recoveryDouble << max(0, r.reopened-1) }

// end ends the recovery: the endpoint has.
func (r *recovery) end() { r.rate, r.reopened = 0, 0 }

func doubling(passed, per time.Duration) float64 { return math.Exp2(passed.Seconds() / per.Seconds()) }
