package evaluate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// growthSpan is the time over which the growth of a retry queue is measured.
	growthSpan = 5 * time.Minute
	// depthLimit is where counting a retry queue stops.
	depthLimit = 10_000
	// watchFresh is how old what the owner of a lane saved may be. It saves a lane
	// that is merely retrying once a minute, when there is something new.
	watchFresh = 2 * time.Minute
)

// trail is what the evaluator remembers of an endpoint from round to round.
type trail struct {
	seenAt time.Time
	depths []depthAt // of growthSpan and the one before, oldest first
	held   int64     // when its lane was last seen open

	failing failing // for which last is true
	last    hook.LastResult
}

type depthAt struct {
	at time.Time
	n  int64
}

// failing names a row of failures: as long as it is the same, so is the last one
// but for its time.
type failing struct {
	since    time.Time
	attempts int
	openedAt time.Time
}

// grew notes a depth and returns what it was growthSpan before or, when measuring
// began later, at first.
func (t *trail) grew(now time.Time, n int64) (before int64) {
	for len(t.depths) > 1 && now.Sub(t.depths[1].at) >= growthSpan {
		t.depths = t.depths[1:]
	}
	if len(t.depths) == 0 || t.depths[len(t.depths)-1].at.Before(now) {
		t.depths = append(t.depths, depthAt{now, n})
	}
	return t.depths[0].n
}

// readEndpoints reads the endpoints of a round, those together that can be.
func (s *sight) readEndpoints(ctx context.Context, now time.Time, c choice, take func(alert.Reading)) error {
	var failed error
	for rest := c.endpoints; len(rest) > 0; {
		batch := rest[:min(len(rest), together)]
		rest = rest[len(batch):]
		if err := s.readBatch(ctx, now, batch, take); err != nil {
			failed = fmt.Errorf("read endpoints: %w", err)
			if ctx.Err() != nil {
				break // no time is left; the others come first next time
			}
		}
	}
	return failed
}

// readBatch reads some endpoints. One that cannot be read does not keep the others
// from being judged.
func (s *sight) readBatch(ctx context.Context, now time.Time, batch []candidate, take func(alert.Reading)) error {
	ids := make([]hook.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].id
	}
	found, err := s.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return err
	}
	rows, err := s.cfg.Store.LaneWatches(ctx, ids)
	if err != nil {
		return err
	}
	destinations, watches := make(map[hook.ID]*store.Destination, len(found)), make(map[hook.ID]*hook.LaneWatch, len(rows))
	for i := range found {
		destinations[found[i].Endpoint.ID] = &found[i]
	}
	for i := range rows {
		watches[rows[i].EndpointID] = &rows[i]
	}
	var failed error
	for _, c := range batch {
		d := destinations[c.id]
		if d == nil { // deleted: what was wrong with it is over
			if c.alerted {
				take(alert.Reading{At: now, Subject: hook.AlertSubject{Tenant: c.tenant, Endpoint: c.id}})
			}
			continue
		}
		r, err := s.endpoint(ctx, now, c, d, watches[c.id])
		if err != nil {
			failed = err
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		s.readAt[stats.Subject{Level: stats.OfEndpoint, ID: c.id}] = now
		take(r)
	}
	return failed
}

// endpoint reads one endpoint: its figures and, while something is wrong, up to
// three more queries.
func (s *sight) endpoint(ctx context.Context, now time.Time, c candidate, d *store.Destination, w *hook.LaneWatch) (alert.Reading, error) {
	e := &d.Endpoint
	r := alert.Reading{At: now, Subject: hook.AlertSubject{Tenant: e.TenantID, Endpoint: e.ID}, Name: nameOf(e)}
	counted, err := s.figures.read(ctx, stats.Subject{Level: stats.OfEndpoint, ID: e.ID}, now, c.alerted)
	if err != nil {
		return r, err
	}
	r.Quarter, r.Hour, r.Day = counted.quarter, counted.hour, counted.day
	r.Lane.Disabled, r.Lane.DisabledReason = e.State == hook.Disabled, e.StateReason

	t := s.lanes[e.ID]
	if t == nil {
		t = &trail{}
		s.lanes[e.ID] = t
	}
	t.seenAt = now
	cp := d.Lane
	if cp == nil {
		cp = &lane.Checkpoint{}
	}
	r.Lane.Open, r.Lane.OpenedAt, r.Lane.ClosedAt = cp.Open, cp.OpenedAt, cp.ClosedAt
	r.Lane.Failures = cp.FailingAttempts
	err = errors.Join(s.measure(ctx, now, &r, t, w, cp), s.lastFailure(ctx, &r, t, cp), s.oldestHeld(ctx, now, &r, d, cp))
	return r, err
}

// nameOf is what people call an endpoint. The query of a URL often holds a key.
func nameOf(e *hook.Endpoint) string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host + u.EscapedPath()
}

// measure finds the retry queue. Its owner has measured it when there is reason to;
// held deliveries of a lane that nobody watches are counted here.
func (s *sight) measure(ctx context.Context, now time.Time, r *alert.Reading, t *trail, w *hook.LaneWatch, cp *lane.Checkpoint) error {
	l := &r.Lane
	switch {
	case w != nil && now.Sub(w.UpdatedAt) < watchFresh:
		l.Depth, l.AtLeast = w.Queue.Depth, w.Queue.AtLeast
		if r.Quarter.AllAttempts() == 0 { // figures are exact through kills, but may be switched off
			l.Storm = w.Storm
		}
		if len(t.depths) == 0 && w.Queue.DrainPerMinute != 0 { // what an earlier evaluator saw
			t.grew(now.Add(-time.Minute), w.Queue.Depth+int64(w.Queue.DrainPerMinute))
		}
	case cp.Open || l.Disabled:
		depths, err := s.cfg.Store.RetryDepths(ctx, []hook.ID{r.Subject.Endpoint}, now, depthLimit)
		if err != nil {
			return err
		}
		for _, d := range depths {
			l.Depth, l.AtLeast = d.Depth, d.AtLeast
		}
	}
	l.DepthBefore = t.grew(now, l.Depth)
	if cp.Open || l.Disabled {
		t.held = l.Depth
	}
	l.Held = max(t.held, l.Depth)
	return nil
}

// lastFailure finds the last error of an endpoint that fails: that of the newest
// delivery which waits for another attempt or, without one, of the newest dead letter.
func (s *sight) lastFailure(ctx context.Context, r *alert.Reading, t *trail, cp *lane.Checkpoint) error {
	row := failing{cp.FailingSince, cp.FailingAttempts, cp.OpenedAt}
	if cp.FailingAttempts == 0 && !cp.Open {
		return nil
	}
	for _, f := range []store.DeliveryFilter{{Retrying: true}, {States: []hook.DeliveryState{hook.Dead}}} {
		if row == t.failing {
			break
		}
		f.Tenant, f.Endpoints = r.Subject.Tenant, []hook.ID{r.Subject.Endpoint}
		found, _, err := s.cfg.Store.ListDeliveries(ctx, f, store.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(found) > 0 && !found[0].Last.At.Before(cp.FailingSince.Add(-time.Second)) {
			t.last, t.failing = found[0].Last, row
		}
	}
	if row == t.failing {
		r.Lane.LastStatus, r.Lane.LastError = t.last.Status, t.last.Reason.String()
	}
	return nil
}

// oldestHeld finds how long the oldest delivery has been held: from the later of
// its due time and the moment at which the lane was blocked. While that moment
// alone is too late for the rule, nothing is read.
func (s *sight) oldestHeld(ctx context.Context, now time.Time, r *alert.Reading, d *store.Destination, cp *lane.Checkpoint) error {
	if cp.BlockedAt.IsZero() {
		return nil
	}
	p, err := policy.Resolve(nil, policy.Levels(s.cfg.ServerPolicy, d.TenantLevel, d.Endpoint.Level())...)
	if err != nil {
		return fmt.Errorf("resolve policy of %s: %w", hook.EndpointPrefix.Format(d.Endpoint.ID), err)
	}
	hold := p.Policy.Breaker.MaxHold
	share := s.cfg.Thresholds.Get(alert.HoldExpiring, "percent") / 100
	if float64(now.Sub(cp.BlockedAt)) <= share*float64(hold) {
		return nil
	}
	oldest, err := s.cfg.Store.ReadAhead(ctx, d.Endpoint.ID, now, 1)
	if err != nil || len(oldest) == 0 {
		return err
	}
	since := cp.BlockedAt
	if due := oldest[0].DueAt; due.After(since) {
		since = due
	}
	r.Lane.MaxHold, r.Lane.OldestHeld = hold, now.Sub(since)
	return nil
}
