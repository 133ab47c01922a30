package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/alerts"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/evaluate"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// buildAlerts makes whoever judges the fleet and whoever tells people. Both work
// while this node owns shard 0 and rest otherwise.
func (a *App) buildAlerts(serverPolicy []byte) (err error) {
	o := &a.opts
	a.sender, err = notify.New(notify.Config{
		Queue: noticeQueue{a}, HTTP: guardedPost{a.client}, SMTP: o.SMTP, Log: a.log, PublicURL: o.PublicURL, RunbookURL: o.RunbookURL,
	})
	if err != nil || !o.Alerts {
		return err
	}
	a.evaluator, err = evaluate.New(evaluate.Config{
		Store: a.db, IDs: a.ids, Node: a.node.ID, Log: a.log, Holds: a.dispatcher.Holds, Health: a.nodeHealth, Decided: a.sender.Wake,
		LeaseTTL: o.LeaseTTL, Retention: o.RetentionData, ServerPolicy: serverPolicy,
		Fired:      a.changes().fired,
		Thresholds: o.AlertThresholds, Options: o.AlertOptions, Interval: o.AlertInterval,
	})
	return err
}

// alertParts are what the API of alerts needs of those who run.
func (a *App) alertParts() alerts.Parts {
	return alerts.Parts{
		Unjudged: !a.opts.Alerts,
		Test: func(ctx context.Context, ch hook.Channel) (bool, string) {
			res := a.sender.Test(ctx, ch)
			return res.OK, res.Detail
		},
		Thresholds: func() alert.Thresholds { return a.opts.AlertThresholds },
	}
}

// runEvaluator judges the fleet unless that is switched off.
func (a *App) runEvaluator(ctx context.Context) error {
	if a.evaluator == nil {
		return nil
	}
	return a.evaluator.Run(ctx)
}

// clockCall is how long the database may take to say what time it is.
const clockCall = 2 * time.Second

// nodeHealth tells how this node does.
func (a *App) nodeHealth(ctx context.Context) hook.NodeHealth {
	w := a.writer.Health()
	h := hook.NodeHealth{Name: a.node.Name, CommitP99: w.CommitP99, OldestResult: w.OldestResult}
	if free := a.diskFree(); free != nil {
		if n, err := free(); err == nil {
			h.DiskFree, h.DiskReserve = n, a.opts.DiskReserve
		}
	}
	if clock, ok := a.db.(store.Clock); ok {
		// A database that does not answer soon says nothing about the clock.
		ctx, cancel := context.WithTimeout(ctx, clockCall)
		defer cancel()
		if offset, err := clock.ClockOffset(ctx); err == nil {
			h.ClockOffset = offset
		}
	}
	return h
}

// sharedHealth is nodeHealth where other nodes may ask; nil where this is the only
// one and need not write it down.
func (a *App) sharedHealth() func(context.Context) hook.NodeHealth {
	if !a.db.Shared() {
		return nil
	}
	return a.nodeHealth
}

// guardedPost is the way of notices into the world: the same guard as deliveries
// have.
type guardedPost struct{ client *egress.Client }

// Do implements notify.HTTP.
func (g guardedPost) Do(ctx context.Context, req *notify.Request) (status int, body []byte, err error) {
	total := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		total = time.Until(deadline)
	}
	var header []egress.Field
	for name, values := range req.Header {
		for _, v := range values {
			header = append(header, egress.Field{Name: name, Value: v})
		}
	}
	res := g.client.Send(ctx, &egress.Request{Tenant: req.Tenant, URL: req.URL, Body: req.Body, Header: header, Total: total})
	switch {
	case res.Reason == hook.BlockedAddress:
		return 0, nil, notify.ErrRefused
	case res.Reason != 0:
		return 0, nil, errors.New(res.Text)
	}
	return res.Status, res.Body[:min(len(res.Body), req.MaxBody)], nil
}

// telling is the store of whoever records operational events: their notices are
// stored with them, so that none is lost and none comes twice, whichever node
// noticed the event.
type telling struct {
	store.DB
	a *App
}

// WriteOperational implements watch.Store.
func (t telling) WriteOperational(ctx context.Context, events []hook.OperationalEvent) error {
	channels, err := t.Channels(ctx)
	if err != nil {
		return fmt.Errorf("read channels: %w", err)
	}
	var to []store.EventNotice
	for i := range channels {
		for j := range events {
			if e := &events[j]; notify.WantsEvent(&channels[i].Channel, e) {
				to = append(to, store.EventNotice{Event: e.ID, Channel: channels[i].ID, At: e.At})
			}
		}
	}
	if len(to) == 0 {
		return t.DB.WriteOperational(ctx, events)
	}
	dropped, err := t.TellOperational(ctx, events, to)
	if dropped > 0 {
		t.a.log.Warn("operational events were dropped: their channels take too few", "dropped", dropped)
	}
	if err == nil {
		t.a.sender.Wake()
	}
	return err
}
