package ingest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestMatching(t *testing.T) { //nolint:tparallel // they share one store
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	all := r.endpoint("", "*").ID
	paid := r.endpoint("", "order.paid").ID
	orders := r.endpoint("", "order.*", "order.paid").ID
	users := r.endpoint("", "user.*").ID
	other := r.addTenant("other", hook.TenantLimits{})
	r.endpointOf(other, "", "*")

	for name, tc := range map[string]struct {
		sub  hook.Submission
		want []hook.ID
	}{
		"exact type and patterns, each endpoint once": {hook.Submission{Type: "order.paid"}, []hook.ID{all, paid, orders}},
		"pattern only":              {hook.Submission{Type: "order.refunded"}, []hook.ID{all, orders}},
		"nothing but the star":      {hook.Submission{Type: "orders.paid"}, []hook.ID{all}},
		"named endpoints":           {hook.Submission{Type: "order.paid", Endpoints: []hook.ID{users}}, []hook.ID{users}},
		"named twice":               {hook.Submission{Type: "x", Endpoints: []hook.ID{paid, users, paid}}, []hook.ID{paid, users}},
		"named, whatever its types": {hook.Submission{Type: "x", Endpoints: []hook.ID{orders}}, []hook.ID{orders}},
	} {
		t.Run(name, func(t *testing.T) {
			receipt, err := r.accept(tc.sub)
			if err != nil {
				t.Fatal(err)
			}
			var got []hook.ID
			for id := range r.stored(receipt.EventID) {
				got = append(got, id)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if receipt.Deliveries != len(tc.want) || receipt.Replayed {
				t.Errorf("receipt = %+v, want %d deliveries", receipt, len(tc.want))
			}
		})
	}
}

func TestRefusals(t *testing.T) { //nolint:tparallel // they share one store
	t.Parallel()
	r, stop := newRig(t, func(c *ingest.Config) { c.MaxPayload, c.MaxFanout = 100, 2 })
	defer stop()
	e := r.endpoint("", "a.*")
	other := r.addTenant("other", hook.TenantLimits{})
	foreign := r.endpointOf(other, "", "*")
	for range 3 {
		r.endpoint("", "wide")
	}

	for name, tc := range map[string]struct {
		sub  hook.Submission
		want error
		path string
	}{
		"bad type":             {sub: hook.Submission{Type: "no spaces"}, path: "type"},
		"far ahead":            {sub: hook.Submission{DeliverAt: time.Now().Add(31 * 24 * time.Hour)}, path: "deliver_at"},
		"negative delay":       {sub: hook.Submission{Delay: -time.Second}, path: "delay"},
		"long delay":           {sub: hook.Submission{Delay: 721 * time.Hour}, path: "delay"},
		"large":                {sub: hook.Submission{Payload: make([]byte, 101)}, want: hook.ErrTooLarge},
		"too many":             {sub: hook.Submission{Type: "wide"}, want: hook.ErrFanoutTooBig},
		"unknown target":       {sub: hook.Submission{Endpoints: []hook.ID{e.ID, 12345}}, want: hook.ErrUnknownTarget},
		"another one's target": {sub: hook.Submission{Endpoints: []hook.ID{foreign.ID}}, want: hook.ErrUnknownTarget},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.accept(tc.sub)
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("Accept = %v, want %v", err, tc.want)
			}
			if tc.path != "" {
				var bad *hook.Invalid
				if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Path != tc.path {
					t.Errorf("Accept = %v, want one wrong field %s", err, tc.path)
				}
			}
		})
	}
	if _, err := r.in.Accept(t.Context(), 999, &hook.Submission{Type: "x"}); !errors.Is(err, hook.ErrNotFound) {
		t.Errorf("unknown tenant: %v, want not found", err)
	}
	if _, err := r.accept(hook.Submission{Type: "a.b", Payload: make([]byte, 100)}); err != nil {
		t.Errorf("a payload of exactly the limit: %v", err)
	}
	if n := len(r.committed); n != 1 {
		t.Errorf("%d events were stored, want the good one only", n)
	}
}

func TestFirstDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, nil)
		defer stop()
		plain := r.endpoint("", "*").ID
		later := r.endpoint(`{"retry":{"initial_delay":"10s"}}`, "*").ID
		time.Sleep(time.Second)
		now := r.now()
		for name, tc := range map[string]struct {
			sub          hook.Submission
			plain, later time.Duration
		}{
			"at once, or after the policy's delay": {hook.Submission{}, 0, 10 * time.Second},
			"delay replaces the policy's":          {hook.Submission{Delay: 2 * time.Second}, 2 * time.Second, 2 * time.Second},
			"deliver_at replaces both":             {hook.Submission{DeliverAt: now.Add(time.Hour)}, time.Hour, time.Hour},
			"deliver_at in the past is now":        {hook.Submission{DeliverAt: now.Add(-time.Hour)}, 0, 0},
		} {
			receipt, err := r.accept(tc.sub)
			r.must(err)
			got := r.stored(receipt.EventID)
			for id, want := range map[hook.ID]time.Duration{plain: tc.plain, later: tc.later} {
				d := got[id]
				if !d.DueAt.Equal(now.Add(want)) || !d.Progress.RunDueAt.Equal(d.DueAt) || d.Progress.Run != 1 || d.State != hook.Pending {
					t.Errorf("%s: due %v after the accept (run due %v, run %d, %v), want %v", name, d.DueAt.Sub(now), d.Progress.RunDueAt.Sub(now), d.Progress.Run, d.State, want)
				}
			}
		}
	})
}

func TestStoredAsGiven(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	r.endpoint("", "*")
	payload := []byte("\x00 not json at all \xff")
	receipt, err := r.accept(hook.Submission{Type: "x.y", Payload: payload, ContentType: "application/octet-stream"})
	r.must(err)
	e, err := r.db.Event(t.Context(), r.tenant.ID, receipt.EventID)
	r.must(err)
	if !slices.Equal(e.Payload, payload) || e.ContentType != "application/octet-stream" || e.Type != "x.y" {
		t.Errorf("stored event %+v, want the bytes as given", e)
	}
	if len(r.committed) != 1 || len(r.committed[0].Deliveries) != 1 || r.committed[0].Deliveries[0].Size != len(payload) {
		t.Errorf("handed over: %+v, want one accept with one delivery", r.committed)
	}
}

// TestNamedEndpointsAreNoted: no replay may bring the event to others.
func TestNamedEndpointsAreNoted(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	target := r.endpoint("", "*")
	for noted, s := range map[bool]hook.Submission{true: {Type: "a", Endpoints: []hook.ID{target.ID}}, false: {Type: "a"}} {
		receipt, err := r.accept(s)
		r.must(err)
		e, err := r.db.Event(t.Context(), r.tenant.ID, receipt.EventID)
		r.must(err)
		if plain, _ := hook.CutHops(e.ContentType); plain != "application/json" || strings.Contains(e.ContentType, hook.NamedMark) != noted {
			t.Errorf("stored as %q, noted: %v", e.ContentType, noted)
		}
	}
}

// TestNoMatchIsStored: an event that nobody wants is kept and answered.
func TestNoMatchIsStored(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	receipt, err := r.accept(hook.Submission{Type: "lonely"})
	r.must(err)
	if _, err := r.db.Event(t.Context(), r.tenant.ID, receipt.EventID); err != nil || receipt.Deliveries != 0 {
		t.Errorf("receipt %+v, event: %v; want it stored without deliveries", receipt, err)
	}
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, func(c *ingest.Config) { c.IdempotencyTTL = time.Hour })
		defer stop()
		r.endpoint("", "*")
		sub := hook.Submission{Key: "k", ContentHash: [32]byte{1}}
		first, err := r.accept(sub)
		r.must(err)
		r.endpoint("", "*") // the answer does not depend on the endpoints of today
		again, err := r.accept(sub)
		if want := (hook.Receipt{EventID: first.EventID, Deliveries: 1, Replayed: true}); err != nil || again != want {
			t.Errorf("repetition = %+v, %v, want %+v", again, err, want)
		}
		if _, err := r.accept(hook.Submission{Key: "k", ContentHash: [32]byte{2}}); !errors.Is(err, hook.ErrKeyReused) {
			t.Errorf("other content under the key: %v, want reused", err)
		}
		time.Sleep(time.Hour + time.Second)
		late, err := r.accept(sub)
		if err != nil || late.Replayed || late.EventID == first.EventID {
			t.Errorf("after the key expired: %+v, %v; want a new event", late, err)
		}
	})
}

// TestBatchWithMixedResults: each submission has its own answer, in order.
func TestBatchWithMixedResults(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, func(c *ingest.Config) { c.MaxPayload = 10 })
	defer stop()
	r.endpoint("", "ok")
	subs := []hook.Submission{
		{Type: "ok", Payload: []byte("1"), Key: "a", ContentHash: [32]byte{1}},
		{Type: "bad type", Payload: []byte("2")},
		{Type: "ok", Payload: make([]byte, 11)},
		{Type: "ok", Payload: []byte("1"), Key: "a", ContentHash: [32]byte{1}},
		{Type: "ok", Payload: []byte("5"), Key: "a", ContentHash: [32]byte{5}},
		{Type: "other", Payload: []byte("6")},
	}
	got := r.in.AcceptBatch(t.Context(), r.tenant.ID, subs)
	if len(got) != len(subs) {
		t.Fatalf("%d results for %d submissions", len(got), len(subs))
	}
	if got[0].Err != nil || got[0].Receipt.Deliveries != 1 || got[0].Receipt.Replayed {
		t.Errorf("first = %+v, want stored", got[0])
	}
	if got[1].Err == nil || !errors.Is(got[2].Err, hook.ErrTooLarge) {
		t.Errorf("malformed = %v, large = %v; want both refused", got[1].Err, got[2].Err)
	}
	if got[3].Err != nil || !got[3].Receipt.Replayed || got[3].Receipt.EventID != got[0].Receipt.EventID {
		t.Errorf("repetition inside the batch = %+v, want the first one's answer", got[3])
	}
	if !errors.Is(got[4].Err, hook.ErrKeyReused) {
		t.Errorf("other content under the key = %v, want reused", got[4].Err)
	}
	if got[5].Err != nil || got[5].Receipt.Deliveries != 0 {
		t.Errorf("no match = %+v, want stored without deliveries", got[5])
	}
}

// TestMatchedAgainWhenEndpointsChange: a cache that is out of date never
// misses an endpoint, nor sends to one that is gone.
func TestMatchedAgainWhenEndpointsChange(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	gone := r.endpoint("", "*")
	if _, err := r.accept(hook.Submission{}); err != nil { // fills the cache
		t.Fatal(err)
	}
	_, err := r.db.DeleteEndpoint(t.Context(), r.tenant.ID, gone.ID, r.now(), r.audit())
	r.must(err)
	fresh := r.endpoint("", "*")
	receipt, err := r.accept(hook.Submission{}) // nobody said Forget
	r.must(err)
	got := r.stored(receipt.EventID)
	if _, ok := got[fresh.ID]; !ok || len(got) != 1 || receipt.Deliveries != 1 {
		t.Errorf("deliveries %v, want one to the new endpoint", got)
	}
	if _, err := r.accept(hook.Submission{Endpoints: []hook.ID{gone.ID}}); !errors.Is(err, hook.ErrUnknownTarget) {
		t.Errorf("naming a deleted endpoint: %v, want unknown", err)
	}
}

// restless changes the tenant before every commit.
type restless struct {
	ingest.Writer
	r     *rig
	times int
}

func (w *restless) Accept(tenant hook.ID, l store.Load, build func() []*store.Accept) error {
	if w.times > 0 {
		w.times--
		w.r.endpoint("", "*")
	}
	return w.Writer.Accept(tenant, l, build)
}

// TestRestlessTenant: a few changes on the way do no harm; one that never ends
// is answered, not retried for ever.
func TestRestlessTenant(t *testing.T) {
	t.Parallel()
	w := &restless{}
	r, stop := newRig(t, func(c *ingest.Config) {
		w.Writer, c.Writer = c.Writer, w
		c.TenantRate = 1 // an event pays once, however often it is matched
	})
	defer stop()
	w.r, w.times = r, 3
	receipt, err := r.accept(hook.Submission{})
	if err != nil || receipt.Deliveries != 3 {
		t.Errorf("Accept during three changes = %+v, %v; want 3 deliveries", receipt, err)
	}
	other := r.addTenant("other", hook.TenantLimits{})
	r.tenant, w.times = other, 1000
	if _, err := r.accept(hook.Submission{}); !errors.Is(err, hook.ErrStoreUnavailable) {
		t.Errorf("Accept during endless changes = %v, want unavailable", err)
	}
}
