package dispatch_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// countedReads counts the reads of deliveries and of their payloads.
type countedReads struct {
	balky
	reads atomic.Int64
}

func (c *countedReads) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	c.reads.Add(1)
	return c.balky.ReadAhead(ctx, endpoint, now, limit)
}

func (c *countedReads) NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	c.reads.Add(1)
	return c.DB.NewestDue(ctx, endpoint, now, limit)
}

func (c *countedReads) Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error) {
	c.reads.Add(1)
	return c.DB.Event(ctx, tenant, id)
}

func counts(c *countedReads) func(*rig) {
	return func(r *rig) {
		r.wrap = func(db store.DB) store.DB {
			c.DB = db
			return c
		}
	}
}

// secondEach takes a second for each request.
func secondEach(arrival) egress.Result {
	time.Sleep(time.Second)
	return egress.Result{Status: 200}
}

// TestChangedSettingsKeepTheWindow: a lane goes on with what it has in memory when
// its endpoint is changed, and what matters of the change counts for the next request.
func TestChangedSettingsKeepTheWindow(t *testing.T) {
	t.Parallel()
	const serial = `{"concurrency":1}`
	moved := func(e *hook.Endpoint) { e.URL = "https://example.test/moved" }
	for name, tc := range map[string]struct {
		change   func(*hook.Endpoint)
		url      string // of the next request; empty: as before
		inFlight int    // at most, from then on
	}{
		"description": {change: func(e *hook.Endpoint) { e.Description = "another text" }, inFlight: 1},
		"name":        {change: func(e *hook.Endpoint) { e.UID = "another-name" }, inFlight: 1},
		"metadata":    {change: func(e *hook.Endpoint) { e.Metadata = map[string]string{"team": "b"} }, inFlight: 1},
		"event types": {change: func(e *hook.Endpoint) { e.Types = []string{"order.*"} }, inFlight: 1},
		"url":         {change: moved, url: "https://example.test/moved", inFlight: 1},
		"policy":      {change: func(e *hook.Endpoint) { e.Policy = []byte(`{"concurrency":4}`) }, inFlight: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var db countedReads
				r := newRig(t, secondEach, counts(&db))
				defer r.close()
				e := r.endpoint(serial)
				ids := r.publish(e, 60)
				time.Sleep(10*time.Second + 500*time.Millisecond)
				before, reads := len(r.sink.seen()), db.reads.Load()
				changed := r.wish(e, tc.change)
				time.Sleep(5 * time.Second)
				if n := db.reads.Load() - reads; n != 0 {
					t.Errorf("%d reads because of the change, want none", n)
				}
				most := 0
				for _, a := range r.sink.seen()[before:] {
					if a.url != changed.URL {
						t.Errorf("a request after the change went to %s, want %s", a.url, changed.URL)
					}
					most = max(most, a.inFlight)
				}
				if most != tc.inFlight {
					t.Errorf("%d in flight at most after the change, want %d", most, tc.inFlight)
				}
				if n, want := len(r.sink.seen())-before, 5*tc.inFlight-1; n < want {
					t.Errorf("%d requests in 5 s, want at least %d", n, want)
				}
				time.Sleep(time.Minute)
				if got := r.count(ids)[hook.Delivered]; got != len(ids) || len(r.sink.seen()) != len(ids) {
					t.Errorf("%d of %d delivered with %d requests", got, len(ids), len(r.sink.seen()))
				}
			})
		})
	}
}

// TestNewSecretKeepsTheWindow: the next request is signed with it, and nothing is
// read again.
func TestNewSecretKeepsTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var db countedReads
		r := newRig(t, secondEach, counts(&db))
		defer r.close()
		e := r.endpoint(`{"concurrency":1}`)
		r.publish(e, 30)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		reads := db.reads.Load()
		secret, err := sign.NewSecret(rand.Reader)
		r.must(err)
		keyID, sealed, err := r.vault.Seal(e.TenantID, e.ID, vault.PurposeSecret, []byte(secret.Reveal()))
		r.must(err)
		added := hook.Secret{
			ID: r.ids.Next(r.now()), TenantID: e.TenantID, EndpointID: e.ID, Scheme: secret.Scheme(), KeyID: keyID, Sealed: sealed, CreatedAt: r.now(),
		}
		signatures := func() int { return len(strings.Fields(fieldOf(r.sink.latest(), sign.HeaderSignature))) }
		was := signatures()
		r.must(r.db.RotateSecret(r.ctx(), added, r.now().Add(time.Hour), r.now(), r.audit()))
		r.d.EndpointChanged(e.ID)
		time.Sleep(2 * time.Second)
		if now := signatures(); was != 1 || now != 2 {
			t.Errorf("%d signatures before and %d after, want one and two", was, now)
		}
		if n := db.reads.Load() - reads; n != 0 {
			t.Errorf("%d reads because of the new secret, want none", n)
		}
	})
}

// TestChangeComesBeforeTheNextRequest: from the moment a node has heard that an
// endpoint was changed it starts nothing with the settings as they were, however
// long the new ones take to be read.
func TestChangeComesBeforeTheNextRequest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rig, hook.Endpoint){
		"paused": func(r *rig, e hook.Endpoint) { r.setState(e, hook.Paused) },
		"moved": func(r *rig, e hook.Endpoint) {
			r.wish(e, func(e *hook.Endpoint) { e.URL = "https://example.test/moved" })
		},
		"deleted": func(r *rig, e hook.Endpoint) {
			_, err := r.db.DeleteEndpoint(r.ctx(), e.TenantID, e.ID, r.now(), r.audit())
			r.must(err)
			r.d.EndpointChanged(e.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var slow balky
				r := newRig(t, secondEach, balks(&slow))
				defer r.close()
				e := r.endpoint(`{"concurrency":2}`)
				r.publish(e, 60)
				time.Sleep(5*time.Second + 500*time.Millisecond)
				slow.loadTakes.Store(int64(5 * time.Second))
				change(r, e)
				changed := time.Now()
				synctest.Wait()
				before := len(r.sink.seen())
				time.Sleep(20 * time.Second)
				for _, a := range r.sink.seen()[before:] {
					if a.url == e.URL {
						t.Errorf("a request to the endpoint as it was, %v after the change", a.at.Sub(changed))
					}
				}
			})
		})
	}
}

// TestCancelReadsTheWindowAgain: what may have been cancelled is not sent from
// memory.
func TestCancelReadsTheWindowAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var db countedReads
		r := newRig(t, secondEach, counts(&db))
		defer r.close()
		e := r.endpoint(`{"concurrency":1}`)
		ids := r.publish(e, 20)
		time.Sleep(500 * time.Millisecond)
		reads := db.reads.Load()
		_, err := r.db.CancelDelivery(r.ctx(), 0, ids[19], r.now(), r.audit())
		r.must(err)
		r.d.DeliveryChanged(e.ID)
		time.Sleep(time.Minute)
		if db.reads.Load() == reads {
			t.Error("nothing was read after the cancel")
		}
		if got := r.count(ids)[hook.Delivered]; got != 19 || len(r.sink.seen()) != 19 {
			t.Errorf("%d delivered with %d requests, want the 19 that were not cancelled", got, len(r.sink.seen()))
		}
	})
}

// TestReloadKeepsUnsettledResults: an endpoint and its deliveries change while a
// failed probe is on its way to the store. The row that can be read then is older than what is
// known.
func TestReloadKeepsUnsettledResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dest destination
		var slow balky
		r := newRig(t, dest.answer, balks(&slow))
		defer r.close()
		e := r.endpoint(brittle)
		id := r.publish(e, 1)[0]
		r.opened(id)
		slow.commitTakes.Store(int64(5 * time.Second))
		r.arrived(id, 3)
		dest.up.Store(true)
		r.wish(e, func(e *hook.Endpoint) { e.ResetWantedAt = r.now() })
		r.d.DeliveryChanged(e.ID)
		time.Sleep(time.Minute)
		good := 0
		for _, a := range r.sink.of(id)[3:] {
			good++
			if a.attempt != 4 {
				t.Errorf("attempt %d after three that failed, want 4", a.attempt)
			}
		}
		if d := r.delivery(id); good != 1 || d.State != hook.Delivered || d.Attempts != 4 {
			t.Errorf("%d good attempts at the destination, delivery %v with %d attempts; want 1, delivered, 4", good, d.State, d.Attempts)
		}
	})
}

// TestChangeDuringTheFirstLoad: an endpoint is paused while its lane is being
// brought into memory, with the endpoint as it was before.
func TestChangeDuringTheFirstLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var slow balky
		r := newRig(t, always(200), balks(&slow))
		defer r.close()
		slow.loadTakes.Store(int64(time.Second))
		e := r.endpoint("")
		id := r.publish(e, 1)[0]
		synctest.Wait()
		r.setState(e, hook.Paused)
		time.Sleep(time.Second + time.Millisecond)
		sent := len(r.sink.seen()) // what the old settings allowed
		time.Sleep(time.Minute)
		id2 := r.publish(e, 1)[0]
		time.Sleep(time.Minute)
		if n := len(r.sink.seen()); n != sent {
			t.Errorf("%d requests to a paused endpoint (deliveries %d, %d)", n-sent, id, id2)
		}
	})
}

// TestAChangedNamedPolicyCountsForTheNextRequest: a policy that was saved by name is
// changed in one place, and the lanes that use it hear of it as of their tenant's.
func TestAChangedNamedPolicyCountsForTheNextRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, secondEach)
		defer r.close()
		gold := hook.NamedPolicy{
			ID: r.ids.Next(r.now()), Name: "gold", Policy: []byte(`{"concurrency":1}`), Version: 1, CreatedAt: r.now(), UpdatedAt: r.now(),
		}
		r.must(r.db.CreatePolicy(r.ctx(), gold, 10, r.audit()))
		e := r.endpointWith(`{"preset":"gold"}`, func(e *hook.Endpoint) { e.PolicyName = "gold" })
		ids := r.publish(e, 60)
		time.Sleep(10*time.Second + 500*time.Millisecond)
		for _, a := range r.sink.seen() {
			if a.inFlight > 1 {
				t.Fatalf("%d in flight under a policy that allows one", a.inFlight)
			}
		}
		before := len(r.sink.seen())
		gold.Policy = []byte(`{"concurrency":4}`)
		_, tenants, err := r.db.UpdatePolicy(r.ctx(), gold, r.audit())
		r.must(err)
		for _, tenant := range tenants {
			r.d.TenantChanged(tenant)
		}
		time.Sleep(5 * time.Second)
		most := 0
		for _, a := range r.sink.seen()[before:] {
			most = max(most, a.inFlight)
		}
		if most != 4 {
			t.Errorf("%d in flight at most after the change, want 4", most)
		}
		time.Sleep(time.Minute)
		if got := r.count(ids)[hook.Delivered]; got != len(ids) {
			t.Errorf("%d of %d delivered", got, len(ids))
		}
	})
}
