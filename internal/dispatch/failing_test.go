package dispatch_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// steadily publishes one event every so often.
func (r *rig) steadily(e hook.Endpoint, every, total time.Duration) {
	r.t.Helper()
	for end := time.Now().Add(total); time.Now().Before(end); time.Sleep(every) {
		r.publish(e, 1)
	}
}

// TestDaysOfFailuresTurnTheEndpointOff, over restarts and evictions of the
// lane, for each way to fail.
func TestDaysOfFailuresTurnTheEndpointOff(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]egress.Result{
		"refused for good": {Status: 404},
		"server error":     {Status: 500},
		"down":             {Reason: hook.ConnectRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var up atomic.Bool
				k := &disabler{}
				r := newRig(t, func(arrival) egress.Result {
					if up.Load() {
						return egress.Result{Status: 200}
					}
					return result
				}, keptBy(k))
				defer r.close()
				e := r.endpoint(`{"retry":{"max_attempts":2},"breaker":{"max_hold":"720h","probe":{"min":"10m","max":"1h"}}}`)
				began := time.Now()
				r.steadily(e, 2*time.Hour, 60*time.Hour)
				r.restart()
				r.steadily(e, 2*time.Hour, 59*time.Hour)
				if got, want := r.state(e), [2]string{"active", ""}; got != want {
					t.Fatalf("endpoint is %v before five days have passed, want %v", got, want)
				}
				if diff := cmp.Diff([]int{50, 90}, k.warnings()); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				r.steadily(e, 2*time.Hour, 30*time.Hour)
				if got, want := r.state(e), [2]string{"disabled", "failing"}; got != want {
					t.Fatalf("endpoint is %v, want %v", got, want)
				}
				if at := k.times(); len(at) != 1 || at[0].Sub(began) < 120*time.Hour || at[0].Sub(began) > 123*time.Hour {
					t.Errorf("turned off at %v after %v, want once after 120h", at, began)
				}

				// Failures of before do not count after a resume.
				r.resume(e)
				r.steadily(e, 2*time.Hour, 30*time.Hour)
				up.Store(true)
				r.steadily(e, 2*time.Hour, 130*time.Hour)
				if got, want := r.state(e), [2]string{"active", ""}; got != want || len(k.times()) != 1 {
					t.Errorf("endpoint is %v, turned off %d times; want %v, once", got, len(k.times()), want)
				}
			})
		})
	}
}

// TestBurstCountsOverEviction: all failures of a burst count, also when the
// lane left memory after it.
func TestBurstCountsOverEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &disabler{}
		r := newRig(t, always(404), keptBy(k))
		defer r.close()
		e := r.endpoint("")
		r.publish(e, 9)
		time.Sleep(121 * time.Hour)
		r.publish(e, 1)
		time.Sleep(time.Second)
		if got, want := r.state(e), [2]string{"disabled", "failing"}; got != want {
			t.Errorf("endpoint is %v after ten failures in 121h, want %v", got, want)
		}
	})
}

func TestNotTurnedOff(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy string
		answer func(since time.Duration) egress.Result
		send   func(r *rig, e hook.Endpoint)
	}{
		"a burst of failures and nothing else": {
			policy: `{"retry":{"max_attempts":3},"breaker":{"enabled":false}}`,
			answer: func(time.Duration) egress.Result { return egress.Result{Status: 500} },
			send: func(r *rig, e hook.Endpoint) {
				r.steadily(e, 3*time.Minute, time.Hour)
				time.Sleep(10 * 24 * time.Hour)
			},
		},
		"one success in between, right before the lane leaves memory": {
			policy: `{"retry":{"max_attempts":1}}`,
			answer: func(since time.Duration) egress.Result {
				if since > 60*time.Hour && since < 62*time.Hour {
					return egress.Result{Status: 200}
				}
				return egress.Result{Status: 404}
			},
			send: func(r *rig, e hook.Endpoint) { r.steadily(e, 90*time.Minute, 170*time.Hour) },
		},
		"never, by policy": {
			policy: `{"retry":{"max_attempts":1},"disable_after":"0s"}`,
			answer: func(time.Duration) egress.Result { return egress.Result{Status: 404} },
			send:   func(r *rig, e hook.Endpoint) { r.steadily(e, 6*time.Hour, 20*24*time.Hour) },
		},
		"too few failures": {
			policy: `{"retry":{"max_attempts":1}}`,
			answer: func(time.Duration) egress.Result { return egress.Result{Status: 404} },
			send:   func(r *rig, e hook.Endpoint) { r.steadily(e, 24*time.Hour, 9*24*time.Hour) },
		},
		"changed in between, in memory all the time": {
			policy: `{"breaker":{"consecutive":2,"max_hold":"720h","probe":{"min":"10m","max":"1h"}}}`,
			answer: func(time.Duration) egress.Result { return egress.Result{Status: 503} },
			send: func(r *rig, e hook.Endpoint) {
				r.steadily(e, 6*time.Hour, 100*time.Hour)
				e = r.stored(e)
				e.URL += "/moved"
				r.setState(e, hook.Active)
				r.steadily(e, 6*time.Hour, 100*time.Hour)
			},
		},
		"a success within a second of a failure, then a restart": {
			policy: `{"retry":{"max_attempts":1}}`,
			answer: func(since time.Duration) egress.Result {
				if since > 60*time.Hour && since < 61*time.Hour {
					return egress.Result{Status: 200}
				}
				return egress.Result{Status: 404}
			},
			send: func(r *rig, e hook.Endpoint) {
				r.steadily(e, 6*time.Hour, 54*time.Hour)
				time.Sleep(6*time.Hour - 100*time.Millisecond)
				r.publish(e, 1)
				time.Sleep(200 * time.Millisecond)
				r.publish(e, 1)
				time.Sleep(200 * time.Millisecond)
				r.restart()
				time.Sleep(6 * time.Hour)
				r.steadily(e, 6*time.Hour, 70*time.Hour)
			},
		},
		"changed in between": {
			policy: `{"retry":{"max_attempts":1}}`,
			answer: func(time.Duration) egress.Result { return egress.Result{Status: 404} },
			send: func(r *rig, e hook.Endpoint) {
				r.steadily(e, 6*time.Hour, 100*time.Hour)
				e = r.stored(e)
				e.URL += "/moved"
				r.setState(e, hook.Active)
				r.steadily(e, 6*time.Hour, 100*time.Hour)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				k := &disabler{}
				r := newRig(t, func(a arrival) egress.Result { return tc.answer(a.at.Sub(began)) }, keptBy(k))
				defer r.close()
				e := r.endpoint(tc.policy)
				tc.send(r, e)
				if n := k.calls(); n != 0 {
					t.Errorf("asked %d times to turn it off, at %v", n, k.times())
				}
			})
		})
	}
}
