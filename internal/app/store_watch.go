package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// troubleAgain is how long the same trouble is not told of once more.
	troubleAgain = time.Minute
	// logCheckEvery is how often the log is measured.
	logCheckEvery = time.Second
	// storeCheckEvery is at how many of these a store that can be lost is looked
	// at although nobody asks for its health.
	storeCheckEvery = 15
	storeCheckCall  = 5 * time.Second
)

// storeWatch tells people of what is wrong with the embedded store: parts that
// cannot be read, a log that grows, and the loss of all of it.
type storeWatch struct {
	log *slog.Logger
	// record takes operational events; nil until there is somebody to take them.
	record atomic.Pointer[func(hook.OperationalType, any)]
	now    func() time.Time

	damaged  atomic.Uint64 // reads that met damage
	figures  atomic.Uint64 // rows of figures that could not be read
	lost     atomic.Bool
	logBytes atomic.Int64
	written  atomic.Int64 // bytes, to the log
	logLimit int64
	growing  atomic.Bool // the log is long, and somebody has been told

	mu   sync.Mutex
	told map[string]time.Time // by what was being done, a closed list
}

// newStoreWatch begins to watch. logLimit is the length of the log at which new
// events are refused, 0: none.
func newStoreWatch(log *slog.Logger, logLimit int64) *storeWatch {
	return &storeWatch{log: log, now: time.Now, logLimit: logLimit, told: make(map[string]time.Time)}
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

// figuresDamaged hears of figures that cannot be read. All else is well, so it tells
// of the first and counts them.
func (w *storeWatch) figuresDamaged(of stats.Subject, at time.Time) {
	if w.figures.Add(1) == 1 {
		w.log.Warn("stored figures are damaged and left out; more of them are only counted in breakwater_stats_damaged_rows_total",
			"level", of.Level, "subject", int64(of.ID), "at", at)
	}
}

func (w *storeWatch) tell(t hook.OperationalType, detail any) {
	if record := w.record.Load(); record != nil {
		(*record)(t, detail)
	}
}

// state is what the metrics show.
func (w *storeWatch) state() metric.Embedded {
	return metric.Embedded{DamagedReads: w.damaged.Load(), LogBytes: w.logBytes.Load(), LogWritten: w.written.Load(), LogLimit: w.logLimit}
}

// logWarning is the share of its limit above which the log is too long. With the
// least limit that is exactly what is kept of a log that was shortened.
const logWarning = 4

// logIs hears how long the log is. Moving it to the file keeps it short, unless
// another program reads the file and does not end.
func (w *storeWatch) logIs(bytes int64) {
	before := w.logBytes.Swap(bytes)
	if w.logLimit == 0 {
		return
	}
	switch long := bytes > w.logLimit/logWarning; {
	case long && !w.growing.Swap(true):
		w.log.Warn("the log of the store grows: another program reads the database file and does not end; find and end it",
			"log_bytes", bytes, "limit_bytes", w.logLimit)
		w.tell(hook.StoreLogGrowing, map[string]int64{"log_bytes": bytes, "limit_bytes": w.logLimit})
	case !long && w.growing.Swap(false):
		w.log.Info("the log of the store is short again", "log_bytes", bytes)
		w.tell(hook.StoreLogSettled, map[string]int64{"log_bytes": bytes, "limit_bytes": w.logLimit})
	}
	if full := bytes >= w.logLimit; full != (before >= w.logLimit) {
		w.log.Warn("the log of the store has reached its limit: new events are refused", "reached", full, "log_bytes", bytes, "limit_bytes", w.logLimit)
	}
}

// full implements ingest.Config.StoreFull.
func (w *storeWatch) full() error {
	if w.logLimit > 0 && w.logBytes.Load() >= w.logLimit {
		return fmt.Errorf("%w: its log has reached store.log_limit", hook.ErrStoreFull)
	}
	return nil
}

// warnings is what needs a person, for whoever asks for the server's health.
func (w *storeWatch) warnings() (out []string) {
	if w.damaged.Load() > 0 {
		out = append(out, "a part of the store is damaged")
	}
	if w.growing.Load() {
		out = append(out, "the log of the store grows: another program reads the database file and does not end")
	}
	return out
}

// awaitStoreLoss fails when the embedded store is lost, also while nobody writes:
// a server that stayed would refuse every request and deliver nothing.
func (a *App) awaitStoreLoss(ctx context.Context) error {
	db, ok := a.db.(store.Mortal)
	if !ok {
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
		return nil
	}
	tick := time.NewTicker(logCheckEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		a.checkLog(ctx)
		if n%storeCheckEvery == 0 {
			call, cancel := context.WithTimeout(ctx, storeCheckCall)
			if err := a.db.Ping(call); err != nil && ctx.Err() == nil {
				a.log.Debug("the store did not answer a check", "error", err)
			}
			cancel()
		}
	}
}

func (a *App) checkLog(ctx context.Context) {
	db, ok := a.db.(store.Logged)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeCheckCall)
	defer cancel()
	bytes, err := db.TrimLog(ctx)
	if err != nil {
		a.log.Debug("the log of the store could not be shortened", "error", err)
	}
	a.storeWatch.logIs(bytes)
	a.storeWatch.written.Store(db.LogWritten())
}
