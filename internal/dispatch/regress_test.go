package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// balky is a store that a test can slow down, call by call. Waits are in
// virtual time.
type balky struct {
	store.DB
	commitTakes atomic.Int64 // before the commit
	loadTakes   atomic.Int64 // after the read: what it returns is old by then
	readTakes   atomic.Int64 // before every read ahead
	reading     atomic.Int64 // reads ahead that are running
	refuse      func(*store.Batch) bool
	fatal       atomic.Bool
}

func wait(d *atomic.Int64) { time.Sleep(time.Duration(d.Load())) }

func (b *balky) Commit(ctx context.Context, batch *store.Batch) error {
	wait(&b.commitTakes)
	if b.fatal.Load() {
		return store.ErrFatal
	}
	if b.refuse != nil && b.refuse(batch) {
		return store.ErrRefused
	}
	return b.DB.Commit(ctx, batch)
}

func (b *balky) Destinations(ctx context.Context, ids []hook.ID) ([]store.Destination, error) {
	out, err := b.DB.Destinations(ctx, ids)
	wait(&b.loadTakes)
	return out, err
}

func (b *balky) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	b.reading.Add(1)
	defer b.reading.Add(-1)
	wait(&b.readTakes)
	return b.DB.ReadAhead(ctx, endpoint, now, limit)
}

// balks puts a balky store between engine and database.
func balks(b *balky) func(*rig) {
	return func(r *rig) {
		r.wrap = func(db store.DB) store.DB {
			b.DB = db
			return b
		}
	}
}

// destination is up or down.
type destination struct{ up atomic.Bool }

func (d *destination) answer(arrival) egress.Result {
	if d.up.Load() {
		return egress.Result{Status: 200}
	}
	return egress.Result{Reason: hook.ConnectRefused}
}

// brittle opens a lane at the second failure and tries every second before.
const brittle = `{"breaker":{"consecutive":2},"retry":{"jitter":{"kind":"none"},
	"backoff":{"kind":"schedule","delays":["1s","1s","1s","1s","1s","1s","1s","1s","1s"]}}}`

// opened waits until the lane of a brittle endpoint is open, which takes two
// attempts, and its last result is stored.
func (r *rig) opened(id hook.ID) {
	r.t.Helper()
	time.Sleep(1500 * time.Millisecond)
	if n := len(r.sink.of(id)); n != 2 {
		r.t.Fatalf("%d attempts after 1.5s, want 2", n)
	}
}

// arrived waits for the n-th attempt.
func (r *rig) arrived(id hook.ID, n int) {
	for len(r.sink.of(id)) < n {
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
}

// wish changes the endpoint as a person would, through fn.
func (r *rig) wish(e hook.Endpoint, fn func(*hook.Endpoint)) hook.Endpoint {
	r.t.Helper()
	e, err := r.db.EndpointByID(r.ctx(), e.TenantID, e.ID)
	r.must(err)
	fn(&e)
	e.UpdatedAt = r.now()
	e, err = r.db.UpdateEndpoint(r.ctx(), e, r.audit())
	r.must(err)
	r.d.EndpointChanged(e.ID)
	return e
}

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

// TestReloadKeepsUnsettledResults: an endpoint and its deliveries change while a
// failed probe is on its way to the store. The row that can be read then is older than what is
// known.
func TestReloadKeepsUnsettledResults(t *testing.T) {
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
		r.arrived(id, 3)
		dest.up.Store(true)
		r.wish(e, func(e *hook.Endpoint) { e.ResetWantedAt = r.now() })
		r.d.DeliveryChanged(e.ID)
		time.Sleep(time.Minute)
		good := 0
		for _, a := range r.sink.of(id)[3:] {
			good++
			if a.attempt != 4 {
				t.Errorf("attempt %d after three that failed, want 4", a.attempt)
			}
		}
		if d := r.delivery(id); good != 1 || d.State != hook.Delivered || d.Attempts != 4 {
			t.Errorf("%d good attempts at the destination, delivery %v with %d attempts; want 1, delivered, 4", good, d.State, d.Attempts)
		}
	})
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

// TestChangeDuringTheFirstLoad: an endpoint is paused while its lane is being
// brought into memory, with the endpoint as it was before.
func TestChangeDuringTheFirstLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow balky
		r := newRig(t, always(200), balks(&slow))
		defer r.close()
		slow.loadTakes.Store(int64(time.Second))
		e := r.endpoint("")
		id := r.publish(e, 1)[0]
		synctest.Wait()
		r.setState(e, hook.Paused)
		time.Sleep(time.Second + time.Millisecond)
		sent := len(r.sink.seen()) // what the old settings allowed
		time.Sleep(time.Minute)
		id2 := r.publish(e, 1)[0]
		time.Sleep(time.Minute)
		if n := len(r.sink.seen()); n != sent {
			t.Errorf("%d requests to a paused endpoint (deliveries %d, %d)", n-sent, id, id2)
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
