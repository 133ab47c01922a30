package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const acmeEndpoints = "/v1/tenants/acme/endpoints"

func TestEndpointIsCreatedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.must(201, http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/a","uid":"main","description":"d",
		"policy":{"retry":{"max_attempts":3},"timeout":{"total":"20s"}},"headers":{"X-One":"1","X-Two":"2"},"metadata":{"a":"1","b":"2"}}`)
	id := made.text(t, "id")
	if loc := made.header.Get("Location"); loc != "/v1/tenants/"+w.a.id+"/endpoints/"+id {
		t.Errorf("Location = %s", loc)
	}
	if !strings.HasPrefix(made.text(t, "secret"), "whsec_") {
		t.Errorf("secret = %s", made.text(t, "secret"))
	}
	if !w.notifier.heard("endpoint " + id) {
		t.Error("nobody was told")
	}
	got := w.must(200, http.MethodGet, made.header.Get("Location"), w.a.read, nil)
	m := got.object(t)
	if got.header.Get("ETag") != `"1"` || m["version"] != 1.0 || m["status"] != "active" || m["secrets_active"] != 1.0 ||
		m["created_at"] != "2026-03-02T10:30:15.123Z" || m["status_reason"] != nil || m["policy_hash"] == "" {
		t.Errorf("endpoint = %s", got.body)
	}
	if diff := cmp.Diff(map[string]any{"X-One": "***", "X-Two": "***"}, m["headers"]); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	// absent keeps, null clears, objects merge
	r := w.must(200, http.MethodPatch, acmeEndpoints+"/main", w.a.write, `{"description":null,"url":"https://example.com/b",
		"policy":{"retry":{"max_attempts":null,"max_elapsed":"1h"}},"headers":{"x-one":null,"X-Two":"***","X-Three":"3"},"metadata":{"a":null,"c":"3"}}`,
		"If-Match", `"1"`)
	m = r.object(t)
	want := map[string]any{
		"description": "", "url": "https://example.com/b", "uid": "main",
		"policy":   map[string]any{"retry": map[string]any{"max_elapsed": "1h"}, "timeout": map[string]any{"total": "20s"}},
		"headers":  map[string]any{"X-Two": "***", "X-Three": "***"},
		"metadata": map[string]any{"b": "2", "c": "3"},
		"version":  2.0,
	}
	for name, v := range want {
		if diff := cmp.Diff(v, m[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if warnings, _ := m["warnings"].([]any); len(warnings) != 1 {
		t.Errorf("warnings = %v: the ladder is longer than an hour", m["warnings"])
	}
	// the same version again is too old
	if r := w.do(http.MethodPatch, acmeEndpoints+"/main", w.a.write, `{"description":"x"}`, "If-Match", `"1"`); r.status != 412 {
		t.Errorf("old version = %d", r.status)
	}
	w.event(w.a, "a")
	if r := w.must(200, http.MethodDelete, acmeEndpoints+"/main", w.a.write, nil); r.object(t)["cancelled"] != 1.0 {
		t.Errorf("delete = %s", r.body)
	}
	w.must(404, http.MethodGet, acmeEndpoints+"/"+id, w.a.read, nil)
	d := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries?status=cancelled", w.a.read, nil)
	if !strings.Contains(string(d.body), `"reason":"endpoint_deleted"`) {
		t.Errorf("delivery = %s", d.body)
	}
	dlv := w.deliveries(w.a)[0]
	if r := w.do(http.MethodPost, "/v1/tenants/acme/deliveries/"+hook.DeliveryPrefix.Format(dlv.ID)+"/retry", w.a.write, nil); r.status != 409 {
		t.Errorf("retry to a deleted endpoint = %d %s", r.status, r.body)
	}
}

func TestEndpointStatesFollowCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.endpoint(w.a, map[string]any{"uid": "main", "paused": true})
	status := func() [2]any {
		m := w.must(200, http.MethodGet, acmeEndpoints+"/main", w.a.read, nil).object(t)
		return [2]any{m["status"], m["status_reason"]}
	}
	if s := status(); s != [2]any{"paused", "manual"} {
		t.Errorf("made paused: %v", s)
	}
	for _, step := range []struct {
		action string
		code   int
		want   [2]any
	}{
		{"resume", 200, [2]any{"active", nil}},
		{"resume", 200, [2]any{"active", nil}},
		{"pause", 200, [2]any{"paused", "manual"}},
		{"disable", 200, [2]any{"disabled", "manual"}},
		{"pause", 409, [2]any{"disabled", "manual"}},
		{"resume", 200, [2]any{"active", nil}},
	} {
		r := w.must(step.code, http.MethodPost, acmeEndpoints+"/main/"+step.action, w.a.write, `{"note":"because"}`)
		if s := status(); s != step.want {
			t.Errorf("after %s: %v, want %v", step.action, s, step.want)
		}
		if step.code == 200 && (r.text(t, "endpoint") != id || r.text(t, "state") != "closed") {
			t.Errorf("lane = %s", r.body)
		}
	}
	if got := strings.Count(w.dump("audit"), "because"); got != 4 {
		t.Errorf("%d notes in the audit log, want 4: asking for what is already so changes nothing", got)
	}
}

func TestCommandsReachTheLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := w.endpoint(w.a, map[string]any{"uid": "main"})
	id, err := hook.EndpointPrefix.Parse(text)
	w.ok(err)
	if r := w.do(http.MethodPost, acmeEndpoints+"/main/probe", w.a.write, nil); r.status != 409 || r.problem(t).Current != "closed" {
		t.Errorf("probe of a closed lane = %d %s", r.status, r.body)
	}
	shard := hook.ShardOf(id)
	opened := w.clock.now()
	w.ok(w.db.Commit(w.ctx(), &store.Batch{Node: w.node.ID, Now: opened, Lanes: []*store.LaneSave{{
		Endpoint: id, Tenant: w.a.tenant, Shard: shard, Epoch: w.epochs[shard],
		Checkpoint: lane.Checkpoint{
			Open: true, OpenReason: lane.OpenedByStreak, OpenedAt: opened, NextProbeAt: opened.Add(time.Second),
			Limit: 4.5, BaseLatency: 80 * time.Millisecond, Pace: 2, ThrottledAt: opened, RetryAfter: time.Second,
		},
	}}}))
	m := w.must(200, http.MethodGet, acmeEndpoints+"/main/lane", w.a.read, nil).object(t)
	for name, want := range map[string]any{
		"state": "open", "open_reason": "consecutive", "limit": 4.5, "base_latency_ms": 80.0, "rate_per_second": 2.0,
		"next_probe_at": "2026-03-02T10:30:16.123Z", "limit_mode": "adaptive", "paused": false, "shard": float64(shard),
	} {
		if m[name] != want {
			t.Errorf("lane.%s = %v, want %v", name, m[name], want)
		}
	}
	w.clock.pass(time.Minute)
	w.must(202, http.MethodPost, acmeEndpoints+"/main/probe", w.a.write, nil)
	w.must(200, http.MethodPost, acmeEndpoints+"/main/reset", w.a.write, nil)
	e, err := w.db.EndpointByID(w.ctx(), w.a.tenant, id)
	w.ok(err)
	if !e.ProbeWantedAt.Equal(w.clock.now()) || !e.ResetWantedAt.Equal(w.clock.now()) {
		t.Errorf("wishes = %v %v", e.ProbeWantedAt, e.ResetWantedAt)
	}
	w.event(w.a, "a")
	d := w.must(200, http.MethodGet, "/v1/tenants/acme/deliveries", w.a.read, nil)
	if !strings.Contains(string(d.body), `"view":"held"`) {
		t.Errorf("delivery on an open lane: %s", d.body)
	}
	w.must(200, http.MethodPost, acmeEndpoints+"/main/pause", w.a.write, nil)
	if r := w.do(http.MethodPost, acmeEndpoints+"/main/probe", w.a.write, nil); r.status != 409 || r.problem(t).Current != "paused" {
		t.Errorf("probe of a paused endpoint = %d %s", r.status, r.body)
	}
}

func TestPoliciesAreShownResolved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main", "policy": map[string]any{"retry": map[string]any{"max_attempts": 6}}})
	w.must(200, http.MethodPatch, "/v1/tenants/acme", w.admin, `{"policy":{"preset":"full-5"}}`)
	m := w.must(200, http.MethodGet, acmeEndpoints+"/main/policy", w.a.read, nil).object(t)
	resolved := m["resolved"].(map[string]any)
	origin := m["origin"].(map[string]any)
	if resolved["preset"] != "full-5" || origin["retry.max_attempts"] != "endpoint" || origin["timeout.total"] != "preset full-5" {
		t.Errorf("resolved %v origin %v", resolved, origin)
	}
	if ladder := m["ladder"].([]any); len(ladder) != 5 || ladder[0].(map[string]any)["attempt"] != 2.0 {
		t.Errorf("ladder = %v", m["ladder"])
	}
	// An endpoint may not be left without a valid policy.
	r := w.do(http.MethodPatch, "/v1/tenants/acme", w.admin, `{"policy":{"preset":null,"retry":{"backoff":{"kind":"schedule","delays":["1s"]}}}}`)
	if r.status != 200 {
		t.Errorf("schedule under the endpoint = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPatch, acmeEndpoints+"/main", w.a.write, `{"policy":{"timeout":{"connect":"15s"}}}`)
	r = w.do(http.MethodPatch, "/v1/tenants/acme", w.admin, `{"policy":{"timeout":{"connect":"5s","total":"10s"}}}`)
	if p := r.problem(t); r.status != 422 || p.Code != "invalid_policy" || !strings.Contains(p.Detail, "ep_") {
		t.Errorf("a policy that breaks an endpoint = %d %s", r.status, r.body)
	}
	presets := w.must(200, http.MethodGet, "/v1/presets", w.a.read, nil).object(t)["data"].([]any)
	if len(presets) < 8 {
		t.Errorf("%d presets", len(presets))
	}
	one := w.must(200, http.MethodGet, "/v1/presets/full-5", w.a.read, nil).object(t)
	if one["name"] != "full-5" || len(one["ladder"].([]any)) != 4 {
		t.Errorf("preset = %v", one)
	}
	pre := w.must(200, http.MethodPost, "/v1/policies/preview", w.a.read, `{"policy":{"preset":"quick","retry":{"jitter":{"kind":"none"}}}}`).object(t)
	if len(pre["ladder"].([]any)) != 5 || len(pre["warnings"].([]any)) != 1 || pre["span"].(map[string]any)["mean"] == "" {
		t.Errorf("preview = %v", pre)
	}
}

func TestPreviewPlaysAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"policy":{"preset":"full-5"},"simulate":{"outage":"1m","rate":5,"capacity":10,"latency":"200ms","seed":3,"destination":"cliff"}}`
	got := w.must(200, http.MethodPost, "/v1/policies/preview", w.a.read, body).object(t)
	s := got["simulation"].(map[string]any)
	if s["seed"] != 3.0 || s["destination"] != "cliff" || s["strategy"] != "law" || s["capacity"] != 10.0 || s["dead"] != 0.0 {
		t.Errorf("simulation = %v", s)
	}
	if a, d := s["arrivals"].([]any), s["delivered"].([]any); len(a) == 0 || len(a) > 300 || len(d) != len(a) {
		t.Errorf("%d arrivals, %d delivered", len(a), len(d))
	}
	for _, name := range []string{"peak_over_capacity", "recrashes", "drain_seconds", "waste", "live_p99_seconds"} {
		if _, ok := s[name].(float64); !ok {
			t.Errorf("%s = %v", name, s[name])
		}
	}
	if got["ladder"] == nil || got["span"] == nil {
		t.Errorf("preview = %v", got)
	}
	if _, ok := w.must(200, http.MethodPost, "/v1/policies/preview", w.a.read, `{"policy":{}}`).object(t)["simulation"]; ok {
		t.Error("a simulation that nobody asked for")
	}
}

func TestPreviewOfAnEndpointsPolicyNamesTheChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(201, http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/","uid":"shown","policy":{"retry":{"max_attempts":6}}}`)
	got := w.must(200, http.MethodPost, acmeEndpoints+"/shown/policy/preview", w.a.read, `{"policy":{"timeout":{"total":"20s"},"concurrency":5}}`).object(t)
	changes := map[string][2]any{}
	for _, c := range got["changes"].([]any) {
		m := c.(map[string]any)
		changes[m["path"].(string)] = [2]any{m["from"], m["to"]}
	}
	want := map[string][2]any{
		"retry.max_attempts": {6.0, 8.0}, "timeout.total": {"30s", "20s"}, "concurrency.mode": {"adaptive", "fixed"},
		"concurrency.limit": {nil, 5.0}, "concurrency.initial": {10.0, nil}, "concurrency.max": {100.0, nil},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if p := w.must(200, http.MethodGet, acmeEndpoints+"/shown/policy", w.a.read, nil).object(t); p["resolved"].(map[string]any)["retry"].(map[string]any)["max_attempts"] != 6.0 {
		t.Error("the preview was saved")
	}
}

func TestTenantIsCreatedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.must(201, http.MethodPost, "/v1/tenants", w.admin, `{"name":"New","uid":"new","limits":{"max_endpoints":1},"metadata":{"a":"1"}}`)
	id := made.text(t, "id")
	if made.header.Get("Location") != "/v1/tenants/"+id {
		t.Errorf("Location = %s", made.header.Get("Location"))
	}
	r := w.must(200, http.MethodPatch, "/v1/tenants/new", w.admin, `{"uid":"newer","limits":{"events_per_second":5,"max_stored_bytes":1000000000000},"metadata":null}`, "If-Match", `"1"`)
	m := r.object(t)
	wantLimits := map[string]any{"events_per_second": 5.0, "max_pending": 0.0, "max_endpoints": 1.0, "max_stored_bytes": 1e12}
	if diff := cmp.Diff(wantLimits, m["limits"]); diff != "" || m["uid"] != "newer" || m["version"] != 2.0 || m["name"] != "New" {
		t.Errorf("tenant = %s", r.body)
	}
	w.must(404, http.MethodGet, "/v1/tenants/new", w.admin, nil) // no stale name
	w.must(412, http.MethodPatch, "/v1/tenants/newer", w.admin, `{"name":"x"}`, "If-Match", `"1"`)
	w.must(201, http.MethodPost, "/v1/tenants/newer/endpoints", w.admin, `{"url":"https://example.com"}`)
	if r := w.do(http.MethodPost, "/v1/tenants/newer/endpoints", w.admin, `{"url":"https://example.com"}`); r.status != 422 {
		t.Errorf("one endpoint too many = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPatch, "/v1/tenants/newer", w.admin, `{"limits":{"max_endpoints":0}}`)
	for range maxEndpoints - 1 {
		w.must(201, http.MethodPost, "/v1/tenants/newer/endpoints", w.admin, `{"url":"https://example.com"}`)
	}
	if r := w.do(http.MethodPost, "/v1/tenants/newer/endpoints", w.admin, `{"url":"https://example.com"}`); r.status != 422 ||
		!strings.Contains(string(r.body), "ingest.tenant_max_endpoints") {
		t.Errorf("one endpoint more than the server allows = %d %s", r.status, r.body)
	}
	key := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"tenant:send","tenant":"newer"}`).text(t, "key")
	w.must(202, http.MethodPost, "/v1/tenants/-/events", key, `{"type":"a","payload":1}`)
	w.must(409, http.MethodDelete, "/v1/tenants/newer", w.admin, nil)
	r = w.must(202, http.MethodDelete, "/v1/tenants/newer?force=true", w.admin, nil)
	if diff := cmp.Diff(map[string]any{"endpoints": float64(maxEndpoints), "cancelled": float64(maxEndpoints), "keys": 1.0}, r.object(t)); diff != "" {
		t.Errorf("force (-want +got):\n%s", diff)
	}
	w.must(404, http.MethodGet, "/v1/tenants/"+id, w.admin, nil)
	w.must(401, http.MethodGet, "/v1/me", key, nil)
	empty := w.must(201, http.MethodPost, "/v1/tenants", w.admin, `{"name":"Empty"}`).text(t, "id")
	if r := w.must(204, http.MethodDelete, "/v1/tenants/"+empty, w.admin, nil); len(r.body) != 0 {
		t.Errorf("204 with a body: %s", r.body)
	}
}

func TestDeliveriesAreRetriedAndCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, nil)
	w.event(w.a, "a")
	w.event(w.a, "a")
	rows := w.deliveries(w.a)
	w.settle(rows[0], hook.Dead, hook.DeadExhausted)
	path := func(i int) string { return "/v1/tenants/-/deliveries/" + hook.DeliveryPrefix.Format(rows[i].ID) }

	m := w.must(200, http.MethodGet, path(0), w.a.read, nil).object(t)
	last, _ := m["last"].(map[string]any)
	if m["status"] != "dead" || m["reason"] != "exhausted" || last["status_code"] != 500.0 || last["latency_ms"] != 1.5 || m["view"] != nil {
		t.Errorf("delivery = %v", m)
	}
	var attempts struct{ Data []map[string]any }
	w.ok(json.Unmarshal(w.must(200, http.MethodGet, path(0)+"/attempts", w.a.read, nil).body, &attempts))
	if len(attempts.Data) != 1 || attempts.Data[0]["reason"] != "server_error" || attempts.Data[0]["response"].(map[string]any)["body"] != "oops" {
		t.Errorf("attempts = %v", attempts.Data)
	}
	if r := w.must(202, http.MethodPost, path(0)+"/retry", w.a.write, `{"note":"n"}`); r.text(t, "status") != "pending" {
		t.Errorf("retry = %s", r.body)
	}
	if !w.notifier.heard("delivery of " + ep) {
		t.Error("nobody was told")
	}
	if r := w.must(200, http.MethodPost, path(1)+"/cancel", w.a.write, nil); r.text(t, "status") != "cancelled" || r.text(t, "reason") != "user" {
		t.Errorf("cancel = %s", r.body)
	}
	if n := w.notifier.times("delivery of " + ep); n != 2 {
		t.Errorf("it was told %d times for a retry and a cancel, want 2", n)
	}
	if r := w.do(http.MethodPost, path(1)+"/cancel", w.a.write, nil); r.status != 409 || r.problem(t).Current != "cancelled" {
		t.Errorf("cancel again = %d %s", r.status, r.body)
	}
	e := w.must(200, http.MethodGet, "/v1/tenants/acme/events/"+hook.EventPrefix.Format(rows[1].EventID), w.a.read, nil).object(t)
	if diff := cmp.Diff(map[string]any{"total": 1.0, "pending": 0.0, "delivered": 0.0, "dead": 0.0, "cancelled": 1.0}, e["deliveries"]); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestEndpointsAndLanesAreFiltered: both lists take the same filters.
func TestEndpointsAndLanesAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := w.endpoint(w.a, map[string]any{"url": "https://all.example.com/"})
	orders := w.endpoint(w.a, map[string]any{"uid": "shop", "types": []string{"order.*"}})
	paid := w.endpoint(w.a, map[string]any{"description": "Paid ones", "types": []string{"x", "order.item.paid"}})
	w.endpoint(w.b, nil)
	w.must(200, http.MethodPost, acmeEndpoints+"/shop/pause", w.a.write, nil)
	for query, want := range map[string][]string{
		"":                               {paid, orders, all},
		"status=paused":                  {orders},
		"status=paused&status=active":    {paid, orders, all},
		"status=disabled":                nil,
		"type=order.item.paid":           {paid, orders, all},
		"type=order.item":                {orders, all},
		"type=Order.item.paid":           {all},
		"type=x":                         {paid, all},
		"state=closed&q=PAID":            {paid},
		"state=open":                     nil,
		"q=all.example":                  {all},
		"q=" + orders:                    {orders},
		"type=order.new&status=active":   {all},
		"type=order.new&q=shop&limit=50": {orders},
	} {
		for path, id := range map[string]string{acmeEndpoints: "id", "/v1/tenants/acme/lanes": "endpoint"} {
			var got []string
			for _, item := range w.must(200, http.MethodGet, path+"?"+query, w.a.read, nil).object(t)["data"].([]any) {
				got = append(got, item.(map[string]any)[id].(string))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s?%s = %v, want %v", path, query, got, want)
			}
		}
	}
	for query, path := range map[string]string{"type=order.*": "query.type", "status=gone": "query.status[0]", "state=ajar": "query.state"} {
		r := w.do(http.MethodGet, acmeEndpoints+"?"+query, w.a.read, nil)
		if p := r.problem(t); r.status/100 != 4 || len(p.Errors) == 0 || p.Errors[0].Path != path {
			t.Errorf("%s = %d %s", query, r.status, r.body)
		}
	}
}
