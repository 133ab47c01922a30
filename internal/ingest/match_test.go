package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// manyEndpoints is a store that holds one tenant with the given endpoints.
type manyEndpoints struct {
	store.Tenants
	endpoints []hook.Endpoint
}

func (manyEndpoints) TenantByID(_ context.Context, id hook.ID) (hook.Tenant, error) {
	return hook.Tenant{ID: id, ConfigRev: 1}, nil
}

func (manyEndpoints) EventTypesOf(context.Context, hook.ID) ([]hook.EventType, int64, error) {
	return nil, 1, nil
}

func (manyEndpoints) AddFilterErrors(context.Context, map[hook.ID]store.FilterFailure) error {
	return nil
}

func (s manyEndpoints) EndpointsOf(context.Context, hook.ID) ([]hook.Endpoint, int64, error) {
	return s.endpoints, 1, nil
}

// keepingWriter stores everything at once and keeps it.
type keepingWriter struct{ got []*store.Accept }

func (w *keepingWriter) Accept(_ hook.ID, _ store.Load, build func() []*store.Accept) error {
	w.got = build()
	for _, a := range w.got {
		a.Outcome = store.AcceptStored
	}
	return nil
}

func newMatcher(t testing.TB, endpoints []hook.Endpoint) (*ingest.Ingest, *keepingWriter) {
	t.Helper()
	w := &keepingWriter{}
	return newIngest(t, manyEndpoints{endpoints: endpoints}, w, nil), w
}

func newIngest(t testing.TB, s ingest.Store, w ingest.Writer, tune func(*ingest.Config)) *ingest.Ingest {
	t.Helper()
	ids, err := hook.NewIDSource(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	cfg := ingest.Config{Store: s, Writer: w, IDs: ids, Log: slog.New(slog.DiscardHandler)}
	if tune != nil {
		tune(&cfg)
	}
	in, err := ingest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestIndexAgreesWithPatterns: what the index finds is what testing every
// pattern would find, each endpoint once and in order.
func TestIndexAgreesWithPatterns(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	name := func() string {
		parts := make([]string, 1+rnd.IntN(4))
		for i := range parts {
			parts[i] = string('a' + rune(rnd.IntN(3)))
		}
		return strings.Join(parts, ".")
	}
	for range 50 {
		endpoints := make([]hook.Endpoint, 1+rnd.IntN(20))
		for i := range endpoints {
			endpoints[i].ID = hook.ID(100 + i)
			for range 1 + rnd.IntN(6) {
				pattern := name()
				switch rnd.IntN(12) {
				case 0:
					pattern = "*"
				case 1, 2, 3, 4, 5:
					pattern += ".*"
				}
				endpoints[i].Types = append(endpoints[i].Types, pattern)
			}
		}
		in, w := newMatcher(t, endpoints)
		for range 50 {
			eventType := name()
			var want, got []hook.ID
			for i := range endpoints {
				for _, p := range endpoints[i].Types {
					if hook.MatchType(p, eventType) {
						want = append(want, endpoints[i].ID)
						break
					}
				}
			}
			if _, err := in.Accept(t.Context(), 7, &hook.Submission{Type: eventType}); err != nil {
				t.Fatal(err)
			}
			for _, d := range w.got[0].Deliveries {
				got = append(got, d.EndpointID)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s selects %v, want %v of %+v", eventType, got, want, endpoints)
			}
		}
	}
}

// TestMatchingManyPatterns: a batch against 150,000 patterns costs what it
// finds, not what it could have found: about as much as one against 1,500, which
// is measured beside it. Testing every pattern would cost a hundred times as much.
func TestMatchingManyPatterns(t *testing.T) {
	t.Parallel()
	few, many := newShops(t, 15), newShops(t, 1500)
	least := [2]time.Duration{time.Hour, time.Hour}
	for range 10 { // the quickest is the least disturbed
		for i, publish := range []func() time.Duration{few, many} {
			least[i] = min(least[i], publish())
		}
	}
	if least[1] > 20*least[0] {
		t.Errorf("a batch took %v against 150,000 patterns, %v against 1,500", least[1], least[0])
	}
}

// newShops makes a tenant whose endpoints have a hundred patterns each. What it
// returns publishes a batch, each event for one endpoint, and says how long it took.
func newShops(t *testing.T, shops int) (publish func() time.Duration) {
	t.Helper()
	endpoints := make([]hook.Endpoint, shops)
	for i := range endpoints {
		endpoints[i].ID = hook.ID(100 + i)
		for n := range 100 {
			endpoints[i].Types = append(endpoints[i].Types, fmt.Sprintf("orders.of.region-%d.shop-%d.*", n, i))
		}
	}
	in, _ := newMatcher(t, endpoints)
	subs := make([]hook.Submission, 100)
	for i := range subs {
		subs[i] = hook.Submission{Type: fmt.Sprintf("orders.of.region-%d.shop-%d.paid", i%100, i%shops), Payload: []byte("{}")}
	}
	publish = func() time.Duration {
		began := time.Now()
		for i, res := range in.AcceptBatch(t.Context(), 7, subs) {
			if res.Err != nil || res.Receipt.Deliveries != 1 {
				t.Fatalf("event %d: %+v", i, res)
			}
		}
		return time.Since(began)
	}
	publish() // reads the tenant
	return publish
}

// slowCounted counts how many reads of endpoints there are, and how many at the same time.
type slowCounted struct {
	ingest.Store
	reads, now, most atomic.Int64
}

func (s *slowCounted) EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error) {
	s.reads.Add(1)
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	endpoints, rev, err := s.Store.EndpointsOf(ctx, tenant)
	time.Sleep(100 * time.Millisecond)
	return endpoints, rev, err
}

// TestTenantIsReadOnceAtATime: a tenant that changes all the time is read once
// at a time, and its publishers share what is read.
func TestTenantIsReadOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowCounted{}
		r, stop := newRig(t, func(c *ingest.Config) { s.Store, c.Store = c.Store, s })
		defer stop()
		r.endpoint("", "*")
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				r.in.Forget(r.tenant.ID)
				if _, err := r.accept(hook.Submission{}); err != nil {
					t.Errorf("accept: %v", err)
				}
			})
		}
		wg.Wait()
		if n := s.most.Load(); n != 1 {
			t.Errorf("%d reads of one tenant at the same time, want 1", n)
		}
		if n := s.reads.Load(); n > 7 {
			t.Errorf("%d reads of 100ms within about 500ms", n)
		}
	})
}

// TestStaleViewIsReadOnce: many publishers whose events the store refuses because
// the tenant has changed read it anew once.
func TestStaleViewIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowCounted{}
		r, stop := newRig(t, func(c *ingest.Config) { s.Store, c.Store = c.Store, s })
		defer stop()
		if _, err := r.accept(hook.Submission{}); err != nil {
			t.Fatal(err)
		}
		r.endpoint("", "*") // nobody says so
		s.reads.Store(0)
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				if receipt, err := r.accept(hook.Submission{}); err != nil || receipt.Deliveries != 1 {
					t.Errorf("accept = %+v, %v; want one delivery", receipt, err)
				}
			})
		}
		wg.Wait()
		if n := s.reads.Load(); n != 1 {
			t.Errorf("%d reads for 30 publishers that heard of one change, want 1", n)
		}
	})
}
