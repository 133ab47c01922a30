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
	// pollOverlap covers commits that become visible after newer ids.
	pollOverlap = 10 * time.Second
)

// findWork brings the lanes with pending deliveries into memory. It repeats
// until it succeeds: a lane that is not found is not served.
func (o *ownership) findWork(shards []int) {
	for {
		ctx, cancel := context.WithTimeout(o.d.attempts, time.Minute)
		err := o.announce(ctx, shards)
		cancel()
		if err == nil || o.d.attempts.Err() != nil {
			return
		}
		o.d.cfg.Log.Warn("pending deliveries could not be looked up; trying again", "error", err)
		select {
		case <-o.d.attempts.Done():
			return
		case <-time.After(readAgain):
		}
	}
}

// announce tells the loops of every lane of the shards that has pending work.
func (o *ownership) announce(ctx context.Context, shards []int) error {
	pending, err := o.d.cfg.Store.PendingEndpoints(ctx, shards)
	if err != nil {
		return fmt.Errorf("find pending endpoints: %w", err)
	}
	parts := make([][]store.PendingEndpoint, len(o.d.loops))
	for _, p := range pending {
		i := hook.ShardOf(p.ID) % len(parts)
		parts[i] = append(parts[i], p)
	}
	for i, part := range parts {
		if len(part) > 0 {
			l := o.d.loops[i]
			l.post(func() { l.foundWork(part) })
		}
	}
	return nil
}

const (
	lateEvery   = 250 * time.Millisecond
	lateTimeout = 5 * time.Second
)

// writeLate has the store write rows that it left out and that did not come with
// their results.
func (d *Dispatcher) writeLate(ctx context.Context, db store.LateWriter) {
	wait := lateEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = lateEvery
		call, cancel := context.WithTimeout(ctx, lateTimeout)
		if err := db.WriteLate(call, time.Now()); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn("deliveries without a row could not be written; trying again", "error", err)
			wait = readAgain
		}
		cancel()
	}
}

// poll is the safety net under the hints of other nodes.
func (o *ownership) poll(ctx context.Context) error {
	if time.Since(o.lastOther) > sweepEvery+pollEvery {
		// Alone, and for long enough to have seen all that others accepted.
		o.polled, o.swept = time.Now(), time.Now()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	if time.Since(o.polled) >= pollEvery {
		began := time.Now()
		endpoints, err := o.d.cfg.Store.AcceptedSince(ctx, hook.IDFloor(o.polled.Add(-pollOverlap)))
		if err != nil {
			return fmt.Errorf("poll for accepted deliveries: %w", err)
		}
		o.polled = began
		for _, id := range endpoints {
			if o.owns(hook.ShardOf(id)) {
				o.d.deliveryDue(id)
			}
		}
	}
	if time.Since(o.swept) >= sweepEvery {
		return o.sweep(ctx)
	}
	return nil
}

// sweep looks at everything whose hint may have been lost: due deliveries of
// any age, and changes of endpoints.
func (o *ownership) sweep(ctx context.Context) error {
	began := time.Now()
	if err := o.announce(ctx, o.numbers()); err != nil {
		return err
	}
	for _, l := range o.d.loops {
		l.post(l.refresh)
	}
	o.swept = began
	return nil
}
