package lane

import (
	"math"
	"slices"
	"time"
)

// The limit adapts in rounds: grow to a target, send a cohort of requests at
// the full limit, and judge the median of their round trips against the
// latency of the uncongested endpoint. A crash is then not the first sign of
// overload; a queue is.

const (
	// tolerance is how far the latency may rise above its base before the
	// limit is cut.
	tolerance = 1.75
	// baseLeast is the shortest base that a latency is compared with. Below it a
	// rise says as much of the network, and of a busy machine of our own, as of
	// the endpoint; and a queue so short harms nobody.
	baseLeast = 10 * time.Millisecond
	// floor is the lowest limit outside slow start: fewer requests cannot show
	// a queue of our own making.
	floor = 3
	// Growth per round: fast where the endpoint was known to be fine, careful
	// above.
	gainFar    = 4
	gainNear   = 2
	gainBeyond = 1.5
	gainSteady = 1.25
	// cohort sizes.
	cohortLeast = 8
	cohortMost  = 64
	// shortestRound is the shortest round, cohortShare what of a cohort must have
	// answered before it is judged.
	shortestRound = time.Second
	cohortShare   = 0.75
	// shortestTrip is what a coarse clock's 0 is taken for: a base of 0 is an
	// unknown one, and everything is divided by it.
	shortestTrip = time.Microsecond
	// basePrior is what the old base weighs after a close, in samples.
	basePrior = 8
	// floorRounds is how many slow rounds at the floor show that the endpoint
	// itself got slower, and floorRise by how much the base then rises at most:
	// an endpoint with one or two servers has a queue of our own even there.
	floorRounds = 3
	floorRise   = 1.25
	// baseProbeEvery is how often the base is measured afresh, at a limit cut
	// so deep that the endpoint's own queue runs empty. Where that leaves one
	// request in flight it costs too much to be done so often.
	baseProbeEvery = 60 * time.Second
	baseProbeRare  = 2
	baseProbeCut   = tolerance * tolerance
	// Two standard errors of the median of n round trips are π times their
	// spread over √n; between these times 1/√n, for the spread itself is an
	// estimate.
	noiseLeast = 1
	noiseMost  = 2
	// spreadLeast is how many round trips tell their spread, spreadWeight what
	// one more cohort weighs.
	spreadLeast  = 4
	spreadWeight = 0.2
)

// ramp is what the lane knows of its endpoint's capacity. Times are seconds.
type ramp struct {
	limit       float64
	slowStart   bool
	base        float64 // uncongested round trip, 0: unknown
	baseWeight  float64 // in samples
	srtt        float64 // smoothed round trip
	spread      float64 // mean distance of a round trip from the median, in logarithms
	healthyPeak float64 // usual in flight when the load decides, not the limit
	crowded     bool    // its host has a queue that others make: no base is learnt beside it

	halvedAt   time.Time
	atFloor    int
	doubted    bool      // the base may be too low: the running round decides
	baseAt     time.Time // last base probe
	probeUntil time.Time // a base probe runs until then
	probeSaved float64   // limit to restore after it

	round round
}

// round is the running round.
type round struct {
	number uint64
	began  time.Time
	from   float64 // limit at its beginning
	target float64
	size   int  // of the cohort
	full   bool // the target is reached: from fullAt on sends join the cohort
	fullAt time.Time
	peak   int     // most in flight
	cohort int     // requests that joined
	waited int     // of those that were answered
	kept   float64 // share of them that the endpoint does not lose whatever it is sent
	rtts   []float64
}

func (l *Lane) newRound(now time.Time) {
	r := &l.ramp
	r.round = round{
		number: r.round.number, began: now, from: r.limit, target: r.limit,
		full: true, fullAt: now, peak: l.flight.young, rtts: r.round.rtts,
	}
	r.sizeCohort()
}

// growTo lets the round grow to a target first; nothing is measured below it.
func (r *ramp) growTo(target float64) {
	r.round.target, r.round.full = target, false
	r.sizeCohort()
}

// goOn grows to what an endpoint needs that fell by itself, without measuring on the way.
func (r *ramp) goOn(target float64) {
	if target > r.limit {
		r.growTo(target)
		r.round.from = max(r.round.from, target/gainFar)
	}
}

// sizeCohort starts a new cohort. Outside slow start, and while the base is
// unknown or in doubt, one or two samples would be noise.
func (r *ramp) sizeCohort() {
	least := cohortLeast
	if r.slowStart && r.base > 0 && !r.doubted {
		least = 1
	}
	r.round.size = min(max(int(r.round.target), least), cohortMost)
	r.round.cohort, r.round.waited, r.round.rtts = 0, 0, r.round.rtts[:0]
	r.round.number++
}

// join returns the round that a request started now belongs to, 0 for none.
func (l *Lane) join(now time.Time) uint64 {
	if l.release(now) > 0 { // that many test another limit than this
		return 0
	}
	r := &l.ramp.round
	r.peak = max(r.peak, l.flight.young)
	if l.cfg.Fixed || !r.full || r.cohort >= r.size || now.Before(r.fullAt) {
		return 0
	}
	r.cohort++
	return r.number
}

// closed prepares the ramp for the slow start after a close.
func (r *ramp) closed(now time.Time) {
	if r.base > 0 {
		r.baseWeight = basePrior
	}
	r.atFloor, r.doubted = 0, false
	r.baseAt = now
}

// halve cuts the limit, at most once per round trip.
func (l *Lane) halve(now time.Time) {
	r := &l.ramp
	r.probeUntil = time.Time{} // a loss ends a base probe; the cut limit stays
	if l.cfg.Fixed || now.Sub(r.halvedAt).Seconds() <= max(0.2, r.srtt) {
		return
	}
	r.halvedAt = now
	r.limit = max(1, r.limit/2)
	r.slowStart = r.base == 0 // the rounds after it compare with the base
	l.newRound(now)
}

// succeed learns from a success of the current generation.
func (l *Lane) succeed(now time.Time, tag Tag, o Outcome) {
	l.flow.succeed(now, !l.failsOften(now), now.Sub(l.closedAt) > reopenWithin)
	r := &l.ramp
	took := max(o.RTT, shortestTrip).Seconds()
	if r.srtt == 0 {
		r.srtt = took
	}
	r.srtt += (took - r.srtt) * 0.1
	if l.cfg.Fixed {
		return
	}
	if tag.Round != 0 && tag.Round == r.round.number {
		r.round.rtts = append(r.round.rtts, took)
		if o.Waited {
			r.round.waited++
		}
	}
	if l.grow(now) && l.measured(now) {
		l.judge(now)
	}
}

// grow moves the limit towards the round's target, spread over the answers,
// and only while it is used. It reports whether the target is reached.
func (l *Lane) grow(now time.Time) bool {
	r := &l.ramp
	if r.round.full {
		return true
	}
	if float64(l.flight.young)+3 >= r.limit {
		r.limit = min(r.round.target, r.limit+max(0.25, r.round.target/r.round.from-1))
	}
	if r.limit < r.round.target {
		if now.Sub(r.round.began).Seconds() > max(3, 4*r.srtt) {
			// Not enough work to reach it: measure here.
			r.round.target, r.round.full, r.round.fullAt = r.limit, true, now
			r.sizeCohort()
		}
		return false
	}
	r.round.full, r.round.fullAt = true, now
	return true
}

// measured reports whether the cohort can be judged. A round that cannot fill
// its cohort ends after a while.
func (l *Lane) measured(now time.Time) bool {
	r := &l.ramp
	elapsed := now.Sub(r.round.began).Seconds()
	stale := elapsed > max(10, 6*r.srtt)
	n := len(r.round.rtts)
	r.round.kept = 1 - l.flow.loss.expected(now)
	if n == 0 {
		if stale {
			l.newRound(now)
		}
		return false
	}
	return elapsed >= shortestRound.Seconds() && (float64(n) >= cohortShare*r.round.kept*float64(r.round.size) || stale)
}

// verdict is what a cohort says.
type verdict struct {
	short   float64 // median of the cohort, unanswered members counted as slower
	n       int     // answers
	slack   float64 // for a small cohort
	noise   float64 // the slack outside slow start, which grows too fast for so much
	limited bool    // the limit was in use, and nothing else: the endpoint was tested
}

func (r *ramp) verdict() verdict {
	slices.Sort(r.round.rtts)
	n := len(r.round.rtts)
	members := int(math.Ceil(r.round.kept * float64(min(r.round.size, r.round.cohort))))
	middle := (members - 1) / 2
	short := r.round.rtts[min(middle, n-1)]
	r.learnSpread(short)
	return verdict{
		short:   short,
		n:       n,
		slack:   1 / math.Sqrt(float64(n)),
		noise:   min(max(math.Pi*r.spread, noiseLeast), noiseMost) / math.Sqrt(float64(n)),
		limited: float64(r.round.peak) >= 0.8*math.Floor(r.limit) && 2*r.round.waited <= n,
	}
}

// learnSpread looks at how far the round trips of a cohort are apart: the wider,
// the less its median says.
func (r *ramp) learnSpread(median float64) {
	n := len(r.round.rtts)
	if n < spreadLeast {
		return
	}
	var sum float64
	for _, took := range r.round.rtts {
		sum += math.Abs(math.Log(took / median))
	}
	if r.spread == 0 {
		r.spread = sum / float64(n)
	}
	r.spread += spreadWeight * (sum/float64(n) - r.spread)
}

// judge ends a round: it updates the base, then the limit, and starts the next.
func (l *Lane) judge(now time.Time) {
	r := &l.ramp
	v := r.verdict()
	probing := now.Before(r.probeUntil)
	r.probeUntil = time.Time{} // over, in time or not
	r.learnBase(v, probing)
	if probing { // the base is measured; grow back to where we were
		l.newRound(now)
		r.growTo(r.probeSaved)
		return
	}
	var target float64
	if r.slowStart {
		target = l.judgeSlowStart(v)
	} else {
		target = l.judgeSteady(v)
	}
	if !v.limited && l.back.len() == 0 { // idle: keep no untested limit
		r.limit = max(l.cfg.rest(), min(r.limit, 2*float64(r.round.peak)))
		r.healthyPeak = max(0.999*r.healthyPeak, float64(r.round.peak))
	}
	if l.startBaseProbe(now, v) {
		return
	}
	l.newRound(now)
	if target > r.limit {
		r.growTo(target)
	}
}

// learnBase moves the estimate of the uncongested round trip. It falls when a
// cohort is clearly faster, but rises only when measured with the endpoint's
// queue empty, and slowly: measured beside a queue it would rise with our own
// load. An endpoint that got slower is noticed with one request in flight after
// a close, and else by rounds that stay slow at the floor.
func (r *ramp) learnBase(v verdict, probing bool) {
	switch {
	case r.slowStart && r.baseWeight == 0:
		r.base = v.short
	case r.slowStart, probing && r.crowded && v.short > r.base:
	case probing && v.short > r.base:
		r.base += 0.2 * (min(v.short, 1.5*r.base) - r.base)
	case probing:
		r.base += 0.5 * (v.short - r.base)
	case v.short*(1+v.noise/2) < r.base: // else it is chance, which would only ever lower it
		r.base += 0.1 * (v.short - r.base)
	}
}

// inflation is how many times the base a latency is.
func (r *ramp) inflation(short float64) float64 {
	return short / max(r.base, baseLeast.Seconds())
}

// judgeSlowStart returns the next target; 0: stay.
func (l *Lane) judgeSlowStart(v verdict) float64 {
	r := &l.ramp
	ratio := r.inflation(v.short)
	slow := ratio > 1+(tolerance-1)/2+v.slack
	// One request does not queue behind our own: slow now means that the base is
	// too low. One answer may be chance, so a larger cohort decides.
	alone := r.limit < 2 && !r.crowded
	r.doubted = slow && alone && !r.doubted
	switch {
	case r.doubted:
		return 0
	case slow && alone:
		r.base, r.baseWeight, ratio = v.short, float64(v.n), 1
	case slow: // queueing is visible
		r.slowStart = false
		if ratio > tolerance+v.slack {
			r.limit = max(floor, r.limit/2, r.limit*tolerance/ratio)
			r.limit = min(r.limit, l.cfg.most())
		}
		return 0
	case r.baseWeight == 0 || v.short < (1+v.slack/2)*r.base: // a calm round: running mean
		r.baseWeight += float64(v.n)
		r.base += (v.short - r.base) * float64(v.n) / r.baseWeight
	}
	if !v.limited {
		return 0
	}
	gain := gainBeyond
	switch {
	case r.limit < r.healthyPeak/2:
		gain = gainFar
	case r.limit < r.healthyPeak:
		gain = gainNear
	}
	return min(l.cfg.most(), max(r.limit+1, r.limit*taper(gain, ratio)))
}

// judgeSteady returns the next target; 0: stay.
func (l *Lane) judgeSteady(v verdict) float64 {
	r := &l.ramp
	ratio := r.inflation(v.short)
	var target float64
	switch {
	case ratio > tolerance+v.noise:
		if r.limit <= floor+0.5 && !r.crowded {
			r.atFloor++
			if r.atFloor >= floorRounds {
				r.base, r.baseWeight, r.atFloor = min(v.short, floorRise*r.base), float64(v.n), 0
				r.slowStart = true
			}
		}
		r.limit *= max(0.5, (tolerance+v.noise)/ratio)
	case v.limited:
		target = min(l.cfg.most(), max(r.limit+0.5, r.limit*taper(gainSteady, ratio)))
	}
	r.limit = min(max(r.limit, floor), l.cfg.most())
	return target
}

// taper is full growth without queueing, none when the latency reaches its
// tolerance.
func taper(gain, ratio float64) float64 {
	return 1 + (gain-1)*min(max((tolerance-ratio)/(tolerance-1), 0), 1)
}

// startBaseProbe cuts the limit for a moment to measure the base. It reports
// whether it did.
func (l *Lane) startBaseProbe(now time.Time, v verdict) bool {
	r := &l.ramp
	gap := max(baseProbeEvery.Seconds(), 50*r.srtt)
	if r.limit < 2*baseProbeCut {
		gap *= baseProbeRare
	}
	if r.slowStart || !v.limited || r.limit < 2 || now.Sub(r.baseAt).Seconds() <= gap {
		return false
	}
	r.baseAt, r.probeSaved = now, r.limit
	r.limit = max(1, r.limit/baseProbeCut)
	l.newRound(now)
	r.round.fullAt = now.Add(seconds(2 * v.short)) // lets the endpoint's queue drain
	r.probeUntil = r.round.fullAt.Add(seconds(max(4, 6*r.srtt)))
	return true
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
