package dispatch

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// discards reports whether the lane dead-letters what is due instead of holding
// it: it is open, and its policy wants that. A lane that is paused or disabled
// holds.
func (r *runner) discards() bool {
	return r.dest != nil && r.dest.policy.Breaker.OnOpen == policy.OpenDeadLetter &&
		r.lane.State() != lane.Closed && !r.lane.Paused()
}

// discard ends what waits in a lane that discards, but for what a person asked
// for and, while a probe is due, the delivery that will be it. What is on disk
// comes here window by window: an ended delivery leaves the window when its end
// is stored, so a slow store slows this down and nothing else.
func (l *loop) discard(now time.Time, r *runner) {
	if !r.discards() || r.lane.Queued() == 0 {
		return
	}
	refs := r.lane.Drop()
	spared := -1
	if r.lane.ProbeDue(now) {
		spared = probeAmong(refs)
	}
	for i, ref := range refs {
		if ref.Manual || i == spared {
			r.lane.Arrive(ref)
			continue
		}
		l.end(now, r, r.win.Discard(ref.ID).Delivery, hook.DeadBreakerOpen)
	}
}

// probeAmong returns the index of the newest delivery that never failed, else
// of the newest; -1 when a person asked for one: that one is the probe.
func probeAmong(refs []lane.Ref) int {
	if slices.ContainsFunc(refs, func(r lane.Ref) bool { return r.Manual }) {
		return -1
	}
	best := 0
	for i, r := range refs {
		if (r.FailedAttempts == 0) == (refs[best].FailedAttempts == 0) || r.FailedAttempts == 0 {
			best = i
		}
	}
	return best
}
