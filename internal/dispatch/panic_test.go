package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestAPanicEndsOneAttempt: a mistake in what is done for one endpoint is an
// attempt that failed on our side, is made again, and others do not notice.
func TestAPanicEndsOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bad string
		r := newRig(t, func(a arrival) egress.Result {
			if a.url == bad && a.attempt == 1 {
				return egress.Result{Text: panics}
			}
			return egress.Result{Status: 200}
		})
		sick, well := r.endpoint(""), r.endpoint("")
		bad = sick.URL
		one, others := r.publish(sick, 1)[0], r.publish(well, 20)
		time.Sleep(5 * time.Minute)
		if d := r.delivery(one); d.State != hook.Delivered || d.Attempts != 2 {
			t.Errorf("state %v after %d attempts, want delivered with the second", d.State, d.Attempts)
		}
		if a := r.attempts(one)[0]; a.Reason != hook.LocalError || a.Charged {
			t.Errorf("the first attempt: %v, charged %v; want a local error that is not charged", a.Reason, a.Charged)
		}
		for _, id := range others {
			if d := r.delivery(id); d.State != hook.Delivered || d.Attempts != 1 {
				t.Errorf("another endpoint's delivery: %v after %d attempts", d.State, d.Attempts)
			}
		}
		r.close()
	})
}
