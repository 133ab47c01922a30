package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// slowLog takes a moment for every warning, as a log on a full pipe does.
type slowLog struct{ slog.Handler }

func (slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (slowLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		time.Sleep(300 * time.Millisecond)
	}
	return nil
}

func shardOfURL(url string) int {
	id, err := hook.EndpointPrefix.Parse(url[len(url)-16:])
	if err != nil {
		panic(err)
	}
	return hook.ShardOf(id)
}

// TestNodesThatWakeUpSendNothingStale: three nodes are cut off in turns, each for
// longer than its lease, with windows full of deliveries. Whoever comes back
// sends nothing for a shard that has another owner by then.
func TestNodesThatWakeUpSendNothingStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, func(a arrival) egress.Result {
			time.Sleep(600*time.Millisecond + time.Duration(a.delivery%1200)*time.Millisecond)
			return egress.Result{Status: 200}
		})
		defer func() { r.must(r.db.Close()) }()
		var stale, sent atomic.Int64
		var nodes []*peer
		for i := range 3 {
			p := r.join(b, fmt.Sprint("node ", i), func(p *peer) {
				p.config = func(cfg *dispatch.Config) {
					cfg.LeaseTTL, cfg.LeaseRenew = 5*time.Second, 1500*time.Millisecond
					cfg.Log = slog.New(slowLog{slog.DiscardHandler})
				}
				p.sends.before = func(url string) {
					sent.Add(1)
					if b.owner(shardOfURL(url)) != p.node.ID {
						stale.Add(1)
					}
				}
			})
			nodes = append(nodes, p)
		}
		time.Sleep(10 * time.Second)
		var ids []hook.ID
		for i := range 3 {
			ids = append(ids, r.via(nodes[i], r.endpointOf(nodes[i], `{"concurrency":2}`), 450)...)
		}
		for i := range 20 {
			p := nodes[i%3]
			p.db.cut.Store(true)
			time.Sleep(9 * time.Second)
			p.db.cut.Store(false)
			time.Sleep(4 * time.Second)
		}
		if n := stale.Load(); n > 0 {
			t.Errorf("%d of %d requests by a node that did not own the shard", n, sent.Load())
		}
		time.Sleep(5 * time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		for _, p := range nodes {
			p.stop()
		}
	})
}

// TestStartAsksForItsShard: a request was on its way, waiting for its payload,
// while the lease ran out, the shard went to another node and the lease of this
// node was renewed. It is not sent.
func TestStartAsksForItsShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, b := newCluster(t, always(200))
		defer func() { r.must(r.db.Close()) }()
		var byFirst atomic.Int64
		first := r.join(b, "first", func(p *peer) {
			p.config = func(cfg *dispatch.Config) { cfg.PayloadMemory = 1 }
			p.sends.before = func(string) { byFirst.Add(1) }
		})
		second := r.join(b, "second")
		time.Sleep(30 * time.Second)
		e := r.endpointOf(first, `{"concurrency":4}`)
		first.db.readTakes.Store(int64(50 * time.Second))
		ids := r.via(first, e, 4)
		first.db.cut.Store(true)
		time.Sleep(30 * time.Second)
		first.db.cut.Store(false)
		time.Sleep(15 * time.Second)
		if reasons := first.d.Ready(); len(reasons) > 0 {
			t.Fatalf("the first node is not back: %v", reasons)
		}
		first.db.readTakes.Store(0)
		time.Sleep(2 * time.Minute)
		if n := byFirst.Load(); n > 0 {
			t.Errorf("%d requests for a shard that had gone meanwhile", n)
		}
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
		second.stop()
		first.stop()
	})
}
