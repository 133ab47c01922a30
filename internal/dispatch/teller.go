package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// teller sends hints to the other nodes: those that arise while one is being
// sent go out together in the next. A lost hint costs time, nothing else.
type teller struct {
	hints store.Hints
	log   *slog.Logger

	mu      sync.Mutex
	waiting map[store.HintKind]map[hook.ID]struct{}
	wake    chan struct{}
}

const hintTimeout = 5 * time.Second

func newTeller(cfg Config) *teller {
	return &teller{
		hints: cfg.Hints, log: cfg.Log,
		waiting: make(map[store.HintKind]map[hook.ID]struct{}),
		wake:    make(chan struct{}, 1),
	}
}

// tell queues a hint; it never blocks. Without other nodes it does nothing.
func (t *teller) tell(kind store.HintKind, id hook.ID) {
	if t.hints == nil {
		return
	}
	t.mu.Lock()
	ids := t.waiting[kind]
	if ids == nil {
		ids = make(map[hook.ID]struct{})
		t.waiting[kind] = ids
	}
	ids[id] = struct{}{}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *teller) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			t.flush(context.WithoutCancel(ctx))
			return
		case <-t.wake:
			t.flush(ctx)
		}
	}
}

func (t *teller) flush(ctx context.Context) {
	t.mu.Lock()
	waiting := t.waiting
	t.waiting = make(map[store.HintKind]map[hook.ID]struct{}, len(waiting))
	t.mu.Unlock()
	for kind, set := range waiting {
		h := store.Hint{Kind: kind, IDs: make([]hook.ID, 0, len(set))}
		for id := range set {
			h.IDs = append(h.IDs, id)
		}
		ctx, cancel := context.WithTimeout(ctx, hintTimeout)
		if err := t.hints.Hint(ctx, h); err != nil {
			t.log.Debug("hint was not sent", "error", err)
		}
		cancel()
	}
}
