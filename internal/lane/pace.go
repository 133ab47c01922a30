package lane

import (
	"math"
	"time"
)

const (
	// noHeaderHold is how long a throttled lane without Retry-After waits.
	noHeaderHold = time.Second
	// maxPaceStep bounds the Retry-After that steers the growth of the pace: a
	// wish of a day must not freeze it.
	maxPaceStep = 60 * time.Second
	paceLeast   = 0.2 // requests per second
	paceFirst   = 0.5
	// paceOff: a pace this high is none.
	paceOff = 1e5
)

// pace finds the rate that an endpoint answers without throttling. It is not
// set before the first throttle.
type pace struct {
	rate      float64 // requests per second, 0: not paced
	slowStart bool
	tokens    bucket
	at        time.Time     // throttle that began the latest hold
	asked     time.Duration // its Retry-After, within a second and a minute
	okSince   float64       // successes since then
	recent    recentOKs
}

// throttle obeys a destination that asks for less: everything is held, and the
// pace is cut once per wave of throttled answers.
func (l *Lane) throttle(now time.Time, u float64, o Outcome) {
	asked := o.RetryAfter
	wait := o.Hold
	if wait <= 0 {
		asked = noHeaderHold
		wait = noHeaderHold + time.Duration(u*float64(noHeaderHold))
	}
	if now.Before(l.hold) { // the same wave: extend, do not cut again
		l.holdUntil(now, now.Add(wait))
		return
	}
	l.pace.cut(now, l.hold)
	l.pace.asked = min(max(asked, time.Second), maxPaceStep)
	l.pace.at, l.pace.okSince = now, 0
	l.holdUntil(now, now.Add(wait))
	l.pace.tokens = bucket{at: l.hold}
}

// cut lowers the pace to what got through since the last throttle.
func (p *pace) cut(now, hold time.Time) {
	sending := now.Sub(later(p.at, hold)).Seconds()
	switch {
	case p.at.IsZero():
		p.rate, p.slowStart = max(paceFirst, p.recent.perSecond(now)), true
		return
	case p.rate == 0:
		p.rate = paceOff // it had grown out of sight
	}
	through := p.okSince / sending
	if p.slowStart {
		// The pace has grown all the time: what counts is what got through at
		// last, not on average.
		through = max(through, p.recent.perSecond(now))
	}
	p.slowStart = false
	switch {
	case sending >= 20:
		p.rate = max(paceLeast, min(0.97*p.rate, through))
	case sending >= 3 && p.okSince >= 3:
		p.rate = max(paceLeast, min(0.85*p.rate, through))
	default:
		p.rate = max(paceLeast, 0.7*p.rate)
	}
}

// succeed lets the pace creep up, paid per success: five per cent in twenty
// Retry-Afters, doubling while no throttle comes back.
func (p *pace) succeed(now, hold time.Time) {
	p.okSince++
	p.recent.add(now)
	if p.rate == 0 || !now.After(later(p.at, hold)) {
		return
	}
	growth := 0.1
	if !p.slowStart {
		asked := p.asked.Seconds()
		doublings := min(math.Floor(now.Sub(p.at).Seconds()/(20*asked)), 64)
		growth = 0.0025 / asked * math.Exp2(doublings)
	}
	p.rate *= math.Exp(min(0.1, growth/max(p.rate, paceLeast)))
	if p.rate > paceOff {
		p.rate = 0
	}
}

// holdUntil keeps everything back. A later, shorter wish never shortens a hold.
func (l *Lane) holdUntil(now, until time.Time) {
	if until.After(l.hold) {
		l.hold = until
	}
	l.block(now)
}

// takeTokens takes what one request costs of the pace and of the operator's
// rate, or nothing.
func (l *Lane) takeTokens(now time.Time) bool {
	if l.tokensAt(now).After(now) {
		return false
	}
	if l.pace.rate > 0 {
		l.pace.tokens.n--
	}
	if l.cfg.Rate > 0 {
		l.rate.n--
	}
	return true
}

// tokensAt is when the next request may start as far as rates go.
func (l *Lane) tokensAt(now time.Time) time.Time {
	at := now
	if l.pace.rate > 0 {
		at = later(at, l.pace.tokens.ready(now, l.pace.rate, max(1, 0.1*l.pace.rate)))
	}
	if l.cfg.Rate > 0 {
		at = later(at, l.rate.ready(now, l.cfg.Rate, float64(max(1, l.cfg.Burst))))
	}
	return at
}

// bucket is a token bucket.
type bucket struct {
	n  float64
	at time.Time // when n was right; zero: full
}

// ready refills the bucket and returns when it holds a token.
func (b *bucket) ready(now time.Time, rate, burst float64) time.Time {
	const rounding = 1e-9
	switch {
	case b.at.IsZero():
		b.n = burst
		b.at = now
	case now.After(b.at):
		b.n = min(burst, b.n+now.Sub(b.at).Seconds()*rate)
		b.at = now
	}
	if b.n >= 1-rounding {
		return now
	}
	return later(now, b.at).Add(seconds((1-b.n)/rate) + time.Nanosecond)
}

// recentOKs counts successes per second over the last ten seconds.
type recentOKs struct {
	second int64
	counts [11]int
}

func (r *recentOKs) add(now time.Time) {
	r.roll(now)
	r.counts[r.second%int64(len(r.counts))]++
}

func (r *recentOKs) roll(now time.Time) {
	second := now.Unix()
	for n := 0; r.second < second && n < len(r.counts); n++ {
		r.second = max(r.second+1, second-int64(len(r.counts))+1)
		r.counts[r.second%int64(len(r.counts))] = 0
	}
	r.second = max(r.second, second)
}

// perSecond is the mean of the ten whole seconds before now.
func (r *recentOKs) perSecond(now time.Time) float64 {
	r.roll(now)
	sum := 0
	for i, n := range r.counts {
		if int64(i) != r.second%int64(len(r.counts)) {
			sum += n
		}
	}
	return float64(sum) / float64(len(r.counts)-1)
}
