package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// troubleAgain is how long the same trouble is not told of once more.
	troubleAgain = time.Minute
	// storeCheckEvery is how often a store that can be lost is looked at although
	// nobody asks for its health.
	storeCheckEvery = 15 * time.Second
	storeCheckCall  = 5 * time.Second
)

// storeWatch tells people of what is wrong with the embedded store: parts that
// cannot be read, and the loss of all of it.
type storeWatch struct {
	log *slog.Logger
	// record takes operational events; nil until there is somebody to take them.
	record atomic.Pointer[func(hook.OperationalType, any)]
	now    func() time.Time

	damaged atomic.Uint64 // reads that met damage
	lost    atomic.Bool

	mu   sync.Mutex
	told map[string]time.Time // by what was being done, a closed list
}

func newStoreWatch(log *slog.Logger) *storeWatch {
	return &storeWatch{log: log, now: time.Now, told: make(map[string]time.Time)}
}

// trouble hears of every read that failed because of the store. It counts all
// of them and tells of each kind once a minute.
func (w *storeWatch) trouble(doing string, err error) {
	damage := errors.Is(err, store.ErrDamaged)
	if damage {
		w.damaged.Add(1)
	}
	now := w.now()
	w.mu.Lock()
	at, known := w.told[doing]
	again := known && now.Sub(at) < troubleAgain
	if !again {
		w.told[doing] = now
	}
	w.mu.Unlock()
	switch {
	case again:
	case damage:
		w.log.Error("A PART OF THE STORE IS DAMAGED: stop the server and restore a backup, or check the disk and the file with PRAGMA integrity_check",
			"doing", doing, "error", err)
		w.tell(hook.StoreDamaged, map[string]string{"doing": doing})
	default:
		w.log.Warn("the store could not be read", "doing", doing, "error", err)
	}
}

func (w *storeWatch) tell(t hook.OperationalType, detail any) {
	if record := w.record.Load(); record != nil {
		(*record)(t, detail)
	}
}

// state is what the metrics show.
func (w *storeWatch) state() metric.Store { return metric.Store{DamagedReads: w.damaged.Load()} }

// awaitStoreLoss fails when the embedded store is lost, also while nobody writes:
// a server that stayed would refuse every request and deliver nothing.
func (a *App) awaitStoreLoss(ctx context.Context) error {
	db, ok := a.db.(store.Mortal)
	if !ok {
		<-ctx.Done()
		return nil
	}
	err := db.AwaitLoss(ctx)
	if err != nil {
		a.storeWatch.lost.Store(true)
		a.dispatcher.StoreLost()
	}
	return err
}

// checkStore looks at the store from time to time. What it finds it tells by
// itself, or it is the loss that awaitStoreLoss waits for.
func (a *App) checkStore(ctx context.Context) error {
	if _, ok := a.db.(store.Mortal); !ok {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(storeCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, storeCheckCall)
		if err := a.db.Ping(call); err != nil && ctx.Err() == nil {
			a.log.Debug("the store did not answer a check", "error", err)
		}
		cancel()
	}
}
