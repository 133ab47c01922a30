package dispatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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

// ownership keeps the leases of this node: it takes the shards that want it,
// renews them, hands over those that want another node, and forbids sending
// once its own clock says that the lease may have ended.
type ownership struct {
	d     *Dispatcher
	epoch time.Time // zero of the deadline's clock

	owned [hook.Shards]atomic.Bool
	// epochs are those of the shards that may be sent for; 0: none. A shard that
	// is being handed over has one until its last attempt is settled.
	epochs   [hook.Shards]atomic.Int64
	deadline atomic.Int64 // nanoseconds after epoch; no attempt starts later
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
	polled    time.Time
	swept     time.Time
	failures  int
}

func newOwnership(d *Dispatcher) *ownership {
	return &ownership{
		d: d, epoch: time.Now(), nudged: make(chan struct{}, 1),
		held: make(map[int]int64), moving: make(map[int]bool),
	}
}

// owns reports whether deliveries of the shard belong to this node's lanes.
func (o *ownership) owns(shard int) bool { return o.owned[shard].Load() }

// mayStart reports whether an attempt of a shard may start now: the lease has
// not run out, and the shard is still this node's in the epoch in which the
// attempt was made. Both are asked: after a pause the lease may have been renewed
// while the shard has gone to another node.
func (o *ownership) mayStart(shard int, epoch int64) bool {
	return o.inTime() && o.epochs[shard].Load() == epoch
}

// inTime reports whether the leases last. The deadline counts from before the last
// renewal was sent, so a node that was stopped or cut off falls silent before
// another one takes over.
func (o *ownership) inTime() bool {
	now := time.Now()
	return int64(now.Sub(o.epoch)) < o.deadline.Load() && now.UnixNano() < o.wallEnd.Load() && !o.silenced.Load()
}

// extend moves the deadline. It comes after lost: what is not this node's any more
// must be gone before sending is allowed again.
func (o *ownership) extend(from time.Time) {
	stopped := !o.inTime()
	o.wallEnd.Store(from.Add(o.d.cfg.LeaseTTL).UnixNano())
	o.deadline.Store(int64(from.Sub(o.epoch) + o.d.cfg.LeaseTTL))
	if stopped {
		for _, l := range o.d.loops {
			l.post(l.touchAll)
		}
	}
}

func (o *ownership) nudge() {
	select {
	case o.nudged <- struct{}{}:
	default:
	}
}

func (o *ownership) leave() {
	o.draining.Store(true)
	o.nudge()
}

func (o *ownership) ready() []string {
	if !o.joined.Load() {
		return []string{"the node has not joined yet"}
	}
	if !o.inTime() {
		return []string{"the lease could not be renewed in time"}
	}
	return nil
}

// run keeps the leases until ctx ends. It fails only when another process runs
// under this node's name. A call that has begun is not cut short: a take-over
// without an answer would leave shards that nobody serves.
func (o *ownership) run(ctx context.Context) error {
	if !o.d.cfg.Store.Shared() {
		return o.runAlone(ctx)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	o.polled, o.swept = time.Now(), time.Now() // what is older is found at the take-over
	calls := context.WithoutCancel(ctx)
	for {
		switch err := o.look(calls); {
		case errors.Is(err, store.ErrSuperseded):
			o.dropAll()
			return err
		case err == nil:
			o.failures = 0
		default:
			o.failures++
			if o.failures == 1 {
				o.d.cfg.Log.Warn("leases could not be kept; trying again", "error", err)
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
func (o *ownership) runAlone(ctx context.Context) error {
	o.deadline.Store(math.MaxInt64)
	o.wallEnd.Store(math.MaxInt64)
	for {
		err := o.take(context.WithoutCancel(ctx), allShards())
		if err == nil {
			break
		}
		o.d.cfg.Log.Warn("shards could not be taken; trying again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
	o.joined.Store(true)
	<-ctx.Done()
	return nil
}

func allShards() []int {
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// look is one turn: renew what is due, then compare what the node has with what
// it should have. A lease that ended before it could be renewed goes on when
// nobody has taken the shard: its epoch is the same, and results that wait for
// the store are still good.
func (o *ownership) look(ctx context.Context) error {
	first := !o.joined.Load()
	if first || time.Since(o.renewed) >= o.d.cfg.LeaseRenew {
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
	o.joined.Store(true)
	return o.poll(ctx)
}

func (o *ownership) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	before := time.Now()
	me := o.d.cfg.Node
	me.Draining = o.draining.Load()
	members, err := o.d.cfg.Store.Heartbeat(ctx, me, o.d.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("send heartbeat: %w", err)
	}
	have := o.holding()
	kept, err := o.d.cfg.Store.RenewShards(ctx, me.ID, have, o.d.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("renew shards: %w", err)
	}
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
		o.d.cfg.Log.Warn("shards lost to other nodes", "shards", len(have))
		o.lost(have...)
	}
	o.extend(before)
	return nil
}

func (o *ownership) holding() []store.Held {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]store.Held, 0, len(o.held))
	for s, e := range o.held {
		out = append(out, store.Held{Shard: s, Epoch: e})
	}
	return out
}

// numbers returns the shards that the node owns.
func (o *ownership) numbers() []int {
	held := o.holding()
	out := make([]int, len(held))
	for i, h := range held {
		out[i] = h.Shard
	}
	return out
}

// rebalance takes the free shards that want this node and hands over those that
// want another.
func (o *ownership) rebalance(ctx context.Context, first bool) error {
	short, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	leases, err := o.d.cfg.Store.Shards(short, o.d.cfg.LeaseTTL)
	if err != nil {
		return fmt.Errorf("read shards: %w", err)
	}
	me := o.d.cfg.Node.ID
	var take []int
	var give []store.Held
	back := false // some are marked as this node's
	for _, s := range leases {
		epoch, have := o.holds(s.Shard)
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

func (o *ownership) holds(shard int) (int64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.held[shard]
	return e, ok
}

// take acquires shards and gives them to the loops, then finds the lanes with
// work: also those that the node had, because an owner that has died may have left
// some for any of them.
func (o *ownership) take(ctx context.Context, shards []int) error {
	ctx, cancel := context.WithTimeout(ctx, takeCall)
	defer cancel()
	got, err := o.d.cfg.Store.TakeShards(ctx, o.d.cfg.Node.ID, shards, true, o.d.cfg.LeaseTTL)
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
	o.d.cfg.Log.Info("shards taken", "shards", len(got))
	o.d.work.Go(func() { o.findWork(o.numbers()) })
	return nil
}

// hold gives a shard to its loop. New deliveries are handed to the loop only
// after it has heard of the shard.
func (o *ownership) hold(h store.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held[h.Shard] = h.Epoch
	o.epochs[h.Shard].Store(h.Epoch)
	l := o.d.loops[h.Shard%len(o.d.loops)]
	l.post(func() { l.acquire(h) })
	o.owned[h.Shard].Store(true)
}

// handOver lets the shards' attempts end, then releases them.
func (o *ownership) handOver(give []store.Held) {
	o.d.cfg.Log.Info("handing shards over", "shards", len(give))
	drained := make(chan store.Held, len(give))
	for _, h := range give {
		o.moving[h.Shard] = true
		o.owned[h.Shard].Store(false)
		l := o.d.loops[h.Shard%len(o.d.loops)]
		l.post(func() { l.release(h, func() { drained <- h }) })
	}
	o.d.work.Go(func() { o.releaseDrained(drained, len(give)) })
}

// releaseDrained releases shards as their attempts end, those that are ready at
// the same time together. An attempt ends at its timeout at the latest.
func (o *ownership) releaseDrained(drained <-chan store.Held, n int) {
	for n > 0 {
		var ready []store.Held
		select {
		case h := <-drained:
			ready = append(ready, h)
		case <-o.d.attempts.Done():
			return // stopping: everything is released at the end
		}
		for more := true; more; {
			select {
			case h := <-drained:
				ready = append(ready, h)
			default:
				more = false
			}
		}
		o.releaseShards(ready)
		n -= len(ready)
	}
}

func (o *ownership) releaseShards(held []store.Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.d.attempts), leaseCall)
	defer cancel()
	o.mu.Lock()
	for _, h := range held {
		if o.held[h.Shard] == h.Epoch {
			delete(o.held, h.Shard)
			o.epochs[h.Shard].Store(0)
		}
	}
	o.mu.Unlock()
	if err := o.d.cfg.Store.ReleaseShards(ctx, o.d.cfg.Node.ID, held); err != nil {
		o.d.cfg.Log.Warn("shards were not released; their leases run out instead", "shards", len(held), "error", err)
		return
	}
	if len(held) > 0 {
		o.d.hinter.tell(store.HintShards, o.d.cfg.Node.ID)
	}
}

// giveUp releases everything at the end of the dispatcher.
func (o *ownership) giveUp(ctx context.Context) {
	o.releaseShards(o.holding())
	ctx, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	if err := o.d.cfg.Store.Leave(ctx, o.d.cfg.Node); err != nil {
		o.d.cfg.Log.Warn("the node could not sign off", "error", err)
	}
}

// lost drops shards that are not this node's any more.
func (o *ownership) lost(shards ...store.Held) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range shards {
		if o.held[h.Shard] != h.Epoch {
			continue
		}
		delete(o.held, h.Shard)
		o.epochs[h.Shard].Store(0)
		o.owned[h.Shard].Store(false)
		l := o.d.loops[h.Shard%len(o.d.loops)]
		l.post(func() { l.lose(h) })
	}
}

func (o *ownership) dropAll() { o.lost(o.holding()...) }

// wantedOwner names the node that should own a shard: the live node with the
// highest hash of (node, shard). When a node comes or goes only its own share
// moves.
func wantedOwner(members []hook.Node, shard int) hook.ID {
	var best hook.ID
	var bestScore uint64
	for _, m := range members {
		if m.Draining {
			continue
		}
		h := fnv.New64a()
		var buf [9]byte
		for i := range 8 {
			buf[i] = byte(uint64(m.ID) >> (8 * i))
		}
		buf[8] = byte(shard)
		_, _ = h.Write(buf[:])
		// FNV alone leaves close inputs close; one more mix spreads them.
		score := h.Sum64()
		score = (score ^ (score >> 33)) * 0xff51afd7ed558ccd
		score ^= score >> 33
		if best == 0 || score > bestScore {
			best, bestScore = m.ID, score
		}
	}
	return best
}
