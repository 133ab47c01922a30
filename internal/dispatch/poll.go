package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// pollEvery is how often a node looks for deliveries that other nodes
	// accepted and whose hints were lost; sweepEvery, for any due delivery at
	// all and for changes of endpoints.
	pollEvery  = 5 * time.Second
	sweepEvery = time.Minute
	pollCall   = 5 * time.Second
	// pollOverlap covers commits that become visible after newer ids.
	pollOverlap = 10 * time.Second
)

// findWork brings the lanes with pending deliveries into memory. It repeats
// until it succeeds: a lane that is not found is not served.
func (n *shardLanes) findWork(shards []int) {
	for {
		ctx, cancel := context.WithTimeout(n.d.attempts, time.Minute)
		err := n.announce(ctx, shards)
		cancel()
		if err == nil || n.d.attempts.Err() != nil {
			return
		}
		n.d.cfg.Log.Warn("pending deliveries could not be looked up; trying again", "error", err)
		select {
		case <-n.d.attempts.Done():
			return
		case <-time.After(readAgain):
		}
	}
}

// announce tells the loops of every lane of the shards that has pending work.
func (n *shardLanes) announce(ctx context.Context, shards []int) error {
	pending, err := n.d.cfg.Store.PendingEndpoints(ctx, shards)
	if err != nil {
		return fmt.Errorf("find pending endpoints: %w", err)
	}
	toLoops(n.d, pending, func(p store.PendingEndpoint) hook.ID { return p.ID }, (*loop).foundWork)
	return nil
}

const (
	deferredEvery   = 250 * time.Millisecond
	deferredTimeout = 5 * time.Second
)

// insertDeferred has the store insert deferred rows that did not come with their
// results.
func (d *Dispatcher) insertDeferred(ctx context.Context, db store.DeferredInserter) {
	wait := deferredEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = deferredEvery
		call, cancel := context.WithTimeout(ctx, deferredTimeout)
		if err := db.InsertDeferred(call, time.Now()); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("deferred deliveries could not be inserted; trying again", "error", err)
			wait = readAgain
		}
		cancel()
	}
}

// Poll is the safety net under the hints of other nodes.
func (n *shardLanes) Poll(ctx context.Context, lastOther time.Time) error {
	if time.Since(lastOther) > sweepEvery+pollEvery {
		// Alone, and for long enough to have seen all that others accepted.
		n.polled, n.swept = time.Now(), time.Now()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pollCall)
	defer cancel()
	if time.Since(n.polled) >= pollEvery {
		began := time.Now()
		endpoints, err := n.d.cfg.Store.AcceptedSince(ctx, hook.IDFloor(n.polled.Add(-pollOverlap)))
		if err != nil {
			return fmt.Errorf("poll for accepted deliveries: %w", err)
		}
		n.polled = began
		for _, id := range endpoints {
			n.d.act(store.HintDue, id)
		}
	}
	if time.Since(n.swept) >= sweepEvery {
		return n.sweep(ctx)
	}
	return nil
}

// sweep looks at everything whose hint may have been lost: due deliveries of
// any age, and changes of endpoints.
func (n *shardLanes) sweep(ctx context.Context) error {
	began := time.Now()
	if err := n.announce(ctx, n.d.owner.Shards()); err != nil {
		return err
	}
	for _, l := range n.d.loops {
		l.post(l.refresh)
	}
	n.swept = began
	return nil
}
