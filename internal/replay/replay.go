// Package replay feeds replays: it makes ended deliveries pending again, and creates
// those that are missing, a few every second, at a pace that grows while the
// destination copes and stops when it does not.
//
// It sends nothing. A fed delivery goes through its lane like any other, under
// the lane's limits and behind live events; what became of it is counted by the
// store as it is settled. Creating, pausing and cancelling replays on a
// person's word is the API's business.
package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Lanes tells how endpoints and their lanes are doing; store.LaneReader does.
// Deleted endpoints are left out.
type Lanes interface {
	Destinations(ctx context.Context, endpoints []hook.ID) ([]store.Destination, error)
}

// Finder finds events that an endpoint has no delivery of; backfill.Finder does.
type Finder interface {
	// Missing returns up to limit events behind the replay's cursor, oldest first,
	// and how far it has looked.
	Missing(ctx context.Context, now time.Time, j *hook.ReplayJob, limit int) (store.Missing, error)
}

// Notifier tells the owner of a lane that deliveries on disk are due. It never
// fails and never blocks.
type Notifier interface {
	DueNow(tenant, endpoint hook.ID)
}

// Config configures a Runner. Zero fields mean the defaults given.
type Config struct {
	Store    store.ReplayFeeder
	Lanes    Lanes
	Finder   Finder
	Notifier Notifier
	IDs      *hook.IDSource
	Log      *slog.Logger
	// Owns reports whether this node looks after the replays of a shard: that
	// of the endpoint, or of the replay itself when it spans endpoints.
	Owns func(shard int) bool

	Every      time.Duration // between two steps of a replay; 1s
	MaxRunning int           // replays that this node feeds at once; 8
}

const (
	// maxActive bounds how many replays that have not ended are looked at.
	maxActive = 5000
	// maxPage bounds one transaction, maxStep all those of one step.
	maxPage = 500
	maxStep = 2000
	// stepTimeout bounds the calls of one replay's step.
	stepTimeout = 10 * time.Second
	// actor is who changes replays by rule, in the audit log.
	actor = "replay"
)

// Runner runs the replays of the shards this node owns.
type Runner struct {
	cfg    Config
	pacers map[hook.ID]*pacer
	// failing holds what could not be looked after at the last step, so that a
	// store that is away is told of once. 0 is the list itself.
	failing map[hook.ID]bool
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Runner, error) {
	if cfg.Store == nil || cfg.Lanes == nil || cfg.Finder == nil || cfg.Notifier == nil || cfg.IDs == nil || cfg.Log == nil || cfg.Owns == nil {
		return nil, errors.New("replay: Store, Lanes, Finder, Notifier, IDs, Log and Owns are required")
	}
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, 8)
	return &Runner{cfg: cfg, pacers: map[hook.ID]*pacer{}, failing: map[hook.ID]bool{}}, nil
}

// Run feeds until ctx ends. Whatever fails is tried again at the next step:
// all progress is in the store.
func (r *Runner) Run(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		r.round(ctx)
	}
}

// round takes one step of every replay of this node, oldest first.
func (r *Runner) round(ctx context.Context) {
	jobs, err := r.active(ctx)
	r.report(ctx, 0, err)
	if err != nil {
		return
	}
	alive, running := map[hook.ID]*pacer{}, 0
	for i := range jobs {
		j := jobs[i]
		if occupies(&j) {
			running++
		}
		switch {
		case j.State == hook.ReplayQueued && running >= r.cfg.MaxRunning:
			continue
		case j.State == hook.ReplayQueued:
			started, err := r.start(ctx, &j)
			r.report(ctx, j.ID, err)
			if started {
				running++
			}
		case j.State == hook.ReplayPaused && j.PauseReason.NeedsPerson():
		default:
			p := cmp.Or(r.pacers[j.ID], &pacer{})
			alive[j.ID] = p
			r.report(ctx, j.ID, r.step(ctx, p, j))
		}
	}
	r.pacers = alive // a replay that left begins anew when it comes back
}

// active returns the replays of this node.
func (r *Runner) active(ctx context.Context) ([]hook.ReplayJob, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	all, err := r.cfg.Store.ActiveReplays(ctx, maxActive)
	if err != nil {
		return nil, err
	}
	var own []hook.ReplayJob
	for _, j := range all {
		if r.cfg.Owns(hook.ShardOf(cmp.Or(j.EndpointID, j.ID))) {
			own = append(own, j)
		}
	}
	return own, nil
}

// occupies reports whether the replay takes one of this node's places.
func occupies(j *hook.ReplayJob) bool {
	return !j.AllFed() && (j.State == hook.ReplayRunning || j.State == hook.ReplayPaused && !j.PauseReason.NeedsPerson())
}

// report tells of a failure when it begins.
func (r *Runner) report(ctx context.Context, id hook.ID, err error) {
	switch {
	case err == nil:
		delete(r.failing, id)
		return
	case ctx.Err() != nil || r.failing[id]:
		return
	}
	r.failing[id] = true
	if id == 0 {
		r.cfg.Log.Warn("replays could not be read; trying again", "error", err)
		return
	}
	r.cfg.Log.Warn("replay could not go on; trying again", "replay", hook.ReplayPrefix.Format(id), "error", err)
}

// start lets a queued replay run if its turn has come.
func (r *Runner) start(ctx context.Context, j *hook.ReplayJob) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	now := moment()
	rec, err := r.record(now, j, "replay.start", hook.ReplayRunning, "")
	if err != nil {
		return false, err
	}
	return r.cfg.Store.StartReplay(ctx, j.ID, now, rec)
}

// step decides about one replay, stores the decision and feeds.
func (r *Runner) step(ctx context.Context, p *pacer, j hook.ReplayJob) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	now := moment()
	lane, err := r.laneOf(ctx, now, &j)
	if err != nil {
		return err
	}
	v := p.step(now, j, lane)
	if v.changed {
		err := r.save(ctx, now, &v)
		switch {
		case errors.Is(err, hook.ErrVersionMismatch), errors.Is(err, hook.ErrNotFound):
			return nil // somebody changed it meanwhile: look again
		case err != nil:
			return err
		}
	}
	return r.feed(ctx, now, &v)
}

// save stores a decision, with a record unless only the pace changed.
func (r *Runner) save(ctx context.Context, now time.Time, v *verdict) error {
	var rec *hook.Audit
	if v.action != "" {
		a, err := r.record(now, &v.job, v.action, v.job.State, v.job.PauseReason)
		if err != nil {
			return err
		}
		rec = &a
	}
	stored, err := r.cfg.Store.UpdateReplay(ctx, v.job, rec)
	if err != nil {
		return err
	}
	v.job = stored
	return nil
}

// feed makes deliveries pending, page by page, and rings for their lanes.
func (r *Runner) feed(ctx context.Context, now time.Time, v *verdict) error {
	for left := min(v.feed, maxStep); left > 0; left -= maxPage {
		f := store.Feed{Replay: v.job, Limit: min(left, maxPage), Now: now, PacedAt: v.pacedAt}
		if v.job.Filter.Missing != nil {
			var err error
			if f.Missing, err = r.missing(ctx, now, &v.job, f.Limit); err != nil {
				return err
			}
		}
		fed, err := r.cfg.Store.FeedReplay(ctx, f)
		if errors.Is(err, hook.ErrStateConflict) {
			return nil // another node was faster, or a person stopped it
		}
		if err != nil {
			return err
		}
		for _, endpoint := range fed.Endpoints {
			r.cfg.Notifier.DueNow(v.job.TenantID, endpoint)
		}
		if v.job.Cursor = fed.Cursor; v.job.AllFed() {
			return nil
		}
	}
	return nil
}

// missing finds events without a delivery and draws the ids of theirs. Those are
// beyond the set, also where this node's clock is behind that of the one that created
// the replay: what is created must not be met on the way and be fed again.
func (r *Runner) missing(ctx context.Context, now time.Time, j *hook.ReplayJob, limit int) (store.Missing, error) {
	m, err := r.cfg.Finder.Missing(ctx, now, j, limit)
	if err != nil {
		return m, err
	}
	if end := j.EndID.Time(); now.Before(end) {
		now = end
	}
	for i := range m.Events {
		m.Events[i].Delivery = r.cfg.IDs.Next(now)
	}
	return m, nil
}

// record is the audit record of a change by rule.
func (r *Runner) record(now time.Time, j *hook.ReplayJob, action string, to hook.ReplayState, why hook.PauseReason) (hook.Audit, error) {
	diff, err := json.Marshal(struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{to.String(), string(why)})
	if err != nil {
		return hook.Audit{}, fmt.Errorf("encode audit record: %w", err)
	}
	return hook.Audit{
		ID: r.cfg.IDs.Next(now), TenantID: j.TenantID, Actor: actor, Action: action,
		Subject: hook.ReplayPrefix.Format(j.ID), Diff: diff, At: now,
	}, nil
}

// moment is the time as the stores keep it.
func moment() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
