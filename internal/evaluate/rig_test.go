package evaluate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/evaluate"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

const retention = 30 * 24 * time.Hour

// rig is a real store in a bubble, of which only figures are made up, with as many
// evaluators as a test wants.
type rig struct {
	t      *testing.T
	db     *sqlite.DB
	ids    *hook.IDSource
	log    *bytes.Buffer
	out    *slog.Logger // into log
	node   hook.Node    // owns all shards at first
	tenant hook.Tenant
	held   map[int]int64 // epochs of node

	mu      sync.Mutex
	figures map[stats.Subject]stats.Counts // of the last full minute, at any time
	blind   map[stats.Subject]bool         // cannot be read
	away    bool                           // every write fails
	health  hook.NodeHealth
	options alert.Options
	reads   int // of figures
}

// newRig opens the store. Call it inside the bubble.
func newRig(t *testing.T) *rig {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC))) // ids begin in 2024
	r := &rig{
		t: t, log: &bytes.Buffer{}, held: make(map[int]int64),
		figures: make(map[stats.Subject]stats.Counts), blind: make(map[stats.Subject]bool),
	}
	r.out = slog.New(slog.NewJSONHandler(r.log, nil))
	var err error
	r.db, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Options{})
	r.must(err)
	r.ids, err = hook.NewIDSource(1, 0)
	r.must(err)
	r.node, err = r.db.Join(t.Context(), hook.Node{Name: "one", StartedAt: time.Now()}, r.id(), time.Minute)
	r.must(err)
	for _, h := range r.take(r.node) {
		r.held[h.Shard] = h.Epoch
	}
	r.tenant = hook.Tenant{ID: r.id(), UID: "acme", Name: "Acme", Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	r.must(r.db.CreateTenant(t.Context(), r.tenant, r.audit()))
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

func (r *rig) audit() hook.Audit {
	return hook.Audit{ID: r.id(), Actor: "test", Action: "test", Subject: "test", At: time.Now()}
}

// take gives all shards to a node.
func (r *rig) take(n hook.Node) []store.Held {
	r.t.Helper()
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	held, err := r.db.TakeShards(r.t.Context(), n.ID, all, true, time.Minute)
	r.must(err)
	return held
}

func (r *rig) endpoint() hook.Endpoint {
	r.t.Helper()
	id := r.id()
	e := hook.Endpoint{
		ID: id, TenantID: r.tenant.ID, URL: fmt.Sprintf("https://api.example.com/%d?key=secret", id), Types: []string{"*"}, Policy: []byte("{}"),
		Rev: 1, CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	r.must(r.db.CreateEndpoint(r.t.Context(), e, nil, 0, r.audit()))
	return e
}

// halt stores a state of an endpoint.
func (r *rig) halt(e hook.Endpoint, state hook.EndpointState, reason string) {
	r.t.Helper()
	e.State, e.StateReason = state, reason
	_, err := r.db.UpdateEndpoint(r.t.Context(), e, r.audit())
	r.must(err)
}

// checkpoint stores what a lane's owner knows.
func (r *rig) checkpoint(e hook.Endpoint, c lane.Checkpoint) {
	r.t.Helper()
	shard := hook.ShardOf(e.ID)
	save := &store.LaneSave{Endpoint: e.ID, Tenant: e.TenantID, Shard: shard, Epoch: r.held[shard], Checkpoint: c}
	r.must(r.db.Commit(r.t.Context(), &store.Batch{Node: r.node.ID, Now: time.Now(), Lanes: []*store.LaneSave{save}}))
	if save.Outcome != store.SettleWritten {
		r.t.Fatalf("checkpoint: %v", save.Outcome)
	}
}

// open opens a lane now.
func (r *rig) open(e hook.Endpoint) {
	r.checkpoint(e, lane.Checkpoint{Open: true, OpenedAt: time.Now(), BlockedAt: time.Now(), FailingSince: time.Now(), FailingAttempts: 3})
}

// accept stores so many deliveries that are due now.
func (r *rig) accept(e hook.Endpoint, n int) []hook.Delivery {
	r.t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	var all []hook.Delivery
	b := &store.Batch{Node: r.node.ID, Now: now}
	rev, err := r.db.ConfigRev(r.t.Context(), e.TenantID)
	r.must(err)
	for range n {
		event := hook.Event{ID: r.id(), TenantID: e.TenantID, Type: "order.paid", CreatedAt: now, ContentType: "application/json", Payload: []byte("{}")}
		d := hook.Delivery{
			ID: r.id(), TenantID: e.TenantID, EventID: event.ID, EndpointID: e.ID, DueAt: now,
			Progress: hook.Progress{Run: 1, RunDueAt: now},
		}
		b.Accepts = append(b.Accepts, &store.Accept{Event: event, Deliveries: []hook.Delivery{d}, ConfigRev: rev})
		all = append(all, d)
	}
	r.must(r.db.Commit(r.t.Context(), b))
	return all
}

// settle stores the result of an attempt that failed: another try much later, or
// a dead letter.
func (r *rig) settle(d hook.Delivery, dead bool) {
	r.t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	shard := hook.ShardOf(d.EndpointID)
	s := &store.Settle{Shard: shard, Epoch: r.held[shard], Due: d.DueAt, Delivery: d}
	s.Delivery.Attempts, s.Delivery.DueAt = 1, now.Add(48*time.Hour)
	s.Attempt = &hook.Attempt{
		ID: r.id(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, Number: 1, Run: 1, Kind: hook.First,
		Class: hook.Retryable, Reason: hook.ServerError, Status: 503, StartedAt: now, NodeID: r.node.ID,
	}
	s.Delivery.Last = hook.LastResult{AttemptID: s.Attempt.ID, Class: s.Attempt.Class, Reason: s.Attempt.Reason, Status: 503, At: now}
	if dead {
		s.Delivery.State, s.Delivery.Reason, s.Delivery.SettledAt = hook.Dead, hook.DeadExhausted, now
	}
	r.must(r.db.Commit(r.t.Context(), &store.Batch{Node: r.node.ID, Now: now, Settles: []*store.Settle{s}}))
	if s.Outcome != store.SettleWritten {
		r.t.Fatalf("settle: %v", s.Outcome)
	}
}

// watched stores what a lane's owner has seen.
func (r *rig) watched(e hook.Endpoint, s hook.Storm, q hook.RetryQueue) {
	r.t.Helper()
	w := hook.LaneWatch{EndpointID: e.ID, TenantID: e.TenantID, Storm: s, Queue: q, UpdatedAt: time.Now().Truncate(time.Microsecond)}
	r.must(r.db.SaveWatch(r.t.Context(), store.WatchSave{Lanes: []hook.LaneWatch{w}}))
}

// saved stores what a node has seen.
func (r *rig) saved(n hook.NodeWatch) {
	r.t.Helper()
	n.UpdatedAt = time.Now().Truncate(time.Microsecond)
	r.must(r.db.SaveWatch(r.t.Context(), store.WatchSave{Node: &n}))
}

func ofEndpoint(e hook.Endpoint) stats.Subject {
	return stats.Subject{Level: stats.OfEndpoint, ID: e.ID}
}

func (r *rig) ofTenant() stats.Subject { return stats.Subject{Level: stats.OfTenant, ID: r.tenant.ID} }

// count makes figures up.
func (r *rig) count(s stats.Subject, pairs ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c stats.Counts
	for i := 0; i < len(pairs); i += 2 {
		c.Add(pairs[i].(stats.Counter), uint64(pairs[i+1].(int)))
	}
	r.figures[s] = c
}

func (r *rig) set(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
}

// every keeps doing something, as whoever saves a row in every round does.
func (r *rig) every(span time.Duration, fn func()) {
	for end := time.Now().Add(span); time.Now().Before(end); {
		fn()
		time.Sleep(15 * time.Second)
		synctest.Wait()
	}
}

// channel stores a channel.
func (r *rig) channel(c hook.Channel) hook.Channel {
	r.t.Helper()
	c.ID, c.Name, c.SendResolved, c.Version = r.id(), "channel", true, 1
	if c.Kind == 0 {
		c.Kind = hook.ChannelLog
	}
	c.CreatedAt, c.UpdatedAt = time.Now(), time.Now()
	r.must(r.db.CreateChannel(r.t.Context(), store.Channel{Channel: c, Sealed: []byte("-")}, 100, r.audit()))
	return c
}

var (
	errAway  = errors.New("the store is away")
	errBlind = errors.New("nobody can read this")
)

// rigStore makes figures up and fails when the test says so.
type rigStore struct {
	*sqlite.DB
	r *rig
}

func (s rigStore) Stats(_ context.Context, subject stats.Subject, from, to time.Time) ([]stats.Point, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.reads++
	if s.r.blind[subject] {
		return nil, errBlind
	}
	at := time.Now().UTC().Truncate(time.Minute).Add(-time.Minute)
	c, ok := s.r.figures[subject]
	if !ok || at.Before(from) || !at.Before(to) {
		return nil, nil
	}
	return []stats.Point{{At: at, Counts: c.Clone()}}, nil
}

func (s rigStore) Troubled(context.Context, time.Time) ([]stats.Subject, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	var out []stats.Subject
	for subject, c := range s.r.figures {
		if c.AllFailed()+c.AllDead()+c.Get(stats.Attempts(hook.Retry)) > 0 || c.DeliveryTimes().Quantile(1) > time.Minute {
			out = append(out, subject)
		}
	}
	return out, nil
}

func (s rigStore) SaveAlerts(ctx context.Context, f store.Fence, step store.AlertStep) error {
	s.r.mu.Lock()
	away := s.r.away
	s.r.mu.Unlock()
	if away {
		return errAway
	}
	return s.DB.SaveAlerts(ctx, f, step)
}

// evaluator is one that runs.
type evaluator struct {
	*evaluate.Evaluator
	r       *rig
	mu      sync.Mutex
	epoch   int64
	owner   bool
	decided int
	fired   []string // rules
	stop    func()
}

func (e *evaluator) own(epoch int64, owner bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch, e.owner = epoch, owner
}

// start runs an evaluator of a node with an epoch of shard 0; 0: it is not the
// owner.
func (r *rig) start(node hook.Node, epoch int64, thresholds ...string) *evaluator {
	r.t.Helper()
	e := &evaluator{r: r, epoch: epoch, owner: epoch != 0}
	var set alert.Thresholds
	for i := 0; i < len(thresholds); i += 3 {
		var err error
		set, err = set.With(thresholds[i], thresholds[i+1], thresholds[i+2])
		r.must(err)
	}
	v, err := evaluate.New(evaluate.Config{
		Store: rigStore{r.db, r}, IDs: r.ids, Node: node.ID, Log: r.out, LeaseTTL: time.Minute, Retention: retention, Thresholds: set, Options: r.options,
		Holds: func(shard int) (int64, bool) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.epoch, e.owner && shard == 0
		},
		Health: func(context.Context) hook.NodeHealth {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.health
		},
		Fired: func(a *hook.Alert) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.fired = append(e.fired, a.Rule)
		},
		Decided: func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.decided++
		},
	})
	r.must(err)
	e.Evaluator = v
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	stopped := false
	e.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		r.must(<-done)
	}
	return e
}

// evaluate runs an evaluator of the node that owns the shards.
func (r *rig) evaluate(thresholds ...string) *evaluator {
	r.t.Helper()
	return r.start(r.node, r.held[0], thresholds...)
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// alerts returns what is stored of a rule.
func (r *rig) alerts(rule string) []hook.Alert {
	r.t.Helper()
	all, err := r.db.OpenAlerts(r.t.Context(), time.Now().Add(-48*time.Hour))
	r.must(err)
	return slices.DeleteFunc(all, func(a hook.Alert) bool { return a.Rule != rule || a.Status == hook.AlertPending })
}

// one returns the only alert of a rule.
func (r *rig) one(rule string) hook.Alert {
	r.t.Helper()
	all := r.alerts(rule)
	if len(all) != 1 {
		r.t.Fatalf("%d alerts of %s, want one: %+v\n%s", len(all), rule, all, r.log)
	}
	return all[0]
}

// told returns the kinds of notices of an alert over a channel, in order.
func told(a hook.Alert, channel hook.ID) (kinds []hook.NoticeKind) {
	for _, n := range a.Notifications {
		if n.Channel == channel {
			kinds = append(kinds, n.Kind)
		}
	}
	return kinds
}
