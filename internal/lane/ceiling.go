package lane

import (
	"math"
	"time"
)

// What broke the endpoint once is a suspicion, twice at the same load is
// knowledge, twice at different loads is neither.
const (
	// ceilingShare is what is used of a load that broke the endpoint.
	ceilingShare = 0.97
	alike        = 0.1 // two loads this close are the same
	// alikeFlapping is that of an endpoint that flaps: it falls at any load, and at two
	// that are a tenth apart by chance.
	alikeFlapping = 0.03
	// steadyBelow is how far below what one whole second has carried a load is surely
	// no rise: the second before a crash begins at any moment.
	steadyBelow = 3
	// affordable is how long a drain may take at most for a suspicion's sake.
	affordable = 4 * time.Minute
	// inTheWayLong is for how long a ceiling must have been in the way before it
	// is tested, inTheWayLeast what counts as being in the way: a bunch of events
	// does not.
	inTheWayLong  = 4 * time.Minute
	inTheWayLeast = 5 * time.Second
	testDouble    = time.Minute
	testMost      = 8 // times as much as broke it once, and it is no ceiling
	// sureFor is for how long knowledge holds after it was last in the way, usedFor
	// for how long at most if it always is.
	sureFor  = 48 * time.Hour
	usedFor  = 2 * sureFor
	sureMost = 7 * 24 * time.Hour
	smallFor = 10 * time.Minute // of a ceiling that does not carry the usual load
	markFor  = 7 * 24 * time.Hour
	// peaks is how many times the root of the usual load a load outside a recovery
	// must be above it: less is what live traffic does by itself.
	peaks     = 2
	seenLeast = 10 // successes since a close; with fewer nothing was seen
	// An endpoint that breaks vainMost times within vainWithin although it was kept
	// below its ceiling breaks for reasons of its own, and the ceiling may be none.
	// If it is learnt again it takes vainMore times as many: the endpoint may have both.
	// Where a backlog waits behind a ceiling that leaves it next to nothing, and the
	// endpoint fell by itself not long before, one of vainMore times is enough: at first,
	// and later on while no backlog has ended since it was learnt.
	vainMost   = 3
	vainMore   = 3
	vainWithin = time.Hour
	// lowerLeast is how much of the usual load a ceiling leaves at least that is lowered:
	// what falls at less falls by itself.
	lowerLeast = 1.15
	lowerFirst = 0.75 // of the load at the fall, at least what is left the first time
)

// lowerBy is what is kept of the mean of a drain that ended in a fall although nothing
// rose: the limit may be one of many seconds, which the load of one says nothing of, and
// from fall to fall it is taken for longer.
var lowerBy = [...]float64{0.9, 0.75, 0.6, 0.5, 0.4}

// ceiling is the load that broke the endpoint, as far as is known.
type ceiling struct {
	load   float64       // it is kept below this; 0: unknown
	learnt float64       // what broke it; below load while that is tested
	at     time.Time     // when
	wait   time.Duration // age at which it may be tested; 0: a suspicion
	inWay  time.Duration // how long it was in the way since then

	mark        float64 // load at the latest opening that had to do with it
	markAt      time.Time
	markPressed bool    // that was in a drain
	suspect     float64 // load before the running streak of failures

	vain      int // openings below it
	vainAt    time.Time
	vainLimit int // how many make it none, if it has been that before
	lowered   int // how often in a row
}

// save is what outlives the owner.
func (c *ceiling) save() Breakage {
	return Breakage{
		Ceiling: c.load, CeilingLearnt: c.learnt, CeilingAt: c.at, CeilingWait: c.wait,
		Mark: c.mark, MarkAt: c.markAt,
	}
}

func restoreCeiling(b *Breakage) ceiling {
	return ceiling{
		load: b.Ceiling, learnt: b.CeilingLearnt, at: b.CeilingAt, wait: b.CeilingWait,
		mark: b.Mark, markAt: b.MarkAt,
	}
}

func (c *ceiling) sure() bool { return c.load > 0 && c.wait > 0 }

// near reports whether the load before the failures was about what broke it before, or more.
func (c *ceiling) near() bool { return c.suspect >= (1-alike)*c.learnt }

// rate is what may be sent, 0: anything.
func (c *ceiling) rate() float64 { return ceilingShare * c.load }

// afford gives up a suspicion that would make the drain too long, or that has another
// explanation: the endpoint flaps. What broke it is known to a request or so, which is
// much of a small load and nothing of a large one.
func (c *ceiling) afford(usual float64, held time.Duration, flaps bool) {
	least := need(usual, held, affordable) + 1
	if c.load > 0 && !c.sure() && (flaps || c.load < least) {
		c.load = 0
	}
}

// test raises a ceiling that has been in the way for long.
func (c *ceiling) test(now time.Time, passed time.Duration) {
	if c.load == 0 {
		return
	}
	if age := now.Sub(c.at); age < c.wait {
		if c.wait >= sureFor {
			c.wait = max(c.wait, min(age+sureFor, usedFor))
		}
		return
	}
	if c.inWay += passed; c.inWay < inTheWayLong {
		return
	}
	c.load *= doubling(passed, testDouble)
	if c.load > testMost*c.learnt || c.load > 2*c.learnt && !c.sure() {
		c.load, c.mark = 0, 0 // it was nothing
	}
}

// failed notes a failure of the destination under a load; first: of a streak.
func (c *ceiling) failed(now time.Time, under float64, first bool, d *loads) {
	// A crash breaks requests that were on their way: what broke it started
	// after them, and before this news of it.
	if first {
		c.suspect = 0
		under = max(under, min(d.started.perSecond(now), 1.15*under))
	}
	c.suspect = max(c.suspect, under-1-d.failed.perSecond(now))
	d.failed.add(now)
}

// same reports whether a load is that of the mark.
func (c *ceiling) same(load float64, flaps bool) bool {
	apart := alike
	if flaps {
		apart = alikeFlapping
	}
	return c.mark > 0 && math.Abs(load-c.mark) <= max(1, apart*max(load, c.mark))
}

// steady reports whether the load before the failures was carried a moment ago: by the
// mean of ten seconds or, where it comes and goes, clearly by one of them since the
// lane closed.
func (c *ceiling) steady(now, closed time.Time, d *loads) bool {
	more := c.suspect - 1.05*d.carried.perSecond(now)
	return more < 1 || c.suspect < d.carried.most(now, closed)-steadyBelow
}

// circumstances are those of a lane that opens.
type circumstances struct {
	recovering bool // it had just closed
	steady     bool // the load was carried a moment ago
	flaps      bool // the endpoint has fallen by itself, and again
	fellBelow  bool // the rate has kept a backlog back, and the endpoint fell by itself not long before
	// sustained is the mean of what was carried since the lane closed, by a drain that
	// did not end. 0: there was none, or the endpoint is known to fall without one.
	sustained float64
	worn      float64 // that of a drain which lasted: what is borne is hardly less
}

// blame asks what the load has to do with it that a lane opens, and reports
// whether it explains it.
func (c *ceiling) blame(now time.Time, when circumstances, d *loads) bool {
	testing := c.load > c.learnt && c.near()
	below := c.sure() && c.near() && !testing
	if c.suspect >= 2 && when.sustained > 0 && !testing && (below || when.steady) {
		return c.lower(now, when, d)
	}
	if below && when.worn > 0 {
		c.suspect = min(c.suspect, when.worn)
		c.set(now, sureFor, d)
		return true
	}
	if below && c.inVain(now, when.fellBelow && c.rate() < recoverySpare*d.usual, d) {
		return false
	}
	rising := !when.steady && (when.recovering || c.suspect >= max(10, d.usual+peaks*math.Sqrt(d.usual)))
	if c.suspect < 2 || !rising && !testing || !testing && d.bears(now, c.suspect) {
		return false // it has just carried this, or more
	}
	if now.Sub(c.markAt) > markFor {
		c.mark, c.markPressed = 0, false
	}
	if when.sustained > 0 && c.markPressed && !c.sure() && !c.same(c.suspect, when.flaps) {
		c.suspect = min(c.suspect, max(c.mark, lowerLeast*d.usual)) // which breaks it at the lower load, too
	}
	explained := c.learn(now, testing, when.flaps, d)
	c.mark, c.markAt, c.markPressed = c.suspect, now, when.sustained > 0
	return explained
}

// inVain counts openings of a lane that was kept below its ceiling, and reports
// whether there were so many that the ceiling is none. dear: a backlog waits behind
// it, and would hardly end.
func (c *ceiling) inVain(now time.Time, dear bool, d *loads) bool {
	if now.Sub(c.vainAt) > vainWithin {
		c.vain = 0
	}
	c.vain, c.vainAt = c.vain+1, now
	limit := max(c.vainLimit, vainMost)
	if dear && (c.vainLimit == 0 || d.emptyAt.Before(c.at)) {
		limit /= vainMore
	}
	if c.vain < limit {
		return false
	}
	c.giveUp(now)
	return true
}

func (c *ceiling) giveUp(now time.Time) {
	*c = ceiling{mark: c.learnt, markAt: now, vainLimit: vainMore * max(c.vainLimit, vainMost)}
}

// lower takes what a drain has carried on average for what was too much, and reports
// whether that explains its end: the first time it is a suspicion. So many in a row are
// none: the endpoint falls by itself.
func (c *ceiling) lower(now time.Time, when circumstances, d *loads) bool {
	if now.Sub(c.at) > vainWithin {
		c.lowered = 0
	}
	if c.lowered == len(lowerBy) {
		c.giveUp(now)
		return false
	}
	load := lowerBy[c.lowered] * when.sustained
	if c.lowered == 0 && c.sure() { // much of that mean is the rise
		load = max(load, lowerFirst*c.suspect)
	}
	c.lowered++
	c.suspect = min(c.suspect, max(load, lowerLeast*d.usual))
	var wait time.Duration
	if c.mark > 0 && now.Sub(c.markAt) <= markFor {
		wait = sureFor
	}
	c.set(now, wait, d)
	c.mark, c.markAt, c.markPressed = c.suspect, now, true
	return c.sure()
}

func (c *ceiling) learn(now time.Time, testing, flaps bool, d *loads) bool {
	switch sure := c.sure(); {
	case sure && testing && c.suspect < 1.25*c.learnt:
		c.set(now, min(4*c.wait, sureMost), d)
	case sure && testing, c.same(c.suspect, flaps):
		c.set(now, sureFor, d)
	case sure: // knowledge is not overwritten by a suspicion
		return false
	case c.mark == 0 && c.suspect > 1.1*d.proven:
		c.set(now, 0, d)
		return false
	default: // twice, and not alike; or it has carried this
		c.load = 0
		return false
	}
	return true
}

func (c *ceiling) set(now time.Time, wait time.Duration, d *loads) {
	if wait > 0 && c.suspect < 1.05*d.surelyUsual() {
		wait = smallFor
	}
	c.load, c.learnt, c.at, c.wait, c.inWay = c.suspect, c.suspect, now, wait, 0
	d.proven, d.lately = min(d.proven, c.suspect), min(d.lately, c.suspect)
}
