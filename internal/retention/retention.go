// Package retention removes what is past its age, a little at a time: events
// with their deliveries and attempts, dead letters alike, audit records, and alerts
// that are over. What is pending never leaves.
//
// It only sets the pace. What exactly may go, and how, is the store's business.
package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Config configures a Janitor. Zero fields mean the defaults given.
type Config struct {
	Store store.Maintenance
	Stats store.StatsKeeper // nil: there are no figures
	// Alerts removes those that are over; nil: there are none.
	Alerts store.AlertRetention
	IDs    *hook.IDSource
	Log    *slog.Logger
	Age    time.Duration // 30 days
	// AuditAge is how long audit records stay; 90 days.
	AuditAge time.Duration
	// AlertsAge is how long alerts stay after they are resolved; 90 days.
	AlertsAge time.Duration
	// MinutesAge and HoursAge are when figures become coarser, DaysAge when they
	// go; 48 hours, 90 days, 3 years.
	MinutesAge, HoursAge, DaysAge time.Duration

	Fold  time.Duration // time between two rounds that add up figures; 5s
	Every time.Duration // time between runs; 10 minutes
	First time.Duration // time before the first one; 30s
	Pause time.Duration // rest between two steps of a run; 50ms
	Step  int           // events per step; 250
}

const (
	// statsStep is how many rows of figures are made coarser together.
	statsStep = 500
	// foldStep is how much of the logs of commits is added up together, in bytes:
	// figures of two thousand endpoints or so. A SQLite store writes nothing
	// else meanwhile.
	foldStep = 64 << 10
)

// Janitor runs retention.
type Janitor struct{ cfg Config }

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Janitor, error) {
	if cfg.Store == nil || cfg.IDs == nil || cfg.Log == nil {
		return nil, errors.New("retention: Store, IDs and Log are required")
	}
	cfg.Age = cmp.Or(cfg.Age, 30*24*time.Hour)
	cfg.AuditAge = cmp.Or(cfg.AuditAge, 90*24*time.Hour)
	cfg.AlertsAge = cmp.Or(cfg.AlertsAge, 90*24*time.Hour)
	cfg.MinutesAge = cmp.Or(cfg.MinutesAge, 48*time.Hour)
	cfg.HoursAge = cmp.Or(cfg.HoursAge, 90*24*time.Hour)
	cfg.DaysAge = cmp.Or(cfg.DaysAge, 3*365*24*time.Hour)
	cfg.Fold = cmp.Or(cfg.Fold, 5*time.Second)
	cfg.Every = cmp.Or(cfg.Every, 10*time.Minute)
	cfg.First = cmp.Or(cfg.First, 30*time.Second)
	cfg.Pause = cmp.Or(cfg.Pause, 50*time.Millisecond)
	cfg.Step = cmp.Or(cfg.Step, 250)
	return &Janitor{cfg: cfg}, nil
}

// Run works until ctx ends. The first run comes soon: a server that is restarted
// all the time would otherwise keep everything. An error of one run is logged
// and the next run tries again: nothing is lost by being late.
func (j *Janitor) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if j.cfg.Stats != nil {
		wg.Go(func() { j.addUp(ctx) })
	}
	timer := time.NewTimer(j.cfg.First)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		timer.Reset(j.cfg.Every)
		if err := errors.Join(j.once(ctx), j.forget(ctx), j.coarsen(ctx)); err != nil && ctx.Err() == nil {
			j.cfg.Log.Warn("retention run failed; the next one goes on", "error", err)
		}
	}
}

// once removes everything that is past its age.
func (j *Janitor) once(ctx context.Context) error {
	now := time.Now()
	if err := j.cfg.Store.Prepare(ctx, now); err != nil {
		return fmt.Errorf("prepare store: %w", err)
	}
	var sum store.Pruned
	for {
		got, err := j.cfg.Store.Prune(ctx, store.PruneStep{
			Now: now, Before: now.Add(-j.cfg.Age), DeadAfter: now.Add(-hook.DeadGrace), AuditBefore: now.Add(-j.cfg.AuditAge), Limit: j.cfg.Step,
		})
		if err != nil {
			return errors.Join(fmt.Errorf("prune: %w", err), j.record(ctx, sum, now))
		}
		sum.Events += got.Events
		sum.Deliveries += got.Deliveries
		sum.Attempts += got.Attempts
		sum.Keys += got.Keys
		sum.Audit += got.Audit
		if got.Done {
			return j.record(ctx, sum, now)
		}
		select {
		case <-ctx.Done():
			return j.record(ctx, sum, now)
		case <-time.After(j.cfg.Pause):
		}
	}
}

// addUp adds up what commits have counted, every few seconds: that is how late
// figures are. Several nodes may do it; one at a time gets something to do.
func (j *Janitor) addUp(ctx context.Context) {
	timer := time.NewTicker(j.cfg.Fold)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var err error
		for n := foldStep; n >= foldStep && err == nil && ctx.Err() == nil; {
			n, err = j.cfg.Stats.FoldStats(ctx, foldStep)
		}
		if err != nil && !failing && ctx.Err() == nil {
			j.cfg.Log.Warn("figures could not be added up; trying again", "error", err)
		}
		failing = err != nil
	}
}

// forget removes alerts that were resolved long ago.
func (j *Janitor) forget(ctx context.Context) error {
	if j.cfg.Alerts == nil {
		return nil
	}
	before := time.Now().Add(-j.cfg.AlertsAge)
	for {
		n, err := j.cfg.Alerts.DropAlerts(ctx, before, j.cfg.Step)
		if err != nil {
			return fmt.Errorf("remove old alerts: %w", err)
		}
		if n < int64(j.cfg.Step) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(j.cfg.Pause):
		}
	}
}

// coarsen makes hours of old minutes and days of old hours, and removes old days.
func (j *Janitor) coarsen(ctx context.Context) error {
	if j.cfg.Stats == nil {
		return nil
	}
	now := time.Now()
	for _, step := range []func() (int, error){
		func() (int, error) {
			return j.cfg.Stats.RollUp(ctx, stats.Minutes, now.Add(-j.cfg.MinutesAge), statsStep)
		},
		func() (int, error) { return j.cfg.Stats.RollUp(ctx, stats.Hours, now.Add(-j.cfg.HoursAge), statsStep) },
		func() (int, error) { return j.cfg.Stats.DropStats(ctx, stats.Days, now.Add(-j.cfg.DaysAge), statsStep) },
	} {
		for n := statsStep; n == statsStep; {
			var err error
			if n, err = step(); err != nil {
				return fmt.Errorf("keep figures: %w", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(j.cfg.Pause):
			}
		}
	}
	return nil
}

// record writes what a run removed into the audit log: removal is never silent,
// also when the server stops in the middle of it.
func (j *Janitor) record(ctx context.Context, sum store.Pruned, now time.Time) error {
	ctx = context.WithoutCancel(ctx)
	if sum.Audit > 0 {
		// A record of it would be one more that has to go some day.
		j.cfg.Log.Info("old audit records removed", "records", sum.Audit)
	}
	if sum.Events+sum.Deliveries+sum.Attempts == 0 {
		return nil
	}
	diff, err := json.Marshal(map[string]int64{"events": sum.Events, "deliveries": sum.Deliveries, "attempts": sum.Attempts})
	if err != nil {
		return fmt.Errorf("encode audit record: %w", err)
	}
	err = j.cfg.Store.WriteAudit(ctx, hook.Audit{
		ID: j.cfg.IDs.Next(now), Actor: "retention", Action: "retention.prune", Subject: "events", Diff: diff, At: now,
	})
	if err != nil {
		return fmt.Errorf("write audit record: %w", err)
	}
	return nil
}
