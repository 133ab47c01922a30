package dispatch_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// takeAll takes slots until the rule forbids it and returns how many there were.
func takeAll(free *int, size int) (used int) {
	for dispatch.More(used, *free, size) > 0 {
		used++
		*free--
	}
	return used
}

func TestShareOfSlots(t *testing.T) {
	t.Parallel()
	free := 1024
	if n := takeAll(&free, 1024); n < 1024*3/4 {
		t.Errorf("one who is alone gets %d of 1024, want most", n)
	}
	if n := takeAll(&free, 1024); n < 64 {
		t.Errorf("who comes second gets %d, want many at once", n)
	}
	for i := range 16 {
		if takeAll(&free, 1024) == 0 {
			t.Fatalf("nothing was left after %d more who took all they could", i)
		}
	}
	if n := dispatch.More(0, 1, 1); n != 1 {
		t.Errorf("%d of a single slot, want it", n)
	}
}

// Whatever is taken and given back: never more than there are, who has none gets
// one while there is one, and what More says is what can be taken.
func TestMoreIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 2000).Draw(t, "size")
		used := rapid.IntRange(0, size).Draw(t, "used")
		free := rapid.IntRange(0, size-used).Draw(t, "free")
		n := dispatch.More(used, free, size)
		if n < 0 || n > free || used == 0 && free > 0 && n == 0 {
			t.Fatalf("%d more", n)
		}
		for i := range n {
			if dispatch.More(used+i, free-i, size) != n-i {
				t.Fatalf("%d more at first, %d after %d of them", n, dispatch.More(used+i, free-i, size), i)
			}
		}
	})
}

// hanging is a policy that a tenant may set who wants to take all there is.
const hanging = `{"concurrency":1000,"timeout":{"total":"30s"},"breaker":{"enabled":false},"retry":{"backoff":{"kind":"schedule","delays":["1s"]},"jitter":"none"}}`

// newTenant makes one more tenant.
func (r *rig) newTenant(uid string) hook.Tenant {
	r.t.Helper()
	now := r.now()
	ten := hook.Tenant{ID: r.ids.Next(now), UID: uid, Name: uid, Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	r.must(r.db.CreateTenant(r.ctx(), ten, r.audit()))
	return ten
}

// waits publishes one event after the other and returns how long each took to
// arrive, in order of length; a minute for one that did not.
func (r *rig) waits(e hook.Endpoint, n int) (took []time.Duration) {
	r.t.Helper()
	for range n {
		began := time.Now()
		id := r.publish(e, 1)[0]
		time.Sleep(40 * time.Millisecond)
		took = append(took, time.Minute)
		for _, a := range r.sink.of(id) {
			took[len(took)-1] = a.at.Sub(began)
		}
	}
	slices.Sort(took)
	return took
}

// TestHangingEndpointsOfAnotherTenant: very many endpoints of one tenant hang,
// with all the concurrency a policy can ask for and no breaker. Another tenant's
// deliveries take as long as they do without them.
func TestHangingEndpointsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	if !json.Valid([]byte(hanging)) {
		t.Fatal("no policy")
	}
	for name, tc := range map[string]struct{ endpoints, each int }{
		"a few with many": {14, 300},
		"hundreds":        {400, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var quick string
				r := newRig(t, func(a arrival) egress.Result {
					if a.url == quick {
						time.Sleep(10 * time.Millisecond)
						return egress.Result{Status: 200}
					}
					time.Sleep(time.Hour)
					return egress.Result{}
				}, settings(func(c *dispatch.Config) { c.DrainTimeout = time.Second }))
				defer r.close()
				attacker, victim := r.tenant, r.newTenant("victim")
				r.tenant = victim
				e := r.endpoint("")
				quick = e.URL
				alone := r.waits(e, 100)

				r.tenant = attacker
				for range tc.endpoints {
					r.publish(r.endpoint(hanging), tc.each)
				}
				time.Sleep(5 * time.Second)
				if n := r.d.InFlight(); n < 500 {
					t.Fatalf("%d in flight, want many that hang", n)
				}
				r.tenant = victim
				took := r.waits(e, 100)
				if worst, limit := took[98], max(2*alone[98], 20*time.Millisecond); worst > limit {
					t.Errorf("99 of 100 arrived within %v, want %v", worst, limit)
				}
				if n := r.d.InFlight(); n > 1024 {
					t.Errorf("%d in flight", n)
				}
			})
		})
	}
}

// TestIdleLaneOfTheSameTenant finds a slot beside lanes of its tenant that hang.
func TestIdleLaneOfTheSameTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var quick string
		r := newRig(t, func(a arrival) egress.Result {
			if a.url != quick {
				time.Sleep(time.Hour)
			}
			return egress.Result{Status: 200}
		}, settings(func(c *dispatch.Config) { c.DrainTimeout = time.Second }))
		defer r.close()
		e := r.endpoint("")
		quick = e.URL
		for range 14 {
			r.publish(r.endpoint(hanging), 500)
		}
		time.Sleep(5 * time.Second)
		if took := r.waits(e, 50); took[49] > 40*time.Millisecond {
			t.Errorf("arrived within %v", took[49])
		}
	})
}

// TestWaitingLanesGetTheirTurn: with more endpoints than slots, all of them
// answer slowly, and every delivery arrives.
func TestWaitingLanesGetTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(arrival) egress.Result {
			time.Sleep(2 * time.Second)
			return egress.Result{Status: 200}
		}, settings(func(c *dispatch.Config) { c.MaxInFlight = 16 }))
		defer r.close()
		var ids []hook.ID
		for _, uid := range []string{"a", "b", "c"} {
			r.tenant = r.newTenant(uid)
			for range 20 {
				ids = append(ids, r.publish(r.endpoint(`{"concurrency":4}`), 3)...)
			}
		}
		time.Sleep(2 * time.Minute) // 180 at 16 in two seconds take 23
		arrived := map[hook.ID]int{}
		for _, a := range r.sink.seen() {
			arrived[a.delivery]++
		}
		if len(arrived) != len(ids) || len(r.sink.seen()) != len(ids) || r.d.InFlight() != 0 {
			t.Errorf("%d of %d deliveries arrived, %d requests, %d in flight", len(arrived), len(ids), len(r.sink.seen()), r.d.InFlight())
		}
	})
}
