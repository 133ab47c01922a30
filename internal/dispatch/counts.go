package dispatch

import (
	"context"
	"fmt"
	"time"
)

// LaneCounts are what the lanes of this node do at a moment.
type LaneCounts struct {
	Lanes int // in memory
	Holds int // told to wait by a Retry-After or a 429
}

// CountLanes asks all loops. Each looks at all its lanes, so it is for those who
// ask now and then.
func (d *Dispatcher) CountLanes(ctx context.Context) (sum LaneCounts, err error) {
	counts := make(chan LaneCounts, len(d.loops))
	for _, l := range d.loops {
		l.post(func() { counts <- l.count(time.Now()) })
	}
	for range d.loops {
		select {
		case c := <-counts:
			sum.Lanes += c.Lanes
			sum.Holds += c.Holds
		case <-ctx.Done():
			return LaneCounts{}, fmt.Errorf("count lanes: %w", ctx.Err())
		}
	}
	return sum, nil
}

func (l *loop) count(now time.Time) (c LaneCounts) {
	for _, r := range l.runners {
		c.Lanes++
		if r.lane != nil && r.lane.Waits(now) {
			c.Holds++
		}
	}
	return c
}

// Shards returns how many shards this node owns.
func (d *Dispatcher) Shards() int { return d.owner.Owned() }

// LeaseAge returns how long ago the leases were renewed; false when they need not
// be.
func (d *Dispatcher) LeaseAge() (time.Duration, bool) { return d.owner.Age() }
