// Package watch looks at the lanes of this node and notices retry storms:
// retries that outnumber first attempts, retry queues that grow although a
// breaker keeps them from being sent, and breakers that open all at once.
//
// The rules are pure (Window, Alarm, Queue, Trend): values in, decisions out,
// with the time as an argument. The Watcher around them counts attempts,
// measures queues, saves what it finds for every node to show, and records
// operational events.
//
// It changes nothing: no lane is slower or faster because of it, and nothing is
// lost when it is away.
package watch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// BucketWidth is how long attempts are counted together, and the time between
// two rounds.
const BucketWidth = 15 * time.Second

// Store is what the watcher asks of the database.
type Store interface {
	store.Watch
	WriteOperational(ctx context.Context, events []hook.OperationalEvent) error
}

// Config is what New needs. All fields up to Owns are required.
type Config struct {
	Store Store
	IDs   *hook.IDSource
	Node  hook.ID
	Log   *slog.Logger
	// Owns reports whether the lanes of a shard are this node's. The owner of
	// shard 0 also judges the whole fleet.
	Owns func(shard int) bool
	// Health tells how this node does. It is saved at every round, for whoever
	// judges the fleet; nil: nobody on another node asks.
	Health func(ctx context.Context) hook.NodeHealth
	// Calm is how long there must be no storm, or few new open breakers, before the
	// signal ends; 0: five minutes. It is that of alerts, so that both end together.
	Calm time.Duration
	// Worst is how many lanes Figures names; 0: none.
	Worst int
}

// Watcher watches. Make one with New.
type Watcher struct {
	cfg     Config
	tracks  *tracks
	events  *recorder
	figures atomic.Pointer[hook.LaneFigures]
	judge   judge // belongs to the goroutine of Run
}

// New checks cfg and starts nothing. The watcher counts from here on.
func New(cfg Config) (*Watcher, error) {
	if cfg.Store == nil || cfg.IDs == nil || cfg.Node == 0 || cfg.Log == nil || cfg.Owns == nil {
		return nil, errors.New("watch: Store, IDs, Node, Log and Owns are required")
	}
	cfg.Calm = cmp.Or(cfg.Calm, calmFor)
	w := &Watcher{cfg: cfg, tracks: newTracks(time.Now()), events: newRecorder(&cfg)}
	w.figures.Store(&hook.LaneFigures{})
	w.judge = judge{w: w, subjects: make(map[hook.ID]*subject), gone: make(map[hook.ID]bool)}
	return w, nil
}

// Run looks every 15 s until ctx ends. What the store refuses is tried again at
// the next round.
func (w *Watcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	wg.Go(func() { w.events.run(recording) })
	rounds := make(chan struct{}, 1)
	wg.Go(func() { w.turnBuckets(ctx, rounds) })
	defer func() {
		w.tellLate(w.tracks.lastNews())
		stop() // after the last round, so that what it told is stored
		wg.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rounds:
			w.round(ctx)
		}
	}
}

// turnBuckets begins the buckets in time, however long a round takes, and asks
// for a round at each boundary.
func (w *Watcher) turnBuckets(ctx context.Context, rounds chan<- struct{}) {
	timer := time.NewTimer(time.Until(w.tracks.turn(time.Now())))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(time.Until(w.tracks.turn(time.Now())))
		select {
		case rounds <- struct{}{}:
		default: // the last one has not begun yet
		}
	}
}

// round judges everything as of the boundary that has just passed.
func (w *Watcher) round(ctx context.Context) {
	b := w.tracks.bucket.Load()
	s := w.tracks.sweep(b, w.cfg.Owns)
	w.tellLate(s.dead)
	w.judge.round(ctx, w.tracks.wall(b), s)
	f := w.judge.figures()
	f.Open, f.Closed, f.MaxRatio = int(s.open), int(s.traffic-s.open), s.maxRatio
	w.figures.Store(&f)
}

// Figures returns what the last round saw.
func (w *Watcher) Figures() hook.LaneFigures {
	f := *w.figures.Load()
	f.EventsDropped = w.events.losses.Load()
	return f
}

// Attempted counts an attempt that has ended. Only first attempts and retries
// tell anything about storms. It is called for every attempt of every lane, and
// allocates only for an endpoint that it has not seen for 15 minutes.
func (w *Watcher) Attempted(tenant, endpoint hook.ID, kind hook.AttemptKind) {
	if kind == hook.First || kind == hook.Retry {
		w.tracks.count(tenant, endpoint, kind == hook.Retry)
	}
}

// Opening is what opened a lane, as its event tells it.
type Opening struct {
	URL        string `json:"url,omitempty"`
	UID        string `json:"uid,omitempty"`
	Failures   int    `json:"failures,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Status     int    `json:"status,omitempty"`
	Error      string `json:"error,omitempty"`
	Suppressed int    `json:"suppressed,omitempty"` // events that were too many for a minute
}

// LaneOpened tells that a lane opened.
func (w *Watcher) LaneOpened(tenant, endpoint hook.ID, why Opening) {
	if tell, suppressed := w.tracks.open(tenant, endpoint, true); tell {
		why.Suppressed = suppressed
		w.events.record(time.Now(), tenant, endpoint, hook.BreakerOpened, why)
	}
}

// LaneFound tells that a lane was taken over open: it is no news.
func (w *Watcher) LaneFound(tenant, endpoint hook.ID) { w.tracks.open(tenant, endpoint, false) }

// LaneClosed tells that a lane closed. It reports whether the lane was known to
// be open: one that a person resets may not have been.
func (w *Watcher) LaneClosed(tenant, endpoint hook.ID) (wasOpen bool) {
	wasOpen, tell, suppressed := w.tracks.closed(endpoint)
	if tell {
		w.events.record(time.Now(), tenant, endpoint, hook.BreakerClosed, suppressedDetail(suppressed))
	}
	return wasOpen
}

// LaneLeft tells that a lane is no longer in this node's memory.
func (w *Watcher) LaneLeft(_, endpoint hook.ID) { w.tracks.left(endpoint) }

// Record records an operational event that another part noticed. It returns at
// once. detail becomes a JSON object; nil: nothing more to say.
func (w *Watcher) Record(tenant, endpoint hook.ID, t hook.OperationalType, detail any) {
	w.events.record(time.Now(), tenant, endpoint, t, detail)
}

// suppressedDetail tells of breaker events that were too many for a minute.
func suppressedDetail(n int) any {
	if n == 0 {
		return nil
	}
	return map[string]int{"suppressed": n}
}
