package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// hinter sends hints to the other nodes: those that arise while one is being
// sent go out together in the next. A lost hint costs time, nothing else.
type hinter struct {
	hints store.Hints
	log   *slog.Logger

	mu        sync.Mutex
	waiting   map[hint]struct{}
	announced []store.Announced
	wake      alarm
}

// hint is one id to be told.
type hint struct {
	kind store.HintKind
	id   hook.ID
}

const hintTimeout = 5 * time.Second

// maxAnnounced bounds the deliveries that wait to be announced. Of the others only
// the endpoint is told.
const maxAnnounced = 8192

func newHinter(cfg Config) *hinter {
	return &hinter{
		hints: cfg.Hints, log: cfg.Log,
		waiting: make(map[hint]struct{}),
		wake:    newAlarm(),
	}
}

// tell queues a hint; it never blocks. Without other nodes it does nothing.
func (t *hinter) tell(kind store.HintKind, id hook.ID) {
	if t.hints == nil {
		return
	}
	t.mu.Lock()
	t.waiting[hint{kind, id}] = struct{}{}
	t.mu.Unlock()
	t.wake.ring()
}

// announce queues the announcement of a delivery whose lane is another node's.
func (t *hinter) announce(d *hook.Delivery) {
	if t.hints == nil {
		return
	}
	t.mu.Lock()
	if len(t.announced) < maxAnnounced {
		t.announced = append(t.announced, store.Announced{Endpoint: d.EndpointID, Event: d.EventID, Delivery: d.ID})
	} else {
		t.waiting[hint{store.HintDue, d.EndpointID}] = struct{}{}
	}
	t.mu.Unlock()
	t.wake.ring()
}

func (t *hinter) run(ctx context.Context) {
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

func (t *hinter) flush(ctx context.Context) {
	t.mu.Lock()
	waiting, announced := t.waiting, t.announced
	t.waiting, t.announced = make(map[hint]struct{}), nil
	t.mu.Unlock()
	if len(announced) > 0 {
		t.send(ctx, store.Hint{Kind: store.HintAnnounced, Announced: announced})
	}
	ids := make(map[store.HintKind][]hook.ID)
	for h := range waiting {
		ids[h.kind] = append(ids[h.kind], h.id)
	}
	for kind, ids := range ids {
		t.send(ctx, store.Hint{Kind: kind, IDs: ids})
	}
}

func (t *hinter) send(ctx context.Context, h store.Hint) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	if err := t.hints.Hint(ctx, h); err != nil {
		t.log.Debug("hint was not sent", "error", err)
	}
}
