// Package backfill finds events that an endpoint would get if it had been there when
// they were accepted: those that it asks for by type and content, and has no delivery
// of.
//
// It creates nothing: what it finds is fed by replays, and counted before. Contents are
// looked at as at accept: where a filter cannot be evaluated the endpoint gets the event.
// They cost time and memory, so a search ends after a while and tells how far it got.
package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/filter"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Store is what is searched.
type Store interface {
	store.MissingReader
	TenantByID(ctx context.Context, id hook.ID) (hook.Tenant, error)
	Events(ctx context.Context, ids []hook.ID) ([]hook.Event, error)
}

// Config configures a Finder. Zero fields mean the defaults given.
type Config struct {
	Store Store
	// Age is when events are removed. Older ones are not found: their deliveries may
	// have been there. 0: they stay.
	Age time.Duration

	Patience time.Duration // how long a step of a replay searches; 250ms
	Counting time.Duration // how long it is counted; 5s
}

const (
	// payloads bounds what is in memory of payloads at a time; one may be larger.
	payloads = 4 << 20
	// atOnce bounds the events that are read at a time.
	atOnce = 500
	// countPage is how many events of a page are counted.
	countPage = store.MissingScanLimit
	// maxCounts is how many are counted at a time: filters take all of a processor.
	maxCounts = 2
)

// Finder searches. It is safe for concurrent use.
type Finder struct {
	cfg      Config
	counting chan struct{}
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Finder, error) {
	if cfg.Store == nil {
		return nil, errors.New("backfill: Store is required")
	}
	cfg.Patience = cmp.Or(cfg.Patience, 250*time.Millisecond)
	cfg.Counting = cmp.Or(cfg.Counting, 5*time.Second)
	return &Finder{cfg: cfg, counting: make(chan struct{}, maxCounts)}, nil
}

// Missing returns up to limit events behind the cursor of a replay, oldest first, and
// how far it has looked.
func (f *Finder) Missing(ctx context.Context, now time.Time, j *hook.ReplayJob, limit int) (store.Missing, error) {
	s, err := f.search(ctx, now, j, f.cfg.Patience)
	if err != nil {
		return store.Missing{}, err
	}
	out := store.Missing{Upto: j.Cursor}
	for len(out.Events) < limit && out.Upto < j.EndID {
		found, err := s.next(ctx, limit-len(out.Events))
		if err != nil {
			return store.Missing{}, err
		}
		out.Events, out.Upto = append(out.Events, found...), s.upto
		if s.late() {
			break
		}
	}
	return out, nil
}

// Count counts up to limit events of a new replay; false: there may be more.
func (f *Finder) Count(ctx context.Context, now time.Time, j *hook.ReplayJob, limit int64) (n int64, exact bool, err error) {
	select {
	case f.counting <- struct{}{}:
		defer func() { <-f.counting }()
	case <-ctx.Done():
		return 0, false, fmt.Errorf("count events without delivery: %w", context.Cause(ctx))
	}
	s, err := f.search(ctx, now, j, f.cfg.Counting)
	if err != nil {
		return 0, false, err
	}
	for s.upto < j.EndID && n < limit && !s.late() {
		found, err := s.next(ctx, int(min(limit-n, countPage)))
		if err != nil {
			return 0, false, err
		}
		n += int64(len(found))
	}
	return n, s.upto >= j.EndID, nil
}

// search is a walk through the events of a replay.
type search struct {
	store  Store
	job    *hook.ReplayJob
	chosen chooser
	until  time.Time
	upto   hook.ID // what is behind it was not looked at
}

func (f *Finder) search(ctx context.Context, now time.Time, j *hook.ReplayJob, patience time.Duration) (*search, error) {
	s := &search{store: f.cfg.Store, job: j, until: time.Now().Add(patience), upto: j.Cursor}
	if f.cfg.Age > 0 {
		s.upto = max(s.upto, min(hook.IDFloor(now.Add(-f.cfg.Age))-1, j.EndID))
	}
	m := j.Filter.Missing
	if m == nil {
		s.upto = j.EndID
		return s, nil
	}
	if m.Filter == "" {
		return s, nil
	}
	t, err := f.cfg.Store.TenantByID(ctx, j.TenantID)
	if err != nil {
		return nil, fmt.Errorf("read tenant: %w", err)
	}
	s.chosen.tenant = cmp.Or(t.UID, hook.TenantPrefix.Format(t.ID))
	s.chosen.filter, s.chosen.broken = filter.Compile(m.Filter)
	s.chosen.looks = true
	return s, nil
}

// late reports whether the search has taken long enough. It always makes some way
// before.
func (s *search) late() bool { return !time.Now().Before(s.until) }

// next looks at the next events and returns up to limit of those that are chosen.
func (s *search) next(ctx context.Context, limit int) ([]store.MissingEvent, error) {
	p := store.Page{Limit: limit, After: s.upto, Asc: true}
	if s.chosen.looks {
		p.Limit = atOnce // most may be left out
	}
	page, next, err := s.store.MissingEvents(ctx, s.job, p)
	if err != nil {
		return nil, err
	}
	if s.chosen.looks {
		return s.look(ctx, page, cmp.Or(next, s.job.EndID), limit)
	}
	s.upto = cmp.Or(next, s.job.EndID)
	return page, nil
}

// look keeps the events of a page that are chosen by their content. It ends early when
// there are enough, or it is late.
func (s *search) look(ctx context.Context, page []store.MissingEvent, end hook.ID, limit int) (out []store.MissingEvent, err error) {
	for len(page) > 0 {
		n := fitting(page)
		ids := make([]hook.ID, n)
		for i := range ids {
			ids[i] = page[i].ID
		}
		events, err := s.store.Events(ctx, ids)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		byID := make(map[hook.ID]*hook.Event, n)
		for i := range events {
			byID[events[i].ID] = &events[i]
		}
		for _, m := range page[:n] {
			// One that is not there any more has left by its age.
			if e := byID[m.ID]; e != nil && s.chosen.takes(e) {
				out = append(out, m)
			}
			if s.upto = m.ID; len(out) == limit || s.late() {
				return out, nil
			}
		}
		page = page[n:]
	}
	s.upto = end
	return out, nil
}

// fitting returns how many events have payloads that are read together, at least one.
func fitting(page []store.MissingEvent) int {
	sum := 0
	for i, m := range page {
		if sum += m.Size; i > 0 && sum > payloads {
			return i
		}
	}
	return len(page)
}

// chooser evaluates the filter of an endpoint.
type chooser struct {
	looks  bool // there is a filter
	tenant string
	filter *filter.Program
	broken error // it is not one any more
}

// takes reports whether the endpoint gets the event.
func (c *chooser) takes(e *hook.Event) bool {
	if c.broken != nil {
		return true
	}
	var payload any
	if hook.IsJSON(e.ContentType) {
		var err error
		if payload, err = filter.Decode(e.Payload); err != nil {
			return true
		}
	}
	match, err := c.filter.Match(&filter.Event{Type: e.Type, Tenant: c.tenant, Payload: payload})
	return match || err != nil
}
