// Package census counts now and then what waits in the store for the lanes of
// this node, and, on one node of the fleet, what is stored for all of them.
//
// Counting costs more than anything else that is only shown, so it takes its
// time: a count is followed by a rest that is many times as long. It judges
// nothing, and nothing waits for it.
package census

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Store is what is counted.
type Store interface {
	store.QueueReader
	Usage(ctx context.Context) (map[hook.ID]store.Usage, error)
}

// Config configures a Census. All but the last two are required.
type Config struct {
	Store Store
	Log   *slog.Logger
	// Owns reports whether a shard is this node's. The owner of shard 0 counts
	// for the fleet.
	Owns func(shard int) bool
	// Lanes counts the lanes in memory, and those told to wait.
	Lanes func(ctx context.Context) (lanes, holds int, err error)
	// Tell is told of every queue that was counted; nil: nobody keeps them.
	Tell  func(ctx context.Context, c store.QueueCount) error
	Every time.Duration // the least time between two counts; 30s
}

const (
	// rest is how many times as long as a count the rest after it is at least:
	// counting takes a twentieth of the time of one connection at most.
	rest = 20
	// callTime bounds one call, countTime a whole count.
	callTime  = 20 * time.Second
	countTime = 2 * time.Minute
	// batch is how many endpoints are counted in one call.
	batch = 256
	// deadMost is where counting dead letters stops.
	deadMost = 100_000
)

// bounds of an endpoint: a backlog is counted to the end, as a rule.
var bounds = store.QueueBounds{Count: 1_000_000, Look: 20_000}

// Census counts.
type Census struct {
	cfg     Config
	figures atomic.Pointer[hook.QueueFigures]
	// What follows belongs to the goroutine of Run.
	failing bool
	last    time.Time // when queues were counted; zero: never
}

// New checks cfg, fills in the default, and starts nothing.
func New(cfg Config) (*Census, error) {
	if cfg.Store == nil || cfg.Log == nil || cfg.Owns == nil || cfg.Lanes == nil {
		return nil, errors.New("census: Store, Log, Owns and Lanes are required")
	}
	cfg.Every = cmp.Or(cfg.Every, 30*time.Second)
	c := &Census{cfg: cfg}
	c.figures.Store(&hook.QueueFigures{})
	return c, nil
}

// Figures returns what was counted last.
func (c *Census) Figures() hook.QueueFigures { return *c.figures.Load() }

// Run counts until ctx ends. A count that fails leaves the last one, which says
// how old it is.
func (c *Census) Run(ctx context.Context) error {
	// Soon at first: the node has just got its shards, and somebody may be looking.
	wait := c.cfg.Every / 10
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		c.report(ctx, c.count(ctx, began))
		wait = min(2*wait, c.cfg.Every)
		timer.Reset(max(wait, rest*time.Since(began)))
	}
}

// report logs that counting fails once, not every time.
func (c *Census) report(ctx context.Context, err error) {
	if err != nil && !c.failing && ctx.Err() == nil {
		c.cfg.Log.Warn("queues could not be counted; metrics show the last count", "error", err)
	}
	c.failing = err != nil
}

func (c *Census) count(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	defer func() { c.last = now }() // also of a count that failed: a part of it may be told
	f := hook.QueueFigures{At: now}
	err := c.countQueues(ctx, now, &f)
	if err != nil {
		return err
	}
	if err := c.tell(ctx, now, nil, c.cfg.Owns(0)); err != nil {
		return err
	}
	if f.Lanes, f.Holds, err = c.cfg.Lanes(ctx); err != nil {
		return err
	}
	if c.cfg.Owns(0) {
		if f.Fleet, err = c.countFleet(ctx); err != nil {
			return err
		}
	}
	c.figures.Store(&f)
	return nil
}

func (c *Census) countQueues(ctx context.Context, now time.Time, f *hook.QueueFigures) error {
	var shards []int
	for shard := range hook.Shards {
		if c.cfg.Owns(shard) {
			shards = append(shards, shard)
		}
	}
	waiting, err := c.cfg.Store.WaitingEndpoints(ctx, shards)
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(waiting, batch) {
		call, cancel := context.WithTimeout(ctx, callTime)
		queues, err := c.cfg.Store.Queues(call, ids, now, bounds)
		if err == nil {
			err = c.tell(call, now, queues, false)
		}
		cancel()
		if err != nil {
			return err
		}
		for i := range queues {
			add(f, &queues[i])
		}
	}
	return nil
}

// tell hands over what was counted. The first count stands for no time: nobody knows
// what was before.
func (c *Census) tell(ctx context.Context, now time.Time, queues []store.Queue, looked bool) error {
	if c.cfg.Tell == nil {
		return nil
	}
	since := c.last
	if since.IsZero() {
		since = now
	}
	return c.cfg.Tell(ctx, store.QueueCount{Queues: queues, Now: now, Since: since, Looked: looked})
}

func add(f *hook.QueueFigures, q *store.Queue) {
	f.Ready += q.Ready
	f.Delayed += q.Delayed
	f.Retrying += q.Retrying
	f.Held += q.Held
	f.ReadySince = earlier(f.ReadySince, q.ReadySince)
	f.RetryingSince = earlier(f.RetryingSince, q.RetryingSince)
	f.HeldSince = earlier(f.HeldSince, q.HeldSince)
}

// earlier is the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (c *Census) countFleet(ctx context.Context) (*hook.FleetFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	dead, err := c.cfg.Store.DeadLetters(ctx, deadMost)
	if err != nil {
		return nil, err
	}
	used, err := c.cfg.Store.Usage(ctx)
	if err != nil {
		return nil, err
	}
	f := &hook.FleetFigures{Dead: dead}
	for _, u := range used {
		f.Pending += u.Pending
		f.PendingBytes += u.Bytes
		f.StoredBytes += u.Stored
	}
	return f, nil
}
