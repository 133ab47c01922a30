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

// TestWishDuringARequest: a person asks for a manual send while a request of the
// delivery is under way. When that fails, the send is made: at once, and once,
// also by the next process.
func TestWishDuringARequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy  string
		restart bool
		want    hook.DeliveryState // after all requests have failed
	}{
		"that is repeated later":      {`{"retry":{"backoff":{"kind":"schedule","delays":["2h"]},"jitter":"none"}}`, false, hook.Pending},
		"that ends the delivery":      {`{"retry":{"max_attempts":1}}`, false, hook.Dead},
		"of a process that goes away": {`{"retry":{"max_attempts":1}}`, true, hook.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(arrival) egress.Result {
					time.Sleep(5 * time.Second)
					return egress.Result{Status: 500}
				})
				e := r.endpoint(tc.policy)
				id := r.publish(e, 1)[0]
				ask := func() {
					time.Sleep(time.Second)
					_, err := r.db.RetryDelivery(r.ctx(), e.TenantID, id, r.now(), r.audit())
					r.must(err)
					r.d.DeliveryChanged(e.ID)
				}
				ask()
				if tc.restart {
					r.restart()
				}
				time.Sleep(5 * time.Second)
				ask() // during the manual send
				time.Sleep(time.Minute)
				var kinds []hook.AttemptKind
				for _, a := range r.attempts(id) {
					kinds = append(kinds, a.Kind)
				}
				if n := len(r.sink.of(id)); n != 3 || len(kinds) != 3 || kinds[1] != hook.Manual || kinds[2] != hook.Manual {
					t.Errorf("%d requests of kinds %v, want one and two manual ones", n, kinds)
				}
				if d := r.delivery(id); d.State != tc.want || d.Restore != nil {
					t.Errorf("state %v, restore %+v, want %v", d.State, d.Restore, tc.want)
				}
				r.close()
			})
		})
	}
}

// TestManualRetryOvertakesTheBacklog: on a closed lane too, a delivery that a
// person asked for does not wait for thousands of others.
func TestManualRetryOvertakesTheBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Int64
		status.Store(404)
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(100 * time.Millisecond)
			return egress.Result{Status: int(status.Load())}
		}, settings(func(c *dispatch.Config) { c.Window = 100 }))
		defer r.close()
		e := r.endpoint(`{"concurrency":1}`)
		id := r.publish(e, 1)[0]
		time.Sleep(time.Second)
		status.Store(200)
		ids := r.publish(e, 1000)
		time.Sleep(time.Second)
		r.retry(id)
		time.Sleep(time.Second)
		if n := len(r.sink.of(id)); n != 2 {
			t.Errorf("%d arrivals a second after the wish, want the manual one", n)
		}
		time.Sleep(5 * time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != 1000 || len(r.sink.seen()) != 1002 {
			t.Errorf("%d of 1000 delivered in %d arrivals", got, len(r.sink.seen()))
		}
	})
}
