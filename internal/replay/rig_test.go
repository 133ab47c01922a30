package replay_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/backfill"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/replay"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// rig is a store, a writer and runners in a synctest bubble, around settlers
// that stand in for lanes: they answer what is due as the test says.
type rig struct {
	t      *testing.T
	path   string
	db     *sqlite.DB
	ids    *hook.IDSource
	node   hook.Node
	epochs map[int]int64
	tenant hook.Tenant
	writer *store.Writer
	stops  []func()

	mu        sync.Mutex
	down      map[hook.ID]bool // endpoints that answer 503
	open      map[hook.ID]bool // whose lane is open
	delivered map[hook.ID]int  // successes by delivery
	rings     map[hook.ID]int
	wake      map[hook.ID]chan struct{}
	unsettled map[hook.ID]*sync.WaitGroup // results on their way, by endpoint
}

// since2024 is how far a bubble's clock must go: ids count from 2024.
const since2024 = 26 * 366 * 24 * time.Hour

// keptFor is how long events are kept.
const keptFor = 30 * 24 * time.Hour

// newRig opens a store with one tenant. Call it inside the bubble; it ends with
// the test.
func newRig(t *testing.T) *rig {
	t.Helper()
	time.Sleep(since2024)
	r := &rig{
		t: t, path: filepath.Join(t.TempDir(), sqlite.FileName), down: map[hook.ID]bool{}, open: map[hook.ID]bool{},
		delivered: map[hook.ID]int{}, rings: map[hook.ID]int{}, wake: map[hook.ID]chan struct{}{}, unsettled: map[hook.ID]*sync.WaitGroup{},
	}
	r.openStore()
	t.Cleanup(r.stop)
	now := r.now()
	r.tenant = hook.Tenant{ID: r.id(), UID: "default", Name: "Default", Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	r.must(r.db.CreateTenant(r.ctx(), r.tenant, r.audit()))
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) ctx() context.Context { return context.Background() }
func (r *rig) now() time.Time       { return time.Now().UTC().Truncate(time.Microsecond) }
func (r *rig) id() hook.ID          { return r.ids.Next(r.now()) }

func (r *rig) audit() hook.Audit {
	return hook.Audit{ID: r.id(), TenantID: r.tenant.ID, Actor: "test", Action: "test", Subject: "test", At: r.now()}
}

// openStore opens the file, takes all shards and starts the writer.
func (r *rig) openStore() {
	r.t.Helper()
	var err error
	r.db, err = sqlite.Open(r.ctx(), r.path, sqlite.Options{})
	r.must(err)
	after, err := r.db.MaxID(r.ctx())
	r.must(err)
	r.node, err = r.db.Join(r.ctx(), hook.Node{Name: "test", StartedAt: r.now()}, hook.IDFloor(r.now())+1, time.Minute)
	r.must(err)
	r.ids, err = hook.NewIDSource(r.node.Slot, after)
	r.must(err)
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	held, err := r.db.TakeShards(r.ctx(), r.node.ID, all, true, time.Minute)
	r.must(err)
	r.epochs = map[int]int64{}
	for _, h := range held {
		r.epochs[h.Shard] = h.Epoch
	}
	r.writer, err = store.NewWriter(store.WriterConfig{
		DB: r.db, Node: r.node.ID, Log: slog.New(slog.DiscardHandler),
		Committed: r.settled,
	})
	r.must(err)
	r.run(r.writer.Run)
}

func (r *rig) settled(b *store.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range b.Settles {
		r.unsettled[s.Delivery.EndpointID].Done()
	}
}

// run runs fn until the rig stops.
func (r *rig) run(fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	r.stops = append(r.stops, func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("run: %v", err)
		}
	})
}

// stop ends everything, the writer last, and closes the store.
func (r *rig) stop() {
	r.t.Helper()
	for _, v := range slices.Backward(r.stops) {
		v()
	}
	r.stops = nil
	r.must(r.db.Close())
}

// runner starts a runner. Without owns it owns every shard.
func (r *rig) runner(owns func(int) bool, maxRunning int) {
	r.t.Helper()
	if owns == nil {
		owns = func(int) bool { return true }
	}
	missing, err := backfill.New(backfill.Config{Store: r.db, Age: keptFor})
	r.must(err)
	runner, err := replay.New(replay.Config{
		Store: r.db, Lanes: r.db, Finder: missing, Notifier: r, IDs: r.ids, Log: slog.New(slog.DiscardHandler), Owns: owns, MaxRunning: maxRunning,
	})
	r.must(err)
	r.run(runner.Run)
}

// DueNow implements replay.Notifier.
func (r *rig) DueNow(_, endpoint hook.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rings[endpoint]++
	select {
	case r.wake[endpoint] <- struct{}{}:
	default:
	}
}

func (r *rig) endpoint() hook.Endpoint {
	r.t.Helper()
	e := hook.Endpoint{
		ID: r.id(), TenantID: r.tenant.ID, URL: "https://example.test/", Types: []string{"*"}, Policy: []byte("{}"),
		Rev: 1, CreatedAt: r.now(), UpdatedAt: r.now(),
	}
	r.must(r.db.CreateEndpoint(r.ctx(), e, nil, 0, r.audit()))
	return e
}

// deadLetters stores n events that e has given up on.
func (r *rig) deadLetters(e hook.Endpoint, n int) {
	r.t.Helper()
	for n > 0 {
		page := min(n, 250)
		n -= page
		rev, err := r.db.ConfigRev(r.ctx(), r.tenant.ID)
		r.must(err)
		b := &store.Batch{Node: r.node.ID, Now: r.now()}
		for range page {
			a := &store.Accept{ConfigRev: rev, Event: hook.Event{
				ID: r.id(), TenantID: r.tenant.ID, Type: "order.paid", CreatedAt: r.now(), ContentType: "application/json", Payload: []byte(`{}`),
			}}
			d := hook.Delivery{
				ID: r.id(), TenantID: r.tenant.ID, EventID: a.Event.ID, EndpointID: e.ID, DueAt: r.now(), Size: 2,
				Progress: hook.Progress{Run: 1, RunDueAt: r.now()},
			}
			a.Deliveries = []hook.Delivery{d}
			b.Accepts = append(b.Accepts, a)
			s := r.settle(d, hook.Down)
			s.Delivery.State, s.Delivery.Reason, s.Delivery.SettledAt = hook.Dead, hook.DeadExhausted, r.now()
			b.Settles = append(b.Settles, s)
		}
		r.must(r.db.Commit(r.ctx(), b))
	}
	time.Sleep(time.Second)
}

// settle prepares the result of one attempt.
func (r *rig) settle(d hook.Delivery, class hook.Class) *store.Settle {
	shard := hook.ShardOf(d.EndpointID)
	s := &store.Settle{Shard: shard, Epoch: r.epochs[shard], Prev: d.Attempts, Delivery: d}
	s.Delivery.Attempts++
	s.Attempt = &hook.Attempt{
		ID: r.id(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, NodeID: r.node.ID,
		Number: d.Attempts + 1, Run: d.Progress.Run, Class: class, StartedAt: r.now(),
	}
	s.Delivery.Last = hook.LastResult{AttemptID: s.Attempt.ID, Class: class, At: r.now()}
	if class == hook.Success {
		s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Delivered, r.now(), r.now()
	} else {
		s.Delivery.DueAt = r.now().Add(20 * time.Second)
		s.Delivery.Progress.FailedAttempts++
	}
	return s
}

// settler answers what is due at e, when it is told and every ten seconds. Like
// a lane it stops at the fifth failure in a row.
func (r *rig) settler(e hook.Endpoint) {
	wake := make(chan struct{}, 1)
	r.mu.Lock()
	r.unsettled[e.ID], r.wake[e.ID] = &sync.WaitGroup{}, wake
	r.mu.Unlock()
	r.run(func(ctx context.Context) error {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			case <-wake:
			}
			if err := r.answer(e); err != nil {
				return err
			}
		}
	})
}

func (r *rig) answer(e hook.Endpoint) error {
	r.mu.Lock()
	down, open, unsettled := r.down[e.ID], r.open[e.ID], r.unsettled[e.ID]
	r.mu.Unlock()
	if open {
		return nil // held
	}
	rows, err := r.db.ReadAhead(r.ctx(), e.ID, r.now(), 500)
	if err != nil {
		return fmt.Errorf("read ahead: %w", err)
	}
	sent := 0
	for _, d := range rows {
		class := hook.Success
		if down {
			class = hook.Down
		}
		unsettled.Add(1)
		r.writer.Settle(r.settle(d, class), nil)
		sent++
		if down && sent == 5 {
			r.setLane(e, true)
			break
		}
		if !down {
			r.mu.Lock()
			r.delivered[d.ID]++
			r.mu.Unlock()
		}
	}
	unsettled.Wait() // what is not committed would be read again
	return nil
}

// setLane stores a checkpoint of e's lane.
func (r *rig) setLane(e hook.Endpoint, open bool) {
	r.mu.Lock()
	r.open[e.ID] = open
	r.mu.Unlock()
	shard := hook.ShardOf(e.ID)
	c := lane.Checkpoint{Open: open, Limit: 1, OpenedAt: r.now()}
	if !open {
		c.ClosedAt, c.SlowStart = r.now(), true
	}
	r.must(r.db.Commit(r.ctx(), &store.Batch{Node: r.node.ID, Now: r.now(), Lanes: []*store.LaneSave{
		{Endpoint: e.ID, Tenant: e.TenantID, Shard: shard, Epoch: r.epochs[shard], Checkpoint: c},
	}}))
}

func (r *rig) setDown(e hook.Endpoint, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[e.ID] = down
}

// replay creates a replay of the dead letters of an endpoint, 0: of all.
func (r *rig) replay(endpoint hook.ID) hook.ReplayJob {
	r.t.Helper()
	j := hook.ReplayJob{
		ID: r.id(), TenantID: r.tenant.ID, EndpointID: endpoint,
		Filter:    hook.ReplayFilter{Endpoint: endpoint, States: []hook.DeliveryState{hook.Dead}},
		PerMinute: 100, CurrentPerMinute: 100, Ramp: 2, MaxMultiple: 10, PauseErrorPercent: 10,
		EndID: store.ReplayEnd(r.now()), Total: -1, CreatedBy: "test", CreatedAt: r.now(), UpdatedAt: r.now(), Version: 1,
	}
	counts, err := r.db.CountByEndpoint(r.ctx(), store.MatchOf(&j), 1<<20)
	r.must(err)
	j.Total = 0
	for _, n := range counts {
		j.Total += n
	}
	r.must(r.db.CreateReplay(r.ctx(), j, r.audit()))
	return j
}

func (r *rig) job(j hook.ReplayJob) hook.ReplayJob {
	r.t.Helper()
	now, err := r.db.ReplayByID(r.ctx(), 0, j.ID)
	r.must(err)
	return now
}

// want checks the state of a replay, or why it is paused.
func (r *rig) want(j hook.ReplayJob, status string) hook.ReplayJob {
	r.t.Helper()
	now := r.job(j)
	got := now.State.String()
	if now.PauseReason != "" {
		got = string(now.PauseReason)
	}
	if got != status {
		r.t.Fatalf("at %v the replay is %s, want %s (%+v)", time.Now().Format(time.TimeOnly), got, status, now.Counts)
	}
	return now
}

// wantFed checks what was fed, to within a step.
func (r *rig) wantFed(j hook.ReplayJob, want, tolerance int64) {
	r.t.Helper()
	if got := r.job(j).Counts.Fed; got < want-tolerance || got > want+tolerance {
		r.t.Errorf("%d were fed, want %d", got, want)
	}
}
