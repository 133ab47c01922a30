package app

import (
	"context"
	"errors"

	"github.com/breakwaterhq/breakwater/internal/census"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// buildMetrics makes the metrics and who counts for them. They ask the dispatcher,
// which is made later.
func (a *App) buildMetrics() (err error) {
	var tell func(context.Context, store.QueueCount) error
	if a.opts.Stats {
		tell = a.db.TellQueues
	}
	a.census, err = census.New(census.Config{
		Store: a.db, Log: a.log, Tell: tell,
		Owns: func(shard int) bool { return a.dispatcher.Owns(shard) },
		Lanes: func(ctx context.Context) (lanes, holds int, err error) {
			c, err := a.dispatcher.CountLanes(ctx)
			return c.Lanes, c.Holds, err
		},
	})
	if err != nil {
		return err
	}
	s := metric.Sources{
		Version: a.opts.Version, Lanes: a.watch.Figures, Queues: a.queueFigures, Node: a.nodeState,
	}
	if a.tracer != nil {
		s.Traces = func() metric.Traces { return metric.Traces(a.tracer.Counts()) }
	}
	if a.opts.Alerts {
		s.Alerts = a.firingAlerts
	}
	if a.opts.DatabaseURL == "" {
		s.Embedded = a.embeddedState
	}
	a.metrics = metric.New(s)
	return nil
}

// firingAlerts is what the metrics show of alerts: those of the fleet, on the node
// that judges it.
func (a *App) firingAlerts() (out []metric.AlertCount) {
	if !a.dispatcher.Owns(0) {
		return nil
	}
	for _, c := range a.evaluator.Firing() {
		out = append(out, metric.AlertCount{Rule: c.Rule, Severity: c.Severity, Open: c.N})
	}
	return out
}

// queueFigures is what the metrics show of queues. What was counted for the fleet
// is another node's to tell as soon as that one owns shard 0.
func (a *App) queueFigures() hook.QueueFigures {
	f := a.census.Figures()
	if !a.dispatcher.Owns(0) {
		f.Fleet = nil
	}
	return f
}

// nodeState is what the metrics show of this process. Metrics are read only when
// all parts are there.
func (a *App) nodeState() metric.Node {
	waiting := a.writer.Waiting()
	n := metric.Node{
		DamagedFigures: a.storeWatch.figures.Load(),
		InFlight:       a.dispatcher.InFlight(), InFlightLimit: a.opts.MaxInFlight, Shards: a.dispatcher.Shards(), LeaseAge: -1,
		WaitingRows: waiting.Accepts.Rows, WaitingRowsLimit: a.opts.IngestQueue,
		WaitingBytes: waiting.Accepts.Bytes, WaitingResults: waiting.Results, OldestResult: a.writer.Health().OldestResult,
	}
	if age, leased := a.dispatcher.LeaseAge(); leased {
		n.LeaseAge = max(age, 0)
	}
	if db, ok := a.db.(store.Connected); ok {
		c := db.Connections()
		n.ConnsInUse, n.ConnsIdle, n.ConnsMax, n.ConnWaits = c.InUse, c.Idle, c.Max, c.Waits
	}
	return n
}

// embeddedState is what the metrics show of the embedded store.
func (a *App) embeddedState() metric.Embedded {
	e := a.storeWatch.state()
	e.DiskFree, e.DiskReserve = -1, a.opts.DiskReserve
	if measure := a.diskFree(); measure != nil {
		if free, err := measure(); err == nil {
			e.DiskFree = free
		}
	}
	return e
}

// committed hands a batch on that is on disk.
func (a *App) committed(b *store.Batch) {
	a.countBatch(b)
	a.dispatcher.Committed(b)
}

func (a *App) countBatch(b *store.Batch) {
	stored := 0
	for _, e := range b.Accepts {
		if e.Outcome == store.AcceptStored {
			stored++
		}
	}
	a.metrics.Accepted(stored)
	for _, s := range b.Settles {
		if s.Outcome == store.SettleWritten && ended(s) {
			a.countEnd(s)
		}
	}
}

// countEnd counts a delivery that has ended.
func (a *App) countEnd(s *store.Settle) {
	d, result := &s.Delivery, metric.ReplayFailed
	switch d.State {
	case hook.Delivered:
		a.metrics.Delivered(d.Attempts, s.Took())
		result = metric.ReplayDelivered
	case hook.Dead:
		a.metrics.Dead(d.Reason, d.Attempts)
	case hook.Cancelled:
		a.metrics.Cancelled(d.Attempts)
	case hook.Pending: // it has not ended
		return
	}
	if d.ReplayID != 0 {
		a.metrics.Replayed(result, 1)
	}
}

// ended reports whether a settle ended its delivery. One that only puts back
// what the delivery was before a manual send does not.
func ended(s *store.Settle) bool {
	switch {
	case s.Delivery.State == hook.Pending:
		return false
	case s.Attempt == nil:
		return s.Delivery.Reason == hook.DeadExpired || s.Delivery.Reason == hook.DeadBreakerOpen
	default:
		return s.Attempt.Kind != hook.Manual || s.Attempt.Class == hook.Success
	}
}

// countingIngest counts the events that ingest refuses.
type countingIngest struct {
	in interface {
		Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error)
		AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result
	}
	metrics *metric.Metrics
}

// Accept implements accept.Ingest.
func (c countingIngest) Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error) {
	r, err := c.in.Accept(ctx, tenant, s)
	if err != nil {
		c.metrics.Refused(refusalOf(err))
	}
	return r, err
}

// AcceptBatch implements accept.Ingest.
func (c countingIngest) AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result {
	results := c.in.AcceptBatch(ctx, tenant, subs)
	for i := range results {
		if err := results[i].Err; err != nil {
			c.metrics.Refused(refusalOf(err))
		}
	}
	return results
}

// refusalOf names why ingest refused an event.
func refusalOf(err error) metric.Refusal {
	for _, r := range []struct {
		err error
		why metric.Refusal
	}{
		{hook.ErrTooLarge, metric.RefusedTooLarge},
		{hook.ErrFanoutTooBig, metric.RefusedFanout},
		{hook.ErrKeyReused, metric.RefusedKeyReused},
		{hook.ErrRateLimited, metric.RefusedRate},
		{hook.ErrBacklogFull, metric.RefusedBacklog},
		{hook.ErrTenantFull, metric.RefusedTenantFull},
		{hook.ErrStoreFull, metric.RefusedStoreFull},
		{hook.ErrOverloaded, metric.RefusedOverloaded},
		{hook.ErrDraining, metric.RefusedStopping},
		{hook.ErrUnknownTarget, metric.RefusedInvalid},
		{hook.ErrNotFound, metric.RefusedInvalid},
		{context.Canceled, metric.RefusedGone},
	} {
		if errors.Is(err, r.err) {
			return r.why
		}
	}
	var invalid *hook.Invalid
	switch {
	case errors.As(err, &invalid) && invalid.Code == "fanout_too_large":
		return metric.RefusedFanout
	case errors.As(err, &invalid):
		return metric.RefusedInvalid
	default:
		return metric.RefusedStore
	}
}

// countingFeeder counts what replays skip.
type countingFeeder struct {
	store.ReplayFeeder

	metrics *metric.Metrics
}

// FeedReplay implements store.ReplayFeeder.
func (c countingFeeder) FeedReplay(ctx context.Context, f store.Feed) (store.Fed, error) {
	fed, err := c.ReplayFeeder.FeedReplay(ctx, f)
	if err == nil {
		c.metrics.Replayed(metric.ReplaySkipped, fed.Skipped)
	}
	return fed, err
}
