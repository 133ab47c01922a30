package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// operational stores an event and returns its shown id.
func (w *world) operational(tenant, endpoint hook.ID, t hook.OperationalType) string {
	w.t.Helper()
	e := hook.OperationalEvent{
		ID: w.id(), TenantID: tenant, EndpointID: endpoint, Type: t, At: w.clock.now(), Detail: json.RawMessage(`{"retries":120}`),
	}
	w.ok(w.db.WriteOperational(w.ctx(), []hook.OperationalEvent{e}))
	return hook.OperationalPrefix.Format(e.ID)
}

// watched stores what a lane's owner has seen.
func (w *world) watched(rows ...hook.LaneWatch) {
	w.t.Helper()
	for i := range rows {
		rows[i].UpdatedAt = w.clock.now()
	}
	w.ok(w.db.SaveWatch(w.ctx(), store.WatchSave{Lanes: rows}))
}

// open opens the breaker of an endpoint.
func (w *world) open(tenant, endpoint hook.ID) {
	w.t.Helper()
	shard := hook.ShardOf(endpoint)
	save := &store.LaneSave{
		Endpoint: endpoint, Tenant: tenant, Shard: shard, Epoch: w.epochs[shard],
		Checkpoint: lane.Checkpoint{Open: true, OpenReason: lane.OpenedByRatio, OpenedAt: w.clock.now(), Limit: 1},
	}
	w.ok(w.db.Commit(w.ctx(), &store.Batch{Node: w.node.ID, Now: w.clock.now(), Lanes: []*store.LaneSave{save}}))
}

func endpointID(t *testing.T, text string) hook.ID {
	t.Helper()
	id, err := hook.EndpointPrefix.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestLaneShowsStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "one"})
	id := endpointID(t, ep)
	now := w.clock.now()
	const path = "/v1/tenants/acme/endpoints/one/lane"
	show := func() (storm, queue map[string]any) {
		t.Helper()
		v := w.must(200, http.MethodGet, path, w.a.read, nil).object(t)
		return v["storm"].(map[string]any), v["retry_queue"].(map[string]any)
	}
	calm := map[string]any{"active": false, "since": nil, "retries": 0.0, "first": nil, "ratio": 0.0, "no_first": false, "as_of": nil}
	storm, queue := show()
	if diff := cmp.Diff(calm, storm); diff != "" {
		t.Errorf("storm of a lane without any (-want +got):\n%s", diff)
	}
	if queue["depth"] != 0.0 || queue["growing"] != false {
		t.Errorf("queue of an idle lane: %v", queue)
	}
	// Nobody watches it, and it has a queue: held by a pause, or retrying.
	w.event(w.a, "order.paid")
	w.event(w.a, "order.paid")
	w.settle(w.deliveries(w.a)[0], hook.Pending, 0)
	if _, queue = show(); queue["depth"] != 1.0 {
		t.Errorf("queue with one retry: %v", queue)
	}
	w.must(200, http.MethodPost, "/v1/tenants/acme/endpoints/one/pause", w.a.write, nil)
	if _, queue = show(); queue["depth"] != 2.0 || queue["at_least"] != false {
		t.Errorf("queue of a paused endpoint: %v", queue)
	}
	w.watched(hook.LaneWatch{
		EndpointID: id, TenantID: w.a.tenant, Storm: hook.Storm{Since: now.Add(-time.Minute), Retries: 150},
		Queue: hook.RetryQueue{Depth: 300, Since: now.Add(-time.Hour), DrainPerMinute: 100},
	})
	storm, queue = show()
	want := map[string]any{
		"active": true, "since": "2026-03-02T10:29:15.123Z", "retries": 150.0, "first": 0.0, "ratio": 150.0, "no_first": true,
		"as_of": "2026-03-02T10:30:15.123Z",
	}
	if diff := cmp.Diff(want, storm); diff != "" {
		t.Errorf("storm (-want +got):\n%s", diff)
	}
	want = map[string]any{
		"depth": 300.0, "at_least": false, "growing": true, "since": "2026-03-02T09:30:15.123Z", "drain_per_minute": 100.0,
		"empty_at": "2026-03-02T10:33:15.123Z",
	}
	if diff := cmp.Diff(want, queue); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
}

func TestLanesAreListedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var eps []string
	for _, s := range []side{w.a, w.a, w.a, w.a, w.b} {
		eps = append(eps, w.endpoint(s, nil))
	}
	now := w.clock.now()
	w.watched(
		hook.LaneWatch{EndpointID: endpointID(t, eps[0]), TenantID: w.a.tenant, Storm: hook.Storm{Since: now, Retries: 200, First: 4}},
		hook.LaneWatch{EndpointID: endpointID(t, eps[1]), TenantID: w.a.tenant, Queue: hook.RetryQueue{Since: now, Depth: 500}},
		hook.LaneWatch{EndpointID: endpointID(t, eps[4]), TenantID: w.b.tenant, Storm: hook.Storm{Since: now, Retries: 999}},
	)
	w.open(w.a.tenant, endpointID(t, eps[2]))
	w.must(200, http.MethodPost, "/v1/tenants/acme/endpoints/"+eps[3]+"/pause", w.a.write, nil)
	list := func(path, key string) (ids []string, lanes []map[string]any) {
		t.Helper()
		for _, item := range w.must(200, http.MethodGet, path, key, nil).object(t)["data"].([]any) {
			lanes = append(lanes, item.(map[string]any))
			ids = append(ids, item.(map[string]any)["endpoint"].(string))
		}
		return ids, lanes
	}
	for _, tc := range []struct {
		path, key string
		want      []string
	}{
		{"/v1/lanes?storm=true", w.adminRead, []string{eps[4], eps[0]}},
		{"/v1/lanes?storm=true&order=asc", w.admin, []string{eps[0], eps[4]}},
		{"/v1/tenants/acme/lanes?storm=true", w.a.read, []string{eps[0]}},
		{"/v1/tenants/-/lanes?storm=true", w.a.read, []string{eps[0]}},
		{"/v1/tenants/acme/lanes?storm=false", w.a.read, []string{eps[3], eps[2], eps[1]}},
		{"/v1/tenants/acme/lanes?growing=true", w.a.read, []string{eps[1]}},
		{"/v1/tenants/acme/lanes?state=open", w.a.read, []string{eps[2]}},
		{"/v1/tenants/acme/lanes?state=closed&paused=true", w.a.read, []string{eps[3]}},
		{"/v1/tenants/acme/lanes", w.a.read, []string{eps[3], eps[2], eps[1], eps[0]}},
	} {
		if got, _ := list(tc.path, tc.key); !cmp.Equal(got, tc.want) {
			t.Errorf("%s = %v, want %v", tc.path, got, tc.want)
		}
	}
	_, lanes := list("/v1/tenants/acme/lanes?storm=true", w.a.read)
	storm := lanes[0]["storm"].(map[string]any)
	if storm["ratio"] != 50.0 || storm["no_first"] != false || lanes[0]["retry_queue"].(map[string]any)["depth"] != 0.0 {
		t.Errorf("lane = %v", lanes[0])
	}
	_, lanes = list("/v1/tenants/acme/lanes?state=open", w.a.read)
	if lanes[0]["state"] != "open" || lanes[0]["retry_queue"].(map[string]any)["depth"] != nil {
		t.Errorf("open lane = %v", lanes[0])
	}
	for _, bad := range []string{"storm=yes", "state=half_open"} {
		w.must(400, http.MethodGet, "/v1/lanes?"+bad, w.admin, nil)
	}
	first := w.must(200, http.MethodGet, "/v1/lanes?storm=true&limit=1", w.admin, nil)
	next := first.text(t, "next_cursor")
	if got, _ := list("/v1/lanes?storm=true&limit=1&cursor="+next, w.admin); !cmp.Equal(got, []string{eps[0]}) {
		t.Errorf("second page = %v", got)
	}
}

func TestOperationalEventsAreListedByWhatTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "one"})
	id := endpointID(t, ep)
	started := w.operational(w.a.tenant, id, hook.StormStarted)
	foreign := w.operational(w.b.tenant, w.id(), hook.StormStarted)
	w.clock.pass(time.Hour)
	ended := w.operational(w.a.tenant, id, hook.StormEnded)
	many := w.operational(0, 0, hook.BreakersMany)
	disabled := w.operational(w.a.tenant, w.id(), hook.EndpointDisabled)
	const mine = "/v1/tenants/acme/operational-events"
	for _, tc := range []struct {
		path, key string
		want      []string
	}{
		{mine, w.a.read, []string{disabled, ended, started}},
		{mine + "?type=storm.*", w.a.read, []string{ended, started}},
		{mine + "?type=storm.ended&type=endpoint.*", w.a.read, []string{disabled, ended}},
		{mine + "?endpoint=one", w.a.read, []string{ended, started}},
		{mine + "?endpoint=" + ep + "&type=storm.started", w.a.read, []string{started}},
		{mine + "?since=30m", w.a.read, []string{disabled, ended}},
		{mine + "?until=30m", w.a.read, []string{started}},
		{mine + "?type=system.*", w.a.read, nil},
		{"/v1/operational-events", w.adminRead, []string{disabled, many, ended, foreign, started}},
		{"/v1/operational-events?type=system.*", w.admin, []string{many}},
	} {
		if got, _ := w.page(tc.path, tc.key); !cmp.Equal(got, tc.want) {
			t.Errorf("%s = %v, want %v", tc.path, got, tc.want)
		}
	}
	for _, bad := range []string{"type=storms.*", "type=storm", "since=x"} {
		w.must(400, http.MethodGet, mine+"?"+bad, w.a.read, nil)
	}
	body := string(w.must(200, http.MethodGet, "/v1/operational-events?type=storm.ended", w.admin, nil).body)
	want := `"type":"storm.ended","tenant":"` + w.a.id + `","endpoint":"` + ep + `","at":"2026-03-02T11:30:15.123Z","detail":{"retries":120}`
	if !strings.Contains(body, want) {
		t.Errorf("event: %s, want %s in it", body, want)
	}
	body = string(w.must(200, http.MethodGet, "/v1/operational-events?type=system.*", w.admin, nil).body)
	if !strings.Contains(body, `"tenant":null,"endpoint":null`) {
		t.Errorf("event of the server: %s", body)
	}
}

const metricsToken = "metrics-token-of-the-test"

type fakeMetrics struct{}

func (fakeMetrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte("breakwater_storms_active 1\n"))
}

// TestMetricsAreForOperatorsUnlessLocal lets everybody ask for the metrics, on a public listener and
// on a loopback one.
func TestMetricsAreForOperatorsUnlessLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guess := metricsToken[:len(metricsToken)-1] + "x"
	for name, tc := range map[string]struct {
		bearer string
		public int
	}{
		"nobody":            {"", 404},
		"admin":             {w.admin, 200},
		"admin:read":        {w.adminRead, 200},
		"the token":         {metricsToken, 200},
		"a wrong token":     {guess, 404},
		"half of the token": {metricsToken[:10], 404},
		"tenant:write":      {w.a.write, 404},
		"tenant:read":       {w.a.read, 404},
		"tenant:send":       {w.a.send, 404},
	} {
		w.loopback = false
		r := w.do(http.MethodGet, "/metrics", tc.bearer, nil)
		if r.status != tc.public {
			t.Errorf("%s on a public listener = %d %s, want %d", name, r.status, r.body, tc.public)
		}
		if r.status == 404 {
			if p := r.problem(t); p.Code != "not_found" {
				t.Errorf("%s: %s", name, r.body)
			}
		}
		w.loopback = true
		if r := w.do(http.MethodGet, "/metrics", tc.bearer, nil); r.status != 200 || !strings.Contains(string(r.body), "storms_active 1") {
			t.Errorf("%s on a loopback listener = %d %s", name, r.status, r.body)
		}
	}
}

// TestMetricsElsewhereNeedTheTokenIfThereIsOne has no metrics on the main listener: they were moved.
func TestMetricsElsewhereNeedTheTokenIfThereIsOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		token, bearer string
		want          int
	}{
		"open":        {"", "", 200},
		"no token":    {metricsToken, "", 401},
		"wrong token": {metricsToken, metricsToken + "x", 401},
		"right token": {metricsToken, metricsToken, 200},
	} {
		h := rest.RequireToken(tc.token, fakeMetrics{})
		if got := send(t, h, http.MethodGet, "/metrics", tc.bearer, nil).status; got != tc.want {
			t.Errorf("%s = %d, want %d", name, got, tc.want)
		}
	}
}
