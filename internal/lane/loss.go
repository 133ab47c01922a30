package lane

import (
	"math"
	"time"
)

// Failures between successes are refusals without words, or losses: an endpoint with one
// dead server of ten behind its gateway fails one request in ten whatever it is sent, and
// to send it less helps nobody. Which of the two it is shows when it gets half as much.

const (
	// Failures are no chance when they are more of the latest answers than a small
	// share makes by chance. lossStreak of them may be the first of an outage.
	lossOver   = 400 // answers
	lossChance = 0.025
	lossSigma  = 3.0
	lossStreak = halveAt - 1.0
	// lossFor is for how long a loss is believed, lossLeast if it is not seen any more:
	// timeouts come late.
	lossFor   = time.Hour
	lossLeast = time.Minute
	// lossRow is the share of losses from which on more failures in a row than the
	// policy's open the lane: as many as are as rare as its own are here.
	lossRow  = 0.1
	lossMost = 0.9
	// A rate that was found by failures is cut by so much when there are more of them
	// again. If they are within lossSoon answers, it has not helped.
	lossSoon = lossOver / 2
	lossCut  = 0.92
	// lossQuiet: nothing has waited within this time.
	lossQuiet = 10 * time.Second
)

// A trial compares the failures at what is sent with those at half of what gets through.
const (
	// Each half is about so many requests. The first ends sooner with so many failures,
	// but not within trialLeast; the second is shorter where few are sent.
	trialMost     = 100
	trialFew      = 30
	trialFor      = 3 * time.Second
	trialLeast    = time.Second
	trialFailures = 10
	// trialSeen is how many of them there must be in it to be compared with anything.
	trialSeen = 6
	// trialHelps is what is left of the failures, at most, where half the load helps.
	trialHelps = 0.5
	// trialLost is when a half whose answers do not come is given up.
	trialLost = 5 * time.Minute
)

// loss is what is known of the failures between successes of an endpoint.
type loss struct {
	share float64   // of requests that fail whatever is sent; 0: none is known
	at    time.Time // when that was found

	failed, answers float64 // of the latest answers
	was             float64 // their share before they were found to be due to the rate; 0: they were not
	paced           refused // that rate, or that of a trial
	trial           trial
}

// trial is a comparison that is going on, in requests of its running half.
type trial struct {
	since time.Time // they start after it; zero: there is no trial
	till  time.Time // the latest one
	size  int       // so many, at most

	started, ended, failed int

	second  bool
	share   float64 // of failures in the first half
	through float64 // successes per second in it
	before  refused // what was paced then
}

func (t *trial) running() bool { return !t.since.IsZero() }

// start notes a request. It reports whether that is the last one of the second half.
func (t *trial) start(now time.Time) bool {
	if t.started == t.size || !now.After(t.since) {
		return false
	}
	t.started++
	t.till = now
	return t.second && t.started == t.size
}

// end notes the end of a request. It reports whether that of the running half is known.
func (t *trial) end(now, began time.Time, failed bool) bool {
	if !t.running() || !began.After(t.since) || began.After(t.till) || t.ended == t.started {
		return false
	}
	t.ended++
	if failed {
		t.failed++
	}
	if !t.second && t.failed >= trialFailures && now.Sub(t.since) >= trialLeast {
		t.size = t.started
	}
	return t.ended == t.size || t.second && !t.helps()
}

// helps reports whether there are clearly fewer failures in the second half.
func (t *trial) helps() bool {
	return float64(t.failed) < trialHelps*t.share*float64(t.size)
}

// half is the second half after a first one that is known.
func (t *trial) half(now time.Time) trial {
	through := float64(t.started-t.failed) / max(trialLeast, t.till.Sub(t.since)).Seconds()
	return trial{
		since: now, size: min(max(int(through*trialFor.Seconds()), trialFew), trialMost),
		second: true, share: float64(t.failed) / float64(t.started), through: through,
	}
}

// answered counts an answer.
func (s *loss) answered(failed float64) {
	s.failed += failed - s.failed/lossOver
	s.answers += 1 - s.answers/lossOver
}

// expected is the share of requests that fail whatever is sent. What has not been seen
// of late, or was found long ago, is over. What the first half of a trial has seen is not
// news in the second.
func (s *loss) expected(now time.Time) float64 {
	if s.share > 0 {
		unseen := s.answers > lossSoon && s.failed < s.answers*s.share/2
		if age := now.Sub(s.at); age > lossFor || unseen && age > lossLeast {
			s.share = 0
		}
	}
	if s.trial.second {
		return max(s.share, s.trial.share)
	}
	return s.share
}

// often reports whether the latest failures are more than chance makes.
func (s *loss) often(now time.Time) bool {
	stray := max(lossChance, s.expected(now)) * s.answers
	return s.failed > lossStreak && s.failed >= stray+lossSigma*math.Sqrt(stray)
}

// most is how many of n results are losses, chance included.
func (s *loss) most(now time.Time, n int) float64 {
	p := s.expected(now)
	return float64(n)*p + lossSigma*math.Sqrt(float64(n)*p*(1-p))
}

// row is how many failures in a row are as rare here as n are elsewhere. flying are the
// requests in flight with them: a loss may take less time than a success.
func (s *loss) row(now time.Time, n, flying int) int {
	p := s.expected(now)
	if p == 0 {
		return n
	}
	if p > lossRow {
		n = int(math.Ceil(float64(n) * math.Log(lossRow) / math.Log(min(p, lossMost))))
	}
	return max(n, int(s.most(now, flying))+1)
}

// start notes that a request starts and returns the load with it.
func (f *flow) start(now time.Time) float64 {
	if s := &f.loss; s.trial.start(now) {
		s.paced = s.trial.before // its answers may take long
	}
	return f.load.start(now)
}

// try notes the end of a request, which may end half a trial.
func (f *flow) try(now, began time.Time, failed bool) {
	s := &f.loss
	t := &s.trial
	if !t.end(now, began, failed) {
		if t.running() && now.Sub(later(t.since, t.till)) > trialLost {
			s.stop()
		}
		return
	}
	switch {
	case !t.second && t.failed >= trialSeen:
		*t = t.half(now)
		t.before = s.paced
		s.pace(now, t.through/2)
		return
	case t.second && t.helps():
		s.was = t.share
		s.pace(now, ceilingShare*t.through)
	case t.second:
		s.share, s.at = (t.share+float64(t.failed)/float64(t.started))/2, now
		s.was, s.paced = 0, refused{}
	}
	s.failed, s.answers, s.trial = 0, 0, trial{}
}

// quiet reports whether an endpoint is sent something now and then. Where something always
// waits it is sent as much as it may get, however little.
func (f *flow) quiet(now time.Time, load float64) bool {
	return now.Sub(f.load.emptyAt) < lossQuiet && min(load, f.load.carried.perSecond(now)) < busyLeast
}

// pace takes a rate for what the endpoint bears. Time makes it grow as any that is refused.
func (s *loss) pace(now time.Time, rate float64) {
	s.paced = refused{learnt: max(refusedLeast, rate), at: now, asked: retryLeast}
}

// stop gives up a trial, and the rate that it had set.
func (s *loss) stop() {
	if s.trial.second {
		s.paced = s.trial.before
	}
	s.failed, s.answers, s.trial = 0, 0, trial{}
}

// ease answers a failure between successes, of which streak came in a row: the rate is cut,
// and not the limit, if that is what they depend on. It reports whether they are answered.
func (f *flow) ease(now time.Time, load float64, streak int) bool {
	s := &f.loss
	if streak >= s.row(now, halveAt, 0) && !s.trial.running() { // there is nothing between
		return false
	}
	s.answered(1)
	if f.host.rate > 0 { // what goes beyond is the host's
		return s.expected(now) > 0 && !s.often(now)
	}
	rate := s.paced.rate(now)
	paced, soon := s.was > 0 && rate > 0, s.answers < lossSoon
	helps := paced && s.failed < trialHelps*s.was*s.answers
	switch {
	case s.trial.running() || !s.often(now) && (!paced || soon || helps):
	case f.quiet(now, load):
		return false
	case helps && !soon:
		s.pace(now, lossCut*rate)
		s.failed, s.answers = 0, 0
	default:
		s.trial = trial{since: now, size: trialMost}
	}
	return true
}
