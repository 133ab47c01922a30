package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
)

// TestLanesAreCounted: those in memory, and among them those whose destination
// asked for silence.
func TestLanesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.close()
		told := r.endpoint(`{}`)
		r.sink.answer = func(a arrival) egress.Result {
			if a.url == told.URL {
				return withHeader(egress.Result{Status: 429}, "Retry-After", "600")
			}
			return egress.Result{Status: 200}
		}
		r.publish(told, 1)
		r.publish(r.endpoint(`{}`), 1)
		r.publish(r.endpoint(`{}`), 1)
		time.Sleep(10 * time.Second)
		got, err := r.d.CountLanes(t.Context())
		if want := (dispatch.LaneCounts{Lanes: 3, Holds: 1}); err != nil || got != want {
			t.Errorf("counts = %+v, %v, want %+v", got, err, want)
		}
		if age, leased := r.d.LeaseAge(); leased {
			t.Errorf("leases of %v on a store that is not shared", age)
		}
		if n := r.d.Shards(); n != 256 {
			t.Errorf("%d shards", n)
		}
	})
}

// TestCountingGivesUp: a dispatcher that does not run keeps nobody waiting.
func TestCountingGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.close()
		r.stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got, err := r.d.CountLanes(ctx); err == nil {
			t.Errorf("counts = %+v of a dispatcher that has ended", got)
		}
	})
}
