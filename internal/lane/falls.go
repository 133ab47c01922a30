package lane

import "time"

// An endpoint falls because of what it is sent, or by itself. One fall does not tell which;
// several do.
const (
	// reopenedMost is how many times the start of a recovery is halved at most.
	reopenedMost = 4
	// flapsWithin: an endpoint that fell twice within this time although it had
	// carried its load flaps.
	flapsWithin = 10 * time.Minute
	// frailWithin: one that fell twice within this time at what it is used to is frail.
	frailWithin = 30 * time.Minute
	// pressedFor: what has borne a drain for longer is at most worn down by it, and does
	// not fall at less for being pressed. Limits are counted over a minute at most.
	pressedFor = 90 * time.Second
	// An endpoint that falls alikeMost times in a row as soon after a close as the time
	// before, within soonAfter and alikeWithin, falls because of what it is sent.
	alikeMost   = 3
	soonAfter   = 10 * time.Second
	alikeWithin = time.Second / 2
)

// falls is what the openings of a lane tell together.
type falls struct {
	// reopened counts openings in a row that came soon and that nothing explains; each
	// halves the next start, and all but the first the growth. One that is explained takes
	// back one of them: others may come from a start that the endpoint is not warm enough for.
	reopened int
	own      [2]time.Time // the latest openings at a load that it had carried
	atEase   [2]time.Time // those at hardly more than it is used to
	endured  endured
	lasted   time.Duration // from the latest close to the opening after it
	alike    int           // how many of these were so short, and the same
}

// endured is what the latest drain has carried on average that lasted for more than
// pressedFor and then ended in a fall.
type endured struct {
	load float64
	at   time.Time
}

// flaps reports whether the endpoint goes down for reasons of its own, so that
// what it carried before is not to blame and need not be found again.
func (f *falls) flaps(now time.Time) bool { return now.Sub(f.own[1]) <= flapsWithin }

// frail reports whether the endpoint goes down without being pressed, so that falls in a
// drain say little of what it bears.
func (f *falls) frail(now time.Time) bool { return now.Sub(f.atEase[1]) <= frailWithin }

// fell counts openings that come as soon after a close as the one before. Chance is not
// so regular: the endpoint falls because of what it is sent, and not by itself.
func (f *falls) fell(lasted time.Duration, seen bool) {
	f.alike++
	if !seen || lasted > soonAfter || (lasted-f.lasted).Abs() > alikeWithin {
		f.alike = 1
	}
	if f.lasted = lasted; f.alike >= alikeMost {
		f.own, f.atEase, f.endured = [2]time.Time{}, [2]time.Time{}, endured{}
	}
}

// fellAtEase notes an opening at a load that it is used to.
func (f *falls) fellAtEase(now time.Time) { f.atEase = [...]time.Time{now, f.atEase[0]} }

// fellByItself notes an opening at a load that the endpoint had carried.
func (f *falls) fellByItself(now time.Time) {
	f.reopened, f.own = 0, [...]time.Time{now, f.own[0]}
}

// fellAgain notes an opening in a recovery that nothing explains. So many in a row
// are no chance: it does not flap.
func (f *falls) fellAgain() {
	if f.reopened = min(f.reopened+1, reopenedMost); f.reopened == reopenedMost {
		f.own = [2]time.Time{}
	}
}
