package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// nodeFresh is how old what a node saved may be; it does so every 15 s.
	nodeFresh = time.Minute
	// depthsKept is for how many minutes sums of retry queues are remembered: the
	// longest that the rule can ask for, and the one before.
	depthsKept = 61
)

// errNotSwept is when it is not known yet what waits for long.
var errNotSwept = errors.New("what is pending for long is not known yet")

// fleet is what the evaluator remembers of the system.
type fleet struct {
	unowned map[int]time.Time // shards without an owner, since when that was seen
	depths  []int64           // by the minute, the latest last
	minute  time.Time         // of the latest
}

// system reads what is known of all nodes together: three short lists and one read
// of figures.
func (s *sight) system(ctx context.Context, now time.Time, channels []store.Channel) (alert.Reading, error) {
	r := alert.Reading{At: now}
	if s.tenants.sweptAt.IsZero() {
		return r, errNotSwept
	}
	w, err := s.figures.read(ctx, stats.Subject{Level: stats.OfSystem}, now, true)
	if err != nil {
		return r, err
	}
	r.Quarter, r.Hour, r.Day = w.quarter, w.hour, w.day
	r.System.LocalErrors = int64(w.minute.Get(stats.Failed(hook.LocalError)))
	r.System.PendingLong = s.tenants.pendingLong()
	for i := range channels {
		if c := &channels[i]; !c.FailingSince.IsZero() {
			r.System.Channels = append(r.System.Channels, alert.FailedChannel{ID: c.ID, Name: c.Name, Error: c.Error, Tenant: c.Tenant})
		}
	}
	if err := s.nodes(ctx, now, &r.System); err != nil {
		return r, fmt.Errorf("nodes: %w", err)
	}
	if err := s.shards(ctx, now, &r.System); err != nil {
		return r, fmt.Errorf("shards: %w", err)
	}
	return r, nil
}

// nodes takes what the nodes have saved. This one knows itself better.
func (s *sight) nodes(ctx context.Context, now time.Time, to *alert.System) error {
	rows, err := s.cfg.Store.NodeWatches(ctx, now.Add(-nodeFresh))
	if err != nil {
		return err
	}
	own := hook.NodeWatch{NodeID: s.cfg.Node}
	if i := slices.IndexFunc(rows, func(n hook.NodeWatch) bool { return n.NodeID == s.cfg.Node }); i >= 0 {
		own = rows[i]
		rows = slices.Delete(rows, i, i+1)
	}
	own.Health = s.cfg.Health(ctx)
	var depth int64
	for _, n := range append(rows, own) {
		h := &n.Health
		depth += n.Depth
		to.LanesOpened += n.Opened
		to.LanesActive += n.Lanes
		to.CommitP99 = max(to.CommitP99, h.CommitP99)
		to.OldestResult = max(to.OldestResult, h.OldestResult)
		to.Nodes = append(to.Nodes, alert.NodeClock{Node: n.NodeID, Name: h.Name, Offset: h.ClockOffset})
		if h.DiskReserve > 0 && (to.DiskReserve == 0 || h.DiskFree < to.DiskFree) {
			to.DiskFree, to.DiskReserve = h.DiskFree, h.DiskReserve
		}
	}
	slices.SortFunc(to.Nodes, func(a, b alert.NodeClock) int { return cmp.Compare(a.Node, b.Node) })
	to.Depths = s.fleet.sum(now, depth)
	return nil
}

// sum notes the depth of all retry queues, once a minute, and returns those of the
// minutes so far.
func (f *fleet) sum(now time.Time, depth int64) []int64 {
	if minute := now.Truncate(time.Minute); minute.After(f.minute) {
		f.minute = minute
		f.depths = append(f.depths, depth)
		f.depths = f.depths[max(len(f.depths)-depthsKept, 0):]
	}
	return slices.Clone(f.depths)
}

// shards finds those that nobody owns. For how long that has been so is known only
// from when this node looks.
func (s *sight) shards(ctx context.Context, now time.Time, to *alert.System) error {
	leases, err := s.cfg.Store.Shards(ctx, s.cfg.LeaseTTL)
	if err != nil {
		return err
	}
	for _, l := range leases {
		if !l.Free {
			delete(s.fleet.unowned, l.Shard)
			continue
		}
		since, known := s.fleet.unowned[l.Shard]
		if !known {
			since = now
			s.fleet.unowned[l.Shard] = now
		}
		to.Unowned = append(to.Unowned, alert.UnownedShard{Shard: l.Shard, Age: now.Sub(since)})
	}
	return nil
}
