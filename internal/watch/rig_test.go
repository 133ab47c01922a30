package watch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/watch"
)

// rig is a real store in a bubble, with as many watchers as a test wants.
type rig struct {
	t   *testing.T
	db  *sqlite.DB
	ids *hook.IDSource
	log *bytes.Buffer
	out *slog.Logger // into log

	mu     sync.Mutex
	depths map[hook.ID]int64 // instead of counting deliveries
	away   bool              // the store fails
	saves  int
	worst  int // lanes that watchers name
}

// node is a watcher that runs.
type node struct {
	*watch.Watcher
	rig   *rig
	share atomic.Pointer[func(shard int) bool] // the shards that it owns
	stop  func()
}

// newRig opens the store. Call it inside the bubble.
func newRig(t *testing.T) *rig {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC))) // ids begin in 2024
	r := &rig{t: t, log: &bytes.Buffer{}, depths: map[hook.ID]int64{}}
	r.out = slog.New(slog.NewJSONHandler(r.log, nil))
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Options{})
	r.must(err)
	r.db = db
	r.ids, err = hook.NewIDSource(1, 0)
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) close() { r.must(r.db.Close()) }

func (r *rig) id() hook.ID { return r.ids.Next(time.Now()) }

// start runs a watcher that owns every lane.
func (r *rig) start() *node {
	r.t.Helper()
	n := &node{rig: r}
	n.own(all)
	var err error
	n.Watcher, err = watch.New(watch.Config{
		Store: rigStore{r.db, r}, IDs: r.ids, Node: r.id(), Owns: func(shard int) bool { return (*n.share.Load())(shard) },
		Log: r.out, Worst: r.worst,
	})
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = func() {
		cancel()
		r.must(<-done)
	}
	return n
}

// Shares of the shards.
func all(int) bool        { return true }
func none(int) bool       { return false }
func even(shard int) bool { return shard%2 == 0 }
func odd(shard int) bool  { return shard%2 == 1 }

func (n *node) own(share func(shard int) bool) { n.share.Store(&share) }

// endpoint draws the id of an endpoint whose lane is the node's.
func (n *node) endpoint() hook.ID {
	for {
		if id := n.rig.id(); (*n.share.Load())(hook.ShardOf(id)) {
			return id
		}
	}
}

var errAway = errors.New("the store is away")

// rigStore measures what the test says and fails when the test says so.
type rigStore struct {
	watch.Store
	r *rig
}

func (s rigStore) gone() error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.away {
		return errAway
	}
	return nil
}

func (s rigStore) RetryDepths(_ context.Context, endpoints []hook.ID, _ time.Time, limit int) ([]store.RetryDepth, error) {
	if err := s.gone(); err != nil {
		return nil, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var out []store.RetryDepth
	for _, id := range endpoints {
		d := s.r.depths[id]
		out = append(out, store.RetryDepth{EndpointID: id, Depth: min(d, int64(limit)), AtLeast: d >= int64(limit)})
	}
	return out, nil
}

func (s rigStore) ActiveLaneWatches(ctx context.Context, limit int) ([]hook.LaneWatch, error) {
	if err := s.gone(); err != nil {
		return nil, err
	}
	return s.Store.ActiveLaneWatches(ctx, limit)
}

func (s rigStore) SaveWatch(ctx context.Context, w store.WatchSave) error {
	if err := s.gone(); err != nil {
		return err
	}
	s.r.mu.Lock()
	s.r.saves++
	s.r.mu.Unlock()
	return s.Store.SaveWatch(ctx, w)
}

func (s rigStore) WriteOperational(ctx context.Context, events []hook.OperationalEvent) error {
	if err := s.gone(); err != nil {
		return err
	}
	return s.Store.WriteOperational(ctx, events)
}

func (r *rig) setDepth(endpoint hook.ID, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.depths[endpoint] = n
}

func (r *rig) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

func (r *rig) saved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saves
}

// row returns what every node shows of an endpoint.
func (r *rig) row(endpoint hook.ID) (hook.LaneWatch, bool) {
	r.t.Helper()
	rows, err := r.db.LaneWatches(r.t.Context(), []hook.ID{endpoint})
	r.must(err)
	if len(rows) == 0 {
		return hook.LaneWatch{}, false
	}
	return rows[0], true
}

// events returns the stored events, oldest first.
func (r *rig) events(types ...hook.OperationalType) []hook.OperationalEvent {
	r.t.Helper()
	out, err := r.db.ListOperational(r.t.Context(), store.OperationalFilter{Types: types}, store.Page{Limit: 1000, Asc: true})
	r.must(err)
	return out
}

// all returns every stored event.
func (r *rig) all() (out []hook.OperationalEvent) {
	r.t.Helper()
	for {
		p := store.Page{Limit: 1000, Asc: true}
		if len(out) > 0 {
			p.After = out[len(out)-1].ID
		}
		page, err := r.db.ListOperational(r.t.Context(), store.OperationalFilter{}, p)
		r.must(err)
		if len(page) == 0 {
			return out
		}
		out = append(out, page...)
	}
}

// types returns the types of the stored events, oldest first.
func (r *rig) types() (out []hook.OperationalType) {
	r.t.Helper()
	for _, e := range r.events() {
		out = append(out, e.Type)
	}
	return out
}

// expect compares the types of the stored events.
func (r *rig) expect(when string, want ...hook.OperationalType) {
	r.t.Helper()
	if got := r.types(); !slices.Equal(got, want) {
		r.t.Errorf("events %s: %v, want %v", when, got, want)
	}
}

// attempts tells of n attempts at once.
func (n *node) attempts(tenant, endpoint hook.ID, kind hook.AttemptKind, count int) {
	for range count {
		n.Attempted(tenant, endpoint, kind)
	}
}
