package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestStopLeavesNothingUnrecorded: stopped while a loop is about to send a
// burst, whatever reaches the destination is in the log.
func TestStopLeavesNothingUnrecorded(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, always(200))
			e := r.endpoint("")
			r.publish(e, 1)
			time.Sleep(time.Second)
			ids := r.publish(e, 250)
			r.stop()
			seen, log := len(r.sink.seen())-1, 0
			for id, d := range r.rows() {
				if slices.Contains(ids, id) {
					log += d.Attempts
				}
			}
			if seen != log {
				t.Errorf("%d arrivals, %d attempts in the log", seen, log)
			}
			r.must(r.db.Close())
		})
		if t.Failed() {
			return
		}
	}
}

// TestStopEndsItsReads: Run returns when everything it began has ended; the
// store may be closed then.
func TestStopEndsItsReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow balky
		r := newRig(t, always(200), balks(&slow))
		e := r.endpoint("")
		r.publishAt(e, 1, r.now().Add(time.Minute))
		slow.readTakes.Store(int64(5 * time.Second))
		time.Sleep(time.Minute + time.Second)
		if slow.reading.Load() != 1 {
			t.Fatal("no read is running")
		}
		r.stop()
		if n := slow.reading.Load(); n != 0 {
			t.Errorf("%d reads are running after the stop", n)
		}
		r.must(r.db.Close())
	})
}

// TestFewSlotsManyLoops: loops that compete for very few slots never wait for a
// release that does not come.
func TestFewSlotsManyLoops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, always(200), settings(func(c *dispatch.Config) { c.MaxInFlight, c.Loops = 1, 8 }))
		defer r.close()
		var ids []hook.ID
		for range 16 {
			ids = append(ids, r.publish(r.endpoint(`{"concurrency":1}`), 10)...)
		}
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
	})
}

// TestStopKeepsTheLastCheckpoint: a lane changes by a person's wish, and the
// server stops before the store has taken the checkpoint.
func TestStopKeepsTheLastCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest destination
		var slow balky
		r := newRig(t, dest.answer, balks(&slow))
		defer r.close()
		e := r.endpoint(`{"retry":{"initial_delay":"0s"}}`)
		r.publish(e, 5)
		time.Sleep(10 * time.Minute)
		slow.commitTakes.Store(int64(2 * time.Second))
		r.wish(e, func(e *hook.Endpoint) { e.State = hook.Paused })
		time.Sleep(time.Second) // no request is in flight, the checkpoint is on its way
		for r.d.InFlight() > 0 {
			time.Sleep(time.Second)
		}
		r.wish(e, func(e *hook.Endpoint) { e.ResetWantedAt = r.now() })
		synctest.Wait()
		r.stop()
		rows, err := r.db.Destinations(r.ctx(), []hook.ID{e.ID})
		r.must(err)
		if len(rows) != 1 || rows[0].Lane == nil || rows[0].Lane.Open {
			t.Errorf("the stored lane is %+v, want closed by the reset", rows[0].Lane)
		}
	})
}

// TestLostStoreEndsAtOnce: after a fatal error nothing is sent any more, and
// the stop does not wait for results that nobody can store.
func TestLostStoreEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stuck balky
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(20 * time.Second)
			return egress.Result{Status: 200}
		}, balks(&stuck))
		e := r.endpoint(`{"concurrency":2}`)
		r.publish(e, 100)
		time.Sleep(time.Second)
		stuck.commitTakes.Store(int64(time.Hour))
		r.d.StoreLost()
		r.d.EndpointChanged(e.ID)
		other := r.endpoint("")
		r.d.EndpointChanged(other.ID)
		began := time.Now()
		stopDispatcher := r.stops[len(r.stops)-1]
		r.stops = r.stops[:len(r.stops)-1]
		stopDispatcher()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v, want at once", took)
		}
		if n := len(r.sink.seen()); n != 2 {
			t.Errorf("%d requests, want none after the store was lost", n-2)
		}
		r.stop()
		r.must(r.db.Close())
	})
}
