package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
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
