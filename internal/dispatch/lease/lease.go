// Package lease keeps the leases of one node: it takes the shards that want the
// node, renews them, hands over those that want another node, and forbids sending
// once the node's own clock says that its leases may have ended.
//
// Every start of a request asks for its shard and epoch (MayStart). What is lost
// is given up before sending is allowed again, so a node that was stopped can start
// nothing for a shard that another node has taken meanwhile.
package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// lookEvery is how often a node looks for shards it should have or give up.
	lookEvery = time.Second
	leaseCall = 5 * time.Second
	// takeCall leaves a take-over time to wait for a settle that hangs and to
	// end it, and is still short enough for the next renewal.
	takeCall = 9 * time.Second
)

// Store keeps the leases of all nodes.
type Store interface {
	store.Leases
	Shared() bool
}

// Lanes are what the leases are for: the lanes of the shards of this node.
type Lanes interface {
	// Acquire gives a shard to its lanes, in a new epoch. It only passes that on:
	// new deliveries are handed to the lanes after it.
	Acquire(h store.Held)
	// Release stops sending for a shard and calls drained when all its attempts
	// are settled, or the shard is lost.
	Release(h store.Held, drained func())
	// Lose drops a shard that is not this node's any more.
	Lose(h store.Held)
	// FindWork finds the lanes of the shards that have work. It does not wait.
	FindWork(shards []int)
	// MayStartAgain tells that attempts may start after a time in which they
	// might not.
	MayStartAgain()
	// Released tells the other nodes that shards are free.
	Released()
	// Poll is called once a second while the leases are kept. lastOther is when
	// another node was last seen.
	Poll(ctx context.Context, lastOther time.Time) error
	News
}

// News hears of nodes. It must return at once.
type News interface {
	// Joined tells that this node has looked for its shards for the first time.
	Joined()
	// Left tells that a node has signed off or is not seen any more. One of those that
	// are left tells of it; the last one of itself.
	Left(node hook.Node)
	// LeaseLost tells that this node could not renew its leases in time, or that other
	// nodes have taken so many shards that were its own.
	LeaseLost(shards int)
}

// Config configures an Owner. All of it is required.
type Config struct {
	Store Store
	Lanes Lanes
	Node  hook.Node
	Log   *slog.Logger
	TTL   time.Duration // of a lease
	Renew time.Duration // how often leases are renewed
}

// Owner keeps the leases of this node.
type Owner struct {
	cfg     Config
	started time.Time // zero of the deadline's clock

	owned [hook.Shards]atomic.Bool
	// epochs are those of the shards that may be sent for; 0: none. A shard that
	// is being handed over has one until its last attempt is settled.
	epochs   [hook.Shards]atomic.Int64
	deadline atomic.Int64 // nanoseconds after started; no attempt starts later
	// wallEnd is the deadline by the clock on the wall, in nanoseconds: a machine
	// that sleeps stops the other clock. Set forward, it costs the time until the
	// next renewal.
	wallEnd  atomic.Int64
	draining atomic.Bool
	silenced atomic.Bool // nothing may be sent any more, whatever the leases say
	joined   atomic.Bool // it has looked for its shards at least once
	nudged   chan struct{}

	mu   sync.Mutex
	held map[int]int64 // shard to epoch

	// What follows belongs to the goroutine of run.
	moving    map[int]bool // being handed over
	members   []hook.Node
	lastOther time.Time // when another node was last seen
	renewed   time.Time
	failures  int

	// handOvers wait for attempts to end, until alive ends.
	handOvers sync.WaitGroup
	alive     context.Context
	end       context.CancelFunc
}

// New returns an owner of nothing. It starts nothing.
func New(cfg Config) *Owner {
	alive, end := context.WithCancel(context.Background())
	return &Owner{
		cfg: cfg, started: time.Now(), nudged: make(chan struct{}, 1),
		held: make(map[int]int64), moving: make(map[int]bool), alive: alive, end: end,
	}
}

// Owns reports whether deliveries of the shard belong to this node's lanes.
func (o *Owner) Owns(shard int) bool { return o.owned[shard].Load() }

// MayStart reports whether an attempt of a shard may start now: the lease has
// not run out, and the shard is still this node's in the epoch in which the
// attempt was made. Both are asked: after a pause the lease may have been renewed
// while the shard has gone to another node.
func (o *Owner) MayStart(shard int, epoch int64) bool {
	return o.inTime() && o.epochs[shard].Load() == epoch
}

// inTime reports whether the leases last. The deadline counts from before the last
// renewal was sent, so a node that was stopped or cut off falls silent before
// another one takes over.
func (o *Owner) inTime() bool {
	now := time.Now()
	return int64(now.Sub(o.started)) < o.deadline.Load() && now.UnixNano() < o.wallEnd.Load() && !o.silenced.Load()
}

// extend moves the deadline. It comes after Lost: what is not this node's any more
// must be gone before sending is allowed again.
func (o *Owner) extend(from time.Time) {
	stopped := !o.inTime()
	o.wallEnd.Store(from.Add(o.cfg.TTL).UnixNano())
	o.deadline.Store(int64(from.Sub(o.started) + o.cfg.TTL))
	if stopped {
		o.cfg.Lanes.MayStartAgain()
	}
}

// Nudge makes the node look at the shards now.
func (o *Owner) Nudge() {
	select {
	case o.nudged <- struct{}{}:
	default:
	}
}

// Leave takes no more shards and tells the other nodes that this one goes.
func (o *Owner) Leave() {
	o.draining.Store(true)
	o.Nudge()
}

// Silence forbids every start from now on, whatever the leases say.
func (o *Owner) Silence() { o.silenced.Store(true) }

// Ready returns why the node can send nothing; nothing when it can.
func (o *Owner) Ready() []string {
	if !o.joined.Load() {
		return []string{"the node has not joined yet"}
	}
	if !o.inTime() {
		return []string{"the lease could not be renewed in time"}
	}
	return nil
}

// Run keeps the leases until ctx ends. It fails only when another process runs
// under this node's name. A call that has begun is not cut short: a take-over
// without an answer would leave shards that nobody serves.
func (o *Owner) Run(ctx context.Context) error {
	if !o.cfg.Store.Shared() {
		return o.runAlone(ctx)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	calls := context.WithoutCancel(ctx)
	for {
		switch err := o.look(calls); {
		case errors.Is(err, store.ErrSuperseded):
			o.Lost(o.holding()...)
			return err
		case err == nil:
			o.failures = 0
		default:
			o.failures++
			if o.failures == 1 {
				o.cfg.Log.Warn("leases could not be kept; trying again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-o.nudged:
		}
	}
}

// runAlone is the whole of ownership on a database that is not shared.
func (o *Owner) runAlone(ctx context.Context) error {
	o.deadline.Store(math.MaxInt64)
	o.wallEnd.Store(math.MaxInt64)
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	for {
		err := o.take(context.WithoutCancel(ctx), all)
		if err == nil {
			break
		}
		o.cfg.Log.Warn("shards could not be taken; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
	o.join()
	<-ctx.Done()
	return nil
}

// look is one turn: renew what is due, then compare what the node has with what
// it should have. A lease that ended before it could be renewed goes on when
// nobody has taken the shard: its epoch is the same, and results that wait for
// the store are still good.
func (o *Owner) look(ctx context.Context) error {
	first := !o.joined.Load()
	if first || time.Since(o.renewed) >= o.cfg.Renew {
		if err := o.renew(ctx); err != nil {
			return err
		}
	}
	if o.draining.Load() {
		return nil
	}
	if err := o.rebalance(ctx, first); err != nil {
		return err
	}
	o.join()
	return o.cfg.Lanes.Poll(ctx, o.lastOther)
}

// join notes that the node takes part.
func (o *Owner) join() {
	if !o.joined.Swap(true) {
		o.cfg.Lanes.Joined()
	}
}

// missing tells of the nodes that are not among the members any more. The one with the
// lowest id of those that are left does, so that it is told once.
func (o *Owner) missing(members []hook.Node) {
	first := o.cfg.Node.ID
	for _, m := range members {
		first = min(first, m.ID)
	}
	for _, was := range o.members {
		gone := !slices.ContainsFunc(members, func(m hook.Node) bool { return m.ID == was.ID })
		if gone && first == o.cfg.Node.ID && was.ID != first {
			o.cfg.Lanes.Left(was)
		}
	}
}

func (o *Owner) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	before := time.Now()
	me := o.cfg.Node
	me.Draining = o.draining.Load()
	members, err := o.cfg.Store.Heartbeat(ctx, me, o.cfg.TTL)
	if err != nil {
		return fmt.Errorf("send heartbeat: %w", err)
	}
	have := o.holding()
	kept, err := o.cfg.Store.RenewShards(ctx, me.ID, have, o.cfg.TTL)
	if err != nil {
		return fmt.Errorf("renew shards: %w", err)
	}
	o.missing(members)
	o.members, o.renewed = members, before
	if len(members) > 1 {
		o.lastOther = before
	}
	still := make(map[int]bool, len(kept))
	for _, h := range kept {
		still[h.Shard] = true
	}
	have = slices.DeleteFunc(have, func(h store.Held) bool { return still[h.Shard] })
	if len(have) > 0 {
		o.cfg.Log.Warn("shards lost to other nodes", "shards", len(have))
		o.Lost(have...)
	}
	if late := o.joined.Load() && !o.draining.Load() && !o.inTime(); late || len(have) > 0 {
		o.cfg.Lanes.LeaseLost(len(have))
	}
	o.extend(before)
	return nil
}

func (o *Owner) holding() []store.Held {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]store.Held, 0, len(o.held))
	for s, e := range o.held {
		out = append(out, store.Held{Shard: s, Epoch: e})
	}
	return out
}

// Shards returns the shards that the node has a lease of.
func (o *Owner) Shards() []int {
	held := o.holding()
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Shard
	}
	return out
}

// rebalance takes the free shards that want this node and hands over those that
// want another.
func (o *Owner) rebalance(ctx context.Context, first bool) error {
	short, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	leases, err := o.cfg.Store.Shards(short, o.cfg.TTL)
	if err != nil {
		return fmt.Errorf("read shards: %w", err)
	}
	me := o.cfg.Node.ID
	var take []int
	var give []store.Held
	back := false // some are marked as this node's
	for _, s := range leases {
		epoch, have := o.Holds(s.Shard)
		wanted := wantedOwner(o.members, s.Shard)
		switch {
		case have && wanted != me && wanted != 0 && !o.moving[s.Shard]:
			give = append(give, store.Held{Shard: s.Shard, Epoch: epoch})
		case !have && (wanted == me && (s.Free || s.Owner == me) || first && s.Owner == me):
			// Its own shards are taken back at once: those of an earlier process
			// of its name, and those whose take-over got no answer.
			take = append(take, s.Shard)
			back = back || s.Owner == me
		case s.Free && s.Owner != 0 && s.Owner == wanted:
			o.renewed = time.Time{} // its owner has died: look who is left
		}
	}
	if len(give) > 0 {
		o.handOver(give)
	}
	if len(take) == 0 {
		return nil
	}
	if back && !first { // or those of a newer process: that one must not lose them
		if err := o.renew(ctx); err != nil {
			return err
		}
	}
	return o.take(ctx, take)
}

// Holds returns in which epoch this node owns the shard, if it does.
func (o *Owner) Holds(shard int) (int64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.held[shard]
	return e, ok
}

// take acquires shards and gives them to the loops, then finds the lanes with
// work: also those that the node had, because an owner that has died may have left
// some for any of them.
func (o *Owner) take(ctx context.Context, shards []int) error {
	ctx, cancel := context.WithTimeout(ctx, takeCall)
	defer cancel()
	got, err := o.cfg.Store.TakeShards(ctx, o.cfg.Node.ID, shards, true, o.cfg.TTL)
	if err != nil {
		return fmt.Errorf("take shards: %w", err)
	}
	if len(got) == 0 {
		return nil
	}
	for _, h := range got {
		delete(o.moving, h.Shard)
		o.hold(h)
	}
	o.cfg.Log.Info("shards taken", "shards", len(got))
	o.cfg.Lanes.FindWork(o.Shards())
	return nil
}

// hold gives a shard to its lanes. The node owns it, so that new deliveries are
// handed to the lanes, only after they have heard of it.
func (o *Owner) hold(h store.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[h.Shard] = h.Epoch
	o.epochs[h.Shard].Store(h.Epoch)
	o.cfg.Lanes.Acquire(h)
	o.owned[h.Shard].Store(true)
}

// Lost drops shards that are not this node's any more.
func (o *Owner) Lost(shards ...store.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range shards {
		if o.held[h.Shard] != h.Epoch {
			continue
		}
		delete(o.held, h.Shard)
		o.epochs[h.Shard].Store(0)
		o.owned[h.Shard].Store(false)
		o.cfg.Lanes.Lose(h)
	}
}
