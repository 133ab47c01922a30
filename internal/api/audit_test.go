package api_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func (w *world) audits(path, key string) rest.List[view.Audit] {
	w.t.Helper()
	var got rest.List[view.Audit]
	w.must(http.StatusOK, http.MethodGet, path, key, nil).into(w.t, &got)
	return got
}

func TestChangesCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.pass(time.Hour)
	e := w.endpoint(w.a, map[string]any{"description": "before"})
	w.must(http.StatusOK, http.MethodPatch, "/v1/tenants/acme/endpoints/"+e, w.a.write, `{"description":"after"}`, "X-Request-Id", "mine-1")
	w.must(http.StatusOK, http.MethodPost, "/v1/tenants/acme/endpoints/"+e+"/pause", w.admin, `{}`)
	other := w.endpoint(w.b, nil)
	const path = "/v1/tenants/acme/audit"
	got := w.audits(path+"?since=1s", w.a.read).Data
	if len(got) != 3 || got[0].Action != "endpoint.pause" || got[2].Action != "endpoint.create" {
		t.Fatalf("records %+v", got)
	}
	if r := got[1]; r.Subject != e || *r.Tenant != w.a.id || *r.RequestID != "mine-1" || r.Actor.IP != nil ||
		string(r.Diff) != `{"description":{"from":"before","to":"after"}}` || !hasPrefix(r.ID, "aud_") || !hasPrefix(r.Actor.Key, "key_") {
		t.Errorf("record %+v with %s", r, r.Diff)
	}
	all := w.audits("/v1/audit?since=1s", w.adminRead).Data
	if len(all) != 4 || all[0].Subject != other || all[0].Actor.IP == nil {
		t.Errorf("of all: %+v", all)
	}
	if same := w.audits("/v1/tenants/-/audit?since=1s", w.adminRead).Data; len(same) != 4 {
		t.Errorf("of every tenant: %d", len(same))
	}
	for query, want := range map[string]int{
		"action=endpoint.*": 3, "action=endpoint.pause": 1, "subject=" + e: 3, "subject=" + other: 0,
		"actor=" + got[0].Actor.Key: 1, "action=key.*": 0, "action=endpoint.pause&action=endpoint.create": 2,
	} {
		if list := w.audits(path+"?since=1s&"+query, w.a.read).Data; len(list) != want {
			t.Errorf("%s: %d records, want %d", query, len(list), want)
		}
	}
	first := w.audits(path+"?limit=1&since=1s", w.a.read)
	second := w.audits(path+"?limit=2&since=1s&cursor="+*first.NextCursor, w.a.read)
	if len(second.Data) != 2 || second.Data[0].ID != got[1].ID || second.NextCursor != nil {
		t.Errorf("second page %+v", second)
	}
}

func hasPrefix(s, p string) bool { return len(s) > len(p) && s[:len(p)] == p }

func TestNodesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got view.Nodes
	w.must(http.StatusOK, http.MethodGet, "/v1/nodes", w.adminRead, nil).into(t, &got)
	if len(got.Data) != 1 || got.Shards.Total != hook.Shards || len(got.Shards.Unowned) != 0 {
		t.Fatalf("nodes %+v", got)
	}
	n := got.Data[0]
	if n.Name != "n1" || n.Status != "live" || len(n.Shards) != hook.Shards || n.Version != "1" || n.LeaseAgeMs != nil || n.ClockOffsetMs != nil {
		t.Errorf("node %+v", n)
	}
}

// TestNodesOfAFleet shows what a shared store knows of several nodes.
func TestNodesOfAFleet(t *testing.T) {
	t.Parallel()
	fleet := &fakeFleet{
		nodes: []store.NodeRow{
			{Node: hook.Node{ID: 1, Name: "a"}, Left: 12 * time.Second},
			{Node: hook.Node{ID: 2, Name: "b", Draining: true}, Left: 14 * time.Second},
			{Node: hook.Node{ID: 3, Name: "c"}, Left: -time.Minute},
		},
		shards:  []store.ShardLease{{Shard: 0, Owner: 1}, {Shard: 1, Owner: 2}, {Shard: 2, Owner: 3, Free: true}},
		watches: []hook.NodeWatch{{NodeID: 1, Lanes: 7, UpdatedAt: worldStart, Health: hook.NodeHealth{ClockOffset: -1500 * time.Microsecond}}},
	}
	w := newWorldWith(t, func(cfg *api.Config) {
		fleet.Store = cfg.Store
		cfg.Store, cfg.LeaseTTL = fleet, 15*time.Second
	})
	var got view.Nodes
	w.must(http.StatusOK, http.MethodGet, "/v1/nodes", w.admin, nil).into(t, &got)
	var states []string
	for _, n := range got.Data {
		states = append(states, n.Status)
	}
	if !slices.Equal(states, []string{"live", "draining", "gone"}) || !slices.Equal(got.Shards.Unowned, []int{2}) {
		t.Errorf("states %v, unowned %v", states, got.Shards.Unowned)
	}
	if n := got.Data[0]; *n.LeaseAgeMs != 3000 || *n.LeaseLeftMs != 12000 || *n.ClockOffsetMs != -1.5 || *n.Lanes != 7 || !slices.Equal(n.Shards, []int{0}) {
		t.Errorf("node %+v", n)
	}
	if n := got.Data[1]; n.ClockOffsetMs != nil || n.Lanes != nil {
		t.Errorf("a node that told nothing: %+v", n)
	}
}

// fakeFleet is a store that several nodes share.
type fakeFleet struct {
	api.Store
	nodes   []store.NodeRow
	shards  []store.ShardLease
	watches []hook.NodeWatch
}

func (f *fakeFleet) Nodes(context.Context) ([]store.NodeRow, error) { return f.nodes, nil }

func (f *fakeFleet) Shards(context.Context, time.Duration) ([]store.ShardLease, error) {
	return f.shards, nil
}

func (f *fakeFleet) NodeWatches(context.Context, time.Time) ([]hook.NodeWatch, error) {
	return f.watches, nil
}

// TestAdminSeesEveryTenant reads every list, count and object with - for the tenant.
func TestAdminSeesEveryTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := map[string]string{"tenant": "-"}
	for _, s := range []side{w.a, w.b} {
		ids["endpoint"] = w.endpoint(s, nil)
		ids["channel"] = w.channel("/v1/tenants/"+s.id+"/alert-channels", s.write, hookChannel)
		w.must(201, http.MethodPost, "/v1/tenants/"+s.id+"/event-types", s.write, orderType)
		w.die(s, 1, hook.DeadExhausted)
		ids["replay"] = w.replay(s, `{"all":true}`)
		ids["event"] = w.event(s, "order.paid")
		w.operational(s.tenant, 0, hook.BreakerOpened)
		rows := w.deliveries(s)
		ids["delivery"] = hook.DeliveryPrefix.Format(rows[0].ID)
		ids["attempt"] = hook.AttemptPrefix.Format(rows[0].Last.AttemptID)
	}
	alone := []string{"/v1/tenants/{tenant}", "/v1/tenants/{tenant}/stats", "/v1/tenants/{tenant}/event-types/{type}"} // need one tenant, or have a route of their own
	for _, rt := range w.api.Routes() {
		if rt.Method != http.MethodGet || !strings.HasPrefix(rt.Path, "/v1/tenants/{tenant}") || slices.Contains(alone, rt.Path) {
			continue
		}
		key := w.adminRead
		if !slices.Contains(rt.Scopes, hook.ScopeAdminRead) {
			key = w.admin
		}
		path := fill(rt.Path, ids)
		if strings.HasSuffix(path, "/endpoint-health") {
			path += "?endpoint=" + ids["endpoint"]
		}
		r := w.must(http.StatusOK, http.MethodGet, path, key, nil)
		if strings.Contains(rt.Path, "/curl") || strings.Contains(rt.Path, "/payload") || strings.HasSuffix(rt.Path, "/stream") {
			continue
		}
		o := r.object(t)
		if n, ok := o["count"].(float64); ok && n < 2 {
			t.Errorf("%s: %s", rt.Path, r.body)
		}
		// Below one object there is that of its tenant alone.
		if data, ok := o["data"].([]any); ok && !strings.Contains(strings.TrimPrefix(rt.Path, "/v1/tenants/{tenant}"), "{") && len(data) < 2 {
			if !strings.HasSuffix(rt.Path, "/alerts") { // nothing judges here
				t.Errorf("%s: %s", rt.Path, r.body)
			}
		}
	}
}
