package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// world is a store of its own with one node that holds every shard, a clock
// that only the test moves, and short ways to fill the store.
type world struct {
	t        *testing.T
	db       store.DB
	features Features
	ids      *hook.IDSource
	now      time.Time
	node     hook.Node
	epochs   map[int]int64 // of the shards that node holds
	tenants  []hook.ID
}

const leaseTTL = 15 * time.Second

// start has digits down to the microsecond, so that a lost digit shows.
var start = time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)

func newWorld(t *testing.T, s suite) *world {
	t.Helper()
	ids, err := hook.NewIDSource(7, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: s.open(t), features: s.features, ids: ids, now: start, epochs: map[int]int64{}}
	w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
	w.node = w.join("node-a")
	w.take(w.node, allShards(), false)
	return w
}

func (w *world) ctx() context.Context { return w.t.Context() }

// id draws an id at the world's time.
func (w *world) id() hook.ID { return w.ids.Next(w.now) }

// pass moves the world's clock.
func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) check(err error, doing string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", doing, err)
	}
}

// wantErr checks that err wraps want.
func (w *world) wantErr(err, want error, doing string) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s = %v, want %v", doing, err, want)
	}
}

// same compares two values as the contract does: empty and nil collections are
// equal, and JSON is compared by meaning.
func (w *world) same(got, want any, what string) {
	w.t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), jsonByMeaning); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// jsonByMeaning looks only at json.RawMessage, which cmp would otherwise not
// tell from other bytes, and leaves empty ones to EquateEmpty.
var jsonByMeaning = cmp.FilterPath(func(p cmp.Path) bool {
	x, y := p.Last().Values()
	return p.Last().Type() == reflect.TypeFor[json.RawMessage]() && x.IsValid() && y.IsValid() && x.Len()+y.Len() > 0
}, cmp.Comparer(func(a, b json.RawMessage) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return string(a) == string(b)
	}
	return reflect.DeepEqual(x, y)
}))

func allShards() []int {
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

func (w *world) join(name string) hook.Node {
	w.t.Helper()
	n, err := w.db.Join(w.ctx(), hook.Node{
		Name: name, Addr: "127.0.0.1:8080", Version: "v1.2.3", StartedAt: w.now,
	}, w.id(), leaseTTL)
	w.check(err, "Join "+name)
	return n
}

func (w *world) take(n hook.Node, shards []int, mine bool) []store.Held {
	w.t.Helper()
	held, err := w.db.TakeShards(w.ctx(), n.ID, shards, mine, leaseTTL)
	w.check(err, "TakeShards")
	if n.ID == w.node.ID {
		for _, h := range held {
			w.epochs[h.Shard] = h.Epoch
		}
	}
	return held
}

func (w *world) audit(tenant hook.ID, action string) hook.Audit {
	return hook.Audit{
		ID: w.id(), TenantID: tenant, Actor: "key_test", Action: action, Subject: "subject",
		Diff: json.RawMessage(`{"name":["a","b"]}`), RequestID: "req_1", RemoteIP: "192.0.2.7", At: w.now,
	}
}

// tenant creates a tenant.
func (w *world) tenant() hook.Tenant {
	w.t.Helper()
	id := w.id()
	ten := hook.Tenant{
		ID: id, UID: fmt.Sprintf("uid-%d", id), Name: fmt.Sprintf("Tenant %d", id),
		Policy: json.RawMessage(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.check(w.db.CreateTenant(w.ctx(), ten, w.audit(id, "tenant.create")), "CreateTenant")
	w.tenants = append(w.tenants, id)
	return ten
}

// endpoint creates an endpoint without secrets.
func (w *world) endpoint(ten hook.Tenant) hook.Endpoint {
	w.t.Helper()
	e := w.newEndpoint(ten)
	w.check(w.db.CreateEndpoint(w.ctx(), e, nil, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
	return e
}

func (w *world) newEndpoint(ten hook.Tenant) hook.Endpoint {
	return hook.Endpoint{
		ID: w.id(), TenantID: ten.ID, URL: "https://example.test/hook", Types: []string{"*"},
		Policy: json.RawMessage(`{}`), Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}},
		Rev: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}
}

func (w *world) endpoints(ten hook.Tenant, n int) []hook.Endpoint {
	w.t.Helper()
	all := make([]hook.Endpoint, n)
	for i := range all {
		all[i] = w.endpoint(ten)
	}
	return all
}

func (w *world) configRev(tenant hook.ID) int64 {
	w.t.Helper()
	rev, err := w.db.ConfigRev(w.ctx(), tenant)
	w.check(err, "ConfigRev")
	return rev
}

// accept prepares the accept of one event, due now at each endpoint.
func (w *world) accept(ten hook.Tenant, targets ...hook.Endpoint) *store.Accept {
	w.t.Helper()
	a := &store.Accept{
		Event: hook.Event{
			ID: w.id(), TenantID: ten.ID, Type: "order.paid", CreatedAt: w.now,
			ContentType: "application/json", Payload: []byte(`{"n":1}`),
		},
		ConfigRev: w.configRev(ten.ID),
	}
	for _, e := range targets {
		a.Deliveries = append(a.Deliveries, hook.Delivery{
			ID: w.id(), TenantID: ten.ID, EventID: a.Event.ID, EndpointID: e.ID,
			DueAt: w.now, Size: len(a.Event.Payload), Progress: hook.Progress{Run: 1, RunDueAt: w.now},
		})
	}
	return a
}

// accepts prepares n accepts like the first.
func (w *world) accepts(n int, ten hook.Tenant, targets ...hook.Endpoint) []*store.Accept {
	w.t.Helper()
	out := make([]*store.Accept, n)
	for i := range out {
		if i == 0 {
			out[i] = w.accept(ten, targets...)
			continue
		}
		a := *out[0]
		a.Event.ID = w.id()
		a.Deliveries = slices.Clone(a.Deliveries)
		for j := range a.Deliveries {
			a.Deliveries[j].ID, a.Deliveries[j].EventID = w.id(), a.Event.ID
		}
		out[i] = &a
	}
	return out
}

// dueAt moves the due time of all deliveries of an accept.
func dueAt(a *store.Accept, at time.Time) *store.Accept {
	for i := range a.Deliveries {
		a.Deliveries[i].DueAt, a.Deliveries[i].Progress.RunDueAt = at, at
	}
	return a
}

// stored commits the accept of one event.
func (w *world) stored(ten hook.Tenant, targets ...hook.Endpoint) *store.Accept {
	w.t.Helper()
	a := w.accept(ten, targets...)
	w.store(a)
	return a
}

// store commits accepts and checks that all were stored.
func (w *world) store(accepts ...*store.Accept) {
	w.t.Helper()
	w.commit(&store.Batch{Accepts: accepts})
	for _, a := range accepts {
		if a.Outcome != store.AcceptStored {
			w.t.Fatalf("accept of event %d: outcome %d, want stored", a.Event.ID, a.Outcome)
		}
	}
}

// commit commits b as the world's node, at the world's time, unless b names
// another.
func (w *world) commit(b *store.Batch) {
	w.t.Helper()
	w.check(w.tryCommit(b), "Commit")
}

func (w *world) tryCommit(b *store.Batch) error {
	if b.Node == 0 {
		b.Node = w.node.ID
	}
	if b.Now.IsZero() {
		b.Now = w.now
	}
	return w.db.Commit(w.ctx(), b)
}

// settle commits one settle and returns its outcome.
func (w *world) settle(s *store.Settle) store.SettleOutcome {
	w.t.Helper()
	w.commit(&store.Batch{Settles: []*store.Settle{s}})
	return s.Outcome
}

// written commits settles and checks that all were written.
func (w *world) written(settles ...*store.Settle) {
	w.t.Helper()
	w.commit(&store.Batch{Settles: settles})
	for _, s := range settles {
		if s.Outcome != store.SettleWritten {
			w.t.Fatalf("settle of delivery %d: outcome %d, want written", s.Delivery.ID, s.Outcome)
		}
	}
}

// delivery reads a delivery back.
func (w *world) delivery(id hook.ID) hook.Delivery {
	w.t.Helper()
	row, err := w.db.DeliveryByID(w.ctx(), 0, id)
	w.check(err, "DeliveryByID")
	return row.Delivery
}

func (w *world) attempts(delivery hook.ID) []hook.Attempt {
	w.t.Helper()
	all, err := w.db.AttemptsOf(w.ctx(), 0, delivery)
	w.check(err, "AttemptsOf")
	return all
}

func (w *world) usage(tenant hook.ID) store.Usage {
	w.t.Helper()
	all, err := w.db.Usage(w.ctx())
	w.check(err, "Usage")
	return all[tenant]
}

func (w *world) wantUsage(tenant hook.ID, pending, bytes int64, when string) {
	w.t.Helper()
	got := w.usage(tenant)
	got.Stored = 0 // has tests of its own
	w.same(got, store.Usage{Pending: pending, Bytes: bytes}, "usage "+when)
}

// ids of deliveries, for short comparisons.
func deliveryIDs(ds []hook.Delivery) []hook.ID {
	out := make([]hook.ID, len(ds))
	for i, d := range ds {
		out[i] = d.ID
	}
	return out
}
