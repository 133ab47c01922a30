package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	storeCall = 10 * time.Second
	// saveCall is how long a step may take to be stored. With very many alerts and
	// channels it is large; one that is given up is as large the next time.
	saveCall = 30 * time.Second
	// remembered is how long the board knows alerts that are over: as long as one
	// that fires again is the same, and a little more.
	remembered = 16 * time.Minute
	// leastLook is how long a round may read however soon the next one would be: it
	// is then late, and not blind.
	leastLook = 5 * time.Second
	// clockSlack is how far a clock may go back for what was remembered to be good.
	clockSlack = time.Minute
)

// Store is what the evaluator reads, and the alerts that it writes.
type Store interface {
	store.AlertBoard
	store.StatsReader
	store.LaneLog

	ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error)
	NodeWatches(ctx context.Context, since time.Time) ([]hook.NodeWatch, error)
	Shards(ctx context.Context, ttl time.Duration) ([]store.ShardLease, error)

	Destinations(ctx context.Context, endpoints []hook.ID) ([]store.Destination, error)
	ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error)
	ListDeliveries(ctx context.Context, f store.DeliveryFilter, p store.Page) ([]store.DeliveryRow, hook.ID, error)
	CountMatching(ctx context.Context, f store.DeliveryFilter, p store.Page) (store.Counted, error)

	TenantByID(ctx context.Context, id hook.ID) (hook.Tenant, error)
	Usage(ctx context.Context) (map[hook.ID]store.Usage, error)
	ActiveReplays(ctx context.Context, limit int) ([]hook.ReplayJob, error)
}

// Config is what New needs. All fields but Fired and the last three are required.
type Config struct {
	Store Store
	IDs   *hook.IDSource
	Node  hook.ID
	Log   *slog.Logger
	// Holds returns in which epoch this node owns a shard, if it does.
	Holds func(shard int) (epoch int64, ok bool)
	// Health tells how this node does: what is stored of it is older.
	Health func(ctx context.Context) hook.NodeHealth
	// Decided is called when notices are stored that wait to be sent.
	Decided func()
	// Fired is called for each alert that has begun to fire, once that is stored. It
	// must return at once; nil: nobody asks.
	Fired func(a *hook.Alert)
	// LeaseTTL is how long a lease lasts, and Retention how long dead letters are
	// kept.
	LeaseTTL  time.Duration
	Retention time.Duration
	// ServerPolicy is the server's policy level, JSON; nil: none.
	ServerPolicy []byte

	Thresholds alert.Thresholds
	Options    alert.Options // but for NextID
	Interval   time.Duration // between two rounds; 0: alert.DefaultInterval
}

// Evaluator judges the fleet. Make one with New.
type Evaluator struct {
	cfg    Config
	firing atomic.Pointer[[]Count]

	// What follows belongs to the goroutine of Run.
	fence   store.Fence // under which the board was made
	board   *alert.Board
	sight   *sight
	last    time.Time // round
	failing bool
}

// Count is how many alerts of a rule fire with a severity.
type Count struct {
	Rule     string
	Severity hook.Severity
	N        int
}

// Firing counts the alerts of the fleet that fire, as of the last round. A node that
// does not evaluate has none to count. It may be called at any time.
func (e *Evaluator) Firing() []Count { return *e.firing.Load() }

// count notes what fires, for Firing.
func (e *Evaluator) count() {
	type kind struct {
		rule     string
		severity hook.Severity
	}
	n := make(map[kind]int)
	if e.board != nil {
		for _, a := range e.board.Open() {
			if a.Status == hook.AlertFiring {
				n[kind{a.Rule, a.Severity}]++
			}
		}
	}
	out := make([]Count, 0, len(n))
	for k, n := range n {
		out = append(out, Count{k.rule, k.severity, n})
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Severity, b.Severity)) })
	e.firing.Store(&out)
}

// New checks cfg and starts nothing.
func New(cfg Config) (*Evaluator, error) {
	cfg.Interval = cmp.Or(cfg.Interval, alert.DefaultInterval)
	switch {
	case cfg.Store == nil || cfg.IDs == nil || cfg.Node == 0 || cfg.Log == nil || cfg.Holds == nil || cfg.Health == nil || cfg.Decided == nil:
		return nil, errors.New("evaluate: Store, IDs, Node, Log, Holds, Health and Decided are required")
	case cfg.LeaseTTL <= 0 || cfg.Retention <= 0:
		return nil, errors.New("evaluate: LeaseTTL and Retention are required")
	case cfg.Interval < alert.MinInterval || cfg.Interval > alert.MaxInterval:
		return nil, fmt.Errorf("evaluate: Interval must be %v to %v", alert.MinInterval, alert.MaxInterval)
	}
	if err := cfg.Thresholds.Check(); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	cfg.Options.NextID = cfg.IDs.Next
	if _, err := alert.NewBoard(cfg.Options, nil); err != nil {
		return nil, fmt.Errorf("evaluate: %w", err)
	}
	e := &Evaluator{cfg: cfg}
	e.count()
	return e, nil
}

// Run evaluates until ctx ends, whenever this node owns shard 0. What the store
// refuses is tried again at the next round.
func (e *Evaluator) Run(ctx context.Context) error {
	timer := time.NewTimer(e.untilNext(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		e.report(ctx, e.round(ctx, time.Now()))
		e.count()
		timer.Reset(e.untilNext(time.Now()))
	}
}

// untilNext is the time to the next round. Rounds are at the same moments by the
// clock on every node, so that they go on in step when another one takes over.
func (e *Evaluator) untilNext(now time.Time) time.Duration {
	return now.Truncate(e.cfg.Interval).Add(e.cfg.Interval).Sub(now)
}

// report logs that rounds fail once, not at each of them.
func (e *Evaluator) report(ctx context.Context, err error) {
	if err != nil && !e.failing && ctx.Err() == nil {
		e.cfg.Log.WarnContext(ctx, "alerts cannot be judged in full; trying again", "error", err)
	}
	e.failing = err != nil
}

// round judges once. It returns what could not be read; alerts about that stay as
// they are.
func (e *Evaluator) round(ctx context.Context, now time.Time) error {
	epoch, owner := e.cfg.Holds(0)
	fence := store.Fence{Node: e.cfg.Node, Held: store.Held{Shard: 0, Epoch: epoch}}
	if !owner {
		e.board, e.sight = nil, nil
		return nil
	}
	// A clock that was set back makes all that is remembered look like the future:
	// nothing would be read, begin or end before it is there again.
	back := now.Before(e.last.Add(-clockSlack))
	e.last = now
	if e.board == nil || fence != e.fence || back {
		e.fence, e.board, e.sight = fence, nil, newSight(&e.cfg)
	}
	if err := e.catchUp(ctx, now); err != nil {
		return err
	}
	channels, err := e.channels(ctx)
	if err != nil {
		return err
	}
	looking, cancel := context.WithTimeout(ctx, max(e.cfg.Interval*2/3, leastLook))
	defer cancel()
	readings, unread, lookErr := e.sight.look(looking, now, e.board.Subjects(), channels)
	round := alert.Round{Now: now, Unread: unread, Channels: wanted(channels), Quiet: !e.cfg.Thresholds.Enabled(alert.TooManyAlerts)}
	for i := range readings {
		round.Findings = append(round.Findings, alert.Judge(e.cfg.Thresholds, &readings[i])...)
		round.Endings = append(round.Endings, alert.Endings(&readings[i])...)
	}
	if ctx.Err() != nil {
		return nil // stopping: what was cut short is not what is
	}
	return errors.Join(lookErr, e.store(ctx, now, e.board.Step(round)))
}

// catchUp makes the board, or tells it what others have stored: acknowledgements,
// and what became of notices.
func (e *Evaluator) catchUp(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	rows, err := e.cfg.Store.OpenAlerts(ctx, now.Add(-remembered))
	if err != nil {
		return fmt.Errorf("read alerts: %w", err)
	}
	if e.board == nil {
		e.board, err = alert.NewBoard(e.cfg.Options, rows)
		return err
	}
	e.board.Adopt(rows)
	for i := range rows {
		for _, n := range rows[i].Notifications {
			if n.Result != hook.NoticeWaiting {
				e.board.Told(rows[i].ID, n)
			}
		}
	}
	return nil
}

func (e *Evaluator) channels(ctx context.Context) ([]store.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	channels, err := e.cfg.Store.Channels(ctx)
	if err != nil {
		return nil, fmt.Errorf("read channels: %w", err)
	}
	return channels, nil
}

// wanted are the channels as the board knows them, the log among them.
func wanted(channels []store.Channel) []hook.Channel {
	out := []hook.Channel{alert.LogChannel()}
	for i := range channels {
		out = append(out, channels[i].Channel)
	}
	return out
}

// store commits a step. If that fails the board knows more than the store, and the
// next round begins with a new one.
func (e *Evaluator) store(ctx context.Context, now time.Time, out alert.Outcome) error {
	if len(out.Save)+len(out.Unacked)+len(out.Drop) == 0 {
		return nil
	}
	// What was decided is stored also when the server stops at this moment.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveCall)
	defer cancel()
	err := e.cfg.Store.SaveAlerts(ctx, e.fence, store.AlertStep{Now: now, Save: out.Save, Unacked: out.Unacked, Drop: out.Drop})
	switch {
	case errors.Is(err, store.ErrFenced):
		e.board = nil
		return nil // another node is the owner, and has seen the same
	case err != nil:
		e.board = nil
		return fmt.Errorf("store alerts: %w", err)
	}
	if len(out.Notices) > 0 {
		e.cfg.Decided()
	}
	e.tellFired(now, out.Save)
	return nil
}

// tellFired tells of the alerts that a step let fire.
func (e *Evaluator) tellFired(now time.Time, saved []hook.Alert) {
	if e.cfg.Fired == nil {
		return
	}
	for i := range saved {
		// A row may keep less of a time than the clock gives.
		if a := &saved[i]; a.Status == hook.AlertFiring && now.Sub(a.Since) < time.Millisecond {
			e.cfg.Fired(a)
		}
	}
}
