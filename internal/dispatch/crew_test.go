package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// The crew is as large as the work asks for: it stays while it is needed and
// goes home when it is not.
func TestCrewFollowsTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(100 * time.Millisecond)
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint(`{"concurrency":20}`)
		for range 20 {
			r.publish(e, 20)
			time.Sleep(time.Second)
			if n := r.d.Resting(); n != 20 {
				t.Fatalf("%d rest between bursts of 20", n)
			}
		}
		for range 20 { // one attempt every second needs one goroutine
			r.publish(e, 1)
			time.Sleep(time.Second)
		}
		if n := r.d.Resting(); n != 1 {
			t.Errorf("%d rest while one is needed", n)
		}
		time.Sleep(10 * time.Second)
		if n := r.d.Resting(); n != 0 {
			t.Errorf("%d rest when nothing has been sent for long", n)
		}
	})
}
