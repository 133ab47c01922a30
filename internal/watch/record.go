package watch

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	recordQueue = 1024 // events that wait to be logged
	recordKept  = 1024 // events that wait for the store
	recordBatch = 256  // events in one transaction
	recordAgain = 5 * time.Second
	recordCall  = 5 * time.Second
)

// recorder logs operational events and stores them. Whoever tells of one never
// waits: what does not fit is dropped and counted.
type recorder struct {
	store  Store
	log    *slog.Logger
	ids    *hook.IDSource
	queue  chan hook.OperationalEvent
	losses atomic.Uint64

	// What follows belongs to the goroutine of run.
	kept    []hook.OperationalEvent // not stored yet
	tryAt   time.Time
	failing bool
}

func newRecorder(cfg *Config) *recorder {
	return &recorder{store: cfg.Store, log: cfg.Log, ids: cfg.IDs, queue: make(chan hook.OperationalEvent, recordQueue)}
}

// record takes an event. It returns at once.
func (r *recorder) record(now time.Time, tenant, endpoint hook.ID, t hook.OperationalType, detail any) {
	e := hook.OperationalEvent{
		ID: r.ids.Next(now), TenantID: tenant, EndpointID: endpoint, Type: t, At: now.UTC().Truncate(time.Microsecond), Detail: encode(detail),
	}
	select {
	case r.queue <- e:
	default:
		r.losses.Add(1)
	}
}

var noDetail = json.RawMessage("{}")

func encode(detail any) json.RawMessage {
	if detail == nil {
		return noDetail
	}
	text, err := json.Marshal(detail)
	if err != nil {
		return noDetail // numbers, names and times: cannot happen
	}
	return text
}

// run logs and stores until ctx ends, and stores what is left then.
func (r *recorder) run(ctx context.Context) {
	again := time.NewTicker(recordAgain)
	defer again.Stop()
	for {
		select {
		case e := <-r.queue:
			r.take(ctx, e)
			r.takeWaiting(ctx)
		case <-again.C:
		case <-ctx.Done():
			r.takeWaiting(ctx)
			r.tryAt = time.Time{}
			r.flush(context.WithoutCancel(ctx))
			return
		}
		r.flush(ctx)
	}
}

// takeWaiting takes what is in the queue now.
func (r *recorder) takeWaiting(ctx context.Context) {
	for range len(r.queue) {
		r.take(ctx, <-r.queue)
	}
}

// take logs an event and keeps it for the store. The log has it also when the
// store is away for longer than fits here.
func (r *recorder) take(ctx context.Context, e hook.OperationalEvent) {
	r.log.LogAttrs(ctx, levelOf(e.Type), string(e.Type), attributes(&e)...)
	if len(r.kept) >= recordKept {
		r.losses.Add(1)
		return
	}
	r.kept = append(r.kept, e)
}

// levelOf lets what needs attention stand out.
func levelOf(t hook.OperationalType) slog.Level {
	switch t {
	case hook.StoreDamaged:
		return slog.LevelError
	case hook.StormStarted, hook.RetryQueueGrowing, hook.SystemQueueGrowing, hook.BreakersMany, hook.EndpointFailing, hook.EndpointDisabled, hook.StoreLogGrowing,
		hook.DeadLettersGrowing, hook.DeadLettersExpiring, hook.NodeLeaseLost:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

func attributes(e *hook.OperationalEvent) []slog.Attr {
	var out []slog.Attr
	if e.TenantID != 0 {
		out = append(out, slog.String("tenant", hook.TenantPrefix.Format(e.TenantID)))
	}
	if e.EndpointID != 0 {
		out = append(out, slog.String("endpoint", hook.EndpointPrefix.Format(e.EndpointID)))
	}
	var detail map[string]any
	if err := json.Unmarshal(e.Detail, &detail); err != nil {
		return append(out, slog.String("detail", string(e.Detail)))
	}
	for _, name := range slices.Sorted(maps.Keys(detail)) {
		out = append(out, slog.Any(name, detail[name]))
	}
	return out
}

// flush stores what is kept. What fails is tried again a little later; writing
// an event twice does no harm.
func (r *recorder) flush(ctx context.Context) {
	for len(r.kept) > 0 && !time.Now().Before(r.tryAt) {
		n := min(len(r.kept), recordBatch)
		if err := r.write(ctx, r.kept[:n]); err != nil {
			r.tryAt = time.Now().Add(recordAgain)
			if !r.failing && ctx.Err() == nil {
				r.failing = true
				r.log.LogAttrs(ctx, slog.LevelWarn, "operational events could not be stored; trying again", slog.Any("error", err))
			}
			return
		}
		r.failing = false
		r.kept = append(r.kept[:0], r.kept[n:]...)
	}
}

func (r *recorder) write(ctx context.Context, events []hook.OperationalEvent) error {
	ctx, cancel := context.WithTimeout(ctx, recordCall)
	defer cancel()
	return r.store.WriteOperational(ctx, events)
}
