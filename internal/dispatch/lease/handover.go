package lease

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// handOver lets the shards' attempts end, then releases them.
func (o *Owner) handOver(give []store.Held) {
	o.cfg.Log.Info("handing shards over", "shards", len(give))
	drained := make(chan store.Held, len(give))
	for _, h := range give {
		o.moving[h.Shard] = true
		o.owned[h.Shard].Store(false)
		o.cfg.Lanes.Release(h, func() { drained <- h })
	}
	o.handOvers.Go(func() { o.releaseDrained(drained, len(give)) })
}

// releaseDrained releases shards as their attempts end, those that are ready at
// the same time together. An attempt ends at its timeout at the latest.
func (o *Owner) releaseDrained(drained <-chan store.Held, n int) {
	for n > 0 {
		var ready []store.Held
		select {
		case h := <-drained:
			ready = append(ready, h)
		case <-o.alive.Done():
			return // stopping: everything is released at the end
		}
		for range len(drained) {
			ready = append(ready, <-drained)
		}
		o.releaseShards(ready)
		n -= len(ready)
	}
}

func (o *Owner) releaseShards(held []store.Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.alive), leaseCall)
	defer cancel()
	o.mu.Lock()
	for _, h := range held {
		if o.held[h.Shard] == h.Epoch {
			delete(o.held, h.Shard)
			o.epochs[h.Shard].Store(0)
		}
	}
	o.mu.Unlock()
	if err := o.cfg.Store.ReleaseShards(ctx, o.cfg.Node.ID, held); err != nil {
		o.cfg.Log.Warn("shards were not released; their leases run out instead", "shards", len(held), "error", err)
		return
	}
	if len(held) > 0 {
		o.cfg.Lanes.Released()
	}
}

// GiveUp releases everything and signs off. Run has returned.
func (o *Owner) GiveUp(ctx context.Context) {
	o.releaseShards(o.holding())
	ctx, cancel := context.WithTimeout(ctx, leaseCall)
	defer cancel()
	if err := o.cfg.Store.Leave(ctx, o.cfg.Node); err != nil {
		o.cfg.Log.Warn("the node could not sign off", "error", err)
	}
	if len(o.members) <= 1 { // else the others tell of it
		o.cfg.Lanes.Left(o.cfg.Node)
	}
}

// Close ends the hand-overs that still wait.
func (o *Owner) Close() {
	o.end()
	o.handOvers.Wait()
}
