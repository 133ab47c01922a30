package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestOpenLaneFindsItsProbeBesideRequestsInFlight: the newest due rows are all
// in flight when the lane looks for a probe. It takes another one, and goes on
// looking later when there is none.
func TestOpenLaneFindsItsProbeBesideRequestsInFlight(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"all tried": 10, "some left": 90} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := time.Now().Add(5 * time.Minute)
				r := newRig(t, nil, settings(func(c *dispatch.Config) { c.Window = 80 }))
				r.sink.answer = func(a arrival) egress.Result {
					if !a.at.Before(up) {
						return egress.Result{Status: 200}
					}
					if a.attempt == 1 && len(r.sink.seen()) > 5 {
						time.Sleep(25 * time.Second) // hangs, while the first five fail at once
					}
					return egress.Result{Reason: hook.ConnectRefused}
				}
				defer r.close()
				e := r.endpoint(`{"concurrency":75}`)
				ids := r.publish(e, n)
				time.Sleep(2 * time.Hour)
				if got := r.count(ids)[hook.Delivered]; got != n {
					t.Errorf("%d of %d delivered two hours later: the lane stopped looking", got, n)
				}
			})
		})
	}
}

// TestCancelledProbeIsNotRepeated: cancelled while its probe is out, a delivery
// must not be the next probe too.
func TestCancelledProbeIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(a arrival) egress.Result {
			if a.attempt > 2 {
				time.Sleep(time.Second)
			}
			return egress.Result{Reason: hook.ConnectRefused}
		})
		defer r.close()
		e := r.endpoint(brittle)
		id := r.publish(e, 1)[0]
		r.opened(id)
		r.arrived(id, 3)
		_, err := r.db.CancelDelivery(r.ctx(), 0, id, r.now(), r.audit())
		r.must(err)
		r.d.DeliveryChanged(e.ID)
		time.Sleep(time.Hour)
		if n := len(r.sink.of(id)); n != 3 {
			t.Errorf("%d requests, want none after the cancel", n-3)
		}
		if d := r.delivery(id); d.State != hook.Cancelled || d.Attempts != 3 {
			t.Errorf("delivery is %v with %d attempts, want cancelled with 3", d.State, d.Attempts)
		}
	})
}

// TestProbesCarryFreshEvents: however many probes have failed, the next one
// carries an event that never failed while there is one.
func TestProbesCarryFreshEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest destination
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint("")
		began := time.Now()
		ids := r.publish(e, 300)
		time.Sleep(3 * time.Hour)
		probes := 0
		for _, a := range r.sink.seen() {
			if a.at.Sub(began) < time.Second {
				continue
			}
			probes++
			if a.attempt > 1 {
				t.Fatalf("probe %d, %v into the outage, carries an event that failed", probes, a.at.Sub(began))
			}
		}
		if probes < 100 {
			t.Fatalf("only %d probes in 3 hours", probes)
		}
		dest.up.Store(true)
		time.Sleep(24 * time.Hour)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered after the outage", got, len(ids))
		}
	})
}
