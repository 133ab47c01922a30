package api_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

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

// TestLanesShowTheirPace: alone and in lists, with what the policy says.
func TestLanesShowTheirPace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "limited", "policy": map[string]any{"rate_limit": map[string]any{"per_second": 3, "burst": 1}}})
	w.checkpoint(w.a.tenant, endpointID(t, w.endpoint(w.a, map[string]any{"uid": "back"})), lane.Checkpoint{Recovery: 25, Held: time.Minute})
	want := map[string]float64{"rate_limit": 3, "recovery": 25}
	lanes := w.must(200, http.MethodGet, "/v1/tenants/acme/lanes", w.a.read, nil).object(t)["data"].([]any)
	for _, uid := range []string{"limited", "back"} {
		lanes = append(lanes, w.must(200, http.MethodGet, acmeEndpoints+"/"+uid+"/lane", w.a.read, nil).object(t))
	}
	if len(lanes) != 4 {
		t.Fatalf("%d lanes", len(lanes))
	}
	for _, l := range lanes {
		m := l.(map[string]any)
		if by, _ := m["paced_by"].(string); m["rate_per_second"] != want[by] {
			t.Errorf("lane of %v is paced by %v at %v", m["endpoint"], m["paced_by"], m["rate_per_second"])
		}
	}
}
