package dispatch_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// TestPresetSchedules runs the whole retry life of one delivery under every
// preset: each wait, as the destination sees it, lies inside the bounds of its
// step, and the log holds every attempt.
func TestPresetSchedules(t *testing.T) {
	t.Parallel()
	for _, preset := range policy.Presets() {
		t.Run(preset.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, always(500))
				defer r.close()
				e := r.endpoint(fmt.Sprintf(`{"preset":%q}`, preset.Name))
				id := r.publish(e, 1)[0]
				time.Sleep(preset.Policy.Retry.MaxElapsed)
				checkLadder(t, r, id, &preset.Policy)
			})
		})
	}
}

func checkLadder(t *testing.T, r *rig, id hook.ID, p *policy.Policy) {
	t.Helper()
	arrivals := r.sink.of(id)
	if len(arrivals) != p.Retry.MaxAttempts {
		t.Fatalf("%d arrivals, want %d", len(arrivals), p.Retry.MaxAttempts)
	}
	steps := p.Ladder()
	const slack = 2 * time.Millisecond // rounding to whole milliseconds
	for i := 1; i < len(arrivals); i++ {
		gap := arrivals[i].at.Sub(arrivals[i-1].at)
		if s := steps[i-1]; gap < s.Earliest-slack || gap > s.Latest+slack {
			t.Errorf("retry %d came after %s, want between %s and %s", i, show(gap), show(s.Earliest), show(s.Latest))
		}
	}
	d := r.delivery(id)
	if d.State != hook.Dead || d.Reason != hook.DeadExhausted {
		t.Errorf("delivery is %v (%v), want dead (exhausted)", d.State, d.Reason)
	}
	log := r.attempts(id)
	if len(log) != len(arrivals) {
		t.Fatalf("%d attempts in the log, want %d", len(log), len(arrivals))
	}
	for i, a := range log {
		if a.Number != i+1 || !a.Charged || a.Reason != hook.ServerError || a.Status != 500 {
			t.Errorf("attempt %d in the log: number %d, charged %v, reason %v, status %d", i+1, a.Number, a.Charged, a.Reason, a.Status)
		}
		if i+1 < len(log) && a.StartedAt.Add(a.Delay).Sub(log[i+1].StartedAt).Abs() > slack {
			t.Errorf("attempt %d: the log says to wait %v, the next one came after %v", i+1, a.Delay, log[i+1].StartedAt.Sub(a.StartedAt))
		}
	}
}

// TestRetriesSpread looks at the arrivals, not at the computed delays: a coarse
// timer or a poll would put them into bursts.
func TestRetriesSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 1000
		r := newRig(t, func(a arrival) egress.Result {
			if a.attempt == 1 {
				return egress.Result{Status: 500}
			}
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint(`{"concurrency":1000,"breaker":{"enabled":false}}`)
		began := time.Now()
		ids := r.publish(e, events)
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != events {
			t.Fatalf("%d delivered, want %d", got, events)
		}
		// Full jitter over [1s, 30s): 29 equal buckets of about 34.
		var buckets [29]int
		instants := make(map[time.Time]int)
		for _, a := range r.sink.seen() {
			if a.attempt != 2 {
				continue
			}
			after := a.at.Sub(began)
			if after < time.Second || after > 30*time.Second+10*time.Millisecond {
				t.Fatalf("a retry came after %v, want 1s to 30s", after)
			}
			buckets[min(int((after-time.Second)/time.Second), 28)]++
			instants[a.at]++
		}
		for i, n := range buckets {
			if n < 12 || n > 65 {
				t.Errorf("%d retries between %ds and %ds, want about %d: %v", n, i+1, i+2, events/29, buckets)
			}
		}
		for at, n := range instants {
			if n > events/100 {
				t.Errorf("%d retries at the same instant, %v after the failure", n, at.Sub(began))
			}
		}
	})
}

func TestPermanentGetsOneAttempt(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 501, 505} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, always(status))
				defer r.close()
				id := r.publish(r.endpoint(""), 1)[0]
				time.Sleep(200 * time.Hour)
				if n := len(r.sink.of(id)); n != 1 {
					t.Errorf("%d arrivals, want exactly 1", n)
				}
				if d := r.delivery(id); d.State != hook.Dead || len(r.attempts(id)) != 1 {
					t.Errorf("delivery is %v with %d attempts in the log, want dead with 1", d.State, len(r.attempts(id)))
				}
			})
		})
	}
}

// TestRetryAfterIsNeverBroken: nothing leaves the lane, for any event, before
// the moment the destination named.
func TestRetryAfterIsNeverBroken(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"429": 429, "503": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var notBefore time.Time
				var refused int
				r := newRig(t, nil)
				r.sink.answer = func(a arrival) egress.Result {
					r.sink.mu.Lock()
					defer r.sink.mu.Unlock()
					if a.at.Before(notBefore) {
						t.Errorf("request %v before the end of the Retry-After", notBefore.Sub(a.at))
					}
					// Every 20th request is told to wait a while.
					if len(r.sink.arrivals)%20 == 0 {
						wait := time.Duration(1+refused%40) * time.Second
						notBefore = a.at.Add(wait)
						refused++
						return withHeader(egress.Result{Status: status}, "Retry-After", fmt.Sprint(int(wait.Seconds())))
					}
					return egress.Result{Status: 200}
				}
				defer r.close()
				e := r.endpoint(`{"concurrency":1}`)
				ids := r.publish(e, 500)
				time.Sleep(3 * time.Hour)
				if got := r.count(ids)[hook.Delivered]; got != 500 || refused < 20 {
					t.Errorf("%d of 500 delivered after %d refusals", got, refused)
				}
				for _, d := range r.rows() {
					if d.Progress.Charged > 1 {
						t.Fatalf("a throttled delivery was charged %d times", d.Progress.Charged)
					}
				}
			})
		})
	}
}

// TestOpenBreakerChargesNothing: an outage costs a few charged attempts, then
// only single uncharged probes, and everything is delivered afterwards.
func TestOpenBreakerChargesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		up := began.Add(6 * time.Hour)
		r := newRig(t, func(a arrival) egress.Result {
			time.Sleep(20 * time.Millisecond)
			if a.at.Before(up) {
				return egress.Result{Reason: hook.ConnectRefused}
			}
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint("")
		ids := r.publish(e, 800)
		time.Sleep(6*time.Hour + 10*time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Fatalf("%d of %d delivered after the outage", got, len(ids))
		}
		charged, probes := 0, 0
		for id, d := range r.rows() {
			if d.Attempts == 1 {
				continue
			}
			for _, a := range r.attempts(id) {
				switch {
				case a.Kind == hook.Probe:
					probes++
					if a.Charged {
						t.Fatal("a probe was charged")
					}
				case a.Charged && a.Class != hook.Success:
					charged++
				}
			}
		}
		if charged > 20 {
			t.Errorf("%d charged failures in one outage, want at most the requests in flight when it opened", charged)
		}
		if probes < 100 || probes > 1000 {
			t.Errorf("%d probes in 6 hours, want one every minute or so", probes)
		}
		during := 0
		for _, a := range r.sink.seen() {
			if a.at.Before(up) && a.at.Sub(began) > time.Second {
				during++
				if a.inFlight != 1 {
					t.Fatalf("%d requests at once while open", a.inFlight)
				}
			}
		}
		if during > probes {
			t.Errorf("%d arrivals while open, but %d probes", during, probes)
		}
	})
}

func TestHeldTooLongExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result { return egress.Result{Reason: hook.ConnectRefused} })
		defer r.close()
		e := r.endpoint(`{"breaker":{"max_hold":"2h"}}`)
		old := r.publish(e, 600)
		time.Sleep(time.Hour)
		young := r.publish(e, 10)
		time.Sleep(50 * time.Minute)
		if got := r.count(old)[hook.Pending]; got != 600 {
			t.Fatalf("%d of 600 pending before max_hold has passed", got)
		}
		time.Sleep(30 * time.Minute)
		if got := r.count(old); got[hook.Dead] != 600 {
			t.Errorf("states of what was held for 2h: %v, want all dead", got)
		}
		if d := r.delivery(old[599]); d.Reason != hook.DeadExpired {
			t.Errorf("reason = %v, want expired", d.Reason)
		}
		if got := r.count(young); got[hook.Pending] != 10 {
			t.Errorf("states of what was held for 80 min: %v, want all pending", got)
		}
	})
}

func TestDelayedEventWaitsForItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200))
		defer r.close()
		e := r.endpoint("")
		began := time.Now()
		id := r.publishAt(e, 1, began.Add(72*time.Hour))[0]
		time.Sleep(time.Hour)
		r.restart() // a restart must not forget it
		time.Sleep(71*time.Hour - time.Second)
		if n := len(r.sink.of(id)); n != 0 {
			t.Fatalf("%d arrivals before its time", n)
		}
		time.Sleep(2 * time.Second)
		got := r.sink.of(id)
		if len(got) != 1 || got[0].at.Sub(began) != 72*time.Hour {
			t.Errorf("arrivals = %v, want one after exactly 72h", got)
		}
	})
}

// TestNamelessEndpointIsHeld: an endpoint whose name is gone and that gets an event a day has
// too few failures in a row to open its lane. It opens before the limit of such failures
// gives the event up, and delivers it when the name is back.
func TestNamelessEndpointIsHeld(t *testing.T) {
	t.Parallel()
	for _, reason := range []hook.Reason{hook.DNSNXDomain, hook.TLSCertificate} {
		t.Run(reason.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var back atomic.Bool
				r := newRig(t, func(arrival) egress.Result {
					if back.Load() {
						return egress.Result{Status: 200}
					}
					return egress.Result{Reason: reason}
				})
				defer r.close()
				ids := r.publish(r.endpoint(""), 1)
				time.Sleep(time.Hour)
				if d := r.delivery(ids[0]); d.State != hook.Pending {
					t.Fatalf("the delivery is %v, %v after an hour; want it held", d.State, d.Reason)
				}
				r.restart()
				time.Sleep(time.Hour)
				back.Store(true)
				time.Sleep(10 * time.Minute)
				if d := r.delivery(ids[0]); d.State != hook.Delivered {
					t.Errorf("the delivery is %v, %v when the endpoint is back", d.State, d.Reason)
				}
			})
		})
	}
}
