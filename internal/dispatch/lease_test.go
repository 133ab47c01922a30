package dispatch_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestNodesShareWithoutHints: two nodes, every hint lost. Each delivery arrives
// once, whichever node accepted it and whoever owns its lane; a node that comes
// or goes moves shards and nothing else.
func TestNodesShareWithoutHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result {
			time.Sleep(300 * time.Millisecond)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		first := r.join(b, "first")
		time.Sleep(3 * time.Second)
		if n := r.owned(first); n != hook.Shards {
			t.Fatalf("the only node owns %d shards", n)
		}
		var endpoints []hook.Endpoint
		for range 12 {
			endpoints = append(endpoints, r.endpoint(`{"concurrency":2}`))
		}
		var ids []hook.ID
		publish := func(p *peer) {
			for _, e := range endpoints {
				ids = append(ids, r.via(p, e, 10)...)
			}
		}
		publish(first)
		second := r.join(b, "second")
		for range 5 {
			time.Sleep(2 * time.Second)
			publish(first)
			publish(second)
		}
		time.Sleep(20 * time.Second)
		if x, y := r.owned(first), r.owned(second); x+y != hook.Shards || x < 80 || y < 80 {
			t.Errorf("the nodes own %d and %d shards, want about half each", x, y)
		}
		publish(second)
		second.stop()
		if n := r.owned(second); n != 0 {
			t.Errorf("a node that stopped still owns %d shards", n)
		}
		time.Sleep(2 * time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		if n := len(r.sink.seen()); n != len(ids) {
			t.Errorf("%d arrivals for %d deliveries", n, len(ids))
		}
		first.stop()
	})
}

// TestHandOverEndsDespiteADeletedEndpoint: an attempt was in flight when its
// endpoint was deleted; the shard can be handed over all the same.
func TestHandOverEndsDespiteADeletedEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result {
			time.Sleep(5 * time.Second)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		first := r.join(b, "first")
		time.Sleep(3 * time.Second)
		var shards []int
		for range 40 {
			e := r.endpoint("")
			shards = append(shards, hook.ShardOf(e.ID))
			r.via(first, e, 1)
			time.Sleep(10 * time.Millisecond)
			_, err := r.db.DeleteEndpoint(r.ctx(), e.TenantID, e.ID, r.now(), r.audit())
			r.must(err)
			first.d.EndpointChanged(e.ID)
		}
		time.Sleep(time.Minute)
		second := r.join(b, "second")
		time.Sleep(time.Minute)
		leases, err := r.db.Shards(r.ctx(), 0)
		r.must(err)
		moved := 0
		for _, s := range shards {
			if leases[s].Owner == second.node.ID {
				moved++
			}
		}
		if moved < 5 {
			t.Errorf("%d of 40 shards that had a deleted endpoint moved to the second node, want about half", moved)
		}
		if n := first.d.InFlight(); n != 0 {
			t.Errorf("%d slots in use", n)
		}
		second.stop()
		first.stop()
	})
}

// TestOutageOfTheStoreKeepsResults: no lease can be renewed and nothing be
// stored for longer than a lease lasts. Nobody else took the shards, so what
// was sent before is stored afterwards, and not sent again.
func TestOutageOfTheStoreKeepsResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result {
			time.Sleep(time.Second)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		p := r.join(b, "only")
		time.Sleep(3 * time.Second)
		e := r.endpointOf(p, "")
		ids := r.via(p, e, 100)
		time.Sleep(500 * time.Millisecond)
		p.db.cut.Store(true)
		p.db.down.Store(true)
		time.Sleep(20 * time.Second)
		sent := len(r.sink.seen())
		time.Sleep(40 * time.Second)
		if n := len(r.sink.seen()); n != sent {
			t.Errorf("%d requests after the lease had ended", n-sent)
		}
		p.db.cut.Store(false)
		time.Sleep(5 * time.Second)
		p.db.down.Store(false)
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		if n := len(r.sink.seen()); n != len(ids) {
			t.Errorf("%d arrivals for %d deliveries", n, len(ids))
		}
		p.stop()
	})
}

// TestTakingOneShardExtendsNoOther: a take-over renews nothing but what it
// took. A node that is cut off right after it falls silent when its other
// leases end.
func TestTakingOneShardExtendsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, always(200))
		defer func() { r.must(r.db.Close()) }()
		ghost := hook.Node{ID: 12345, Name: "ghost"}
		b.nodes[ghost.ID] = signOn{ghost, time.Now().Add(time.Hour)}
		for s := range hook.Shards / 8 {
			b.busy[s*8] = true
		}
		p := r.join(b, "only")
		late := 0
		p.sends.before = func(url string) {
			id, err := hook.EndpointPrefix.Parse(url[len(url)-16:])
			r.must(err)
			if end := b.end(hook.ShardOf(id)); time.Now().After(end) {
				late++
			}
		}
		time.Sleep(2500 * time.Millisecond) // renewed, and not due for the next renewal
		e := r.endpointOf(p, `{"concurrency":1}`)
		// What the ghost should own, it owned, and its leases have ended: that makes
		// the node look who is left. And others come free for itself.
		var rest []int
		for s := range hook.Shards {
			if leases, err := r.db.Shards(r.ctx(), 0); err == nil && leases[s].Owner == 0 && !b.busy[s] {
				rest = append(rest, s)
			}
		}
		_, err := r.db.TakeShards(r.ctx(), ghost.ID, rest, true, 0)
		r.must(err)
		b.mu.Lock()
		clear(b.busy)
		b.mu.Unlock()
		owned := r.owned(p)
		for r.owned(p) == owned {
			time.Sleep(50 * time.Millisecond)
		}
		p.db.cut.Store(true)
		for range 150 {
			r.via(p, e, 1)
			time.Sleep(200 * time.Millisecond)
		}
		if late > 0 {
			t.Errorf("%d requests under a lease that had ended", late)
		}
		p.db.cut.Store(false)
		time.Sleep(time.Minute)
		p.stop()
	})
}

// TestLostHintOfAChange: an endpoint is paused through one node, its lane lives
// on another, and the hint is lost. The owner sees it all the same, later.
func TestLostHintOfAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result {
			time.Sleep(time.Second)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		first, second := r.join(b, "first"), r.join(b, "second")
		time.Sleep(30 * time.Second)
		e := r.endpointOf(first, `{"concurrency":1}`)
		r.via(second, e, 500)
		time.Sleep(30 * time.Second)
		if len(r.sink.seen()) == 0 {
			t.Fatal("nothing was delivered before the change")
		}
		e.State, e.UpdatedAt = hook.Paused, r.now()
		_, err := r.db.UpdateEndpoint(r.ctx(), e, r.audit())
		r.must(err)
		second.d.EndpointChanged(e.ID)
		time.Sleep(2 * time.Minute)
		n := len(r.sink.seen())
		time.Sleep(2 * time.Minute)
		if more := len(r.sink.seen()) - n; more > 0 {
			t.Errorf("%d requests to an endpoint that has been paused for minutes", more)
		}
		second.stop()
		first.stop()
	})
}

// TestLastAcceptOfALeavingNode: a node accepts for another's lane and leaves at
// once; the hint is lost, and the other one is alone from then on.
func TestLastAcceptOfALeavingNode(t *testing.T) {
	t.Parallel()
	for wait := 30 * time.Second; wait < 35*time.Second; wait += 500 * time.Millisecond {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, b := newCluster(t, always(200))
				defer func() { r.must(r.db.Close()) }()
				first, second := r.join(b, "first"), r.join(b, "second")
				time.Sleep(wait)
				e := r.endpointOf(first, "")
				ids := r.via(second, e, 1)
				second.stop()
				time.Sleep(2 * time.Minute)
				if got := r.count(ids)[hook.Delivered]; got != 1 {
					t.Error("a delivery of the node that left was never looked at")
				}
				first.stop()
			})
		})
	}
}

// TestFirstPollIsShort: a node that joins finds what is pending by its
// take-over, not by reading every delivery there is.
func TestFirstPollIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, always(200))
		defer func() { r.must(r.db.Close()) }()
		time.Sleep(26 * 365 * 24 * time.Hour) // ids tell the time from 2024 on
		first := r.join(b, "first")
		time.Sleep(30 * time.Second)
		began := time.Now()
		second := r.join(b, "second", func(p *peer) { p.db.polls = make(chan hook.ID, 100) })
		time.Sleep(30 * time.Second)
		if since := <-second.db.polls; since < hook.IDFloor(began.Add(-time.Minute)) {
			t.Errorf("the first poll asks for everything since %v", since.Time())
		}
		second.stop()
		first.stop()
	})
}

// TestNewerProcessOfTheSameName: the older one ends with an error, and the
// newer one has the shards at once.
func TestNewerProcessOfTheSameName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(arrival) egress.Result {
			time.Sleep(2 * time.Second)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		older := r.join(b, "same")
		time.Sleep(3 * time.Second)
		e := r.endpointOf(older, "")
		ids := r.via(older, e, 50)
		time.Sleep(500 * time.Millisecond)
		newer := r.join(b, "same")
		time.Sleep(time.Minute)
		select {
		case err := <-older.ended:
			if !errors.Is(err, store.ErrSuperseded) {
				t.Errorf("the older process ended with %v, want superseded", err)
			}
		default:
			t.Error("the older process goes on")
			older.halt[0]()
		}
		older.halt[1]()
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		if n := len(r.sink.seen()); n > len(ids)+20 {
			t.Errorf("%d arrivals for %d deliveries, want at most those in flight again, and those that follow before the fence is seen", n, len(ids))
		}
		newer.stop()
	})
}

// TestStopDuringATakeOver: what is taken while the node stops is given back.
func TestStopDuringATakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, always(200))
		defer func() { r.must(r.db.Close()) }()
		p := r.join(b, "only", func(p *peer) { p.db.takeTakes.Store(int64(3 * time.Second)) })
		time.Sleep(time.Second)
		p.stop()
		time.Sleep(10 * time.Second)
		if n := r.owned(p); n != 0 {
			t.Errorf("a node that stopped owns %d shards", n)
		}
	})
}
