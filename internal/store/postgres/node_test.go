package postgres_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// leaseTTL outlasts every test, on a busy machine too.
const leaseTTL = 30 * time.Minute

// node is one member of a fleet with a store of its own on a shared database.
type node struct {
	t   testing.TB
	db  *postgres.DB
	ids *hook.IDSource
	me  hook.Node

	epochs map[int]int64
}

// join opens the database as a node of the given name.
func join(t testing.TB, dsn, name string) *node {
	t.Helper()
	db := open(t, dsn)
	me, err := db.Join(t.Context(), hook.Node{Name: name, Addr: name + ":8080", Version: "v1", StartedAt: time.Now()},
		hook.IDFloor(time.Now())+hook.ID(len(name)), leaseTTL)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	ids, err := hook.NewIDSource(me.Slot, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &node{t: t, db: db, ids: ids, me: me, epochs: map[int]int64{}}
}

func (n *node) id() hook.ID { return n.ids.Next(time.Now()) }

func (n *node) check(err error, doing string) {
	n.t.Helper()
	if err != nil {
		n.t.Fatalf("%s: %v", doing, err)
	}
}

// own takes all shards.
func (n *node) own(mine bool) {
	n.t.Helper()
	all := make([]int, hook.Shards)
	for i := range all {
		all[i] = i
	}
	n.take(mine, all...)
}

// take takes the given shards and returns how many it got.
func (n *node) take(mine bool, shards ...int) int {
	n.t.Helper()
	held, err := n.db.TakeShards(n.t.Context(), n.me.ID, shards, mine, leaseTTL)
	n.check(err, "TakeShards")
	for _, h := range held {
		n.epochs[h.Shard] = h.Epoch
	}
	return len(held)
}

func (n *node) audit() hook.Audit {
	return hook.Audit{ID: n.id(), Actor: "test", Action: "test", Subject: "test", At: time.Now()}
}

func (n *node) tenant() hook.Tenant {
	n.t.Helper()
	id := n.id()
	ten := hook.Tenant{
		ID: id, UID: fmt.Sprint(id), Name: "tenant", Policy: json.RawMessage(`{}`),
		Rev: 1, ConfigRev: 1, CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	n.check(n.db.CreateTenant(n.t.Context(), ten, n.audit()), "CreateTenant")
	return ten
}

func (n *node) endpoint(ten hook.Tenant) hook.Endpoint {
	n.t.Helper()
	e := hook.Endpoint{
		ID: n.id(), TenantID: ten.ID, URL: "https://example.test/", Types: []string{"*"}, Policy: json.RawMessage(`{}`),
		Rev: 1, CreatedAt: time.Now(), UpdatedAt: time.Now(),
	}
	n.check(n.db.CreateEndpoint(n.t.Context(), e, nil, 0, n.audit()), "CreateEndpoint")
	return e
}

func (n *node) configRev(tenant hook.ID) int64 {
	n.t.Helper()
	rev, err := n.db.ConfigRev(n.t.Context(), tenant)
	n.check(err, "ConfigRev")
	return rev
}

// accept prepares an event to the given endpoints, due now.
func (n *node) accept(ten hook.ID, rev int64, targets ...hook.ID) *store.Accept {
	now := time.Now()
	a := &store.Accept{
		Event: hook.Event{
			ID: n.id(), TenantID: ten, Type: "order.paid", CreatedAt: now, ContentType: "application/json", Payload: []byte(`{"n":1}`),
		},
		ConfigRev: rev,
	}
	for _, e := range targets {
		a.Deliveries = append(a.Deliveries, hook.Delivery{
			ID: n.id(), TenantID: ten, EventID: a.Event.ID, EndpointID: e, DueAt: now,
			Size: len(a.Event.Payload), Progress: hook.Progress{Run: 1, RunDueAt: now},
		})
	}
	return a
}

// stored commits one event to the endpoint and returns its delivery.
func (n *node) stored(ten hook.Tenant, e hook.Endpoint) hook.Delivery {
	n.t.Helper()
	d := n.accepted(ten, e)
	return n.delivery(d.ID) // whoever looks has the row written
}

// accepted is stored, but the delivery may have no row.
func (n *node) accepted(ten hook.Tenant, e hook.Endpoint) hook.Delivery {
	n.t.Helper()
	a := n.accept(ten.ID, n.configRev(ten.ID), e.ID)
	n.commit(&store.Batch{Accepts: []*store.Accept{a}})
	if a.Outcome != store.AcceptStored {
		n.t.Fatalf("outcome of the accept = %d, want stored", a.Outcome)
	}
	return a.Deliveries[0]
}

// success prepares the settle of a 200.
func (n *node) success(d hook.Delivery) *store.Settle {
	now, shard := time.Now(), hook.ShardOf(d.EndpointID)
	s := &store.Settle{Shard: shard, Epoch: n.epochs[shard], Prev: d.Attempts, Delivery: d}
	s.Attempt = &hook.Attempt{
		ID: n.id(), TenantID: d.TenantID, DeliveryID: d.ID, EndpointID: d.EndpointID, EventID: d.EventID, NodeID: n.me.ID,
		Number: d.Attempts + 1, Run: d.Progress.Run, Class: hook.Success, Reason: hook.OK, Status: 200,
		Latency: 12 * time.Millisecond, StartedAt: now, PolicyHash: hook.PolicyHash{1},
		Detail: hook.AttemptDetail{URL: "https://example.test/", RemoteAddr: "192.0.2.1:443", LaneState: "closed", LaneLimit: 10},
	}
	s.Delivery.State, s.Delivery.SettledAt, s.Delivery.FirstDeliveredAt = hook.Delivered, now, now
	s.Delivery.Attempts++
	s.Delivery.Last = hook.LastResult{
		AttemptID: s.Attempt.ID, Class: hook.Success, Reason: hook.OK, Status: 200, Latency: s.Attempt.Latency, At: now,
	}
	return s
}

func (n *node) tryCommit(b *store.Batch) error {
	b.Node, b.Now = n.me.ID, time.Now()
	return n.db.Commit(n.t.Context(), b)
}

func (n *node) commit(b *store.Batch) {
	n.t.Helper()
	n.check(n.tryCommit(b), "Commit")
}

func (n *node) delivery(id hook.ID) hook.Delivery {
	n.t.Helper()
	row, err := n.db.DeliveryByID(n.t.Context(), 0, id)
	n.check(err, "DeliveryByID")
	return row.Delivery
}

// exec runs one statement on a connection of its own.
func exec(t testing.TB, dsn, sql string, args ...any) {
	t.Helper()
	conn := connect(t, dsn)
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value reads one value on a connection of its own.
func value[T any](t testing.TB, dsn, sql string, args ...any) (v T) {
	t.Helper()
	conn := connect(t, dsn)
	defer func() { _ = conn.Close(t.Context()) }()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// eventually waits until ok or fails the test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// waitingForLocks counts the sessions of this database that wait for a lock.
func waitingForLocks(t testing.TB, dsn string) int {
	t.Helper()
	return value[int](t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
}
