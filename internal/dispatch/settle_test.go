package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestSlowSettleIsNotRepeated: results of one delivery follow each other faster
// than the store takes them. The first one's commit says nothing about the
// second, which must not be sent again because the row still looks due.
func TestSlowSettleIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest destination
		var slow balky
		r := newRig(t, dest.answer, balks(&slow))
		defer r.close()
		e := r.endpoint(brittle)
		id := r.publish(e, 1)[0]
		r.opened(id)
		slow.commitTakes.Store(int64(5 * time.Second))
		r.arrived(id, 3) // a probe, whose result takes longer than the next probe
		dest.up.Store(true)
		time.Sleep(time.Minute)
		var numbers []int
		for _, a := range r.sink.of(id) {
			numbers = append(numbers, a.attempt)
		}
		for i, n := range numbers {
			if n != i+1 {
				t.Fatalf("the destination saw attempts %v, want each number once", numbers)
			}
		}
		if log := r.attempts(id); len(log) != len(numbers) {
			t.Errorf("%d attempts in the log, %d at the destination", len(log), len(numbers))
		}
	})
}

// TestDeletedEndpointKeepsItsLog: an attempt in flight when its endpoint is
// deleted is recorded like any other.
func TestDeletedEndpointKeepsItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(10 * time.Second)
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint("")
		id := r.publish(e, 1)[0]
		time.Sleep(time.Second)
		_, err := r.db.DeleteEndpoint(r.ctx(), e.TenantID, e.ID, r.now(), r.audit())
		r.must(err)
		r.d.EndpointChanged(e.ID)
		time.Sleep(time.Minute)
		if log := r.attempts(id); len(log) != 1 || log[0].Status != 200 {
			t.Errorf("attempts in the log: %+v, want the one that was in flight", log)
		}
		if d := r.delivery(id); d.State != hook.Cancelled {
			t.Errorf("delivery is %v, want cancelled", d.State)
		}
		if n := r.d.InFlight(); n != 0 {
			t.Errorf("%d slots still in use", n)
		}
	})
}

// TestRefusedResultIsNotHammered: the store takes no result of a delivery. It
// may be sent again, but not as fast as it can be.
func TestRefusedResultIsNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		odd := balky{refuse: func(b *store.Batch) bool { return len(b.Settles) > 0 }}
		r := newRig(t, always(200), balks(&odd))
		defer r.close()
		e := r.endpoint("")
		id := r.publish(e, 1)[0]
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(r.sink.of(id)); n > 11 {
			t.Errorf("%d requests in ten seconds for a result that cannot be stored", n)
		}
	})
}
