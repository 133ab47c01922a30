package dispatch_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// smallWindow makes most of a backlog stay on disk.
var smallWindow = settings(func(c *dispatch.Config) { c.Window = 32 })

// TestNewDoesNotOvertakeOldForLong: a burst leaves deliveries on disk, and from
// then on as many come as go. Those on disk get their turn all the same.
func TestNewDoesNotOvertakeOldForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(100 * time.Millisecond)
			return egress.Result{Status: 200}
		}, smallWindow)
		defer r.close()
		e := r.endpoint(`{"concurrency":10}`)
		burst := r.publish(e, 100)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			r.publish(e, 10)
		}
		if got := r.count(burst)[hook.Delivered]; got != len(burst) {
			t.Errorf("%d of %d delivered within 5s, in which 500 were", got, len(burst))
		}
	})
}

// TestRetriesComeThroughABusyQueue: a retry that falls due while the lane always
// has live events to send does not wait for a quiet moment.
func TestRetriesComeThroughABusyQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var firsts atomic.Int64
		var failedAt sync.Map // of deliveries that wait for their retry
		r := newRig(t, func(a arrival) egress.Result {
			time.Sleep(100 * time.Millisecond)
			if a.attempt == 1 && firsts.Add(1)%12 == 0 {
				failedAt.Store(a.delivery, time.Now())
				return egress.Result{Status: 500}
			}
			failedAt.Delete(a.delivery)
			return egress.Result{Status: 200}
		}, smallWindow)
		defer r.close()
		e := r.endpoint(`{"concurrency":10,"breaker":{"enabled":false},
			"retry":{"backoff":{"kind":"schedule","delays":["1s"]},"jitter":"none"}}`)
		r.publish(e, 30) // a queue that never runs low
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			r.publish(e, 10)
		}
		waiting, late := 0, 0
		failedAt.Range(func(_, at any) bool {
			waiting++
			if time.Since(at.(time.Time)) > 4*time.Second {
				late++
			}
			return true
		})
		if late > 0 || waiting == 0 {
			t.Errorf("%d of %d retries are due for 3s and longer", late, waiting)
		}
	})
}

// TestBacklogDoesNotDelayLive: while the backlog of an outage is sent, what
// arrives now goes first, however much of the backlog is on disk, and whichever
// node accepts it.
func TestBacklogDoesNotDelayLive(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(*hearing, hook.Endpoint){
		"accepted here":      func(h *hearing, e hook.Endpoint) { h.publish(e, 2) },
		"accepted elsewhere": func(h *hearing, e hook.Endpoint) { h.hear(h.elsewhere(e, 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				down.Store(true)
				h := newHearing(t, func(arrival) egress.Result {
					if down.Load() {
						return egress.Result{Status: 503}
					}
					time.Sleep(100 * time.Millisecond)
					return egress.Result{Status: 200}
				}, func(c *dispatch.Config) { c.Window = 32 })
				defer h.close()
				e := h.endpoint(`{"concurrency":5}`)
				backlog := make(map[hook.ID]bool)
				for _, id := range h.publish(e, 5000) {
					backlog[id] = true
				}
				time.Sleep(time.Minute)
				down.Store(false)
				begin := time.Now()
				time.Sleep(time.Minute)
				for range 100 {
					publish(h, e)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Second)
				live, old := 0, 0
				for _, a := range h.sink.seen() {
					switch {
					case !backlog[a.delivery]:
						live++
					case a.at.After(begin):
						old++
					}
				}
				if live != 200 || old < 100 || old >= 5000 {
					t.Errorf("%d of 200 live events were sent within a second of the last, beside %d of 5000 old ones", live, old)
				}
			})
		})
	}
}
