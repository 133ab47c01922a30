package sqlite_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// BenchmarkCommit accepts events and settles them one commit later, as the
// writer does, and reports the processor time of both per event.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkCommit(b, size, false) })
	}
	b.Run("batch=256/keys", func(b *testing.B) { benchmarkCommit(b, 256, true) })
}

func benchmarkCommit(b *testing.B, size int, keys bool) {
	w := newLoad(b, open(b, filepath.Join(b.TempDir(), sqlite.FileName)), 100)
	w.keys = keys
	var previous []*store.Accept
	b.ReportAllocs()
	cpu := processorTime(b)
	events := 0
	for b.Loop() {
		batch := w.batch(size)
		for _, a := range previous {
			batch.Settles = append(batch.Settles, w.success(a.Deliveries[0]))
		}
		if err := w.db.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		previous = batch.Accepts
		events += size
	}
	b.ReportMetric(float64((processorTime(b)-cpu).Microseconds())/float64(events), "cpu-µs/event")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(events), "µs/event")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load makes batches for one tenant with many endpoints.
type load struct {
	db        *sqlite.DB
	ids       *hook.IDSource
	node      hook.Node
	epochs    [hook.Shards]int64
	tenant    hook.ID
	endpoints []hook.ID
	rev       int64
	n         int
	now       time.Time
	payload   []byte
	keys      bool
}

func newLoad(tb testing.TB, db *sqlite.DB, endpoints int) *load {
	tb.Helper()
	ids, err := hook.NewIDSource(1, 0)
	check(tb, err)
	w := &load{db: db, ids: ids, now: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), payload: make([]byte, 1024)}
	ctx := tb.Context()
	w.node, err = db.Join(ctx, hook.Node{Name: "n", StartedAt: w.now}, w.id(), 0)
	check(tb, err)
	shards := make([]int, hook.Shards)
	for i := range shards {
		shards[i] = i
	}
	held, err := db.TakeShards(ctx, w.node.ID, shards, true, 0)
	check(tb, err)
	for _, h := range held {
		w.epochs[h.Shard] = h.Epoch
	}
	w.tenant = w.id()
	check(tb, db.CreateTenant(ctx, hook.Tenant{ID: w.tenant, CreatedAt: w.now, UpdatedAt: w.now}, hook.Audit{ID: w.id(), At: w.now}))
	for range endpoints {
		e := hook.Endpoint{ID: w.id(), TenantID: w.tenant, CreatedAt: w.now, UpdatedAt: w.now}
		check(tb, db.CreateEndpoint(ctx, e, nil, 0, hook.Audit{ID: w.id(), At: w.now}))
		w.endpoints = append(w.endpoints, e.ID)
	}
	w.rev, err = db.ConfigRev(ctx, w.tenant)
	check(tb, err)
	return w
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (w *load) id() hook.ID { return w.ids.Next(w.now) }

// batch makes a batch of accepts of one delivery each.
func (w *load) batch(size int) *store.Batch {
	b := &store.Batch{Node: w.node.ID, Now: w.now}
	for range size {
		w.n++
		e := w.endpoints[w.n%len(w.endpoints)]
		a := &store.Accept{ConfigRev: w.rev, Event: hook.Event{
			ID: w.id(), TenantID: w.tenant, Type: "order.paid", CreatedAt: w.now, ContentType: "application/json", Payload: w.payload,
		}}
		if w.keys {
			a.Key, a.KeyExpires = fmt.Sprintf("key-%d", w.n), w.now.Add(time.Hour)
		}
		a.Deliveries = []hook.Delivery{{
			ID: w.id(), TenantID: w.tenant, EventID: a.Event.ID, EndpointID: e, DueAt: w.now, Size: len(w.payload),
			Progress: hook.Progress{Run: 1, RunDueAt: w.now},
		}}
		b.Accepts = append(b.Accepts, a)
	}
	return b
}

// success makes the settle of a first attempt that worked.
func (w *load) success(d hook.Delivery) *store.Settle {
	shard := hook.ShardOf(d.EndpointID)
	a := &hook.Attempt{
		ID: w.id(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, NodeID: w.node.ID,
		Number: d.Attempts + 1, Run: 1, Class: hook.Success, Reason: hook.OK, Charged: true, Status: 200,
		Latency: 12 * time.Millisecond, StartedAt: w.now, Excerpt: []byte(`{"ok":true}`),
		Detail: hook.AttemptDetail{
			URL: "https://example.test/hooks/orders", RemoteAddr: "192.0.2.1:443", LaneState: "closed", LaneLimit: 20, LaneInFlight: 3,
			RequestHeaders: map[string][]string{
				"Content-Type": {"application/json"}, "User-Agent": {"Breakwater/1.0"}, "Webhook-Id": {"evt_0123456789abc"},
				"Webhook-Timestamp": {"1772445600"}, "Webhook-Signature": {"v1,***"},
			},
			ResponseHeaders: map[string][]string{"Content-Type": {"application/json"}, "Date": {"Mon, 02 Mar 2026 10:00:00 GMT"}},
			Phases:          hook.Phases{FirstByte: 12 * time.Millisecond},
		},
	}
	s := &store.Settle{Shard: shard, Epoch: w.epochs[shard], Prev: d.Attempts, Delivery: d, Attempt: a}
	s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Delivered, w.now, w.now
	s.Delivery.Attempts++
	s.Delivery.Last = hook.LastResult{AttemptID: a.ID, Class: a.Class, Reason: a.Reason, Status: 200, Latency: a.Latency, At: w.now}
	return s
}
