package dispatch_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// leavers counts the lanes that leave memory.
type leavers struct {
	unobserved
	n atomic.Int64
}

func (*leavers) Attempted(dispatch.Attempted) {}
func (l *leavers) LaneLeft(_, _ hook.ID)      { l.n.Add(1) }

// TestCrowdLeavesSoon: idle lanes stay for minutes while there are few of them.
// In a crowd those that fall idle leave within seconds, and come back with the
// next event as if nothing had been.
func TestCrowdLeavesSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const crowd, lanes = 5, 20
		left := &leavers{}
		r := newRig(t, func(arrival) egress.Result { return egress.Result{Status: 200} }, func(r *rig) {
			r.config = func(c *dispatch.Config) { c.Loops, c.Crowd, c.Observer = 1, crowd, left }
		})
		defer r.close()
		var endpoints []hook.Endpoint
		var ids []hook.ID
		for range lanes {
			endpoints = append(endpoints, r.endpoint(""))
		}
		send := func(endpoints []hook.Endpoint) {
			for _, e := range endpoints {
				ids = append(ids, r.publish(e, 1)...)
			}
			time.Sleep(30 * time.Second)
		}

		send(endpoints[:crowd])
		if n := left.n.Load(); n != 0 {
			t.Errorf("%d of %d lanes left after 30s, want all to stay", n, crowd)
		}
		send(endpoints)
		if n := left.n.Load(); n < lanes-crowd-1 || n >= lanes {
			t.Errorf("%d of %d lanes left after 30s, want those past %d", n, lanes, crowd)
		}
		send(endpoints)
		if got := r.count(ids); got[hook.Delivered] != len(ids) {
			t.Errorf("deliveries by state %v, want all %d delivered", got, len(ids))
		}
	})
}
