package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// balky is a store that a test can slow down, call by call. Waits are in
// virtual time.
type balky struct {
	store.DB
	commitTakes atomic.Int64 // before the commit
	loadTakes   atomic.Int64 // after the read: what it returns is old by then
	readTakes   atomic.Int64 // before every read ahead
	reading     atomic.Int64 // reads ahead that are running
	refuse      func(*store.Batch) bool
	fatal       atomic.Bool
}

func wait(d *atomic.Int64) { time.Sleep(time.Duration(d.Load())) }

func (b *balky) Commit(ctx context.Context, batch *store.Batch) error {
	wait(&b.commitTakes)
	if b.fatal.Load() {
		return store.ErrFatal
	}
	if b.refuse != nil && b.refuse(batch) {
		return store.ErrRefused
	}
	return b.DB.Commit(ctx, batch)
}

func (b *balky) Destinations(ctx context.Context, ids []hook.ID) ([]store.Destination, error) {
	out, err := b.DB.Destinations(ctx, ids)
	wait(&b.loadTakes)
	return out, err
}

func (b *balky) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	b.reading.Add(1)
	defer b.reading.Add(-1)
	wait(&b.readTakes)
	return b.DB.ReadAhead(ctx, endpoint, now, limit)
}

// balks puts a balky store between engine and database.
func balks(b *balky) func(*rig) {
	return func(r *rig) {
		r.wrap = func(db store.DB) store.DB {
			b.DB = db
			return b
		}
	}
}

// destination is up or down.
type destination struct{ up atomic.Bool }

func (d *destination) answer(arrival) egress.Result {
	if d.up.Load() {
		return egress.Result{Status: 200}
	}
	return egress.Result{Reason: hook.ConnectRefused}
}

// brittle opens a lane at the second failure and tries every second before.
const brittle = `{"breaker":{"consecutive":2},"retry":{"jitter":{"kind":"none"},
	"backoff":{"kind":"schedule","delays":["1s","1s","1s","1s","1s","1s","1s","1s","1s"]}}}`

// opened waits until the lane of a brittle endpoint is open, which takes two
// attempts, and its last result is stored.
func (r *rig) opened(id hook.ID) {
	r.t.Helper()
	time.Sleep(1500 * time.Millisecond)
	if n := len(r.sink.of(id)); n != 2 {
		r.t.Fatalf("%d attempts after 1.5s, want 2", n)
	}
}

// arrived waits for the n-th attempt.
func (r *rig) arrived(id hook.ID, n int) {
	for len(r.sink.of(id)) < n {
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
}

// wish changes the endpoint as a person would, through fn.
func (r *rig) wish(e hook.Endpoint, fn func(*hook.Endpoint)) hook.Endpoint {
	r.t.Helper()
	e, err := r.db.EndpointByID(r.ctx(), e.TenantID, e.ID)
	r.must(err)
	fn(&e)
	e.UpdatedAt = r.now()
	e, err = r.db.UpdateEndpoint(r.ctx(), e, r.audit())
	r.must(err)
	r.d.EndpointChanged(e.ID)
	return e
}
