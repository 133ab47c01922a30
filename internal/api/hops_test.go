package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestLoopsEnd sends an event round: each delivery is posted as an event.
func TestLoopsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.endpoint(w.a, nil)
	path := "/v1/tenants/" + w.a.id + "/events"
	for name, tc := range map[string]struct{ path, body string }{
		"event": {path, `{"type":"a","payload":1}`},
		"batch": {path + "/batch", `{"events":[{"type":"a","payload":1}]}`},
	} {
		for hops := 1; hops < hook.MaxHops; hops++ {
			w.must(202, http.MethodPost, tc.path, w.a.send, tc.body, "Breakwater-Hops", fmt.Sprint(hops))
			last := w.ingest.got[len(w.ingest.got)-1]
			if plain, n := hook.CutHops(last.ContentType); n != hops || plain != "application/json" {
				t.Errorf("%s with %d hops is handed over as %q", name, hops, last.ContentType)
			}
		}
		r := w.do(http.MethodPost, tc.path, w.a.send, tc.body, "Breakwater-Hops", "3")
		if p := r.problem(t); r.status != 422 || p.Code != "loop_detected" {
			t.Errorf("%s after three deliveries = %d %s", name, r.status, r.body)
		}
	}
	r := w.do(http.MethodPost, "/v1/tenants/"+w.a.id+"/endpoints/"+id+"/test", w.a.write, nil, "Breakwater-Hops", "1")
	if p := r.problem(t); r.status != 422 || p.Code != "loop_detected" {
		t.Errorf("a delivery that asks for a test = %d %s", r.status, r.body)
	}
	for _, odd := range []string{"", "x", "-1", "1e9"} {
		w.must(400, http.MethodPost, path, w.a.send, `{"type":"a","payload":1}`, "Breakwater-Hops", odd)
	}

	// Whoever reads sees what was posted.
	got := w.must(200, http.MethodGet, path, w.a.read, nil)
	if strings.Contains(string(got.body), "hops") {
		t.Errorf("events = %s", got.body)
	}
}
