package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestEachDeliveredExactlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// A window far smaller than the backlog: most of it comes from disk,
		// while more arrives.
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(5 * time.Millisecond)
			return egress.Result{Status: 200}
		}, settings(func(c *dispatch.Config) { c.Window = 32 }))
		defer r.close()
		e := r.endpoint("")
		var ids []hook.ID
		for range 20 {
			ids = append(ids, r.publish(e, 60)...)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		if n := len(r.sink.seen()); n != len(ids) {
			t.Errorf("%d arrivals for %d deliveries", n, len(ids))
		}
	})
}

func TestLimitHoldsAtTheDestination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(50 * time.Millisecond)
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint(`{"concurrency":7}`)
		r.publish(e, 500)
		time.Sleep(time.Minute)
		most := 0
		for _, a := range r.sink.seen() {
			most = max(most, a.inFlight)
		}
		if most != 7 {
			t.Errorf("at most %d requests at once, want exactly 7: the limit used and never exceeded", most)
		}
	})
}

// TestSlowDestinationLeavesSlots: one that hangs gets only a share of the
// slots, and its neighbour does not notice.
func TestSlowDestinationLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Value
		slow.Store("")
		r := newRig(t, func(a arrival) egress.Result {
			if a.url == slow.Load() {
				time.Sleep(10 * time.Second)
			}
			return egress.Result{Status: 200}
		}, settings(func(c *dispatch.Config) { c.MaxInFlight = 20 }))
		defer r.close()
		bad := r.endpoint(`{"concurrency":1000}`)
		slow.Store(bad.URL)
		good := r.endpoint("")
		r.publish(bad, 2000)
		time.Sleep(time.Second)
		began := time.Now()
		ids := r.publish(good, 100)
		time.Sleep(time.Second)
		if got := r.count(ids)[hook.Delivered]; got != 100 {
			t.Errorf("%d of 100 delivered to the healthy endpoint in a second", got)
		}
		for _, a := range r.sink.seen() {
			if a.url == bad.URL && a.inFlight > 10 {
				t.Fatalf("the slow endpoint got %d of 20 slots", a.inFlight)
			}
			if a.url == good.URL && a.at.Sub(began) > 500*time.Millisecond {
				t.Fatalf("a healthy delivery waited %v", a.at.Sub(began))
			}
		}
	})
}

func TestStopWaitsForAttemptsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(20 * time.Second)
			return egress.Result{Status: 200}
		})
		e := r.endpoint(`{"concurrency":5}`)
		ids := r.publish(e, 5)
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took < 18*time.Second || took > 21*time.Second {
			t.Errorf("stop took %v, want the rest of the attempts' 20s", took)
		}
		if got := r.count(ids)[hook.Delivered]; got != 5 {
			t.Errorf("%d of 5 attempts were settled by the stop", got)
		}
		r.must(r.db.Close())
	})
}

func TestStopInterruptsAfterTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(25 * time.Second)
			return egress.Result{Status: 200}
		}, settings(func(c *dispatch.Config) { c.DrainTimeout = 2 * time.Second }))
		e := r.endpoint("")
		id := r.publish(e, 1)[0]
		time.Sleep(time.Second)
		r.stop()
		d := r.delivery(id)
		if d.State != hook.Pending || d.Progress.Charged != 0 || d.Last.Reason != hook.Interrupted {
			t.Errorf("delivery is %v, charged %d, last reason %v; want pending, uncharged, interrupted", d.State, d.Progress.Charged, d.Last.Reason)
		}
		r.must(r.db.Close())
	})
}

func TestRestartGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		up := began.Add(2 * time.Hour)
		r := newRig(t, func(a arrival) egress.Result {
			if a.at.Before(up) {
				return egress.Result{Reason: hook.ConnectRefused}
			}
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint("")
		ids := r.publish(e, 300)
		time.Sleep(time.Hour)
		before := len(r.sink.seen())
		r.restart()
		time.Sleep(500 * time.Millisecond)
		if n := len(r.sink.seen()) - before; n != 0 {
			t.Errorf("%d requests right after the restart: the breaker was closed by it", n)
		}
		time.Sleep(2 * time.Hour)
		if got := r.count(ids)[hook.Delivered]; got != 300 {
			t.Errorf("%d of 300 delivered", got)
		}
	})
}

// flaky is a store whose commits fail while it is down.
type flaky struct {
	store.DB
	down  atomic.Bool
	after atomic.Bool // fail after the commit instead of before it
}

var errDown = errors.New("connection lost")

func (f *flaky) Commit(ctx context.Context, b *store.Batch) error {
	if f.down.Load() && !f.after.Load() {
		return errDown
	}
	err := f.DB.Commit(ctx, b)
	if f.down.Load() {
		return errDown
	}
	return err
}

// TestStoreOutageStopsSending: with the store away no more attempts start than
// there are slots, and every result is stored when it is back.
func TestStoreOutageStopsSending(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before the commit": false, "after the commit": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var f *flaky
				r := newRig(t, always(200),
					settings(func(c *dispatch.Config) { c.MaxInFlight = 16 }),
					func(r *rig) {
						r.wrap = func(db store.DB) store.DB {
							f = &flaky{DB: db}
							f.after.Store(after)
							return f
						}
					})
				defer r.close()
				e := r.endpoint(`{"concurrency":100}`)
				e = r.setState(e, hook.Paused)
				ids := r.publish(e, 500)
				time.Sleep(time.Second)
				f.down.Store(true)
				r.setState(e, hook.Active)
				time.Sleep(5 * time.Minute)
				if n := len(r.sink.seen()); n > 16 {
					t.Errorf("%d requests while the store was away, want at most the 16 slots", n)
				}
				f.down.Store(false)
				time.Sleep(time.Minute)
				if got := r.count(ids)[hook.Delivered]; got != 500 {
					t.Errorf("%d of 500 delivered after the store came back", got)
				}
				if n := len(r.sink.seen()); n != 500 {
					t.Errorf("%d arrivals for 500 deliveries", n)
				}
			})
		})
	}
}

// setState changes the endpoint's state as an operator would.
func (r *rig) setState(e hook.Endpoint, s hook.EndpointState) hook.Endpoint {
	r.t.Helper()
	e.State, e.UpdatedAt = s, r.now()
	e, err := r.db.UpdateEndpoint(r.ctx(), e, r.audit())
	r.must(err)
	r.d.EndpointChanged(e.ID)
	return e
}

func TestPauseHoldsResumeDelivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200))
		defer r.close()
		e := r.setState(r.endpoint(""), hook.Paused)
		time.Sleep(time.Second)
		ids := r.publish(e, 200)
		time.Sleep(time.Hour)
		r.restart()
		time.Sleep(time.Hour)
		if n := len(r.sink.seen()); n != 0 {
			t.Fatalf("%d requests while paused", n)
		}
		r.setState(e, hook.Active)
		time.Sleep(time.Minute) // what its endpoint bears is not known
		if got := r.count(ids)[hook.Delivered]; got != 200 {
			t.Errorf("%d of 200 delivered after resume", got)
		}
	})
}

func TestManualRetry(t *testing.T) {
	t.Parallel()
	t.Run("of a dead letter", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			status := atomic.Int64{}
			status.Store(404)
			r := newRig(t, func(arrival) egress.Result { return egress.Result{Status: int(status.Load())} })
			defer r.close()
			e := r.endpoint("")
			id := r.publish(e, 1)[0]
			time.Sleep(time.Second)
			r.retry(id)
			time.Sleep(time.Second)
			d := r.delivery(id)
			if d.State != hook.Dead || d.Reason != hook.DeadPermanent || d.Attempts != 2 || d.Progress.Charged != 1 {
				t.Errorf("after a failed manual send: %v (%v), %d attempts, %d charged; want dead (permanent), 2, 1", d.State, d.Reason, d.Attempts, d.Progress.Charged)
			}
			status.Store(200)
			r.retry(id)
			time.Sleep(time.Second)
			if d := r.delivery(id); d.State != hook.Delivered || d.Attempts != 3 {
				t.Errorf("after a good manual send: %v, %d attempts; want delivered, 3", d.State, d.Attempts)
			}
			if log := r.attempts(id); log[1].Kind != hook.Manual || log[1].Charged {
				t.Errorf("second attempt: kind %v, charged %v; want manual, uncharged", log[1].Kind, log[1].Charged)
			}
		})
	})
	t.Run("never cancels the schedule", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, always(500))
			defer r.close()
			e := r.endpoint(`{"retry":{"backoff":{"kind":"schedule","delays":["1h","2h"]},"jitter":{"kind":"none"}}}`)
			began := time.Now()
			id := r.publish(e, 1)[0]
			time.Sleep(10 * time.Minute)
			r.retry(id)
			time.Sleep(5 * time.Hour)
			var at []time.Duration
			for _, a := range r.sink.of(id) {
				at = append(at, a.at.Sub(began))
			}
			want := []time.Duration{0, 10 * time.Minute, time.Hour, 3 * time.Hour}
			if len(at) != len(want) {
				t.Fatalf("arrivals at %v, want %v", at, want)
			}
			for i := range want {
				if (at[i] - want[i]).Abs() > 10*time.Millisecond {
					t.Errorf("arrivals at %v, want %v", at, want)
				}
			}
		})
	})
	t.Run("is the next probe of an open lane", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var up atomic.Bool
			r := newRig(t, func(arrival) egress.Result {
				if up.Load() {
					return egress.Result{Status: 200}
				}
				return egress.Result{Reason: hook.ConnectRefused}
			})
			defer r.close()
			e := r.endpoint("")
			ids := r.publish(e, 1000)
			time.Sleep(2 * time.Hour)
			up.Store(true)
			before := len(r.sink.seen())
			r.retry(ids[500])
			time.Sleep(10 * time.Millisecond)
			got := r.sink.seen()[before:]
			if len(got) == 0 || got[0].delivery != ids[500] {
				t.Fatalf("first arrival after the wish is %v, want the delivery asked for, at once", got)
			}
			time.Sleep(time.Minute)
			if n := r.count(ids)[hook.Delivered]; n != 1000 {
				t.Errorf("%d of 1000 delivered: the good manual send did not close the lane", n)
			}
		})
	})
}

func (r *rig) retry(id hook.ID) {
	r.t.Helper()
	row, err := r.db.RetryDelivery(r.ctx(), 0, id, r.now(), r.audit())
	r.must(err)
	r.d.DeliveryChanged(row.EndpointID)
}

func TestCancelledIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(time.Second)
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint(`{"concurrency":1}`)
		ids := r.publish(e, 10)
		time.Sleep(500 * time.Millisecond)
		for _, id := range ids[5:] {
			_, err := r.db.CancelDelivery(r.ctx(), 0, id, r.now(), r.audit())
			r.must(err)
		}
		r.d.DeliveryChanged(e.ID)
		time.Sleep(time.Minute)
		if n := len(r.sink.seen()); n != 5 {
			t.Errorf("%d requests, want the 5 that were not cancelled", n)
		}
		if got := r.count(ids); got[hook.Delivered] != 5 || got[hook.Cancelled] != 5 {
			t.Errorf("states = %v, want 5 delivered and 5 cancelled", got)
		}
	})
}

func TestDeletedEndpointGetsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result { return egress.Result{Reason: hook.ConnectRefused} })
		defer r.close()
		e := r.endpoint("")
		ids := r.publish(e, 100)
		time.Sleep(time.Minute)
		n, err := r.db.DeleteEndpoint(r.ctx(), e.TenantID, e.ID, r.now(), r.audit())
		r.must(err)
		r.d.EndpointChanged(e.ID)
		if n != 100 {
			t.Errorf("%d deliveries cancelled, want 100", n)
		}
		before := len(r.sink.seen())
		time.Sleep(10 * time.Hour)
		if n := len(r.sink.seen()) - before; n != 0 {
			t.Errorf("%d requests after the delete", n)
		}
		if got := r.count(ids)[hook.Cancelled]; got != 100 {
			t.Errorf("%d of 100 cancelled", got)
		}
	})
}
