package api_test

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// checkpoint saves the lane of an endpoint as its owner would.
func (w *world) checkpoint(tenant, endpoint hook.ID, cp lane.Checkpoint) {
	w.t.Helper()
	shard := hook.ShardOf(endpoint)
	save := &store.LaneSave{Endpoint: endpoint, Tenant: tenant, Shard: shard, Epoch: w.epochs[shard], Checkpoint: cp}
	w.ok(w.db.Commit(w.ctx(), &store.Batch{Node: w.node.ID, Now: w.clock.now(), Lanes: []*store.LaneSave{save}}))
}

func TestLaneSaysWhatPacesIt(t *testing.T) {
	t.Parallel()
	now := worldStart
	broke := &lane.Checkpoint{Ceiling: 100, CeilingLearnt: 100, CeilingAt: now}
	limited := map[string]any{"rate_limit": map[string]any{"per_second": 3, "burst": 1}}
	cases := map[string]struct {
		cp     *lane.Checkpoint
		policy map[string]any
		by     any
		rate   any
	}{
		"nothing is known":      {nil, nil, nil, nil},
		"nothing paces it":      {&lane.Checkpoint{Usual: 5, Proven: 9}, nil, nil, nil},
		"it refused":            {&lane.Checkpoint{Pace: 2, ThrottledAt: now, RetryAfter: time.Second}, nil, "throttle", 2.0},
		"it broke":              {broke, nil, "ceiling", broke.Pacing(now, 0).Rate},
		"it came back":          {&lane.Checkpoint{Recovery: 25, Held: time.Minute}, nil, "recovery", 25.0},
		"its host came back":    {&lane.Checkpoint{Host: 1.5}, nil, "host", 1.5},
		"the policy":            {&lane.Checkpoint{}, limited, "rate_limit", 3.0},
		"the policy, no lane":   {nil, limited, "rate_limit", 3.0},
		"the strictest counts":  {&lane.Checkpoint{Recovery: 25, Ceiling: 100, Host: 40}, nil, "recovery", 25.0},
		"stricter than policy":  {&lane.Checkpoint{Host: 2}, limited, "host", 2.0},
		"policy is stricter":    {&lane.Checkpoint{Recovery: 4}, limited, "rate_limit", 3.0},
		"open, with a recovery": {&lane.Checkpoint{Open: true, OpenedAt: now, Recovery: 4}, nil, "recovery", 4.0},
		"beyond all numbers":    {&lane.Checkpoint{Recovery: math.Inf(1)}, nil, nil, nil},
	}
	w := newWorld(t)
	named := map[string]string{}
	for name, tc := range cases {
		ep := w.endpoint(w.a, map[string]any{"policy": tc.policy})
		named[ep] = name
		if tc.cp != nil {
			w.checkpoint(w.a.tenant, endpointID(t, ep), *tc.cp)
		}
	}
	check := func(from string, m map[string]any) {
		t.Helper()
		name := named[m["endpoint"].(string)]
		tc := cases[name]
		by, known := m["paced_by"]
		perSecond, _ := m["rate_per_second"].(float64)
		want, _ := tc.rate.(float64)
		if !known || by != tc.by || (m["rate_per_second"] == nil) != (tc.rate == nil) || math.Abs(perSecond-want) > 1e-9 {
			t.Errorf("%s, %s: paced by %v at %v, want %v at %v", name, from, by, m["rate_per_second"], tc.by, tc.rate)
		}
	}
	for ep := range named {
		check("get", w.must(200, http.MethodGet, acmeEndpoints+"/"+ep+"/lane", w.a.read, nil).object(t))
	}
	list := w.must(200, http.MethodGet, "/v1/tenants/acme/lanes", w.a.read, nil).object(t)["data"].([]any)
	if len(list) != len(cases) {
		t.Errorf("%d lanes in the list, want %d", len(list), len(cases))
	}
	for _, m := range list {
		check("list", m.(map[string]any))
	}
}

func TestLaneSaysWhatItLearnt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := endpointID(t, w.endpoint(w.a, map[string]any{"uid": "main"}))
	learnt := func() map[string]any {
		t.Helper()
		return w.must(200, http.MethodGet, acmeEndpoints+"/main/lane", w.a.read, nil).object(t)["learnt"].(map[string]any)
	}
	nothing := map[string]any{"usual": nil, "proven": nil, "ceiling": nil, "throttle": nil, "recovery": nil, "host_rate": nil}
	if diff := cmp.Diff(nothing, learnt()); diff != "" {
		t.Errorf("a lane that nothing is known of (-want +got):\n%s", diff)
	}
	w.checkpoint(w.a.tenant, id, lane.Checkpoint{Limit: 1})
	if diff := cmp.Diff(nothing, learnt()); diff != "" {
		t.Errorf("a lane that learnt nothing (-want +got):\n%s", diff)
	}
	now := w.clock.now()
	cp := lane.Checkpoint{
		Usual: 48, Proven: 90, Host: 12, Recovery: 60, Held: 10 * time.Minute,
		Pace: 20, ThrottledAt: now, RetryAfter: 5 * time.Second,
		Ceiling: 110, CeilingLearnt: 100, CeilingAt: now.Add(-time.Hour), CeilingWait: 6 * time.Hour,
	}
	w.checkpoint(w.a.tenant, id, cp)
	want := map[string]any{
		"usual": 48.0, "proven": 90.0, "host_rate": 12.0,
		"recovery": map[string]any{"rate": 60.0, "held": "10m"},
		"throttle": map[string]any{"rate": 20.0, "at": "2026-03-02T10:30:15.123Z", "retry_after": "5s"},
		"ceiling": map[string]any{
			"rate": 110.0, "learnt": 100.0, "at": "2026-03-02T09:30:15.123Z", "sure": true, "test_after": "2026-03-02T15:30:15.123Z",
		},
	}
	if diff := cmp.Diff(want, learnt(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("a lane that learnt everything (-want +got):\n%s", diff)
	}
	cp.CeilingWait, cp.CeilingAt = 0, now
	w.checkpoint(w.a.tenant, id, cp)
	if c := learnt()["ceiling"].(map[string]any); c["sure"] != false || c["test_after"] != c["at"] {
		t.Errorf("a suspicion is shown as %v", c)
	}
}

// TestLaneIsExplained: whoever reads what a lane says finds out what it means.
func TestLaneIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := w.must(200, http.MethodGet, "/openapi.json", w.a.read, nil).object(t)
	schemas := spec["components"].(map[string]any)["schemas"].(map[string]any)
	plain := []string{"endpoint", "tenant", "shard", "limit_mode"} // their names say it
	for _, name := range []string{"Lane", "Learnt", "Ceiling", "Throttle", "Recovery"} {
		schema, _ := schemas[name].(map[string]any)
		if schema == nil {
			t.Fatalf("there is no schema %s", name)
		}
		for property, of := range schema["properties"].(map[string]any) {
			doc, _ := of.(map[string]any)["description"].(string)
			if doc == "" && !slices.Contains(plain, property) {
				t.Errorf("%s.%s has no description", name, property)
			}
		}
	}
}
