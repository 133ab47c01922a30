package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/retention"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

const day = 24 * time.Hour

// rig is a real store, watched on its way to the janitor.
type rig struct {
	store.DB
	t        *testing.T
	ids      *hook.IDSource
	tenant   hook.Tenant
	endpoint hook.Endpoint
	epoch    int64

	mu     sync.Mutex
	audits []hook.Audit
	steps  atomic.Int64
	prune  func(ctx context.Context, step int64) error // before each step
}

func newRig(t *testing.T) *rig {
	t.Helper()
	time.Sleep(26 * 365 * day) // ids tell the time from 2024 on
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "breakwater.db"), sqlite.Options{})
	r := &rig{DB: db, t: t}
	r.must(err)
	r.ids, err = hook.NewIDSource(1, 0)
	r.must(err)
	now := r.now()
	r.tenant = hook.Tenant{ID: r.ids.Next(now), UID: "t", Name: "t", Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	r.must(db.CreateTenant(t.Context(), r.tenant, r.audit()))
	r.endpoint = hook.Endpoint{
		ID: r.ids.Next(now), TenantID: r.tenant.ID, URL: "https://example.test/", Types: []string{"*"}, Policy: []byte("{}"),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Rev: 1, CreatedAt: now, UpdatedAt: now,
	}
	r.must(db.CreateEndpoint(t.Context(), r.endpoint, nil, 0, r.audit()))
	held, err := db.TakeShards(t.Context(), 1, []int{r.shard()}, true, 0)
	r.must(err)
	r.epoch = held[0].Epoch
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) now() time.Time { return time.Now().Truncate(time.Microsecond) }

func (r *rig) shard() int { return hook.ShardOf(r.endpoint.ID) }

func (r *rig) audit() hook.Audit {
	now := r.now()
	return hook.Audit{ID: r.ids.Next(now), Actor: "test", Action: "test", Subject: "test", At: now}
}

func (r *rig) Prune(ctx context.Context, p store.PruneStep) (store.Pruned, error) {
	n := r.steps.Add(1)
	if age := p.Now.Sub(p.AuditBefore); age != 90*day {
		r.t.Errorf("audit records leave after %v, want 90 days", age)
	}
	if r.prune != nil {
		if err := r.prune(ctx, n); err != nil {
			return store.Pruned{}, err
		}
	}
	return r.DB.Prune(ctx, p)
}

func (r *rig) WriteAudit(ctx context.Context, a hook.Audit) error {
	if err := r.DB.WriteAudit(ctx, a); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.audits = append(r.audits, a)
	return nil
}

// event stores an event with one pending delivery.
func (r *rig) event() store.Accept {
	r.t.Helper()
	now := r.now()
	rev, err := r.ConfigRev(context.Background(), r.tenant.ID)
	r.must(err)
	e := hook.Event{ID: r.ids.Next(now), TenantID: r.tenant.ID, Type: "x", CreatedAt: now, ContentType: "application/json", Payload: []byte("{}")}
	a := store.Accept{Event: e, ConfigRev: rev, Deliveries: []hook.Delivery{{
		ID: r.ids.Next(now), TenantID: r.tenant.ID, EventID: e.ID, EndpointID: r.endpoint.ID, DueAt: now, Size: 2,
		Progress: hook.Progress{Run: 1, RunDueAt: now},
	}}}
	r.must(r.Commit(context.Background(), &store.Batch{Node: 1, Now: now, Accepts: []*store.Accept{&a}}))
	return a
}

// settle ends the delivery of an event.
func (r *rig) settle(a store.Accept, state hook.DeliveryState) {
	r.t.Helper()
	now := r.now()
	d := a.Deliveries[0]
	d.State, d.SettledAt, d.Attempts = state, now, 1
	if state == hook.Dead {
		d.Reason = hook.DeadExhausted
	}
	s := &store.Settle{Shard: r.shard(), Epoch: r.epoch, Delivery: d, Attempt: &hook.Attempt{
		ID: r.ids.Next(now), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID,
		NodeID: 1, Number: 1, Run: 1, Class: hook.Success, Reason: hook.OK, Status: 200, StartedAt: now,
	}}
	r.must(r.Commit(context.Background(), &store.Batch{Node: 1, Now: now, Settles: []*store.Settle{s}}))
	if s.Outcome != store.SettleWritten {
		r.t.Fatalf("settle outcome is %d", s.Outcome)
	}
}

func (r *rig) exists(a store.Accept) bool {
	r.t.Helper()
	_, err := r.Event(context.Background(), r.tenant.ID, a.Event.ID)
	if err != nil && !errors.Is(err, hook.ErrNotFound) {
		r.t.Fatal(err)
	}
	return err == nil
}

// run starts a janitor; stop ends it.
func (r *rig) run(tune func(*retention.Config)) (stop func()) {
	r.t.Helper()
	cfg := retention.Config{Store: r, IDs: r.ids, Log: slog.New(slog.DiscardHandler), Every: time.Hour, First: time.Hour}
	if tune != nil {
		tune(&cfg)
	}
	j, err := retention.New(cfg)
	r.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	return func() {
		cancel()
		r.must(<-done)
	}
}

// removed sums what the audit log says.
func (r *rig) removed() (events, deliveries, attempts int64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.audits {
		var diff map[string]int64
		r.must(json.Unmarshal(a.Diff, &diff))
		if a.Action != "retention.prune" || a.Actor != "retention" {
			r.t.Errorf("audit record %+v", a)
		}
		events, deliveries, attempts = events+diff["events"], deliveries+diff["deliveries"], attempts+diff["attempts"]
	}
	return events, deliveries, attempts
}

// TestWhatLeavesAndWhatStays: what ended leaves at its age, what is pending
// never, and a dead letter not before somebody could have seen it.
func TestWhatLeavesAndWhatStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.must(r.Close()) }()
		delivered, dead, lately, pending := r.event(), r.event(), r.event(), r.event()
		r.settle(delivered, hook.Delivered)
		r.settle(dead, hook.Dead)
		stop := r.run(func(c *retention.Config) { c.Every, c.First = 6*time.Hour, 6*time.Hour })
		time.Sleep(29*day + 12*time.Hour)
		r.settle(lately, hook.Dead) // held for weeks
		if e, _, _ := r.removed(); !r.exists(delivered) || !r.exists(dead) || e != 0 {
			t.Fatal("something left before its age")
		}
		time.Sleep(day)
		if r.exists(delivered) || r.exists(dead) {
			t.Error("something stayed beyond its age")
		}
		if !r.exists(lately) {
			t.Error("a dead letter left a day after it died")
		}
		time.Sleep(2 * day)
		if r.exists(lately) {
			t.Error("a dead letter stayed beyond its age and its grace")
		}
		time.Sleep(100 * day)
		if !r.exists(pending) {
			t.Error("a pending delivery was removed")
		}
		stop()
		if e, d, a := r.removed(); e != 3 || d != 3 || a != 3 {
			t.Errorf("the audit log says %d events, %d deliveries, %d attempts; want 3 of each", e, d, a)
		}
	})
}

// TestFirstRunComesSoon: a server that is restarted every few minutes removes
// what is past its age all the same, all of it.
func TestFirstRunComesSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.must(r.Close()) }()
		for range 12 {
			r.settle(r.event(), hook.Delivered)
		}
		time.Sleep(31 * day)
		stop := r.run(func(c *retention.Config) { c.First, c.Step = 0, 5 })
		time.Sleep(time.Minute)
		stop()
		if e, _, _ := r.removed(); e != 12 {
			t.Errorf("%d events removed within a minute of the start, want 12", e)
		}
	})
}

// TestRemovesInSmallSteps: a run works through everything, a step at a time,
// with a rest between two steps.
func TestRemovesInSmallSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.must(r.Close()) }()
		for range 23 {
			r.settle(r.event(), hook.Delivered)
		}
		var at []time.Time
		r.prune = func(context.Context, int64) error {
			at = append(at, time.Now())
			return nil
		}
		stop := r.run(func(c *retention.Config) { c.Age, c.Step, c.Pause = time.Minute, 5, time.Second })
		time.Sleep(time.Hour + 30*time.Second)
		stop()
		if len(at) != 5 {
			t.Fatalf("%d steps for 23 events in fives, want 5", len(at))
		}
		for i := 1; i < len(at); i++ {
			if rest := at[i].Sub(at[i-1]); rest < time.Second {
				t.Errorf("a rest of %v between two steps, want 1s", rest)
			}
		}
		if e, _, _ := r.removed(); e != 23 || len(r.audits) != 1 {
			t.Errorf("%d events in %d audit records, want 23 in one", e, len(r.audits))
		}
	})
}

// TestFailedRunIsRecordedAndGoesOn: what a run removed before it failed is in
// the audit log, and the next run does the rest.
func TestFailedRunIsRecordedAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.must(r.Close()) }()
		for range 20 {
			r.settle(r.event(), hook.Delivered)
		}
		r.prune = func(_ context.Context, step int64) error {
			if step == 3 {
				return errors.New("connection lost")
			}
			return nil
		}
		stop := r.run(func(c *retention.Config) { c.Age, c.Step = time.Minute, 5 })
		time.Sleep(90 * time.Minute)
		if e, _, _ := r.removed(); e != 10 {
			t.Errorf("the audit log says %d events after the run that failed, want 10", e)
		}
		time.Sleep(time.Hour)
		stop()
		if e, _, _ := r.removed(); e != 20 {
			t.Errorf("the audit log says %d events after the next run, want 20", e)
		}
	})
}

// TestStopIsRecorded: stopped in the middle of a step, the run still tells what
// it has removed.
func TestStopIsRecorded(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]int64{"during a step": 3, "between two steps": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer func() { r.must(r.Close()) }()
				for range 20 {
					r.settle(r.event(), hook.Delivered)
				}
				r.prune = func(ctx context.Context, n int64) error {
					if n == step {
						<-ctx.Done() // as a statement does that is cancelled
						return ctx.Err()
					}
					return nil
				}
				stop := r.run(func(c *retention.Config) { c.Age, c.Step, c.Pause = time.Minute, 5, time.Minute })
				time.Sleep(time.Hour + 90*time.Second + time.Duration(step)*20*time.Second) // the third step is at two minutes
				stop()
				if e, _, _ := r.removed(); e != 10 {
					t.Errorf("the audit log says %d events, want the 10 of two steps", e)
				}
			})
		})
	}
}

func TestAlertsLeaveSomeTimeAfterTheirEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer func() { r.must(r.Close()) }()
		held, err := r.TakeShards(t.Context(), 1, []int{0}, true, 0)
		r.must(err)
		now := r.now()
		var alerts []hook.Alert
		for i := range 7 {
			a := hook.Alert{
				ID: r.ids.Next(now), Rule: "retry_storm", Level: hook.LevelEndpoint, Severity: hook.SeverityPage, Status: hook.AlertResolved,
				Subject: hook.AlertSubject{Tenant: 1, Endpoint: hook.ID(i + 1)}, Since: now, LastAt: now, ResolvedAt: now, Count: 1,
			}
			switch i {
			case 5:
				a.Status, a.ResolvedAt = hook.AlertFiring, time.Time{}
			case 6:
				a.ResolvedAt = now.Add(3 * time.Hour)
			}
			alerts = append(alerts, a)
		}
		r.must(r.SaveAlerts(t.Context(), store.Fence{Node: 1, Held: held[0]}, store.AlertStep{Now: now, Save: alerts}))
		left := func() int {
			list, err := r.ListAlerts(t.Context(), store.AlertFilter{}, store.Page{Limit: 50})
			r.must(err)
			return len(list)
		}
		stop := r.run(func(c *retention.Config) { c.Alerts, c.AlertsAge, c.Step = r, 7*day, 2 })
		defer stop()
		time.Sleep(7*day - time.Minute)
		if n := left(); n != 7 {
			t.Errorf("%d alerts are left before their time, want 7", n)
		}
		time.Sleep(2 * time.Hour)
		if n := left(); n != 2 {
			t.Errorf("%d alerts are left, want the one that fires and the one that ended later", n)
		}
	})
}
