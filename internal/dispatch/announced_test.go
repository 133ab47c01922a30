package dispatch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// others stands for the other nodes: what they say is heard, and what is told to
// them is kept.
type others struct {
	say chan store.Hint

	mu   sync.Mutex
	told []store.Hint
}

func (o *others) Hint(_ context.Context, h store.Hint) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, h)
	return nil
}

// heard returns what was told since the last call.
func (o *others) heard() []store.Hint {
	o.mu.Lock()
	defer o.mu.Unlock()
	told := o.told
	o.told = nil
	return told
}

func (o *others) Listen(ctx context.Context, fn func(store.Hint)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case h := <-o.say:
			fn(h)
		}
	}
}

// hearing is a rig whose node reads for many lanes at once and hears others.
type hearing struct {
	*rig
	db     *together
	others *others
}

func newHearing(t *testing.T, answer answer, config ...func(*dispatch.Config)) *hearing {
	t.Helper()
	h := &hearing{db: &together{}, others: &others{say: make(chan store.Hint)}}
	h.rig = newRig(t, answer, func(r *rig) {
		r.wrap = func(inner store.DB) store.DB {
			h.db.DB = inner
			return h.db
		}
		r.config = func(cfg *dispatch.Config) {
			cfg.Hints = h.others
			for _, fn := range config {
				fn(cfg)
			}
		}
	})
	time.Sleep(time.Second) // all shards are taken
	return h
}

// elsewhere makes events that another node accepts: this one knows nothing of
// them.
func (h *hearing) elsewhere(e hook.Endpoint, n int) (announced []store.Announced) {
	h.t.Helper()
	now := h.now()
	rev, err := h.rig.db.ConfigRev(h.ctx(), h.tenant.ID)
	h.must(err)
	b := &store.Batch{Node: h.node.ID, Now: now}
	for range n {
		event := hook.Event{ID: h.ids.Next(now), TenantID: h.tenant.ID, Type: "order.paid", CreatedAt: now, ContentType: "application/json", Payload: []byte("{}")}
		d := hook.Delivery{
			ID: h.ids.Next(now), TenantID: h.tenant.ID, EventID: event.ID, EndpointID: e.ID, DueAt: now,
			Size: len(event.Payload), Progress: hook.Progress{Run: 1, RunDueAt: now},
		}
		b.Accepts = append(b.Accepts, &store.Accept{Event: event, Deliveries: []hook.Delivery{d}, ConfigRev: rev})
		announced = append(announced, store.Announced{Endpoint: e.ID, Event: event.ID, Delivery: d.ID})
	}
	h.must(h.rig.db.Commit(h.ctx(), b))
	return announced
}

func (h *hearing) hear(announced []store.Announced) {
	h.others.say <- store.Hint{Kind: store.HintAnnounced, Announced: announced}
}

// TestLaneReadsWhatWasAnnounced: an announcement of deliveries makes their lane read just that,
// payload included, and send it once, however often it is told.
func TestLaneReadsWhatWasAnnounced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHearing(t, func(arrival) egress.Result {
			time.Sleep(300 * time.Millisecond)
			return egress.Result{Status: 200}
		})
		defer h.close()
		announced := h.elsewhere(h.endpoint(""), 3)
		begin := time.Now()
		h.hear(announced)
		time.Sleep(100 * time.Millisecond)
		h.hear(announced) // they are in flight
		time.Sleep(time.Second)
		h.hear(announced) // they are settled
		time.Sleep(10 * time.Second)

		seen := h.sink.seen()
		if len(seen) != len(announced) || seen[0].at.Sub(begin) > 50*time.Millisecond {
			t.Errorf("%d arrivals for %d deliveries, the first after %v", len(seen), len(announced), seen[0].at.Sub(begin))
		}
		asked := h.db.wanted()
		if len(asked) == 0 || len(asked[0].Endpoints) != 0 || !cmp.Equal(asked[0].Announced, announced) {
			t.Errorf("asked for %+v at first, want just what was announced", asked)
		}
		if n := h.db.single.Load(); n != 0 {
			t.Errorf("%d payloads were read alone", n)
		}
	})
}

// TestLaneReadsRowsInstead: a lane that cannot read or send what it heard of, or
// not all of it, finds the rest by its rows.
func TestLaneReadsRowsInstead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events  int
		prepare func(h *hearing, e hook.Endpoint) func()
	}{
		"read fails": {3, func(h *hearing, _ hook.Endpoint) func() {
			h.db.fail.Store(1)
			return func() {}
		}},
		"paused": {20, func(h *hearing, e hook.Endpoint) func() {
			e = h.setState(e, hook.Paused)
			return func() {
				for _, w := range h.db.wanted() {
					if len(w.Endpoints) != 0 || len(w.Announced) > 8 {
						h.t.Errorf("a lane that holds asked for %+v, want a few to probe with", w)
					}
				}
				h.setState(e, hook.Active)
			}
		}},
		"too many": {20, func(*hearing, hook.Endpoint) func() { return func() {} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHearing(t, func(arrival) egress.Result { return egress.Result{Status: 200} }, func(cfg *dispatch.Config) { cfg.Window = 8 })
				defer h.close()
				e := h.endpoint("")
				resume := c.prepare(h, e)
				h.hear(h.elsewhere(e, c.events))
				time.Sleep(3 * time.Second)
				resume()
				time.Sleep(10 * time.Second)
				if n := len(h.sink.seen()); n != c.events {
					t.Errorf("%d arrivals for %d deliveries", n, c.events)
				}
				asked := h.db.wanted()
				if !slices.ContainsFunc(asked, func(w store.Wanted) bool { return len(w.Endpoints) == 1 }) {
					t.Errorf("asked for %+v, want the rows of the endpoint, too", asked)
				}
			})
		})
	}
}

// TestOthersAreToldOfNewDeliveries: a node tells the owner which deliveries it has
// accepted for its lanes.
func TestOthersAreToldOfNewDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result { return egress.Result{Status: 200} })
		defer func() { r.must(r.db.Close()) }()
		wire := &others{say: make(chan store.Hint)}
		first := r.join(b, "first", func(p *peer) { p.hints = wire })
		second := r.join(b, "second")
		time.Sleep(30 * time.Second)
		own, foreign := r.endpointOf(first, ""), r.endpointOf(second, "")
		time.Sleep(time.Second)
		wire.heard()
		r.via(first, own, 1)
		ids := r.via(first, foreign, 2)
		time.Sleep(time.Second)
		var announced []hook.ID
		for _, h := range wire.heard() {
			for _, n := range h.Announced {
				if announced = append(announced, n.Delivery); n.Endpoint != foreign.ID || n.Event != r.delivery(n.Delivery).EventID {
					t.Errorf("told of %+v", n)
				}
			}
		}
		if !cmp.Equal(announced, ids) {
			t.Errorf("told of deliveries %v, want %v", announced, ids)
		}
		time.Sleep(20 * time.Second)
		second.stop()
		first.stop()
	})
}
