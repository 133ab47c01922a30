package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/dispatch/lease"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	me, other = hook.ID(1), hook.ID(2)
	ttl       = 15 * time.Second
)

// book is the store that the nodes share.
type book struct {
	mu      sync.Mutex
	away    bool
	members []hook.Node
	shards  [hook.Shards]store.ShardLease
}

var errAway = errors.New("the store is away")

// do runs fn on the book, unless it is away.
func (b *book) do(fn func()) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errAway
	}
	fn()
	return nil
}

func (b *book) Shared() bool { return true }

func (b *book) Join(_ context.Context, n hook.Node, _ hook.ID, _ time.Duration) (hook.Node, error) {
	return n, nil
}

func (b *book) Heartbeat(context.Context, hook.Node, time.Duration) (live []hook.Node, err error) {
	err = b.do(func() { live = slices.Clone(b.members) })
	return live, err
}

func (b *book) Shards(context.Context, time.Duration) (all []store.ShardLease, err error) {
	err = b.do(func() {
		for i, s := range b.shards {
			s.Shard, s.Free = i, s.Owner == 0
			all = append(all, s)
		}
	})
	return all, err
}

func (b *book) TakeShards(_ context.Context, node hook.ID, shards []int, _ bool, _ time.Duration) (held []store.Held, err error) {
	err = b.do(func() {
		for _, n := range shards {
			if s := &b.shards[n]; s.Owner == 0 || s.Owner == node {
				s.Owner, s.Epoch = node, s.Epoch+1
				held = append(held, store.Held{Shard: n, Epoch: s.Epoch})
			}
		}
	})
	return held, err
}

func (b *book) RenewShards(_ context.Context, node hook.ID, held []store.Held, _ time.Duration) (kept []store.Held, err error) {
	err = b.do(func() {
		for _, h := range held {
			if s := b.shards[h.Shard]; s.Owner == node && s.Epoch == h.Epoch {
				kept = append(kept, h)
			}
		}
	})
	return kept, err
}

func (b *book) ReleaseShards(_ context.Context, node hook.ID, held []store.Held) error {
	return b.do(func() {
		for _, h := range held {
			if s := &b.shards[h.Shard]; s.Owner == node && s.Epoch == h.Epoch {
				s.Owner = 0
			}
		}
	})
}

func (b *book) Leave(context.Context, hook.Node) error { return nil }

// set changes the book as another node would.
func (b *book) set(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn()
}

// lanes remember what they are told.
type lanes struct {
	mu       sync.Mutex
	epochs   map[int]int64
	leaving  map[store.Held]func()
	lost     []store.Held
	released int
	again    func() // attempts may start again
	news     []string
}

func (l *lanes) tell(format string, args ...any) {
	l.locked(func() { l.news = append(l.news, fmt.Sprintf(format, args...)) })
}

func (l *lanes) Joined() { l.tell("joined") }

func (l *lanes) Left(n hook.Node) { l.tell("left %d", n.ID) }

func (l *lanes) LeaseLost(shards int) { l.tell("lost %d", shards) }

// told returns the news, oldest first.
func (l *lanes) told() (out []string) {
	l.locked(func() { out = slices.Clone(l.news) })
	return out
}

func (l *lanes) locked(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

func (l *lanes) Acquire(h store.Held) { l.locked(func() { l.epochs[h.Shard] = h.Epoch }) }

func (l *lanes) Release(h store.Held, drained func()) {
	l.locked(func() { l.leaving[h] = drained })
}

func (l *lanes) Lose(h store.Held) { l.locked(func() { l.lost = append(l.lost, h) }) }

func (l *lanes) FindWork([]int) {}

func (l *lanes) MayStartAgain() {
	l.locked(func() {
		if l.again != nil {
			l.again()
		}
	})
}

func (l *lanes) Released() { l.locked(func() { l.released++ }) }

func (l *lanes) Poll(context.Context, time.Time) error { return nil }

// start runs an owner on the book until the test stops it.
func start(b *book) (o *lease.Owner, l *lanes, stop func()) {
	l = &lanes{epochs: make(map[int]int64), leaving: make(map[store.Held]func())}
	o = lease.New(lease.Config{
		Store: b, Lanes: l, Node: hook.Node{ID: me}, Log: slog.New(slog.DiscardHandler), TTL: ttl, Renew: ttl / 3,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	return o, l, func() {
		cancel()
		<-done
		o.Close()
	}
}

// mayStart counts the shards of which an attempt may start in the epoch in which
// the lanes got them.
func mayStart(o *lease.Owner, l *lanes) (n int) {
	l.locked(func() {
		for shard, epoch := range l.epochs {
			if o.MayStart(shard, epoch) {
				n++
			}
		}
	})
	return n
}

// TestNodesAreToldOf: a node tells that it joins, of others that are not seen any more
// if it has the lowest id, of leases that it could not keep, and of its own end if it
// is the last.
func TestNodesAreToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}, {ID: other}}}
		o, l, stop := start(b)
		time.Sleep(2 * time.Second)
		b.set(func() { b.members = b.members[:1] })
		time.Sleep(2 * ttl)
		stop()
		o.GiveUp(t.Context())
		if got, want := l.told(), []string{"joined", "left 2", "left 1"}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}}}
		_, l, stop := start(b)
		defer stop()
		time.Sleep(2 * time.Second)
		b.set(func() {
			for i := range 3 {
				b.shards[i] = store.ShardLease{Owner: other, Epoch: 41}
			}
		})
		time.Sleep(ttl)
		if got, want := l.told(), []string{"joined", "lost 3"}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: 0}, {ID: me}, {ID: other}}}
		_, l, stop := start(b)
		defer stop()
		time.Sleep(2 * time.Second)
		b.set(func() { b.members = b.members[:2] })
		time.Sleep(ttl)
		if got, want := l.told(), []string{"joined"}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v: another node tells of it", got, want)
		}
	})
}

// TestEveryStartAsksForItsShardAndEpoch: an attempt may start in the epoch in which
// its node has the shard, and in no other.
func TestEveryStartAsksForItsShardAndEpoch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}}, away: true}
		b.shards[7] = store.ShardLease{Owner: other, Epoch: 41}
		o, l, stop := start(b)
		defer stop()
		time.Sleep(time.Second)
		if o.MayStart(0, 0) || o.MayStart(0, 1) {
			t.Error("an attempt may start before the node has a shard")
		}
		b.set(func() { b.away = false })
		time.Sleep(ttl)
		if n := mayStart(o, l); n != hook.Shards-1 {
			t.Errorf("attempts may start in %d shards, want all but one", n)
		}
		for _, epoch := range []int64{0, 2, 41} {
			if o.MayStart(0, epoch) {
				t.Errorf("an attempt of epoch %d may start in epoch 1", epoch)
			}
		}
		if o.Owns(7) || o.MayStart(7, 41) || o.MayStart(7, 42) {
			t.Error("an attempt may start in another node's shard")
		}
		o.Silence()
		if n := mayStart(o, l); n != 0 {
			t.Errorf("attempts may start in %d shards after the store was lost", n)
		}
	})
}

// TestLostShardsAreGoneBeforeAttemptsStartAgain: a node was cut off for longer than
// its leases last, and another one took some of its shards. When it is back, no
// attempt may start in those, at no moment.
func TestLostShardsAreGoneBeforeAttemptsStartAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}}}
		o, l, stop := start(b)
		defer stop()
		time.Sleep(time.Second)
		b.set(func() { b.away = true })
		time.Sleep(ttl)
		if n := mayStart(o, l); n != 0 || o.Ready() == nil {
			t.Errorf("attempts may start in %d shards after the leases ended", n)
		}
		const taken = 100
		stale := -1
		l.locked(func() {
			l.again = func() {
				stale = 0
				for shard := range taken {
					if o.MayStart(shard, 1) || o.Owns(shard) {
						stale++
					}
				}
			}
		})
		b.set(func() {
			b.away = false
			for shard := range taken {
				b.shards[shard] = store.ShardLease{Owner: other, Epoch: 2}
			}
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if stale != 0 {
			t.Errorf("attempts may start again, in %d shards of another node", stale)
		}
		if n := mayStart(o, l); n != hook.Shards-taken {
			t.Errorf("attempts may start in %d shards, want the %d that nobody took", n, hook.Shards-taken)
		}
		if len(l.lost) != taken {
			t.Errorf("the lanes were told of %d lost shards, want %d", len(l.lost), taken)
		}
	})
}

// TestHandOverWaitsForAttempts: a shard that wants another node gets no new
// deliveries at once, and is released when its last attempt has ended.
func TestHandOverWaitsForAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}}}
		o, l, stop := start(b)
		defer stop()
		time.Sleep(time.Second)
		b.set(func() { b.members = []hook.Node{{ID: me}, {ID: other}} })
		time.Sleep(ttl)
		synctest.Wait()
		if len(l.leaving) == 0 || len(l.leaving) == hook.Shards {
			t.Fatalf("%d shards are handed over to a second node", len(l.leaving))
		}
		for h, drained := range l.leaving {
			if o.Owns(h.Shard) {
				t.Errorf("shard %d gets new deliveries while it is handed over", h.Shard)
			}
			if !o.MayStart(h.Shard, h.Epoch) {
				t.Errorf("what is under way in shard %d may not end", h.Shard)
			}
			drained()
			synctest.Wait()
			if o.MayStart(h.Shard, h.Epoch) {
				t.Errorf("an attempt may start in shard %d after its release", h.Shard)
			}
			b.set(func() {
				if b.shards[h.Shard].Owner != 0 {
					t.Errorf("shard %d is not released", h.Shard)
				}
			})
		}
		if l.released == 0 {
			t.Error("the other node was not told")
		}
	})
}

// TestCloseEndsAHandOver: attempts that never end do not keep a node from stopping.
func TestCloseEndsAHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}, {ID: other}}}
		for i := range b.shards {
			b.shards[i] = store.ShardLease{Owner: me, Epoch: 1} // of an earlier process
		}
		o, l, stop := start(b)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(l.leaving) == 0 {
			t.Fatal("nothing is handed over")
		}
		o.GiveUp(context.Background())
		stop()
		b.set(func() {
			for i, s := range b.shards {
				if s.Owner != 0 {
					t.Errorf("shard %d is not released", i)
				}
			}
		})
	})
}

// TestOnlyItsOwnShareMoves: when a node comes or goes, a shard changes its owner
// only if that is the node.
func TestOnlyItsOwnShareMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1<<62), 2, 8, rapid.ID).Draw(t, "nodes")
		var nodes []hook.Node
		for _, id := range ids {
			nodes = append(nodes, hook.Node{ID: hook.ID(id)})
		}
		gone := nodes[len(nodes)-1].ID
		share := make(map[hook.ID]int)
		for shard := range hook.Shards {
			with, without := lease.WantedOwner(nodes, shard), lease.WantedOwner(nodes[:len(nodes)-1], shard)
			share[with]++
			if with != gone && with != without {
				t.Fatalf("shard %d moves from %d to %d when %d goes", shard, with, without, gone)
			}
		}
		for id, n := range share {
			if n > 4*hook.Shards/len(nodes) {
				t.Fatalf("node %d of %d wants %d shards", id, len(nodes), n)
			}
		}
	})
}

// TestAgeOfLeases: the age says how long ago the leases were renewed, and goes on
// growing while they cannot be.
func TestAgeOfLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &book{members: []hook.Node{{ID: me}}}
		b.shards[7] = store.ShardLease{Owner: other, Epoch: 41}
		o, _, stop := start(b)
		defer stop()
		time.Sleep(time.Minute)
		if age, leased := o.Age(); !leased || age < 0 || age > 10*time.Second {
			t.Errorf("age = %v, %v while leases are renewed", age, leased)
		}
		if n := o.Owned(); n != hook.Shards-1 {
			t.Errorf("owns %d shards, want all but one", n)
		}
		b.set(func() { b.away = true })
		time.Sleep(time.Minute)
		if age, leased := o.Age(); !leased || age < time.Minute || age > 70*time.Second {
			t.Errorf("age = %v, %v after a minute without the store", age, leased)
		}
	})
}
