package watch

import (
	"context"
	"errors"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// nodeFresh is how old the sums of a node may be. A node saves them at every
// round while it has traffic.
const nodeFresh = time.Minute

// system is what the owner of shard 0 knows of the whole fleet.
type system struct {
	judging bool
	queues  Trend
	many    Alarm
}

// judgeSystem judges the sums that all nodes have saved. One node does it, so
// that there is one event and not one for each node.
func (j *judge) judgeSystem(ctx context.Context, now time.Time) error {
	if !j.w.cfg.Owns(0) {
		j.system = system{}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	if !j.system.judging {
		if err := j.resumeSystem(ctx, now); err != nil {
			return err
		}
	}
	nodes, err := j.w.cfg.Store.NodeWatches(ctx, now.Add(-nodeFresh))
	if err != nil {
		return err
	}
	var sum hook.NodeWatch
	for _, n := range nodes {
		sum.Lanes += n.Lanes
		sum.Opened += n.Opened
		sum.Depth += n.Depth
	}
	queuesSince, manySince := j.system.queues.Since, j.system.many.Since
	queues := j.system.queues.Judge(now, sum.Depth)
	many := j.system.many.Judge(now, ManyOpened(sum.Opened, sum.Lanes), j.w.cfg.Calm)
	return errors.Join(
		j.tellSystem(ctx, queues, hook.SystemWatch{Signal: hook.QueuesGrowing, Since: j.system.queues.Since}, now, queuesSince, sum),
		j.tellSystem(ctx, many, hook.SystemWatch{Signal: hook.BreakersOpening, Since: j.system.many.Since}, now, manySince, sum))
}

// resumeSystem goes on from what an earlier judge raised.
func (j *judge) resumeSystem(ctx context.Context, now time.Time) error {
	raised, err := j.w.cfg.Store.SystemWatches(ctx)
	if err != nil {
		return err
	}
	for _, r := range raised {
		switch r.Signal {
		case hook.QueuesGrowing:
			j.system.queues.Resume(now, r.Since)
		case hook.BreakersOpening:
			j.system.many.Resume(now, r.Since)
		}
	}
	j.system.judging = true
	return nil
}

// fleetDetail is what an event tells of the whole fleet.
type fleetDetail struct {
	Depth   int64     `json:"depth"`
	Lanes   int64     `json:"lanes"`
	Opened  int64     `json:"opened"`
	Since   time.Time `json:"since,omitzero"`
	Seconds float64   `json:"seconds,omitzero"`
}

// tellSystem records a change and stores it for the next judge.
func (j *judge) tellSystem(ctx context.Context, c Change, to hook.SystemWatch, now, since time.Time, sum hook.NodeWatch) error {
	if c == Same {
		return nil
	}
	types := map[hook.SystemSignal]map[Change]hook.OperationalType{
		hook.QueuesGrowing:   {Raised: hook.SystemQueueGrowing, Ended: hook.SystemQueueSettled},
		hook.BreakersOpening: {Raised: hook.BreakersMany, Ended: hook.BreakersSettled},
	}
	detail := fleetDetail{Depth: sum.Depth, Lanes: sum.Lanes, Opened: sum.Opened}
	if c == Ended {
		detail.Since, detail.Seconds = since, now.Sub(since).Seconds()
	}
	j.w.events.record(now, 0, 0, types[to.Signal][c], detail)
	return j.w.cfg.Store.SetSystemWatch(ctx, to)
}
