package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestExpiryWaitsQuietly: a look for expired deliveries takes a while; the loop
// sleeps meanwhile. (A loop that spins would stop the clock of this test.)
func TestExpiryWaitsQuietly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow balky
		var dest destination
		r := newRig(t, dest.answer, balks(&slow))
		defer r.close()
		e := r.endpoint(`{"breaker":{"max_hold":"1h"}}`)
		ids := r.publish(e, 20)
		time.Sleep(30 * time.Minute)
		slow.readTakes.Store(int64(time.Second))
		time.Sleep(2 * time.Hour)
		if got := r.count(ids)[hook.Dead]; got != 20 {
			t.Errorf("%d of 20 expired", got)
		}
	})
}

// TestShorterHoldTakesEffect: a lane that is blocked follows a change of
// max_hold.
func TestShorterHoldTakesEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest destination
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint(`{"breaker":{"max_hold":"72h"}}`)
		ids := r.publish(e, 20)
		time.Sleep(5 * time.Hour)
		r.wish(e, func(e *hook.Endpoint) { e.Policy = []byte(`{"breaker":{"max_hold":"2h"}}`) })
		time.Sleep(10 * time.Minute)
		if got := r.count(ids)[hook.Dead]; got != 20 {
			t.Errorf("%d of 20 expired after max_hold was shortened", got)
		}
	})
}

// TestHeldWishEndsAsItWas: a manual send that was held too long leaves the
// delivery as it was; one that was delivered is not turned into a dead letter.
func TestHeldWishEndsAsItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200))
		defer r.close()
		e := r.endpoint(`{"breaker":{"max_hold":"1h"}}`)
		id := r.publish(e, 1)[0]
		time.Sleep(time.Minute)
		before := r.delivery(id)
		e = r.setState(e, hook.Paused)
		time.Sleep(time.Minute)
		r.retry(id)
		time.Sleep(3 * time.Hour)
		after := r.delivery(id)
		if after.State != hook.Delivered || !after.SettledAt.Equal(before.SettledAt) || after.Restore != nil {
			t.Errorf("delivery is %v (%v), settled %v, restore %v; want delivered as before", after.State, after.Reason, after.SettledAt, after.Restore)
		}
		r.setState(e, hook.Active)
		time.Sleep(time.Minute)
		if n := len(r.sink.of(id)); n != 1 {
			t.Errorf("%d arrivals, want the first only", n)
		}
	})
}
