package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// writeLanes leaves each lane as its plot wants it.
func (w *writer) writeLanes(ctx context.Context, all []*destination) error {
	b := store.Batch{Node: w.node.ID, Now: w.now, Uncounted: true}
	for _, d := range all {
		shard := hook.ShardOf(d.id)
		b.Lanes = append(b.Lanes, &store.LaneSave{
			Endpoint: d.id, Tenant: d.of.id, Shard: shard, Epoch: w.epochs[shard], Checkpoint: w.checkpoint(d),
		})
	}
	return w.db.Commit(ctx, &b)
}

func (w *writer) checkpoint(d *destination) lane.Checkpoint {
	c := lane.Checkpoint{
		Limit: 20, BaseLatency: d.took, BaseWeight: 50, SRTT: d.took, HealthyPeak: 6, Usual: d.rate, Proven: 2 * d.rate,
	}
	switch d.plot {
	case outage:
		at := w.ago(outageFor)
		c.Open, c.OpenReason, c.OpenedAt, c.BlockedAt, c.LastBadAt = true, lane.OpenedByStreak, at, at, w.ago(9*time.Second)
		c.ClosedAt, c.NextProbeAt, c.FailingSince, c.FailingAttempts = w.ago(earlyEnded), w.ago(-14*time.Second), at, 22
	case draining:
		c.OpenedAt, c.ClosedAt, c.LastBadAt = w.ago(drainOutage), w.ago(drainedSince), w.ago(drainedSince+30*time.Second)
		c.Recovery, c.Held = 3*d.rate, drainOutage-drainedSince
	case throttled:
		c.Pace, c.ThrottledAt, c.RetryAfter, c.HoldUntil, c.LastBadAt = 1.5, w.ago(8*time.Second), 30*time.Second, w.ago(-22*time.Second), w.ago(8*time.Second)
	case calm, paused, rejecting, gone: // its lane is like any other
	}
	return c
}

// writeNews writes what operators were told during the day.
func (w *writer) writeNews(ctx context.Context, all []*destination) error {
	var out []hook.OperationalEvent
	tell := func(d *destination, ago time.Duration, what hook.OperationalType, detail map[string]any) {
		text, err := json.Marshal(detail)
		if err != nil || detail == nil {
			text = []byte("{}")
		}
		at := w.ago(ago)
		out = append(out, hook.OperationalEvent{ID: w.id(at), TenantID: d.of.id, EndpointID: d.id, Type: what, At: at, Detail: text})
	}
	for _, d := range all {
		switch d.plot {
		case outage:
			tell(d, earlyOutage, hook.BreakerOpened, nil)
			tell(d, earlyEnded, hook.BreakerClosed, map[string]any{"seconds": (earlyOutage - earlyEnded).Seconds()})
			tell(d, earlyEnded-8*time.Minute, hook.EndpointRecovered, nil)
			tell(d, outageFor, hook.BreakerOpened, nil)
		case draining:
			tell(d, drainOutage, hook.BreakerOpened, nil)
			tell(d, drainedSince, hook.BreakerClosed, map[string]any{"seconds": (drainOutage - drainedSince).Seconds()})
			tell(d, drainedSince-2*time.Minute, hook.LaneSlowStartDone, nil)
		case throttled:
			tell(d, throttleFor, hook.LaneThrottled, nil)
		case paused:
			tell(d, pausedFor, hook.EndpointPaused, nil)
		case rejecting:
			tell(d, rejectingFor-4*time.Minute, hook.DeadLettersGrowing, nil)
		case gone:
			tell(d, goneFor, hook.EndpointDisabled, map[string]any{"reason": "gone"})
		case calm:
		}
	}
	return w.db.WriteOperational(ctx, out)
}

// writeAlerts writes alerts that are over. Those that fire are found by the server
// itself as soon as it looks.
func (w *writer) writeAlerts(ctx context.Context, all []*destination) error {
	over := func(d *destination, rule, summary string, began, ended time.Duration, severity hook.Severity, value, threshold float64) hook.Alert {
		since, until := w.ago(began), w.ago(ended)
		return hook.Alert{
			ID: w.id(since), Rule: rule, Level: hook.LevelEndpoint, Severity: severity, Status: hook.AlertResolved,
			Subject: hook.AlertSubject{Tenant: d.of.id, Endpoint: d.id}, Summary: summary, Value: value, Threshold: threshold,
			Since: since, LastAt: until, ResolvedAt: until, Count: 1, Memory: hook.AlertMemory{FalseSince: until},
		}
	}
	var step store.AlertStep
	step.Now = w.now
	for _, d := range all {
		switch d.plot {
		case outage:
			step.Save = append(step.Save, over(d, "breaker_open", "The breaker is open: 5 attempts in a row failed", earlyOutage-time.Minute, earlyEnded-5*time.Minute, hook.SeverityWarning, 1, 1))
		case draining:
			step.Save = append(step.Save,
				over(d, "breaker_open", "The breaker is open: 5 attempts in a row failed", drainOutage-time.Minute, drainedSince-5*time.Minute, hook.SeverityWarning, 1, 1),
				over(d, "breaker_open_long", "The breaker has been open for 30 min", drainOutage-30*time.Minute, drainedSince-5*time.Minute, hook.SeverityPage, 1800, 1800))
		case throttled:
			step.Save = append(step.Save, over(d, "endpoint_errors", "21 % of attempts failed in 5 min", 8*time.Hour, 8*time.Hour-11*time.Minute, hook.SeverityWarning, 21, 20))
		case calm, paused, rejecting, gone: // no alert that is over
		}
	}
	return w.db.SaveAlerts(ctx, store.Fence{Node: w.node.ID, Held: store.Held{Shard: 0, Epoch: w.epochs[0]}}, step)
}

// writeReplay writes a replay of yesterday.
func (w *writer) writeReplay(ctx context.Context, all []*destination) error {
	for _, d := range all {
		if d.plot != rejecting {
			continue
		}
		at := w.ago(9 * time.Hour)
		end := at.Add(11 * time.Minute)
		j := hook.ReplayJob{
			ID: w.id(at), TenantID: d.of.id, EndpointID: d.id, Filter: hook.ReplayFilter{Endpoint: d.id, States: []hook.DeliveryState{hook.Dead}},
			State: hook.ReplayDone, PerMinute: 100, CurrentPerMinute: 800, Ramp: 2, MaxMultiple: 10, PauseErrorPercent: 10,
			Cursor: hook.IDFloor(at), EndID: hook.IDFloor(at), Total: 4218,
			Counts:    hook.ReplayCounts{Fed: 4218, Delivered: 4211, Failed: 7, Answers: 4218, Errors: 2, Refused: 7},
			CreatedBy: "key ops", CreatedAt: at, UpdatedAt: end, StartedAt: at, FinishedAt: end, Version: 1,
		}
		shown := hook.ReplayPrefix.Format(j.ID)
		if err := w.db.CreateReplay(ctx, j, w.audit(d.of.id, at, "key ops", "replay.create", shown, map[string]any{"total": j.Total})); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		if _, err := w.db.UpdateReplay(ctx, j, nil); err != nil {
			return fmt.Errorf("end of the replay: %w", err)
		}
		w.places.Replays["done"], w.replayed = shown, j
	}
	return nil
}
