package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// deadLetter is a policy under which an open lane holds nothing. The gaps
// between probes are exact: 10 s.
const deadLetter = `{"breaker":{"on_open":"dead_letter","probe":{"min":"10s","max":"10s","jitter":0}},
	"retry":{"backoff":{"kind":"schedule","delays":["1h"]},"jitter":"none","max_attempts":5},"concurrency":1}`

// switched is a destination that is up or refuses connections, slowly or not.
type switched struct{ up, slow atomic.Bool }

func (s *switched) answer(arrival) egress.Result {
	if s.slow.Load() {
		time.Sleep(5 * time.Second)
	}
	if s.up.Load() {
		return egress.Result{Status: 200}
	}
	return egress.Result{Reason: hook.ConnectRefused}
}

// endings counts the deliveries by how they ended: "" for those that have not.
func (r *rig) endings(ids []hook.ID) map[string]int {
	r.t.Helper()
	rows := r.rows()
	out := make(map[string]int)
	for _, id := range ids {
		d := rows[id]
		if d.State == hook.Dead {
			out[d.Reason.String()]++
		} else {
			out[d.State.String()]++
		}
	}
	return out
}

func (r *rig) wantEndings(ids []hook.ID, want map[string]int) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.endings(ids)); diff != "" {
		r.t.Fatalf("endings (-want +got):\n%s", diff)
	}
}

// TestOpenLaneDeadLetters follows one lane through everything an open lane does
// under on_open: dead_letter.
func TestOpenLaneDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		r := newRig(t, dest.answer, settings(func(c *dispatch.Config) { c.Window = 32 }))
		defer r.close()
		e := r.endpoint(deadLetter)
		other := r.endpoint("")
		delayed := r.publishAt(e, 2, r.now().Add(30*time.Minute))
		backlog := r.publish(e, 700)
		time.Sleep(5 * time.Second)
		// Five failed and wait for their own retry; all others are done with.
		r.wantEndings(backlog, map[string]int{"pending": 5, "breaker_open": 695})
		if n := len(r.sink.seen()); n != 5 {
			t.Fatalf("%d requests, want the 5 that opened the lane", n)
		}
		r.wantEndings(r.publish(other, 10), map[string]int{"pending": 10})

		// No probe is due yet: what arrives ends at once, without an attempt.
		early := r.publish(e, 3)
		time.Sleep(100 * time.Millisecond)
		r.wantEndings(early, map[string]int{"breaker_open": 3})
		if d := r.delivery(early[0]); d.Attempts != 0 || d.SettledAt.IsZero() {
			t.Errorf("ended with %d attempts at %v, want none, just now", d.Attempts, d.SettledAt)
		}

		// One probe for many arrivals, and it dies too.
		time.Sleep(10 * time.Second)
		before := len(r.sink.seen())
		late := r.publish(e, 100)
		time.Sleep(time.Second)
		r.wantEndings(late, map[string]int{"breaker_open": 100})
		if n := len(r.sink.seen()) - before; n != 1 {
			t.Fatalf("%d requests for 100 arrivals when a probe is due, want 1", n)
		}
		probe := r.sink.seen()[before].delivery
		if log := r.attempts(probe); len(log) != 1 || log[0].Kind != hook.Probe || log[0].Charged {
			t.Errorf("attempts of the probe: %+v, want one probe, uncharged", log)
		}

		// What was not due ends when it falls due: the first one as a probe.
		r.wantEndings(delayed, map[string]int{"pending": 2})
		time.Sleep(30 * time.Minute)
		r.wantEndings(delayed, map[string]int{"breaker_open": 2})
		time.Sleep(35 * time.Minute)
		r.wantEndings(backlog, map[string]int{"breaker_open": 700})

		// The next arrival after recovery is the probe that closes the lane.
		dest.up.Store(true)
		r.wantAllDelivered(e, 1)
		r.wantAllDelivered(e, 500)
	})
}

func (r *rig) wantAllDelivered(e hook.Endpoint, n int) {
	r.t.Helper()
	ids := r.publish(e, n)
	time.Sleep(time.Minute)
	r.wantEndings(ids, map[string]int{"delivered": n})
}

// TestOpenLaneDeadLettersAfterRestart: an open lane stays open over a restart,
// and so do its ways.
func TestOpenLaneDeadLettersAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint(deadLetter)
		ids := r.publish(e, 10)
		time.Sleep(time.Second)
		delayed := r.publishAt(e, 700, r.now().Add(time.Minute))
		r.stop()
		time.Sleep(2 * time.Minute) // they fall due while nobody looks
		r.start()
		time.Sleep(time.Second)
		r.wantEndings(delayed, map[string]int{"breaker_open": 700})
		r.wantEndings(ids, map[string]int{"pending": 5, "breaker_open": 5})
	})
}

// TestInFlightDecidesItself: what is in flight when the lane opens ends by its
// own answer.
func TestInFlightDecidesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var slow [3]hook.ID
		r := newRig(t, func(a arrival) egress.Result {
			i := n.Add(1)
			if i > 3 {
				return egress.Result{Status: 503}
			}
			slow[i-1] = a.delivery
			time.Sleep(20 * time.Second)
			if i == 3 {
				return egress.Result{Status: 503}
			}
			return egress.Result{Status: 200}
		})
		defer r.close()
		e := r.endpoint(`{"breaker":{"on_open":"dead_letter","probe":{"min":"10m","max":"10m"}},"concurrency":8,
			"retry":{"backoff":{"kind":"schedule","delays":["1m"]},"jitter":"none"}}`)
		ids := r.publish(e, 100)
		time.Sleep(10 * time.Second)
		if n := r.endings(ids)["breaker_open"]; n < 80 {
			t.Fatalf("%d of 100 dead-lettered, want all that were not sent", n)
		}
		synctest.Wait()
		r.wantEndings(slow[:], map[string]int{"pending": 3})
		time.Sleep(11 * time.Second)
		r.wantEndings(slow[:], map[string]int{"pending": 1, "delivered": 2})
		time.Sleep(2 * time.Minute) // retries fall due on the open lane
		r.wantEndings(ids, map[string]int{"breaker_open": 98, "delivered": 2})
	})
}

// TestManualRetryProbesDeadLetteringLane: a person's wish is never discarded.
func TestManualRetryProbesDeadLetteringLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint(deadLetter)
		ids := r.publish(e, 1000)
		time.Sleep(time.Second)
		r.retry(ids[900])
		time.Sleep(time.Second)
		d := r.delivery(ids[900])
		if d.State != hook.Dead || d.Reason != hook.DeadBreakerOpen || d.Attempts != 1 {
			t.Errorf("after a failed manual probe: %v (%v), %d attempts; want dead (breaker_open), 1", d.State, d.Reason, d.Attempts)
		}
		if log := r.attempts(ids[900]); len(log) != 1 || log[0].Kind != hook.Manual {
			t.Errorf("attempts = %+v, want one by hand", log)
		}
		// While another probe is in flight it waits for its turn.
		dest.slow.Store(true)
		time.Sleep(10 * time.Second)
		r.publish(e, 1)
		time.Sleep(time.Second)
		r.retry(ids[902])
		time.Sleep(30 * time.Second)
		if d := r.delivery(ids[902]); d.Attempts != 1 {
			t.Errorf("%d attempts of what was asked for while a probe was in flight, want 1", d.Attempts)
		}
		dest.slow.Store(false)
		dest.up.Store(true)
		r.retry(ids[901])
		time.Sleep(time.Second)
		if d := r.delivery(ids[901]); d.State != hook.Delivered {
			t.Errorf("after a good manual probe: %v, want delivered", d.State)
		}
		r.wantAllDelivered(e, 20)
	})
}

// TestPausedLaneHoldsWhateverThePolicy: paused or disabled means held, and a
// resume delivers what was held instead of ending it.
func TestPausedLaneHoldsWhateverThePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		r := newRig(t, dest.answer)
		defer r.close()
		e := r.endpoint(deadLetter)
		r.publish(e, 10)
		time.Sleep(time.Second)
		e = r.setState(e, hook.Disabled)
		time.Sleep(time.Second)
		held := r.publish(e, 800)
		time.Sleep(time.Hour)
		r.wantEndings(held, map[string]int{"pending": 800})
		dest.up.Store(true)
		r.setState(e, hook.Active)
		time.Sleep(time.Minute)
		r.wantEndings(held, map[string]int{"delivered": 800})
	})
}

// TestProbeWaitsForASlot: the delivery that is to be the probe is not ended
// while all slots of the node are taken by others.
func TestProbeWaitsForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		var busy atomic.Value
		busy.Store("")
		r := newRig(t, func(a arrival) egress.Result {
			if a.url == busy.Load() {
				time.Sleep(20 * time.Second)
				return egress.Result{Status: 200}
			}
			return dest.answer(a)
		}, settings(func(c *dispatch.Config) { c.MaxInFlight = 1 }))
		defer r.close()
		e, other := r.endpoint(deadLetter), r.endpoint("")
		busy.Store(other.URL)
		r.publish(e, 10)
		time.Sleep(15 * time.Second)
		dest.up.Store(true)
		r.publish(other, 1)
		time.Sleep(time.Second)
		ids := r.publish(e, 3)
		time.Sleep(time.Second)
		r.wantEndings(ids, map[string]int{"breaker_open": 2, "pending": 1})
		time.Sleep(time.Minute)
		r.wantEndings(ids, map[string]int{"breaker_open": 2, "delivered": 1})
	})
}

// TestSlowStoreDoesNotRepeatReads: while what was discarded waits for its
// commit, the backlog is not read again and again.
func TestSlowStoreDoesNotRepeatReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var counted *countingReads
		var down *flaky
		var sent atomic.Int64
		r := newRig(t, func(arrival) egress.Result {
			if sent.Add(1) == 5 {
				down.down.Store(true) // with this answer the lane opens
			}
			return egress.Result{Status: 503}
		}, func(r *rig) {
			r.wrap = func(db store.DB) store.DB {
				down = &flaky{DB: db}
				counted = &countingReads{DB: down}
				return counted
			}
		})
		defer r.close()
		e := r.endpoint(deadLetter)
		e = r.setState(e, hook.Paused)
		ids := r.publish(e, 6000)
		time.Sleep(time.Second)
		r.setState(e, hook.Active)
		time.Sleep(time.Minute)
		if n := counted.reads.Load(); n < 1 || n > 5 {
			t.Errorf("%d reads while the store takes nothing, want a window full", n)
		}
		down.down.Store(false)
		time.Sleep(time.Minute)
		r.wantEndings(ids, map[string]int{"pending": 5, "breaker_open": 5995})
	})
}

// countingReads counts reads ahead.
type countingReads struct {
	store.DB
	reads atomic.Int64
}

func (c *countingReads) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	c.reads.Add(1)
	return c.DB.ReadAhead(ctx, endpoint, now, limit)
}
