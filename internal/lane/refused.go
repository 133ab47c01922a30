package lane

import (
	"math"
	"time"
)

const (
	// noHeaderHold is how long a throttled lane without Retry-After waits.
	noHeaderHold = time.Second
	// retryLeast and retryMost bound the Retry-After that steers how fast a
	// refusal is forgotten: a wish of a day must not freeze it.
	retryLeast = time.Second
	retryMost  = time.Minute

	refusedLeast = 0.2 // requests per second
	// Throttled answers are no chance when so many are of one hold, or more of the
	// latest answers than a small share makes by chance.
	refusedWave      = 3.0
	refusedWaveShare = 0.08 // of the load
	refusedOver      = 400  // answers
	refusedMin       = 2.0  // of them, throttled
	// refusedStray is the share of throttled answers that may have nothing to do
	// with the rate, and refusedSigma how far chance may go beyond.
	refusedStray = 0.01
	refusedSigma = 5.0
	// A long Retry-After weighs more, up to refusedWeight: holds as long as that
	// cost more than a rate that is too low.
	refusedShort     = 2 * time.Second
	refusedWeight    = 5.0
	refusedWeightMin = 3.0 // of them at least
	// refusedVain is how many cuts in a row that do not help show that it is not
	// the rate, and refusedVoid for how long that is believed.
	refusedVain = 5
	refusedVoid = time.Hour
	// refusedTest is how many Retry-Afters it takes to try 5 % more.
	refusedTest = 28
	refusedCut  = 0.65 // of the first rate that was too high
	// refusedUse is what of a rate must have been used for a refusal to be due to it.
	refusedUse = 0.8
	// refusedCostly is what of the time holds may take, over refusedWaves of them that
	// come within refusedSoon Retry-Afters of each other: however few the refusals
	// are among the answers, a rate that avoids them costs less.
	refusedCostly = 0.5
	refusedWaves  = 3
	refusedSoon   = 10
	// busyLeast is the load from which on a lane is sending, rather than sending
	// something now and then.
	busyLeast = 2.0
)

// refused is the rate above which an endpoint refuses without breaking. It is a
// function of time: a refusal says less the older it is.
type refused struct {
	learnt    float64       // requests per second, 0: none
	at        time.Time     // the end of the hold that it was learnt with
	asked     time.Duration // Retry-After, within retryLeast and retryMost
	slowStart bool          // it is not found yet: grow by a tenth per second

	throttled, answers float64   // of the latest answers
	weight             float64   // of those that were throttled
	wave               float64   // throttled answers of the running hold
	waves              waves     // the latest holds
	vain               int       // cuts in a row that did not help
	firm               float64   // the rate when it last was no chance
	voidAt             time.Time // it was taken back
}

// rate is what may be sent at now, 0: anything. It is 5 % more after so many
// Retry-Afters, and grows twice as fast in every further.
func (r *refused) rate(now time.Time) float64 {
	if r.learnt == 0 {
		return 0
	}
	n := max(0, now.Sub(r.at).Seconds()) / (refusedTest * max(r.asked, retryLeast).Seconds())
	whole := min(math.Floor(n), 32)
	growth := 0.05 * (math.Exp2(whole)*(1+min(n, 33)-whole) - 1)
	rate := r.learnt * math.Exp(min(growth, 50))
	if rate > rateOff {
		return 0
	}
	return rate
}

// answered counts an answer that was throttled or not.
func (r *refused) answered(throttled float64) {
	r.throttled += throttled - r.throttled/refusedOver
	r.answers += 1 - r.answers/refusedOver
	r.weight -= r.weight / refusedOver
}

// succeed lets a rate that is not found yet grow, a tenth per second of use. It
// does not leave the load behind: what is refused then would not be due to it.
func (r *refused) succeed(now time.Time, d *loads) {
	r.answered(0)
	if r.slowStart && now.After(r.at) {
		if rate := r.rate(now); rate > 0 && rate < d.started.perSecond(now)/refusedUse {
			r.learnt *= math.Exp(min(0.1, 0.1/rate))
		}
	}
}

// firmly reports whether throttles are too many to be chance.
func (r *refused) firmly(now time.Time, load float64) bool {
	seen := r.throttled
	if seen >= refusedWeightMin {
		seen = r.weight
	}
	return r.wave >= max(refusedWave, refusedWaveShare*load) || r.often(now, seen, refusedStray, refusedSigma)
}

// waves are the latest holds of an endpoint, the older the less they count.
type waves struct {
	at        time.Time // the latest one
	n         int
	held, all float64 // seconds in holds, and with the time between them
}

// note adds one that begins now; the one before ended at until.
func (w *waves) note(now, until time.Time, asked time.Duration) {
	since := now.Sub(w.at)
	if since > refusedSoon*asked {
		*w = waves{}
	} else {
		w.held = w.held*2/3 + until.Sub(w.at).Seconds()
		w.all = w.all*2/3 + since.Seconds()
	}
	w.at = now
	w.n++
}

// costly reports whether the holds take most of the time. Short ones are many, and
// judged by their share of the answers.
func (r *refused) costly(now time.Time, asked time.Duration) bool {
	return asked > refusedShort && r.waves.n > refusedWaves && r.waves.held > refusedCostly*r.waves.all && now.Sub(r.voidAt) > refusedVoid
}

// often reports whether so many refusals are more than a share of the latest
// answers makes by chance.
func (r *refused) often(now time.Time, seen, share, sigma float64) bool {
	stray := share * r.answers
	return now.Sub(r.voidAt) > refusedVoid && seen >= max(refusedMin, stray+sigma*math.Sqrt(stray))
}

// refuse learns from a refusal under a load whose hold ends at until: the rate
// falls if it has to do with it. firm: it is no chance.
func (r *refused) refuse(now time.Time, load float64, firm bool, asked time.Duration, until time.Time, d *loads) {
	rate := r.rate(now)
	switch {
	case load < busyLeast: // a quiet lane learns nothing
		return
	case rate == 0 || load < refusedUse*rate: // it was not this rate
		if !firm && !r.costly(now, asked) {
			return
		}
		r.learnt = max(recoveryFloor, 0.7*d.ended.perSecond(now), 0.9*d.carried.perSecond(now))
		r.slowStart, r.vain = true, 0
	default:
		r.cut(now, rate, firm, d)
		if r.learnt == 0 {
			return
		}
	}
	r.learnt = max(refusedLeast, r.learnt)
	r.at, r.asked = until, min(max(asked, retryLeast), retryMost)
}

// cut lowers a rate that was too high.
func (r *refused) cut(now time.Time, rate float64, firm bool, d *loads) {
	// A limit that lets a second's worth through at once would have let this
	// pass for so long.
	passed := max(0, now.Sub(r.at).Seconds())
	fits := min(rate*passed/(passed+1), 0.92*rate)
	if r.slowStart {
		fits = refusedCut * rate
	}
	r.vain++
	if firm || passed >= 10*r.asked.Seconds() {
		r.vain = 0
	}
	r.learnt = max(fits, rate/2, 0.9*d.carried.perSecond(now))
	switch {
	case firm || r.slowStart:
		r.firm = r.learnt
	default: // as long as it may be chance
		r.learnt = max(r.learnt, d.usual, 0.8*r.firm)
	}
	r.slowStart = false
	if r.vain >= refusedVain { // less and less, and it does not help: it is not the rate
		r.learnt, r.vain, r.voidAt = 0, 0, now
	}
}

// throttle obeys a destination that asks for less: everything is held, and what
// it refuses is learnt once per wave of throttled answers.
func (l *Lane) throttle(now time.Time, u, load float64, o Outcome) {
	asked, wait := o.RetryAfter, o.Hold
	if wait <= 0 {
		asked = noHeaderHold
		wait = noHeaderHold + time.Duration(u*float64(noHeaderHold))
	}
	r := &l.flow.refused
	sameWave := now.Before(l.hold)
	if !sameWave {
		r.wave = 0
		r.waves.note(now, l.hold, asked)
	}
	r.wave++
	r.answered(1)
	r.weight += min(max(asked.Seconds()/refusedShort.Seconds(), 1), refusedWeight)
	before := r.learnt
	l.holdUntil(now, now.Add(wait))
	if !sameWave || before == 0 {
		r.refuse(now, load, r.firmly(now, load), asked, l.hold, &l.flow.load)
	}
	l.flow.tokens = bucket{at: l.hold}
}

// holdUntil keeps everything back. A later, shorter wish never shortens a hold.
func (l *Lane) holdUntil(now, until time.Time) {
	if until.After(l.hold) {
		l.hold = until
	}
	l.block(now)
}
