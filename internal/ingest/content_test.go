package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// filtered adds an endpoint for all types with a filter.
func (r *rig) filtered(filter string) hook.Endpoint {
	r.t.Helper()
	now := r.now()
	e := hook.Endpoint{
		ID: r.ids.Next(now), TenantID: r.tenant.ID, URL: "https://example.test/", Types: []string{"*"}, Filter: filter, Policy: []byte("{}"),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Rev: 1, CreatedAt: now, UpdatedAt: now,
	}
	r.must(r.db.CreateEndpoint(context.Background(), e, nil, 0, r.audit()))
	return e
}

// TestFiltersDecideWhoGetsAnEvent: false is no match, and what cannot be evaluated is
// one, counted on the endpoint.
func TestFiltersDecideWhoGetsAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, nil)
		names := map[hook.ID]string{}
		for name, filter := range map[string]string{
			"large": `payload.total > 100`, "small": `payload.total <= 100`, "paid": `type == "order.paid" && tenant == "default"`,
			"broken": `payload.total.deeper > 1`, "not one any more": `no filter at all`, "none": "",
		} {
			names[r.filtered(filter).ID] = name
		}
		got := func(s hook.Submission) string {
			t.Helper()
			receipt, err := r.accept(s)
			r.must(err)
			found := map[string]bool{}
			for id := range r.stored(receipt.EventID) {
				found[names[id]] = true
			}
			if len(found) != receipt.Deliveries {
				t.Errorf("%d deliveries told, %d stored", receipt.Deliveries, len(found))
			}
			return strings.Join(sorted(found), " ")
		}
		if s := got(hook.Submission{Payload: []byte(`{"total":120}`)}); s != "broken large none not one any more paid" {
			t.Errorf("a large order goes to: %s", s)
		}
		if s := got(hook.Submission{Type: "order.made", Payload: []byte(`{"total":99.5}`)}); s != "broken none not one any more small" {
			t.Errorf("a small order goes to: %s", s)
		}
		// Not JSON, or not what it says it is: who cannot tell gets it.
		if s := got(hook.Submission{Type: "a", Payload: []byte("x"), ContentType: hook.WithHops("text/plain", 1)}); s != "broken large none not one any more small" {
			t.Errorf("a text goes to: %s", s)
		}
		if s := got(hook.Submission{Type: "a", Payload: []byte(`{`)}); s != "broken large none not one any more paid small" {
			t.Errorf("broken JSON goes to: %s", s)
		}
		// Who is named gets it whatever the filter says.
		for id, name := range names {
			if s := got(hook.Submission{Payload: []byte(`{"total":1}`), Endpoints: []hook.ID{id}}); s != name {
				t.Errorf("an event for %s goes to: %s", name, s)
			}
		}
		time.Sleep(2 * time.Second)
		counts := map[string]int64{}
		for id, name := range names {
			e, err := r.db.EndpointByID(context.Background(), r.tenant.ID, id)
			r.must(err)
			if counts[name] = e.FilterErrors.Count; (e.FilterErrors.Last == "") != (counts[name] == 0) {
				t.Errorf("%s: %+v", name, e.FilterErrors)
			}
		}
		if diff := cmp.Diff(map[string]int64{"large": 2, "small": 2, "paid": 1, "broken": 4, "not one any more": 4, "none": 0}, counts); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
		r.filtered(`payload.x > 1`) // what is counted last is stored when Run ends
		_, err := r.accept(hook.Submission{})
		r.must(err)
		stop()
	})
}

func sorted(m map[string]bool) []string {
	var out []string
	for _, name := range []string{"broken", "large", "none", "not one any more", "paid", "small"} {
		if m[name] {
			out = append(out, name)
		}
	}
	return out
}

// countingStore fails to store counts a few times.
type countingStore struct {
	manyEndpoints
	fail int
	got  map[hook.ID]store.FilterFailure
}

func (s *countingStore) AddFilterErrors(_ context.Context, all map[hook.ID]store.FilterFailure) error {
	if s.fail > 0 {
		s.fail--
		return errors.New("away")
	}
	s.got = all
	return nil
}

func (s *countingStore) Usage(context.Context) (map[hook.ID]store.Usage, error) { return nil, nil }

// TestErrorsOfFiltersSurviveAnAbsentStore: they are told when it is back.
func TestErrorsOfFiltersSurviveAnAbsentStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &countingStore{manyEndpoints: manyEndpoints{endpoints: []hook.Endpoint{{ID: 1, Types: []string{"*"}, Filter: "payload.a > 1"}}}, fail: 3}
		in := newIngest(t, s, &keepingWriter{}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		for range 5 {
			if _, err := in.Accept(ctx, 7, &hook.Submission{Type: "a", Payload: []byte(`{"a":"x"}`)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		cancel()
		<-ended
		if f := s.got[1]; f.Count == 0 || f.Filter != "payload.a > 1" || f.Last == "" {
			t.Errorf("told: %+v", f)
		}
	})
}

// TestSchemasRefuse: what does not fit is refused with the places, also when the schema
// came or went behind the back of this node.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	r, stop := newRig(t, nil)
	defer stop()
	r.endpoint("", "*")
	limits := store.TypeLimits{Types: 10, SchemaBytes: 1 << 20}
	now := r.now()
	typ := hook.EventType{
		ID: r.ids.Next(now), TenantID: r.tenant.ID, Type: "order.paid", Version: 1, CreatedAt: now, UpdatedAt: now,
		Schema: []byte(`{"type":"object","required":["total"],"properties":{"total":{"type":"number"}}}`),
	}
	paths := func(err error) string {
		var bad *hook.Invalid
		if err == nil {
			return ""
		}
		if !errors.As(err, &bad) || bad.Code != "schema_mismatch" {
			return err.Error()
		}
		var out []string
		for _, f := range bad.Fields {
			out = append(out, f.Path)
		}
		return strings.Join(out, " ")
	}
	try := func(s hook.Submission) string {
		_, err := r.accept(s)
		return paths(err)
	}
	wrong := hook.Submission{Payload: []byte(`{"total":"1"}`)}
	if got := try(wrong); got != "" {
		t.Errorf("without a schema: %s", got)
	}
	r.must(r.db.CreateEventType(context.Background(), typ, limits, r.audit())) // nobody tells r.in
	for name, tc := range map[string]struct {
		sub  hook.Submission
		want string
	}{
		"wrong":              {wrong, "payload.total"},
		"right":              {hook.Submission{Payload: []byte(`{"total":1}`)}, ""},
		"missing":            {hook.Submission{Payload: []byte(`{}`)}, "payload"},
		"not JSON":           {hook.Submission{Payload: []byte(`{"total":1}`), ContentType: "text/plain"}, "payload"},
		"JSON by its suffix": {hook.Submission{Payload: []byte(`{"total":1}`), ContentType: "application/x+json"}, ""},
		"broken":             {hook.Submission{Payload: []byte(`{`)}, "payload"},
		"another type":       {hook.Submission{Type: "order.made", Payload: []byte(`{}`)}, ""},
	} {
		if got := try(tc.sub); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	results := r.in.AcceptBatch(context.Background(), r.tenant.ID, []hook.Submission{
		{Type: "order.paid", Payload: []byte(`{"total":1}`)}, {Type: "order.paid", Payload: []byte(`{}`)}, {Type: "a", Payload: []byte(`{}`)},
	})
	if got := fmt.Sprint(paths(results[0].Err), "|", paths(results[1].Err), "|", paths(results[2].Err)); got != "|payload|" {
		t.Errorf("batch: %s", got)
	}
	r.must(r.db.DeleteEventType(context.Background(), r.tenant.ID, "order.paid", r.audit()))
	if got := try(wrong); got != "" {
		t.Errorf("after the schema has gone: %s", got)
	}
	typ.Schema = []byte(`{"type":"no type"}`) // as if it was taken by another version
	r.must(r.db.CreateEventType(context.Background(), typ, limits, r.audit()))
	if got := try(wrong); got != "" {
		t.Errorf("a schema that is not one: %s", got)
	}
}

// TestContentCostsNothingBeyondTheRate: an event that comes too early is refused before
// anybody looks into it.
func TestContentCostsNothingBeyondTheRate(t *testing.T) {
	t.Parallel()
	s := manyEndpoints{endpoints: []hook.Endpoint{{ID: 1, Types: []string{"*"}, Filter: "payload.a > 1"}}}
	in := newIngest(t, s, &keepingWriter{}, func(c *ingest.Config) { c.TenantRate = 1e-9 })
	if _, err := in.Accept(t.Context(), 7, &hook.Submission{Type: "a", Payload: []byte(`{"a":2}`)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := in.Accept(t.Context(), 7, &hook.Submission{Type: "a", Payload: []byte(`{"a":2}`)}); !errors.Is(err, hook.ErrRateLimited) {
			t.Errorf("an early event: %v", err)
		}
	}
}
