package policy

import (
	"maps"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Outcome is one attempt as the sender saw it.
type Outcome struct {
	Kind       hook.AttemptKind
	LaneClosed bool        // the lane was closed when the attempt started
	Status     int         // 0: no answer
	Reason     hook.Reason // why there was no answer; with one only LocalError counts: the egress proxy's
	RetryAfter []string    // response headers as they came
	Date       string
	At         time.Time // when the answer came
	U          float64   // uniform in [0,1), drawn for this decision
}

// Verdict is what an outcome means for the delivery, and what the lane should
// know of it.
type Verdict struct {
	Class  hook.Class
	Reason hook.Reason

	State hook.DeliveryState
	End   hook.EndReason // set when State is dead
	DueAt time.Time      // set when State is pending
	// Unchanged marks a probe or manual send that failed: state, schedule and
	// reason of the delivery stay as they were; only Progress is stored.
	Unchanged bool
	Charged   bool
	Progress  hook.Progress

	// How the wait came about. RetryN is 0 when the backoff was not asked. They
	// are also filled in when the wait would have ended beyond the run's last
	// moment, to explain that end.
	RetryN  int
	Ceiling time.Duration
	Delay   time.Duration
	Source  hook.DelaySource
	U       float64

	Hold             time.Duration // above 0: nothing may leave the lane before At+Hold
	RetryAfter       time.Duration // the usable wish, capped; 0: none
	RetryAfterCapped bool
	DisableEndpoint  bool // the destination says that it is gone for good
	// LastChance: one more failure of this kind and the delivery is given up.
	LastChance bool
}

// Judge decides what an outcome means. prog is the progress of the delivery's
// run before the attempt, due the delivery's due time. It changes neither.
func (p *Policy) Judge(prog hook.Progress, due time.Time, o Outcome) Verdict {
	v := Verdict{State: hook.Pending, DueAt: due, Progress: prog, U: o.U}
	p.read(&v, &o)
	offSchedule := o.Kind == hook.Probe || o.Kind == hook.Manual
	v.Charged = o.LaneClosed && !offSchedule && v.Class != hook.Throttle && v.Class != hook.Local
	if v.Charged {
		v.Progress.Charged++
	}
	if v.Class != hook.Success && v.Class != hook.Local {
		v.Progress.FailedAttempts++
	}
	switch {
	case v.Class == hook.Success:
		v.end(hook.Delivered, 0)
		v.U = 0 // no wait was drawn
	case offSchedule:
		v.Unchanged = true
	case v.Class == hook.Local:
		p.again(&v, o.At)
	case v.Class == hook.Permanent:
		p.refuse(&v)
	default:
		p.retry(&v, o.At)
	}
	return v
}

// read fills in class, reason and what the destination asked for.
func (p *Policy) read(v *Verdict, o *Outcome) {
	status := o.Status
	if o.Reason == hook.LocalError {
		status = 0
	}
	asked := p.wishOf(o)
	v.Class, v.Reason = p.ClassOf(status, o.Reason, asked.wait > 0)
	v.DisableEndpoint = v.Class == hook.Permanent && v.Reason == hook.Gone && p.Classify.OnGone == GoneDisable
	if asked.wait > 0 && retried(v.Class) {
		v.RetryAfter, v.RetryAfterCapped = asked.wait, asked.capped
		v.Hold = holdFor(asked.wait, o.U)
	}
}

// retried reports whether a class lets a delivery try again for the
// destination's sake. Only then its wishes count.
func retried(c hook.Class) bool {
	return c == hook.Down || c == hook.Throttle || c == hook.Retryable || c == hook.Limited
}

// end settles the delivery for good.
func (v *Verdict) end(state hook.DeliveryState, reason hook.EndReason) {
	v.State, v.End, v.DueAt = state, reason, time.Time{}
}

// again repeats an attempt that failed on our side. It costs the delivery
// nothing. An interrupted one does not even expire: a restart of ours must
// never be what kills a delivery.
func (p *Policy) again(v *Verdict, at time.Time) {
	v.Delay = p.Retry.MinDelay
	if v.Reason == hook.Interrupted {
		v.DueAt = at.Add(v.Delay)
		return
	}
	p.schedule(v, at)
}

// refuse ends a delivery that the destination will never take.
func (p *Policy) refuse(v *Verdict) {
	v.Progress.BackoffSteps++
	if v.Reason == hook.Gone {
		v.end(hook.Dead, hook.DeadGone)
		return
	}
	v.end(hook.Dead, hook.DeadPermanent)
}

// retry ends a delivery whose budget is spent, else schedules its next attempt.
func (p *Policy) retry(v *Verdict, at time.Time) {
	p.count(v)
	if end := p.spent(v); end != 0 {
		v.end(hook.Dead, end)
		return
	}
	p.wait(v)
	p.schedule(v, at)
}

// count adds the attempt to the progress of the run.
func (p *Policy) count(v *Verdict) {
	prog := &v.Progress
	prog.BackoffSteps++
	if v.Class == hook.Throttle {
		prog.Throttles++
	} else {
		prog.Throttles = 0
	}
	if v.Class == hook.Limited && v.Charged {
		tally := maps.Clone(prog.Limited) // the caller's tally is not ours to change
		if tally == nil {
			tally = hook.Tally{}
		}
		tally[v.Reason]++
		prog.Limited = tally
		v.LastChance = tally[v.Reason] == p.Classify.Limits[v.Reason]-1
	}
}

// spent says which budget the attempt used up, if any. Only a charged attempt
// can: when max_attempts is lowered, a throttle does not kill what waits.
func (p *Policy) spent(v *Verdict) hook.EndReason {
	switch {
	case !v.Charged:
		return 0
	case v.Class == hook.Limited && v.Progress.Limited[v.Reason] >= p.Classify.Limits[v.Reason]:
		return hook.DeadLimited
	case v.Progress.Charged >= p.Retry.MaxAttempts:
		return hook.DeadExhausted
	default:
		return 0
	}
}

// wait finds the wait before the next attempt. Every failure that advances n
// draws, also when the destination's wish then decides: otherwise decorrelated
// jitter would not grow over a row of throttles.
func (p *Policy) wait(v *Verdict) {
	v.RetryN = v.Progress.BackoffSteps
	backoff, ceiling := p.Delay(v.RetryN, v.Progress.PrevDelay, v.U)
	v.Ceiling = ceiling
	if p.Retry.Jitter.Kind == JitterDecorrelated {
		v.Progress.PrevDelay = backoff
	}
	switch {
	case v.RetryAfter > 0:
		v.Source = hook.DelayRetryAfter
	case v.Class == hook.Throttle:
		v.Source = hook.DelayThrottle
	default:
		v.Source = hook.DelayBackoff
	}
	v.Delay = p.Wait(v.Source, ceiling, v.RetryAfter, v.U)
	// A destination that always says "in a second" must not cause endless
	// fast attempts that are never charged.
	if v.Class == hook.Throttle && v.Progress.Throttles >= p.RetryAfter.Patience && backoff > v.Delay {
		v.Source, v.Delay = hook.DelayBackoff, backoff
	}
}

// schedule sets the due time, or ends the delivery at once when that would lie
// beyond the last moment of the run.
func (p *Policy) schedule(v *Verdict, at time.Time) {
	v.DueAt = at.Add(v.Delay)
	if v.DueAt.After(v.Progress.RunDueAt.Add(p.Retry.MaxElapsed)) {
		v.end(hook.Dead, hook.DeadExpired)
	}
}
