package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestEveryAnswerHasHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tc := range []struct{ method, path, key string }{
		{http.MethodGet, "/livez", ""},
		{http.MethodGet, "/v1/me", ""},
		{http.MethodGet, "/v1/me/", w.admin},
		{http.MethodGet, "/nowhere", ""},
		{http.MethodPut, "/v1/me", ""},
		{http.MethodPost, "/v1/keys", w.admin},
		{http.MethodGet, "/v1/keys?x=1", w.admin},
	} {
		r := w.do(tc.method, tc.path, tc.key, nil)
		if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" ||
			!strings.HasPrefix(r.header.Get("X-Request-Id"), "req_") {
			t.Errorf("%s %s: %v", tc.method, tc.path, r.header)
		}
	}
	if r := w.do(http.MethodPut, "/v1/keys", "", nil); r.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("Allow = %q", r.header.Get("Allow"))
	}
	if r := w.do(http.MethodGet, "/v1/me", "", nil); r.header.Get("WWW-Authenticate") == "" {
		t.Error("401 without WWW-Authenticate")
	}
}

func TestRequestIDIsTheClientsWhenHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for given, kept := range map[string]bool{
		"abc-DEF_123":           true,
		strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false,
		"a b":                   false,
		`a","level":"error`:     false,
		"a.b":                   false,
	} {
		r := w.do(http.MethodGet, "/livez", "", nil, "X-Request-Id", given)
		if got := r.header.Get("X-Request-Id"); (got == given) != kept {
			t.Errorf("given %q, got %q", given, got)
		}
	}
}

func TestHealthSaysWhyNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if r := w.must(200, http.MethodGet, "/readyz?verbose", "", nil); r.text(t, "version") != "1.2.3" {
		t.Errorf("verbose = %s", r.body)
	}
	w.health.warns = []string{"the log grows"}
	if r := w.must(200, http.MethodGet, "/readyz", "", nil); !strings.Contains(string(r.body), `"warnings":["the log grows"]`) {
		t.Errorf("ready with a warning = %s", r.body)
	}
	w.health.ready = []string{"store does not answer"}
	if r := w.must(503, http.MethodGet, "/readyz", "", nil); !strings.Contains(string(r.body), "store does not answer") {
		t.Errorf("not ready = %s", r.body)
	}
	w.must(200, http.MethodGet, "/livez", "", nil)
	w.health.live = errors.New("loop stands still")
	w.must(503, http.MethodGet, "/livez", "", nil)
}

func TestNewRefusesHalfAConfig(t *testing.T) {
	t.Parallel()
	if _, err := api.New(api.Config{}); err == nil {
		t.Error("New accepted an empty config")
	}
}

// tooSlow is a store whose database has no time for lists.
type tooSlow struct{ api.Store }

func (tooSlow) ListTenants(context.Context, string, store.Page) ([]hook.Tenant, error) {
	return nil, fmt.Errorf("list tenants: %w: canceling statement due to statement timeout", hook.ErrOverloaded)
}

// TestReadsOfASlowDatabaseAreTriedAgain: nothing is broken on our side, and the
// client is told to come back.
func TestReadsOfASlowDatabaseAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *api.Config) { cfg.Store = tooSlow{cfg.Store} })
	r := w.do(http.MethodGet, "/v1/tenants", w.admin, nil)
	if p := r.problem(t); r.status != 503 || p.Code != "overloaded" || r.header.Get("Retry-After") != "1" {
		t.Errorf("= %d %s, Retry-After %q", r.status, r.body, r.header.Get("Retry-After"))
	}
}

// logged returns the line that the log has of a request.
func (w *world) logged(request string) map[string]any {
	w.t.Helper()
	for line := range strings.Lines(w.logs.String()) {
		var m map[string]any
		w.ok(json.Unmarshal([]byte(line), &m))
		if m["request_id"] == request && m["msg"] == "request" {
			return m
		}
	}
	w.t.Fatalf("no line about %s in the log", request)
	return nil
}
