// Package ingest takes events in: it checks a submission, matches it against
// the tenant's endpoints, draws ids, and answers once the event and all its
// deliveries are durable.
//
// It knows nothing of HTTP and sends nothing: the API decodes requests, the
// dispatcher delivers what has been committed.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Store is what ingest reads, and where it tells of filters that fail.
type Store interface {
	store.Tenants
	EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error)
	EventTypesOf(ctx context.Context, tenant hook.ID) ([]hook.EventType, int64, error)
	AddFilterErrors(ctx context.Context, all map[hook.ID]store.FilterFailure) error
}

// Writer makes accepts durable; store.Writer is one.
type Writer interface {
	// Accept returns when all that build makes are durable or refused, or after a
	// bounded time. It refuses a load for which it has no room before it is built.
	Accept(tenant hook.ID, l store.Load, build func() []*store.Accept) error
}

// Config configures an Ingest. Zero fields mean the defaults given.
type Config struct {
	Store  Store
	Writer Writer
	IDs    *hook.IDSource
	Log    *slog.Logger

	ServerPolicy   []byte        // the server's policy level, JSON
	MaxPayload     int64         // bytes; 1 MiB
	MaxFanout      int           // deliveries per event; 10000
	MaxDeliveries  int           // deliveries of all events of one request; 20000
	IdempotencyTTL time.Duration // 24h
	ReadTimeout    time.Duration // how long a publisher waits for its tenant to be read; 10s

	// Quotas of a tenant that has no limits of its own; 0: off.
	TenantRate            float64 // events per second
	TenantMaxPending      int64
	TenantMaxPendingBytes int64
	TenantMaxStored       int64 // bytes

	// DiskFree returns the bytes left for the store; nil: not watched.
	DiskFree    func() (int64, error)
	DiskReserve int64
	// StoreFull returns why the store takes no events at the moment, or nil; it
	// is asked for every event. nil: it is never full.
	StoreFull func() error
}

// Ingest accepts events. It is safe for concurrent use.
type Ingest struct {
	cfg     Config
	catalog *catalog
	quota   *quota
	failing failures
	// decoding has room for the large payloads that are decoded at a time.
	decoding chan struct{}
}

// maxDecoding is how many large payloads are decoded at a time.
const maxDecoding = 4

// maxDelay is how far ahead an event may be scheduled.
const maxDelay = 30 * 24 * time.Hour

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Ingest, error) {
	if cfg.Store == nil || cfg.Writer == nil || cfg.IDs == nil || cfg.Log == nil {
		return nil, errors.New("ingest: Store, Writer, IDs and Log are required")
	}
	cfg.MaxPayload = cmp.Or(cfg.MaxPayload, 1<<20)
	cfg.MaxFanout = cmp.Or(cfg.MaxFanout, 10000)
	cfg.MaxDeliveries = cmp.Or(cfg.MaxDeliveries, 20000)
	cfg.IdempotencyTTL = cmp.Or(cfg.IdempotencyTTL, 24*time.Hour)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, 10*time.Second)
	return &Ingest{
		cfg: cfg, catalog: newCatalog(cfg), quota: newQuota(cfg), failing: failures{store: cfg.Store}, decoding: make(chan struct{}, maxDecoding),
	}, nil
}

// lastWords is how long the store is given for what was counted when Run ends.
const lastWords = 2 * time.Second

// Run watches quotas and the disk, and stores what was counted, until ctx ends.
func (in *Ingest) Run(ctx context.Context) error {
	tick := time.NewTicker(quotaEvery)
	defer tick.Stop()
	for {
		in.quota.measure(ctx)
		in.failing.flush(ctx)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			in.failing.flush(last)
			cancel()
			return nil
		case <-tick.C:
		}
	}
}

// ControlRoom says why changes of configuration are refused; nil: they are not.
func (in *Ingest) ControlRoom() error { return in.quota.controlRoom() }

// TenantRoom says why a tenant may store nothing more; nil: it may.
func (in *Ingest) TenantRoom(t hook.Tenant) error { return in.quota.tenantRoom(&t) }

// Forget makes the next event of a tenant match against its endpoints as they
// are then. A cache that is stale all the same does no harm: the commit refuses
// what was matched against an older configuration.
func (in *Ingest) Forget(tenant hook.ID) { in.catalog.forget(tenant) }

// Accept makes one submission durable.
func (in *Ingest) Accept(ctx context.Context, tenant hook.ID, s *hook.Submission) (hook.Receipt, error) {
	batch := []entry{{sub: s}}
	in.accept(ctx, tenant, batch)
	return batch[0].result.Receipt, batch[0].result.Err
}

// AcceptBatch makes submissions durable, each for itself: one that is refused
// does not touch the others, unless all together make too many deliveries.
// Results are in the order of the submissions.
func (in *Ingest) AcceptBatch(ctx context.Context, tenant hook.ID, subs []hook.Submission) []hook.Result {
	batch := make([]entry, len(subs))
	for i := range subs {
		batch[i].sub = &subs[i]
	}
	in.accept(ctx, tenant, batch)
	results := make([]hook.Result, len(batch))
	for i := range batch {
		results[i] = batch[i].result
	}
	return results
}

// entry is one submission and what has become of it.
type entry struct {
	sub      *hook.Submission
	matches  []*target     // as matched last
	failed   []failed      // of those, by a filter that could not be evaluated
	accept   *store.Accept // its rows
	counted  store.Usage   // against quotas
	admitted bool          // quotas were asked
	answered bool
	result   hook.Result
}

func (e *entry) answer(r hook.Result) { e.result, e.answered = r, true }

// refuse answers all that have no answer yet.
func refuse(batch []entry, err error) {
	for i := range batch {
		if e := &batch[i]; !e.answered {
			e.answer(hook.Result{Err: err})
		}
	}
}

// staleTries bounds how often an event is matched again because the tenant's
// endpoints changed while it was on its way.
const staleTries = 5

// accept runs submissions until each is stored or refused. The store is given
// a bounded time: without its answer there is no promise.
func (in *Ingest) accept(ctx context.Context, tenant hook.ID, batch []entry) {
	defer in.quota.ended(tenant, batch)
	for range staleTries {
		view, err := in.catalog.of(ctx, tenant)
		if err != nil {
			refuse(batch, err)
			return
		}
		if in.submit(ctx, view, batch) {
			return
		}
		in.catalog.outdated(view)
	}
	refuse(batch, fmt.Errorf("%w: endpoints keep changing", hook.ErrStoreUnavailable))
}

// submit matches and commits the entries that have no answer yet. It reports
// whether all have one then: those that were matched against a configuration
// that has moved on have none. Quotas are asked once: an event is counted once,
// however often it is matched.
func (in *Ingest) submit(ctx context.Context, view *view, batch []entry) bool {
	now := time.Now().Truncate(time.Microsecond)
	if err := in.match(ctx, view, batch, now); errors.Is(err, errOutdated) {
		return false
	} else if err != nil {
		refuse(batch, err)
		return true
	}
	var load store.Load
	for i := range batch {
		e := &batch[i]
		if e.answered {
			continue
		}
		if !e.admitted {
			e.admitted = true
			var err error
			if e.counted, err = in.quota.admit(view, len(e.matches), len(e.sub.Payload), now); err != nil {
				e.answer(hook.Result{Err: err})
				continue
			}
		}
		load = load.Plus(store.LoadOf(len(e.matches), len(e.sub.Payload)))
	}
	err := in.cfg.Writer.Accept(view.tenant.ID, load, func() []*store.Accept { return in.build(view, batch, now) })
	if err != nil {
		// Some of a large batch may be stored. Without a complete answer none is
		// promised; repeating them under their keys is safe.
		refuse(batch, err)
		return true
	}
	return in.settle(batch, now)
}

// match finds the targets of the entries that have no answer yet. Its error is
// about all of them together.
//
// An event that is stored was matched against the configuration as it is then: the
// commit sees to it. One that is refused for its content never gets there, so the
// schemas are compared with the store's before.
func (in *Ingest) match(ctx context.Context, view *view, batch []entry, now time.Time) error {
	sum, compared := 0, false
	for i := range batch {
		e := &batch[i]
		if e.answered {
			continue
		}
		var err error
		if e.matches, e.failed, err = in.targets(view, e.sub, now); err != nil {
			if isMismatch(err) && !compared {
				if compared = in.catalog.isCurrent(ctx, view); !compared {
					return errOutdated
				}
			}
			e.answer(hook.Result{Err: err})
			continue
		}
		if sum += len(e.matches); sum > in.cfg.MaxDeliveries && len(batch) > 1 {
			return &hook.Invalid{Code: "fanout_too_large", Fields: []hook.FieldError{{
				Path:    "events",
				Message: fmt.Sprintf("would make more than %d deliveries at once (ingest.max_request_deliveries): send fewer events in a request", in.cfg.MaxDeliveries),
			}}}
		}
	}
	return nil
}

// errOutdated says that the configuration has moved on since it was read.
var errOutdated = errors.New("the configuration has changed")

// build makes the rows of the entries that have no answer yet.
func (in *Ingest) build(view *view, batch []entry, now time.Time) []*store.Accept {
	accepts := make([]*store.Accept, 0, len(batch))
	for i := range batch {
		if e := &batch[i]; !e.answered {
			e.accept = in.rows(view, e.sub, e.matches, now)
			accepts = append(accepts, e.accept)
		}
	}
	return accepts
}

// settle answers the entries as their commit turned out. It reports whether all
// have an answer then.
func (in *Ingest) settle(batch []entry, now time.Time) bool {
	all := true
	for i := range batch {
		switch e := &batch[i]; {
		case e.answered:
		case e.accept.Outcome == store.AcceptStale:
			all = false
		default:
			if e.accept.Outcome == store.AcceptStored {
				in.failing.add(e.failed, now)
			}
			e.answer(outcome(e.accept))
		}
	}
	return all
}

func outcome(a *store.Accept) hook.Result {
	switch a.Outcome {
	case store.AcceptStored:
		return hook.Result{Receipt: hook.Receipt{EventID: a.Event.ID, Deliveries: len(a.Deliveries)}}
	case store.AcceptReplayed:
		return hook.Result{Receipt: hook.Receipt{EventID: a.EventID, Deliveries: a.Count, Replayed: true}}
	case store.AcceptConflict:
		return hook.Result{Err: hook.ErrKeyReused}
	default:
		return hook.Result{Err: fmt.Errorf("%w: commit without outcome", hook.ErrStoreUnavailable)}
	}
}

// targets checks a submission and finds the endpoints that get it.
func (in *Ingest) targets(view *view, s *hook.Submission, now time.Time) (matches []*target, wrong []failed, err error) {
	if err := in.check(s, now); err != nil {
		return nil, nil, err
	}
	if matches, err = view.match(s); err != nil {
		return nil, nil, err
	}
	if schema, filtered := view.schemas[s.Type], view.filters(s, matches); schema != nil || filtered {
		if matches, wrong, err = in.look(view, s, schema, matches, now); err != nil {
			return nil, nil, err
		}
	}
	if len(matches) > in.cfg.MaxFanout {
		return nil, nil, fmt.Errorf("%w: %d match, at most %d are allowed", hook.ErrFanoutTooBig, len(matches), in.cfg.MaxFanout)
	}
	return matches, wrong, nil
}

// look decides by the payload. That costs time, so an event that has come too early is
// refused before.
func (in *Ingest) look(view *view, s *hook.Submission, schema *typeSchema, matches []*target, now time.Time) (through []*target, wrong []failed, err error) {
	if err := in.quota.early(view, now); err != nil {
		return nil, nil, err
	}
	c := in.decode(s)
	if schema != nil {
		if err := c.fits(schema); err != nil {
			return nil, nil, err
		}
	}
	if !view.filters(s, matches) {
		return matches, nil, nil
	}
	through, wrong = c.filter(view, s, matches)
	return through, wrong, nil
}

// rows makes the rows of an event.
func (in *Ingest) rows(view *view, s *hook.Submission, matches []*target, now time.Time) *store.Accept {
	a := &store.Accept{
		Event: hook.Event{
			ID: in.cfg.IDs.Next(now), TenantID: view.tenant.ID, Type: s.Type, CreatedAt: now,
			ContentType: cmp.Or(s.ContentType, "application/json"), Payload: s.Payload,
		},
		Deliveries: make([]hook.Delivery, len(matches)),
		ConfigRev:  view.rev,
	}
	if len(s.Endpoints) > 0 {
		a.Event.ContentType = hook.WithNamed(a.Event.ContentType)
	}
	if t := s.Trace; t != nil && (t.Keep || slices.ContainsFunc(matches, func(t *target) bool { return t.traced })) {
		a.Event.ContentType = hook.WithTrace(a.Event.ContentType, t.Trace)
	}
	if s.Key != "" {
		a.Key, a.KeyHash, a.KeyExpires = s.Key, s.ContentHash, now.Add(in.cfg.IdempotencyTTL)
	}
	for i, t := range matches {
		due := t.policy.FirstDue(now, s.DeliverAt, s.Delay).Truncate(time.Microsecond)
		a.Deliveries[i] = hook.Delivery{
			ID: in.cfg.IDs.Next(now), TenantID: view.tenant.ID, EventID: a.Event.ID, EndpointID: t.id,
			DueAt: due, Size: len(s.Payload), Progress: hook.Progress{Run: 1, RunDueAt: due},
		}
	}
	return a
}

// check validates what the API could not have let through by its shape alone,
// so that nothing reaches the store that it would refuse.
func (in *Ingest) check(s *hook.Submission, now time.Time) error {
	var fields []hook.FieldError
	code := "validation_failed"
	if err := hook.CheckType(s.Type); err != nil {
		code = "type_invalid"
		fields = append(fields, hook.FieldError{Path: "type", Message: err.Error()})
	}
	if s.DeliverAt.After(now.Add(maxDelay)) {
		fields = append(fields, hook.FieldError{Path: "deliver_at", Message: "must be at most 30 days ahead"})
	}
	if s.Delay < 0 || s.Delay > maxDelay {
		fields = append(fields, hook.FieldError{Path: "delay", Message: "must be between 0s and 30d"})
	}
	if len(fields) > 0 {
		return &hook.Invalid{Code: code, Fields: fields}
	}
	if int64(len(s.Payload)) > in.cfg.MaxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", hook.ErrTooLarge, len(s.Payload), in.cfg.MaxPayload)
	}
	return nil
}
