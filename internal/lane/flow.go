package lane

import (
	"math"
	"time"
)

// A limit of requests in flight says nothing about their rate where answers are
// fast, and latency nothing about a limit that is no queue. So a lane also has a
// rate: that of a recovery, and below what broke or annoyed the endpoint before.
// A lane without such a history has none.

const (
	// lateMost is how much of a second's requests may leave at once after the lane
	// was looked at late, as on a busy machine of our own; lateFragile that of an
	// endpoint that has broken.
	lateMost    = 0.1
	lateFragile = 0.02
	// inUse is what of a rate must be used before it grows: a rate that nobody has
	// tried is not known to be safe, and one that we are too busy to reach must not
	// stay for ever.
	inUse = 0.4
	// ownOutage is what a new owner takes for the length of our own outage, at
	// most: a lease.
	ownOutage = 15 * time.Second
	// hostFor is for how long a saved rate of a host is believed: a recovery of it
	// is saved more often, and the lane may have had nothing to send later on.
	hostFor = time.Minute
	// levelLeast: what the endpoint has carried for so long did not break it.
	levelLeast = 3 * time.Second
)

// flow is the rate of a lane.
type flow struct {
	tokens     bucket
	grownAt    time.Time // up to when growth is counted: the latest success
	levelSince time.Time // the rate has not grown since

	// Since when a request always waited for a token, zero: none does; and when
	// one last did for more than a moment.
	shortSince time.Time
	shortAt    time.Time

	load     loads
	recovery recovery
	ceiling  ceiling
	refused  refused
	loss     loss
	host     hostView
	hung     hung

	// What was known before the latest opening: its host may turn out to be to
	// blame.
	before struct {
		ceiling  ceiling
		recovery recovery
	}
}

// hostView is what a lane knows of its host, for those who look and for the next
// owner: the host itself is asked apart.
type hostView struct {
	rate   float64     // 0: not paced
	learnt *HostLearnt // never written to; nil: it was told nothing
}

// rate is the rate in force, 0: none.
func (f *flow) rate(now time.Time) float64 {
	least := math.Inf(1)
	for _, r := range [...]float64{f.recovery.rate, f.ceiling.rate(), f.refused.rate(now), f.loss.paced.rate(now)} {
		if r > 0 {
			least = min(least, r)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// ready is when the next request may start.
func (f *flow) ready(now time.Time) time.Time {
	rate := f.rate(now)
	if rate == 0 {
		return now
	}
	return f.tokens.ready(now, rate, max(1, f.late()*rate))
}

// late is for how many seconds tokens are kept.
func (f *flow) late() float64 {
	if f.ceiling.load > 0 {
		return lateFragile
	}
	return lateMost
}

// take pays for a request.
func (f *flow) take(now time.Time) {
	if f.rate(now) > 0 {
		f.tokens.n--
	}
}

// short notes that a request waits for a token.
func (f *flow) short(now time.Time) {
	if f.shortSince.IsZero() {
		f.shortSince = now
	}
	if now.Sub(f.shortSince) >= time.Second { // else it is a bunch of events
		f.shortAt = now
	}
}

// emptied notes that nothing waits.
func (f *flow) emptied(now time.Time) {
	f.shortSince, f.load.emptyAt = time.Time{}, now
}

// inTheWay reports whether the rate is what keeps requests back.
func (f *flow) inTheWay(now time.Time) bool { return now.Sub(f.shortAt) <= 2*time.Second }

// keeps reports whether the rate has kept requests back for a while: a bunch of
// events does not count.
func (f *flow) keeps(now time.Time) bool {
	return !f.shortSince.IsZero() && now.Sub(f.shortSince) >= inTheWayLeast
}

// begin starts a recovery of a lane that held its deliveries for so long.
func (f *flow) begin(now time.Time, held time.Duration) {
	f.ceiling.afford(f.load.usual, held, f.recovery.flaps(now))
	f.recovery.begin(now, held, &f.load, f.ceiling.load/2)
	f.tokens = bucket{n: 1, at: now}
	f.grownAt, f.levelSince, f.shortAt, f.shortSince = now, now, now, time.Time{}
}

// succeed learns from a success. calm is false while the destination fails too
// often, settled is true when its last close is some time ago.
func (f *flow) succeed(now time.Time, calm, settled bool) {
	r := &f.recovery
	r.oks++
	f.loss.answered(0)
	f.refused.succeed(now, &f.load)
	counts := f.refused.rate(now) == 0 && f.loss.paced.rate(now) == 0 || f.load.drained(now)
	f.load.succeed(now, counts, counts && (r.rate == 0 || settled))
	if r.rate == 0 && f.ceiling.load == 0 {
		return
	}
	passed := min(now.Sub(f.grownAt), time.Second)
	f.grownAt = now
	before := f.rate(now)
	waits := now.Sub(f.shortAt) <= time.Second
	if waits && f.load.usual > usualGrew*r.usual {
		f.reconsider(now)
	}
	if r.rate > 0 {
		if waits && calm && f.load.started.perSecond(now) >= inUse*r.rate {
			r.needs(&f.load)
			r.grow(now, passed, f.load.offered.latest())
		}
		if f.ceiling.load > 0 && r.rate >= f.ceiling.rate() || now.Sub(f.shortAt) > recoveryQuiet || r.rate > rateOff {
			r.end()
		}
	}
	if waits && f.keeps(now) {
		f.ceiling.test(now, passed)
	}
	if f.rate(now) > before {
		f.levelSince = now
	}
}

// reconsider asks again whether a suspicion is cheap. If it is not, what it has kept back
// goes on from half of it, so that a load that breaks the endpoint is seen to rise.
func (f *flow) reconsider(now time.Time) {
	r, kept := &f.recovery, f.ceiling.rate()
	f.ceiling.afford(f.load.usual, r.held, r.flaps(now))
	if f.ceiling.load == 0 && r.rate == 0 {
		r.rate = kept / 2
	}
}

// level reports whether the endpoint has carried the lane's rate for a while, as
// much as it was.
func (f *flow) level() bool {
	return (f.recovery.rate > 0 || f.ceiling.load > 0) && f.inTheWay(f.grownAt) && f.grownAt.Sub(f.levelSince) > levelLeast
}

// opened asks what the load has to do with it that the lane opens, and ends a
// recovery that failed. It reports whether the endpoint had carried that load for
// a while: then this is an outage of its own.
func (f *flow) opened(now time.Time, reason OpenReason, recovering bool) bool {
	r := &f.recovery
	f.before.ceiling, f.before.recovery = f.ceiling, *r
	f.loss.stop()
	switch {
	case !f.drains():
		r.left = 0
	case !recovering:
		r.left = r.held
	}
	recovering = recovering || r.rate > 0
	seen := r.oks >= seenLeast
	at, steady := now, f.steady(now)
	if !f.hung.at.IsZero() {
		at, steady, f.hung = f.hung.at, f.hung.steady, hung{}
	}
	r.fell(at.Sub(r.began), seen)
	when := circumstances{
		recovering: recovering, steady: steady, flaps: r.flaps(now),
		fellBelow: f.keeps(now) && now.Sub(r.own[0]) <= flapsWithin && r.own[0].After(f.ceiling.at),
	}
	when.sustained, when.worn = f.pressure(at, seen)
	switch explained := reason == OpenedByStreak && seen && f.ceiling.blame(now, when, &f.load); {
	case explained:
		r.reopened = max(0, r.reopened-1)
	case steady:
		r.fellByItself(now)
	case recovering:
		r.fellAgain()
	}
	r.rate = 0
	return steady
}

// steady reports whether the endpoint had carried for a while what it was sent before the
// failures.
func (f *flow) steady(now time.Time) bool {
	return f.recovery.oks >= seenLeast && (f.level() || f.ceiling.steady(now, f.recovery.began, &f.load))
}

// pressure is the mean of what a drain has carried until the endpoint fell, unless that is
// known to fall without one: sustained, or worn after more than pressedFor.
func (f *flow) pressure(now time.Time, seen bool) (sustained, worn float64) {
	r, pressed := &f.recovery, f.pressed(now)
	frail, lasted := r.frail(now), now.Sub(r.began)
	carried := float64(r.oks) / max(1, lasted.Seconds())
	switch {
	case !seen:
	case !pressed:
		r.fellAtEase(now)
	case lasted > pressedFor:
		r.endured = endured{carried, now}
	}
	switch {
	case !pressed || frail:
		return 0, 0
	case lasted > pressedFor:
		return 0, carried
	default:
		return carried, 0
	}
}

// pressed reports whether the endpoint has fallen in a drain, and at clearly more than
// what it is used to, or what it has endured.
func (f *flow) pressed(now time.Time) bool {
	clearly := recoverySpare
	if f.ceiling.load > 0 && f.ceiling.near() { // that may be near to what it is used to
		clearly = lowerLeast
	}
	least := f.load.usual
	if r := &f.recovery; now.Sub(r.began) <= pressedFor && now.Sub(r.endured.at) <= frailWithin {
		least = max(least, r.endured.load)
	}
	return (f.drains() || f.keeps(now)) && f.ceiling.suspect >= clearly*least
}

// pardon takes back what the latest opening has taught.
func (f *flow) pardon() {
	f.ceiling, f.recovery.falls = f.before.ceiling, f.before.recovery.falls
}

// resume goes on as if the latest opening had not been.
func (f *flow) resume() { f.ceiling, f.recovery = f.before.ceiling, f.before.recovery }

// forget is what a person can do who knows better.
func (f *flow) forget() {
	f.ceiling, f.refused, f.loss = ceiling{}, refused{}, loss{}
	f.recovery = recovery{}
	f.host.rate = 0
}

// drains reports whether there is a backlog left of the outage before.
func (f *flow) drains() bool { return f.load.emptyAt.Before(f.recovery.began) }

// save adds what outlives the owner to a checkpoint.
func (f *flow) save(c *Checkpoint) {
	r := &f.refused
	if r.learnt == 0 && !f.loss.trial.second { // what is tried is nothing to go on with
		r = &f.loss.paced
	}
	c.Pace, c.PaceSlowStart, c.ThrottledAt, c.RetryAfter = r.learnt, r.slowStart, r.at, r.asked
	c.Usual, c.Proven = f.load.usual, f.load.proven
	switch c.Recovery = f.recovery.rate; {
	case c.Recovery > 0 || !c.Open && f.drains():
		c.Held = f.recovery.held
	case c.Open:
		c.Held = f.recovery.left
	}
	c.Breakage = f.ceiling.save()
	c.Host, c.HostLearnt = f.host.rate, f.host.learnt
}

// restore takes over what another owner has saved. newOwner: it may have been
// away for a while.
func (f *flow) restore(now time.Time, c *Checkpoint, newOwner bool) {
	f.refused = refused{learnt: c.Pace, slowStart: c.PaceSlowStart, at: c.ThrottledAt, asked: max(c.RetryAfter, retryLeast)}
	f.ceiling = restoreCeiling(&c.Breakage)
	f.load.usual, f.load.proven = c.Usual, c.Proven
	switch {
	case c.Open:
		f.recovery.left = c.Held
	case c.Recovery > 0:
		held := c.Held
		if newOwner && now.Sub(c.ClosedAt) < patience(held) { // else most of it is drained
			held += min(max(now.Sub(c.SavedAt), 0), ownOutage)
		}
		f.begin(now, held)
		f.recovery.rate, f.recovery.left = c.Recovery, held
	case c.Held > 0: // it has found that it bears the backlog as fast as it is sent
		f.recovery.began, f.recovery.held, f.recovery.left = now, c.Held, c.Held
	case newOwner && c.hasFailed() && c.Usual >= busyLeast: // else there is no backlog to speak of
		f.begin(now, ownOutage)
		f.recovery.rate = max(f.recovery.rate, c.Proven) // our outage says nothing about the endpoint
	}
	f.host = hostView{learnt: c.HostLearnt}
	if newOwner && now.Sub(c.SavedAt) <= hostFor {
		f.host.rate = c.Host
	}
	f.tokens = bucket{at: now}
}
