package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// disabler turns endpoints off on the rig's store, as the server does.
type disabler struct {
	r *rig
	// before runs at the start of every call; its error is the call's.
	before func() error

	mu       sync.Mutex
	asked    []dispatch.Disabling
	disabled []time.Time
	warned   []int
}

func (k *disabler) Disable(ctx context.Context, d dispatch.Disabling) (int64, error) {
	k.mu.Lock()
	k.asked = append(k.asked, d)
	k.mu.Unlock()
	if k.before != nil {
		if err := k.before(); err != nil {
			return 0, err
		}
	}
	e, err := k.r.db.EndpointByID(ctx, d.Tenant, d.Endpoint)
	if err != nil {
		return 0, err
	}
	if e.Rev != d.Rev {
		return 0, hook.ErrVersionMismatch
	}
	e.State, e.StateReason, e.UpdatedAt = hook.Disabled, string(d.Reason), k.r.now()
	e, err = k.r.db.UpdateEndpoint(ctx, e, k.r.audit())
	if err == nil {
		k.mu.Lock()
		k.disabled = append(k.disabled, time.Now())
		k.mu.Unlock()
	}
	return e.Rev, err
}

func (k *disabler) Failing(f dispatch.Failing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.warned = append(k.warned, f.Percent)
}

// times returns when endpoints were turned off.
func (k *disabler) times() []time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.disabled)
}

// calls counts how often an endpoint was to be turned off.
func (k *disabler) calls() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked)
}

func (k *disabler) warnings() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.warned)
}

// keptBy makes the rig's dispatcher use the disabler.
func keptBy(k *disabler) func(*rig) {
	return func(r *rig) {
		k.r = r
		r.config = func(c *dispatch.Config) { c.Disabler = k }
	}
}

// state reads the endpoint's state and why it has it.
func (r *rig) state(e hook.Endpoint) [2]string {
	r.t.Helper()
	return [2]string{r.stored(e).State.String(), r.stored(e).StateReason}
}

func (r *rig) stored(e hook.Endpoint) hook.Endpoint {
	r.t.Helper()
	e, err := r.db.EndpointByID(r.ctx(), e.TenantID, e.ID)
	r.must(err)
	return e
}

// resume is what a person's call does.
func (r *rig) resume(e hook.Endpoint) hook.Endpoint {
	r.t.Helper()
	e = r.stored(e)
	e.StateReason = ""
	return r.setState(e, hook.Active)
}

// scripted answers with a status that the test changes.
type scripted struct{ status atomic.Int64 }

func (s *scripted) answer(arrival) egress.Result { return egress.Result{Status: int(s.status.Load())} }

func TestGoneTurnsTheEndpointOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest scripted
		dest.status.Store(410)
		k := &disabler{}
		r := newRig(t, dest.answer, keptBy(k))
		defer r.close()
		e := r.endpoint("")
		e = r.setState(e, hook.Paused)
		ids := r.publish(e, 700) // more than the window
		e = r.setState(e, hook.Active)
		time.Sleep(time.Minute)
		seen := r.sink.seen()
		if n := len(seen); n != 2 || seen[1].at.Sub(seen[0].at) < 5*time.Second {
			t.Fatalf("%d requests, want one that was answered 410 and, later, one that confirms it", n)
		}
		if got, want := r.state(e), [2]string{"disabled", "gone"}; got != want {
			t.Fatalf("endpoint is %v, want %v", got, want)
		}
		if got := r.count(ids); got[hook.Dead] > 1 || got[hook.Dead]+got[hook.Pending] != 700 {
			t.Errorf("states = %v, want all held but one at most", got)
		}
		dead := r.count(ids)[hook.Dead]
		more := r.publish(e, 5) // accepted and held as well
		r.restart()
		time.Sleep(time.Hour)
		if n := len(r.sink.seen()); n != 2 {
			t.Fatalf("%d requests to a disabled endpoint", n-2)
		}

		dest.status.Store(200)
		r.resume(e)
		time.Sleep(time.Minute)
		if got := r.count(append(ids, more...))[hook.Delivered]; got != 705-dead {
			t.Errorf("%d of %d delivered after resume", got, 705-dead)
		}
		if a := r.sink.seen()[2]; a.inFlight != 1 {
			t.Errorf("the backlog starts with %d requests at once, want slow start", a.inFlight)
		}
		if n := k.calls(); n != 1 {
			t.Errorf("turned off %d times, want once", n)
		}
	})
}

// TestOne410IsAskedOnceMore: a proxy that is being replaced, or a single thing that is gone,
// turns nothing off.
func TestOne410IsAskedOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &disabler{}
		var stray, always atomic.Pointer[hook.ID]
		r := newRig(t, func(a arrival) egress.Result {
			if stray.CompareAndSwap(nil, &a.delivery) {
				return egress.Result{Status: 410}
			}
			if id := always.Load(); id != nil && *id == a.delivery {
				return egress.Result{Status: 410}
			}
			return egress.Result{Status: 200}
		}, keptBy(k))
		defer r.close()
		e := r.endpoint("")
		ids := r.publish(e, 20)
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != 20 || len(r.sink.of(*stray.Load())) != 2 {
			t.Errorf("%d of 20 delivered, the one that was refused after %d requests", got, len(r.sink.of(*stray.Load())))
		}
		e = r.setState(e, hook.Paused)
		ids = r.publish(e, 20)
		gone := ids[7]
		always.Store(&gone)
		r.setState(e, hook.Active)
		time.Sleep(time.Minute)
		if got := r.count(ids); got[hook.Delivered] != 19 || got[hook.Dead] != 1 || len(r.sink.of(gone)) != 2 {
			t.Errorf("states = %v, want one dead after a second request", got)
		}
		if d := r.delivery(gone); d.Reason != hook.DeadGone {
			t.Errorf("it ended as %v, want gone", d.Reason)
		}
		if n := k.calls(); n != 0 {
			t.Errorf("turned off %d times an endpoint that takes everything else", n)
		}
	})
}

func TestGoneIsJustPermanentWhenAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &disabler{}
		r := newRig(t, always(410), keptBy(k))
		defer r.close()
		e := r.endpoint(`{"classify":{"on_gone":"dead_letter"}}`)
		ids := r.publish(e, 20)
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Dead]; got != 20 || k.calls() != 0 {
			t.Errorf("%d of 20 dead, turned off %d times; want all dead and the endpoint active", got, k.calls())
		}
	})
}

// TestHeldWhileItCannotBeTurnedOff: as long as the row still says active, the
// lane sends nothing, whatever makes it read that row again.
func TestHeldWhileItCannotBeTurnedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		k := &disabler{before: func() error {
			if down.Load() {
				return errors.New("store is away")
			}
			return nil
		}}
		r := newRig(t, always(410), keptBy(k))
		defer r.close()
		e := r.endpoint("")
		r.publish(e, 10)
		time.Sleep(time.Second)
		for range 5 {
			r.d.EndpointChanged(e.ID)
			r.d.TenantChanged(r.tenant.ID)
			r.publish(e, 1)
			time.Sleep(10 * time.Second)
		}
		if n := len(r.sink.seen()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		if n := k.calls(); n < 35 || n > 55 {
			t.Errorf("asked %d times in 46 s, want once a second", n)
		}
		down.Store(false)
		time.Sleep(2 * time.Second)
		if got, want := r.state(e), [2]string{"disabled", "gone"}; got != want {
			t.Errorf("endpoint is %v, want %v", got, want)
		}
	})
}

// TestPersonWinsOverLate410: what was sent before a person resumed the endpoint
// says nothing about it.
func TestPersonWinsOverLate410(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		resumed := began.Add(30 * time.Second)
		var sent atomic.Int64
		k := &disabler{}
		r := newRig(t, func(a arrival) egress.Result {
			if !a.at.Before(resumed) {
				return egress.Result{Status: 200}
			}
			time.Sleep(time.Duration(sent.Add(1)) * time.Second) // the first ten at 1 s to 10 s, those that confirm them from 26 s on
			return egress.Result{Status: 410}
		}, keptBy(k))
		defer r.close()
		e := r.endpoint(`{"concurrency":10}`)
		ids := r.publish(e, 50)
		time.Sleep(30 * time.Second)
		if got, want := r.state(e), [2]string{"disabled", "gone"}; got != want {
			t.Fatalf("endpoint is %v, want %v", got, want)
		}
		r.resume(e)
		time.Sleep(time.Minute)
		if got, want := r.state(e), [2]string{"active", ""}; got != want {
			t.Errorf("endpoint is %v, want %v: a late 410 overruled a person", got, want)
		}
		if got := r.count(ids); got[hook.Dead] > 10 || got[hook.Dead]+got[hook.Delivered] != 50 {
			t.Errorf("states = %v, want all delivered but ten at most", got)
		}
	})
}

// TestPersonWinsWhileItIsTurnedOff: a change that comes between the answer and
// the write leaves the endpoint on, and its lane goes on. The same for a resume
// that comes between the write and its answer.
func TestPersonWinsWhileItIsTurnedOff(t *testing.T) {
	t.Parallel()
	for name, resume := range map[string]bool{"changed": false, "resumed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var dest scripted
				dest.status.Store(410)
				k := &disabler{}
				r := newRig(t, dest.answer, keptBy(k))
				defer r.close()
				e := r.endpoint("")
				k.before = func() error {
					time.Sleep(5 * time.Second)
					if !resume {
						return nil
					}
					row := r.stored(e)
					row.State = hook.Disabled // stored, but the answer is lost
					row, err := r.db.UpdateEndpoint(r.ctx(), row, r.audit())
					if err == nil {
						r.setState(row, hook.Active)
					}
					return err
				}
				ids := r.publish(e, 10)
				time.Sleep(6 * time.Second) // it has said so twice
				dest.status.Store(200)
				if !resume {
					row := r.stored(e)
					row.URL += "/moved"
					r.setState(row, hook.Active)
				}
				time.Sleep(time.Second)
				if n := len(r.sink.seen()); n != 2 {
					t.Errorf("%d requests before it is clear who wins", n)
				}
				time.Sleep(time.Minute)
				if got, want := r.state(e), [2]string{"active", ""}; got != want {
					t.Errorf("endpoint is %v, want %v", got, want)
				}
				if got := r.count(ids)[hook.Delivered]; got < 9 {
					t.Errorf("%d of 10 delivered, want all but one at most", got)
				}
			})
		})
	}
}

// TestDisabledOverNodes: the lane's owner turns the endpoint off, a person
// resumes it through another node, without any hint between them.
func TestDisabledOverNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest scripted
		dest.status.Store(410)
		r, b := newCluster(t, dest.answer)
		k := &disabler{r: r}
		one := r.join(b, "one", func(p *peer) { p.disabler = k })
		two := r.join(b, "two", func(p *peer) { p.disabler = k })
		defer func() { r.must(r.db.Close()) }()
		defer one.stop()
		defer two.stop()
		time.Sleep(time.Minute)
		r.d = two.d
		e := r.setState(r.endpointOf(one, ""), hook.Paused)
		ids := r.via(two, e, 20)
		e = r.setState(e, hook.Active)
		time.Sleep(3 * time.Minute)
		if got, want := r.state(e), [2]string{"disabled", "gone"}; got != want || len(r.sink.seen()) != 2 {
			t.Fatalf("endpoint is %v after %d requests, want %v after 2", got, len(r.sink.seen()), want)
		}
		dest.status.Store(200)
		r.resume(e)
		time.Sleep(2 * time.Minute)
		if got := r.count(ids)[hook.Delivered]; got < 19 || k.calls() != 1 {
			t.Errorf("%d of 20 delivered, turned off %d times; want all but one at most, once", got, k.calls())
		}
	})
}
