package dispatch

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// EndpointDisabler turns endpoints off. The dispatcher only finds out that one must be
// turned off, and holds its lane until that is done.
type EndpointDisabler interface {
	// Disable turns an endpoint off and returns its new Rev. It fails with
	// hook.ErrVersionMismatch when the endpoint was changed since it had d.Rev:
	// then a person has decided about it. It is called again, with the same
	// Disabling, after any other error.
	Disable(ctx context.Context, d Disabling) (rev int64, err error)
	// Failing warns that an endpoint will be turned off if it goes on like this.
	// The event loops call it, so it must return at once.
	Failing(f Failing)
}

// Disabling asks for an endpoint to be turned off.
type Disabling struct {
	Tenant, Endpoint hook.ID
	Rev              int64 // of the endpoint as it was when the attempt started
	Reason           DisableReason
}

// DisableReason says what turned an endpoint off. It is stored as the
// endpoint's StateReason.
type DisableReason string

// The reasons to turn an endpoint off.
const (
	DisabledGone    DisableReason = "gone"    // it answered 410
	DisabledFailing DisableReason = "failing" // nothing but failures for too long
)

// Failing tells of an endpoint that has done nothing but fail.
type Failing struct {
	Tenant, Endpoint hook.ID
	Since            time.Time
	Percent          int // of the time after which it is turned off
}

// disableReason returns why a result turns its endpoint off, empty when it does
// not. An attempt that started before the endpoint was last changed proves
// nothing: whoever resumed it meanwhile wins.
func (l *loop) disableReason(f *flight, c lane.Change, v policy.Verdict) DisableReason {
	r := f.r
	if l.d.cfg.Disabler == nil || r.dropped || r.disabledFrom != 0 || r.dest.state == hook.Disabled || f.dest.rev != r.dest.rev {
		return ""
	}
	switch {
	case v.SaysGone && r.confirms(f, v):
		return DisabledGone
	case c.Disable:
		return DisabledFailing
	default:
		return ""
	}
}

// confirms reports whether an endpoint that says that it is gone has said so before, to a
// request that was answered when this one was sent, and has taken nothing since. A single
// 410 may come from a proxy that is just being replaced.
func (r *runner) confirms(f *flight, v policy.Verdict) bool {
	return !r.alive && (v.Sure || !r.goneAt.IsZero() && f.started.After(r.goneAt))
}

// hear notes what that takes.
func (r *runner) hear(now time.Time, v policy.Verdict) {
	switch {
	case v.Class == hook.Success:
		r.alive, r.goneAt = true, time.Time{}
	case v.SaysGone && (r.alive || r.goneAt.IsZero()):
		r.alive, r.goneAt = false, now
	}
}

// callRunning is what disabledFrom is until the endpoint's row is written: no
// row that is read before counts.
const callRunning = math.MaxInt64

// disable holds the lane at once and has its endpoint turned off. A crash in
// between costs little: the next result like this one does it again.
func (l *loop) disable(now time.Time, r *runner, reason DisableReason) {
	r.lane.Pause(now)
	l.evictToDisk(r)
	r.disabledFrom = callRunning
	l.askDisabler(r, Disabling{Tenant: r.tenant, Endpoint: r.endpoint, Rev: r.dest.rev, Reason: reason})
}

func (l *loop) askDisabler(r *runner, ask Disabling) {
	l.d.work.Go(func() {
		ctx, cancel := context.WithTimeout(l.d.attempts, readTimeout)
		defer cancel()
		rev, err := l.d.cfg.Disabler.Disable(ctx, ask)
		l.post(func() { l.disablerAnswered(r, ask, rev, err) })
	})
}

// disablerAnswered reads the endpoint as it is now; from then on its row decides.
func (l *loop) disablerAnswered(r *runner, ask Disabling, rev int64, err error) {
	if r.dropped {
		return // the next owner of the lane finds out by itself
	}
	switch {
	case err == nil:
		r.disabledFrom = rev
	case errors.Is(err, hook.ErrVersionMismatch) || errors.Is(err, hook.ErrNotFound):
		r.disabledFrom = ask.Rev + 1
	default:
		l.d.cfg.Log.Warn("endpoint could not be disabled; trying again",
			"endpoint", hook.EndpointPrefix.Format(r.endpoint), "reason", string(ask.Reason), "error", err)
		l.postAfter(readAgain, func() {
			if !r.dropped {
				l.askDisabler(r, ask)
			}
		})
		return
	}
	l.load(r)
}

// isHeld reports whether the endpoint as it was read holds its lane. While it
// is being turned off, an older row does not set the lane free.
func (r *runner) isHeld(t *destination) bool {
	if t.rev < r.disabledFrom {
		return true
	}
	r.disabledFrom = 0
	return t.state != hook.Active
}

// warnOfFailing passes on that an endpoint is on its way to be turned off.
func (l *loop) warnOfFailing(r *runner, c lane.Change) {
	if c.FailingWarn > 0 && l.d.cfg.Disabler != nil {
		l.d.cfg.Disabler.Failing(Failing{
			Tenant: r.tenant, Endpoint: r.endpoint, Since: r.lane.FailingSince(), Percent: c.FailingWarn,
		})
	}
}
