package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// stats asks for figures.
func (w *world) stats(path, key string) (v view.Stats) {
	w.t.Helper()
	_, err := w.db.FoldStats(w.ctx(), 1<<20)
	w.ok(err)
	w.ok(json.Unmarshal(w.must(http.StatusOK, http.MethodGet, path, key, nil).body, &v))
	return v
}

// TestStatsShowWhatWasCounted: of an endpoint, a tenant and all of them, in pieces
// without gaps.
func TestStatsShowWhatWasCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.endpoint(w.a, map[string]any{"types": []string{"one"}})
	w.endpoint(w.a, map[string]any{"types": []string{"two"}})
	w.endpoint(w.b, nil)
	w.event(w.a, "one")
	w.event(w.a, "two")
	w.event(w.b, "three")
	w.clock.pass(2 * time.Minute)
	w.settle(w.deliveries(w.a)[0], hook.Dead, hook.DeadExhausted)
	w.settle(w.deliveries(w.a)[1], hook.Pending, 0)

	path := "/v1/tenants/" + w.a.id
	e := w.stats(path+"/endpoints/"+one+"/stats?window=15m", w.a.read)
	if n := len(e.Series); n != 15 || e.StepSeconds != 60 {
		t.Errorf("%d pieces of %d s, want 15 minutes", n, e.StepSeconds)
	}
	last, before := e.Series[len(e.Series)-1], e.Series[len(e.Series)-3]
	if before.Accepted != 1 || last.Dead != 1 || last.Accepted != 0 || *last.AttemptMS.P50 < 1 || last.DeliveryMS.P50 != nil {
		t.Errorf("pieces %+v and %+v, want the accept in one and the end in the other", before, last)
	}
	want := view.Figures{
		Accepted: 1, Attempts: 1, First: 1, Failed: 1, FailedBy: map[string]uint64{"server_error": 1},
		Dead: 1, DeadBy: map[string]uint64{"exhausted": 1},
	}
	if diff := cmp.Diff(want, e.Totals); diff != "" || *e.SuccessRate != 0 {
		t.Errorf("figures of the endpoint, success rate %v (-want +got):\n%s", *e.SuccessRate, diff)
	}
	if v := w.stats(path+"/stats", w.a.read); v.Totals.Events != 2 || v.Totals.Accepted != 2 || v.Totals.Attempts != 2 || len(v.Series) != 60 {
		t.Errorf("figures of the tenant %+v in %d pieces, want 2 events, 2 deliveries, 2 attempts in 60", v.Totals, len(v.Series))
	}
	if v := w.stats("/v1/stats?window=24h", w.adminRead); v.Totals.Events != 3 || v.SuccessRate == nil || len(v.Series)/2 != 48 {
		t.Errorf("figures of all %+v in %d pieces, want 3 events in 96, or 97 when the first is a part", v.Totals, len(v.Series))
	}
	if v := w.stats("/v1/tenants/"+w.b.id+"/stats?window=30d&step=1h", w.b.read); v.Totals.Events != 1 || v.SuccessRate != nil || len(v.Series) != 720 {
		t.Errorf("figures of the other tenant %+v, success rate %v, %d pieces; want 1 event, none, 720", v.Totals, v.SuccessRate, len(v.Series))
	}
}

// TestStatsOfAWindowAreTheSameInAnyPieces: a window of an hour is an hour, also when
// one has just begun and its pieces are hours.
func TestStatsOfAWindowAreTheSameInAnyPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.event(w.a, "one")
		w.clock.pass(50 * time.Minute) // one of them crosses the hour
		for _, step := range []string{"1m", "5m", "15m", "1h"} {
			v := w.stats("/v1/stats?window=1h&step="+step, w.adminRead)
			var in uint64
			for _, p := range v.Series {
				in += p.Events
			}
			if v.Totals.Events != 1 || in != 1 {
				t.Errorf("event %d: %d events in an hour, %d in its pieces of %s; want 1", i+1, v.Totals.Events, in, step)
			}
			if from := time.Time(v.From); w.clock.now().Sub(from) > time.Hour || w.clock.now().Sub(from) <= 59*time.Minute {
				t.Errorf("event %d: the hour begins %v ago", i+1, w.clock.now().Sub(from))
			}
		}
		if v := w.stats("/v1/stats?window=24h&step=1d", w.adminRead); v.Totals.Events != uint64(i+1) {
			t.Errorf("%d events in a day, want %d", v.Totals.Events, i+1)
		}
	}
}

// TestStatsRefuseOddWindows: the answer names the field and the rule.
func TestStatsRefuseOddWindows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, field := range map[string]string{
		"window=2h": "query.window", "step=7m": "query.step", "window=15m&step=1h": "query.step",
		"window=7d&step=5m": "query.step", "window=30d&step=1m": "query.step",
	} {
		r := w.must(http.StatusBadRequest, http.MethodGet, "/v1/stats?"+query, w.adminRead, nil)
		if paths := r.problem(t).paths(); !slices.Equal(paths, []string{field}) {
			t.Errorf("%s: wrong fields %v, want %s", query, paths, field)
		}
	}
	w.must(http.StatusForbidden, http.MethodGet, "/v1/stats", w.a.read, nil)
	w.must(http.StatusNotFound, http.MethodGet, "/v1/tenants/"+w.b.id+"/stats", w.a.read, nil)
}

// overview asks for figures and how lanes are.
func (w *world) overview(path, key string) (v view.Overview) {
	w.t.Helper()
	_, err := w.db.FoldStats(w.ctx(), 1<<20)
	w.ok(err)
	w.ok(json.Unmarshal(w.must(http.StatusOK, http.MethodGet, path, key, nil).body, &v))
	return v
}

// TestStatsTellHowLanesAreNow: of a tenant and of all tenants.
func TestStatsTellHowLanesAreNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calm, open, stormy := w.endpoint(w.a, nil), w.endpoint(w.a, nil), w.endpoint(w.b, nil)
	w.event(w.a, "one")
	w.clock.pass(2 * time.Minute)
	for _, row := range w.deliveries(w.a) {
		if row.EndpointID == endpointID(t, open) {
			w.settle(row, hook.Dead, hook.DeadExhausted)
		}
	}
	w.open(w.a.tenant, endpointID(t, open))
	w.watched(hook.LaneWatch{
		EndpointID: endpointID(t, stormy), TenantID: w.b.tenant, Storm: hook.Storm{Since: w.clock.now(), First: 1, Retries: 200},
		Queue: hook.RetryQueue{Depth: 40, AtLeast: true},
	})
	w.ok(w.db.TellQueues(w.ctx(), store.QueueCount{Now: w.clock.now(), Since: w.clock.now().Add(-time.Minute), Looked: true, Queues: []store.Queue{
		{EndpointID: endpointID(t, open), TenantID: w.a.tenant, Retrying: 3, Held: 4, HeldSince: w.clock.now().Add(-90 * time.Second)},
		{EndpointID: endpointID(t, calm), TenantID: w.a.tenant, Ready: 2},
	}}))

	all := w.overview("/v1/stats?window=15m", w.adminRead)
	if all.Breakers.Open+all.Breakers.HalfOpen != 1 || all.Breakers.Closed < 2 || all.Storms != 1 || all.DeadLetters.Total != 1 || all.DeadLetters.LastHour != 1 {
		t.Errorf("of all: breakers %+v, %d storms, dead letters %+v", all.Breakers, all.Storms, all.DeadLetters)
	}
	if len(all.WorstEndpoints) != 2 || all.WorstEndpoints[0].Endpoint != open || all.WorstEndpoints[1].Endpoint != stormy {
		t.Fatalf("worst endpoints %+v, want the open one and the storm", all.WorstEndpoints)
	}
	bad, storm := all.WorstEndpoints[0], all.WorstEndpoints[1]
	if bad.Depth == nil || *bad.Depth != 7 || bad.OldestS == nil || *bad.OldestS != 90 || bad.LastError == nil || *bad.LastError != "server_error" ||
		bad.Tenant != w.a.id || bad.URL == "" || bad.Status != "active" {
		t.Errorf("the open one: %+v", bad)
	}
	if !storm.Storm || *storm.Depth != 40 || !storm.AtLeast || storm.State != view.LaneClosed || storm.LastError != nil {
		t.Errorf("the storm: %+v", storm)
	}
	seen := 0
	for _, p := range all.Series {
		if g := p.Gauges; g.Held != nil && *g.Held == 4 && *g.Retrying == 3 && *g.Ready == 2 {
			seen++
		}
	}
	if seen == 0 {
		t.Errorf("no piece says that 4 were held, 3 retried and 2 ready: %+v", all.Series)
	}

	own := w.overview("/v1/tenants/"+w.b.id+"/stats", w.b.read)
	if own.Storms != 1 || own.Breakers.Open+own.Breakers.HalfOpen != 0 || own.DeadLetters != (view.DeadLetters{}) || len(own.WorstEndpoints) != 1 {
		t.Errorf("of the other tenant: breakers %+v, %d storms, dead letters %+v, worst %+v", own.Breakers, own.Storms, own.DeadLetters, own.WorstEndpoints)
	}
}

// TestHealthOfEndpoints: 48 half hours of each, of those of the tenant.
func TestHealthOfEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, idle, foreign := w.endpoint(w.a, map[string]any{"uid": "one"}), w.endpoint(w.a, nil), w.endpoint(w.b, nil)
	w.event(w.a, "one")
	w.event(w.b, "one")
	for _, s := range []side{w.a, w.b} {
		for _, row := range w.deliveries(s) {
			if row.EndpointID != endpointID(t, idle) {
				w.settle(row, hook.Dead, hook.DeadExhausted)
			}
		}
	}
	_, err := w.db.FoldStats(w.ctx(), 1<<20)
	w.ok(err)
	path := "/v1/tenants/" + w.a.id + "/endpoint-health"
	ask := func(path, key string) (v view.Strips) {
		t.Helper()
		w.ok(json.Unmarshal(w.must(http.StatusOK, http.MethodGet, path, key, nil).body, &v))
		return v
	}
	v := ask(path+"?endpoint=one&endpoint="+idle+"&endpoint="+foreign, w.a.read)
	if len(v.Endpoints) != 3 || v.CellSeconds != 1800 || v.Endpoints[0].Endpoint != one {
		t.Fatalf("strips %+v", v)
	}
	for i, want := range []uint64{1, 0, 0} {
		s := v.Endpoints[i]
		if len(s.Delivered) != 48 || len(s.Held) != 48 || len(s.Failed) != 48 || s.Failed[47] != want {
			t.Errorf("strip %d: %+v, want %d failed in the last cell", i, s, want)
		}
	}
	if v := ask("/v1/endpoint-health?endpoint="+foreign, w.adminRead); v.Endpoints[0].Failed[47] != 1 {
		t.Errorf("the operator sees %+v", v.Endpoints[0])
	}
	w.must(http.StatusForbidden, http.MethodGet, "/v1/endpoint-health?endpoint="+foreign, w.a.read, nil)
	for _, query := range []string{"", "?endpoint=" + strings.Repeat("ep_x&endpoint=", 51), "?endpoint=nobody"} {
		w.must(http.StatusBadRequest, http.MethodGet, path+query, w.a.read, nil)
	}
}
