package lane

import (
	"math"
	"time"
)

const (
	// usualFades is how fast the usual load is forgotten: one that has ended must
	// not hasten the next recovery.
	usualFades = 5 * time.Minute
	// provenFades is that time of the highest load that was carried.
	provenFades = 3 * 24 * time.Hour
	// latelyFades is that time of what it certainly still bears.
	latelyFades = 10 * time.Minute
	// bearsShare is how much more it must have been.
	bearsShare = 1.1
)

// loads is what a lane knows of the load on its endpoint. All are requests per
// second.
type loads struct {
	started window // requests, of the last second
	ended   window // successes
	failed  window // failures of the destination

	offered mean    // live events, by when they were due
	carried mean    // successes
	usual   float64 // highest mean of live events that were carried, of late
	proven  float64 // highest mean of successes, of days
	lately  float64 // that of minutes

	second  int64     // up to which both are right
	emptyAt time.Time // when nothing was left to send
}

// arrive notes a live event. It counts when it fell due, not when it is sent or
// read: what comes in is no more than it is because we were away for a while.
func (d *loads) arrive(due time.Time) {
	if due.Unix() >= d.offered.second-1 { // else it is late, and its second is over
		d.offered.add(due)
	}
}

// start notes that a request starts and returns the load with it.
func (d *loads) start(now time.Time) float64 {
	d.started.add(now)
	return d.started.perSecond(now)
}

// succeed notes a success. counts is false while what the endpoint refuses decides
// what is sent: that is no usual load. fades is false in a recovery, too: what was
// usual before is not forgotten for it.
func (d *loads) succeed(now time.Time, counts, fades bool) {
	d.ended.add(now)
	d.carried.add(now)
	second := now.Unix()
	if second <= d.second {
		return
	}
	passed := float64(second - d.second)
	if d.second == 0 {
		passed = 0
	}
	if fades {
		d.usual = fade(d.usual, min(passed, meanMost), usualFades)
	}
	if counts {
		// A burst that took its time to be sent was not carried as it came.
		d.usual = max(d.usual, min(d.offered.perSecond(now), d.carried.perSecond(now)))
	}
	d.proven = max(d.carried.perSecond(now), fade(d.proven, passed, provenFades))
	d.lately = max(d.carried.perSecond(now), fade(d.lately, passed, latelyFades))
	d.second = second
}

// surelyUsual is the usual load without what chance adds to the highest of many means.
func (d *loads) surelyUsual() float64 { return d.usual - 2*math.Sqrt(d.usual/meanMost) }

// borne is what the endpoint has carried within the last minutes.
func (d *loads) borne(now time.Time) float64 {
	return fade(d.lately, float64(now.Unix()-d.second), latelyFades)
}

// bears reports whether it has carried more than a load within the last minutes.
func (d *loads) bears(now time.Time, load float64) bool { return d.borne(now) > bearsShare*load }

func fade(rate, passed float64, in time.Duration) float64 {
	return rate * math.Exp(-passed/in.Seconds())
}

// drained reports whether everything was sent within the last second.
func (d *loads) drained(now time.Time) bool { return now.Sub(d.emptyAt) <= time.Second }
