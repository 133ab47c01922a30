package dispatch_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// TestEndpointsOfOneHostRecoverAsOne: endpoints of one host that fall together are
// probed by one of them for all, and when the host is back what they send in sum
// is no more than one lane with their traffic would.
func TestEndpointsOfOneHostRecoverAsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 20
		var dest switched
		dest.up.Store(true)
		r := newRig(t, dest.answer)
		defer r.close()
		all := r.neighbours()
		traffic := func(lasts time.Duration) []hook.ID { return r.traffic(all, perSecond, lasts) }
		traffic(15 * time.Second)
		dest.up.Store(false)
		held := traffic(20 * time.Second)
		from := len(r.sink.seen())
		held = append(held, traffic(20*time.Second)...)
		if n := len(r.sink.seen()) - from; n == 0 || n > 15 {
			t.Errorf("%d requests to a host that is down, in 20 s, want one every two seconds or so for all endpoints", n)
		}

		dest.up.Store(true)
		from = len(r.sink.seen())
		held = append(held, traffic(2*time.Minute)...)
		if most := mostInASecond(r.sink.seen()[from:]); most > 2*perSecond {
			t.Errorf("%d requests in a second after the outage, want at most twice the usual %d", most, perSecond)
		}
		time.Sleep(time.Minute)
		if n := r.count(held)[hook.Delivered]; n != len(held) {
			t.Errorf("%d of %d delivered", n, len(held))
		}
		for _, e := range all {
			if c := r.checkpoint(e); c.Open || c.Ceiling != 0 || c.Mark != 0 {
				t.Errorf("an endpoint has learnt %+v from what its host did", c)
			}
		}
	})
}

// TestYoungEndpointsOfOneHost: a host that falls after a moment of traffic learns in its
// recovery what its endpoints are used to.
func TestYoungEndpointsOfOneHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest switched
		dest.up.Store(true)
		r := newRig(t, dest.answer)
		defer r.close()
		all := r.neighbours()
		r.traffic(all, 20, 3*time.Second)
		dest.up.Store(false)
		held := r.traffic(all, 20, 30*time.Second)
		dest.up.Store(true)
		r.traffic(all, 20, 110*time.Second)
		if n := r.count(held)[hook.Delivered]; n != len(held) {
			t.Errorf("%d of %d delivered", n, len(held))
		}
	})
}

// TestNewOwnerOfOneHost: endpoints that fell together are one host for the next owner,
// too: one of them probes for all, and they come back as slowly.
func TestNewOwnerOfOneHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 20
		var dest switched
		dest.up.Store(true)
		r := newRig(t, dest.answer)
		defer r.close()
		all := r.neighbours()
		traffic := func(lasts time.Duration) []hook.ID { return r.traffic(all, perSecond, lasts) }
		restart := func() {
			r.close()
			time.Sleep(3 * time.Second)
			r.open()
			r.start()
		}
		traffic(15 * time.Second)
		dest.up.Store(false)
		held := traffic(time.Minute)
		restart()
		held = append(held, traffic(5*time.Second)...) // all lanes are read
		from := len(r.sink.seen())
		held = append(held, traffic(20*time.Second)...)
		if n := len(r.sink.seen()) - from; n == 0 || n > 15 {
			t.Errorf("%d requests of a new owner in 20 s to a host that is down, want one every three seconds or so", n)
		}

		dest.up.Store(true)
		from = len(r.sink.seen())
		held = append(held, traffic(15*time.Second)...)
		restart()
		held = append(held, traffic(15*time.Second)...)
		if most := mostInASecond(r.sink.seen()[from:]); most > 4*perSecond {
			t.Errorf("%d requests in a second after the outage, want at most four times the usual %d", most, perSecond)
		}
		held = append(held, traffic(2*time.Minute)...)
		time.Sleep(time.Minute)
		if n := r.count(held)[hook.Delivered]; n != len(held) {
			t.Errorf("%d of %d delivered", n, len(held))
		}
	})
}

// edge is a host that answers at once and crashes for 10 s at more than so many
// requests in a second.
type edge struct {
	mu      sync.Mutex
	most    int
	down    bool
	until   time.Time
	starts  []time.Time
	crashes int
}

func (e *edge) answer(arrival) egress.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.down || now.Before(e.until) {
		return egress.Result{Reason: hook.ConnectRefused}
	}
	e.starts = slices.DeleteFunc(append(e.starts, now), func(at time.Time) bool { return now.Sub(at) >= time.Second })
	if len(e.starts) > e.most {
		e.crashes++
		e.until, e.starts = now.Add(10*time.Second), nil
		return egress.Result{Reason: hook.ConnectReset}
	}
	return egress.Result{Status: 200}
}

// crashed returns how often the host has crashed since it was last asked, and takes it
// down or up.
func (e *edge) crashed(down bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.crashes
	e.crashes, e.down = 0, down
	return n
}

// TestNewOwnerKnowsWhatBrokeAHost: what the endpoints of a host learnt together in one
// outage keeps it up in the next one, after a restart.
func TestNewOwnerKnowsWhatBrokeAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 20
		dest := edge{most: 40}
		r := newRig(t, dest.answer)
		defer r.close()
		all := r.neighbours()
		r.traffic(all, perSecond, 30*time.Second)
		outage := func() ([]hook.ID, int) {
			dest.crashed(true)
			held := r.traffic(all, perSecond, 5*time.Minute)
			dest.crashed(false)
			held = append(held, r.traffic(all, perSecond, 10*time.Minute)...)
			return held, dest.crashed(false)
		}
		held, crashes := outage()
		if crashes == 0 || crashes > 3 {
			t.Errorf("%d crashes in the first outage, want one to three: the limit has to be found", crashes)
		}
		if c := r.checkpoint(all[0]).HostLearnt; c == nil || c.Ceiling < 30 || c.Ceiling > 42 || c.Address != "https://example.test:443" {
			t.Errorf("saved of the host: %+v, want that it bears 40 per second", c)
		}
		r.close()
		time.Sleep(3 * time.Second)
		r.open()
		r.start()
		r.traffic(all, perSecond, time.Minute)
		again, crashes := outage()
		if crashes > 0 {
			t.Errorf("%d crashes in the second outage, after a restart", crashes)
		}
		held = append(held, again...)
		time.Sleep(time.Minute)
		if n := r.count(held)[hook.Delivered]; n != len(held) {
			t.Errorf("%d of %d delivered", n, len(held))
		}
	})
}

// TestHealthyEndpointBesideFailingOnes: two endpoints of a host that fail for
// reasons of their own do not slow the third one down.
func TestHealthyEndpointBesideFailingOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Value // URL
		well.Store("")
		r := newRig(t, func(a arrival) egress.Result {
			if a.url == well.Load() {
				return egress.Result{Status: 200}
			}
			return egress.Result{Reason: hook.ConnectRefused}
		})
		defer r.close()
		fine := r.endpoint("")
		well.Store(fine.URL)
		ill := []hook.Endpoint{r.endpoint(""), r.endpoint("")}
		for range 200 {
			r.publish(fine, 1)
			r.publish(ill[0], 1)
			r.publish(ill[1], 1)
			time.Sleep(50 * time.Millisecond)
		}
		ids := r.publish(fine, 300)
		time.Sleep(time.Second)
		if n := r.count(ids)[hook.Delivered]; n != 300 {
			t.Errorf("%d of 300 events of the healthy endpoint delivered in a second", n)
		}
		for _, e := range ill {
			if !r.checkpoint(e).Open {
				t.Error("an endpoint that fails is not open")
			}
		}
	})
}

// neighbours are ten endpoints of one host.
func (r *rig) neighbours() []hook.Endpoint {
	all := make([]hook.Endpoint, 10)
	for i := range all {
		all[i] = r.endpoint("")
	}
	return all
}

// traffic publishes to endpoints in turn for a while.
func (r *rig) traffic(all []hook.Endpoint, perSecond int, lasts time.Duration) (ids []hook.ID) {
	for range int(lasts.Seconds()) * perSecond {
		ids = append(ids, r.publish(all[len(ids)%len(all)], 1)...)
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	return ids
}

// checkpoint is what was last saved of an endpoint's lane.
func (r *rig) checkpoint(e hook.Endpoint) lane.Checkpoint {
	r.t.Helper()
	got, err := r.db.Destinations(r.ctx(), []hook.ID{e.ID})
	r.must(err)
	if len(got) != 1 || got[0].Lane == nil {
		r.t.Fatal("nothing was saved of the lane")
	}
	return *got[0].Lane
}

// mostInASecond is the most arrivals of any second.
func mostInASecond(all []arrival) (most int) {
	first := 0
	for i := range all {
		for all[i].at.Sub(all[first].at) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
