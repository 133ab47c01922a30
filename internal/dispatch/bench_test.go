package dispatch_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// unwritten is a store whose commits cost nothing.
type unwritten struct{ store.DB }

func (unwritten) Commit(_ context.Context, b *store.Batch) error {
	for _, a := range b.Accepts {
		a.Outcome, a.EventID, a.Count = store.AcceptStored, a.Event.ID, len(a.Deliveries)
	}
	for _, s := range b.Settles {
		s.Outcome = store.SettleWritten
	}
	for _, l := range b.Lanes {
		l.Outcome = store.SettleWritten
	}
	return nil
}

// instantSink answers at once.
type instantSink struct{}

func (instantSink) Send(context.Context, *egress.Request) egress.Result {
	return egress.Result{
		Status: http.StatusOK, Reason: hook.OK, Latency: time.Millisecond,
		Header: http.Header{"Date": {"Mon, 02 Mar 2026 10:00:00 GMT"}, "Content-Length": {"0"}},
	}
}

// BenchmarkDeliver measures one event from its commit to the commit of its
// result, with a store and a network that cost nothing: group commit, lanes,
// signing, judging and settling.
func BenchmarkDeliver(b *testing.B) {
	e := newBenchEngine(b, 8)
	payload := make([]byte, 1024)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for sent := 0; sent < b.N; {
		batch := make([]*store.Accept, min(256, b.N-sent))
		for i := range batch {
			batch[i] = e.accept(payload, sent+i)
		}
		l := store.Load{Rows: 2 * len(batch), Bytes: int64(len(batch) * len(payload))}
		if err := e.writer.Accept(batch[0].Event.TenantID, l, func() []*store.Accept { return batch }); err != nil {
			b.Fatal(err)
		}
		sent += len(batch)
		for int(e.settled.Load()) < sent-512 { // closed loop
			time.Sleep(50 * time.Microsecond)
		}
	}
	for int(e.settled.Load()) < b.N {
		time.Sleep(50 * time.Microsecond)
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what the whole process has used: the time that passes includes
// waiting.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type benchEngine struct {
	ids       *hook.IDSource
	tenant    hook.ID
	endpoints []hook.ID
	writer    *store.Writer
	settled   atomic.Int64
}

func newBenchEngine(b *testing.B, endpoints int) *benchEngine {
	b.Helper()
	must := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), sqlite.FileName), sqlite.Options{})
	must(err)
	b.Cleanup(func() { must(db.Close()) })
	key, err := vault.NewKey(rand.Reader)
	must(err)
	v, err := vault.Open([]vault.Key{key})
	must(err)
	now := time.Now().Truncate(time.Microsecond)
	node, err := db.Join(b.Context(), hook.Node{Name: "bench", StartedAt: now}, hook.IDFloor(now)+1, 15*time.Second)
	must(err)
	e := &benchEngine{}
	e.ids, err = hook.NewIDSource(node.Slot, 0)
	must(err)
	id := func() hook.ID { return e.ids.Next(now) }
	e.tenant = id()
	must(db.CreateTenant(b.Context(), hook.Tenant{ID: e.tenant, CreatedAt: now, UpdatedAt: now}, hook.Audit{ID: id(), At: now}))
	for range endpoints {
		ep := hook.Endpoint{
			ID: id(), TenantID: e.tenant, URL: "https://example.test/hook", Types: []string{"*"},
			Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, CreatedAt: now, UpdatedAt: now,
		}
		secret, err := sign.NewSecret(rand.Reader)
		must(err)
		sealer, sealed, err := v.Seal(e.tenant, ep.ID, vault.PurposeSecret, []byte(secret.Reveal()))
		must(err)
		must(db.CreateEndpoint(b.Context(), ep, []hook.Secret{{
			ID: id(), TenantID: e.tenant, EndpointID: ep.ID, Scheme: hook.SchemeStandard, KeyID: sealer, Sealed: sealed, CreatedAt: now,
		}}, 0, hook.Audit{ID: id(), At: now}))
		e.endpoints = append(e.endpoints, ep.ID)
	}
	e.run(b, dispatch.Config{
		Store: db, Sender: instantSink{}, Vault: v, IDs: e.ids, Node: node, Log: slog.New(slog.DiscardHandler),
		Observer: unobserved{},
	})
	return e
}

func (e *benchEngine) run(b *testing.B, cfg dispatch.Config) {
	b.Helper()
	var d *dispatch.Dispatcher
	var err error
	e.writer, err = store.NewWriter(store.WriterConfig{
		DB: unwritten{}, Node: cfg.Node.ID, Log: cfg.Log,
		Committed: func(batch *store.Batch) {
			e.settled.Add(int64(len(batch.Settles)))
			d.Committed(batch)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	cfg.Settler = e.writer
	if d, err = dispatch.New(cfg); err != nil {
		b.Fatal(err)
	}
	for _, run := range []func(context.Context) error{e.writer.Run, d.Run} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		b.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		})
	}
	for shard := range hook.Shards {
		for !d.Owns(shard) {
			time.Sleep(time.Millisecond)
		}
	}
}

func (e *benchEngine) accept(payload []byte, n int) *store.Accept {
	now := time.Now().Truncate(time.Microsecond)
	a := &store.Accept{Event: hook.Event{
		ID: e.ids.Next(now), TenantID: e.tenant, Type: "order.paid", CreatedAt: now, ContentType: "application/json", Payload: payload,
	}}
	a.Deliveries = []hook.Delivery{{
		ID: e.ids.Next(now), TenantID: e.tenant, EventID: a.Event.ID, EndpointID: e.endpoints[n%len(e.endpoints)], DueAt: now,
		Size: len(payload), Progress: hook.Progress{Run: 1, RunDueAt: now},
	}}
	return a
}
