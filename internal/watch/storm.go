package watch

import "time"

// Change is what a judgement changed.
type Change uint8

// A state of alarm begins, ends, or stays as it was.
const (
	Same Change = iota
	Raised
	Ended
)

// calmFor is how long a condition must have been false before its alarm ends,
// so that no alarm flaps, unless Config.Calm says otherwise.
const calmFor = 5 * time.Minute

// Alarm is a condition with a memory: it is raised when the condition is true,
// and ends when that has been false for a while.
type Alarm struct {
	Since time.Time // zero: not raised
	calm  time.Time // since when the condition has been false; zero: it is true
}

// Active reports whether the alarm is raised.
func (a *Alarm) Active() bool { return !a.Since.IsZero() }

// Judge takes the condition as it is at now. The alarm ends after so much calm.
func (a *Alarm) Judge(now time.Time, is bool, calm time.Duration) Change {
	switch {
	case is && a.Active():
		a.calm = time.Time{}
	case is:
		a.Since, a.calm = now, time.Time{}
		return Raised
	case !a.Active():
	case a.calm.IsZero():
		a.calm = now
	case now.Sub(a.calm) >= calm:
		*a = Alarm{}
		return Ended
	}
	return Same
}

// Resume takes over an alarm that an earlier owner raised. What that owner knew
// is lost, so the condition counts as false from now on: if it is still true
// the alarm goes on, otherwise it ends in time.
func (a *Alarm) Resume(now, since time.Time) { *a = Alarm{Since: since, calm: now} }
