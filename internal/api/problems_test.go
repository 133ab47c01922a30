package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// failing is a store whose keys cannot be read, and under whose idempotency keys other
// requests were made.
type failing struct {
	api.Store
	keys   atomic.Pointer[error]
	reused atomic.Bool
}

func (s *failing) KeyByHash(ctx context.Context, hash [32]byte) (hook.APIKey, error) {
	if err := s.keys.Load(); err != nil {
		return hook.APIKey{}, *err
	}
	return s.Store.KeyByHash(ctx, hash)
}

func (s *failing) AnswerOf(ctx context.Context, tenant hook.ID, route, key string, now time.Time) (store.KeptAnswer, error) {
	if s.reused.Load() {
		return store.KeptAnswer{}, nil // that of a request with another body
	}
	return s.Store.AnswerOf(ctx, tenant, route, key, now)
}

// described returns the statuses that the document has for each route, by method and path.
func (w *world) described(t *testing.T) map[string]map[string]bool {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(w.must(200, http.MethodGet, "/openapi.json", "", nil).body, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			statuses := map[string]bool{}
			for status := range op.Responses {
				statuses[status] = true
			}
			out[strings.ToUpper(method)+" "+path] = statuses
		}
	}
	return out
}

// scopeKeys returns a key of every scope.
func (w *world) scopeKeys() map[string]string {
	return map[string]string{
		"admin": w.admin, "admin:read": w.adminRead,
		"tenant:write": w.a.write, "tenant:read": w.a.read, "tenant:send": w.a.send,
	}
}

// TestEveryRouteFailsAsDescribed makes every route fail in every way that all routes
// of its kind share. What it answers is compared with the document, as all answers are.
func TestEveryRouteFailsAsDescribed(t *testing.T) {
	t.Parallel()
	db := &failing{}
	w := newWorld(t, func(cfg *api.Config) { db.Store, cfg.Store = cfg.Store, db })
	full := newWorld(t, func(cfg *api.Config) { cfg.ControlRoom = func() error { return hook.ErrStoreFull } })
	full.ingest.fail = hook.ErrStoreFull
	flooded := newWorld(t)
	for i := range 31 {
		flooded.do(http.MethodGet, "/v1/me", guessed(i), nil)
	}
	huge := `{"note":"` + strings.Repeat("x", 300<<10) + `"}`
	described := w.described(t)
	for _, rt := range w.api.Routes() {
		needed := described[rt.Method+" "+rt.Path]
		row := routeRows[rt.Method+" "+rt.Path]
		own := fill(fill(rt.Path, map[string]string{"tenant": "acme"}), unknownIDs)
		nobody := fill(fill(rt.Path, map[string]string{"tenant": "ten_0000000000000"}), unknownIDs)
		check := func(w *world, status int, code, path, key string, body any, headers ...string) {
			t.Helper()
			r := w.do(rt.Method, path, key, body, headers...)
			if r.status != status {
				t.Errorf("%s %s = %d %s, want %d", rt.Method, path, r.status, r.body, status)
			} else if strings.HasSuffix(rt.Path, "/batch") && r.header.Get("Content-Type") == "application/json" {
				return // its results
			} else if p := r.problem(t); code != "" && p.Code != code {
				t.Errorf("%s %s: code %s, want %s", rt.Method, path, p.Code, code)
			}
		}
		key := w.admin
		if !slices.Contains(rt.Scopes, hook.ScopeAdmin) {
			key = ""
		}
		check(w, 400, "invalid_parameter", own+"?%zz", key, row.body)
		check(w, 422, "validation_failed", own+"?colour=red", key, row.body)
		if key == "" {
			continue
		}
		check(w, 401, "unauthenticated", own, "", row.body)
		for name, k := range w.scopeKeys() {
			if !slices.ContainsFunc(rt.Scopes, func(s hook.Scope) bool { return s.String() == name }) {
				check(w, 403, "forbidden_scope", own, k, row.body)
			}
		}
		check(flooded, 429, "rate_limited", own, guessed(99), row.body)
		if strings.Contains(rt.Path, "{") {
			check(w, 404, "not_found", nobody, w.admin, row.body)
		}
		if needed["507"] && strings.Contains(row.scopes, "tenant:write") {
			check(full, 507, "", own, full.a.write, row.body)
		} else if needed["507"] {
			check(full, 507, "", own, full.admin, row.body)
		}
		if row.body != "" {
			check(w, 413, "payload_too_large", own, w.admin, huge)
			check(w, 415, "unsupported_media_type", own, w.admin, row.body, "Content-Encoding", "gzip")
		}
	}
	db.reused.Store(true)
	for _, rt := range w.api.Routes() {
		// The two that make events let the store of events decide.
		if rt.Method != http.MethodPost || !described["POST "+rt.Path]["409"] || strings.HasSuffix(rt.Path, "{endpoint}/test") || strings.HasSuffix(rt.Path, "/events") || rt.Path == "/v1/backup" {
			continue
		}
		path := fill(fill(rt.Path, map[string]string{"tenant": "acme"}), unknownIDs)
		r := w.do(rt.Method, path, w.admin, routeRows[rt.Method+" "+rt.Path].body, "Idempotency-Key", "k")
		if p := r.problem(t); r.status != 409 || p.Code != "idempotency_key_reused" {
			t.Errorf("%s with a key that was used = %d %s", rt.Path, r.status, r.body)
		}
	}
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{{hook.ErrStoreUnavailable, 503, "store_unavailable"}, {errors.New("nobody foresaw this"), 500, "internal"}} {
		w.clock.pass(time.Minute) // keys that were seen are remembered for a while
		db.keys.Store(&tc.err)
		for _, rt := range w.api.Routes() {
			if len(rt.Scopes) == 0 {
				continue
			}
			path := fill(fill(rt.Path, map[string]string{"tenant": "acme"}), unknownIDs)
			r := w.do(rt.Method, path, w.admin, routeRows[rt.Method+" "+rt.Path].body)
			if p := r.problem(t); r.status != tc.status || p.Code != tc.code {
				t.Errorf("%s %s without a store = %d %s", rt.Method, rt.Path, r.status, r.body)
			}
		}
	}
}

// TestTheRestIsAnsweredAsDescribed causes the answers that no other test is about.
func TestTheRestIsAnsweredAsDescribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const post, patch = http.MethodPost, http.MethodPatch
	channel := "/v1/alert-channels/" + w.channel("/v1/alert-channels", w.admin, mailChannel)
	w.must(200, patch, channel, w.admin, `{"name":"new name"}`)
	w.must(412, patch, channel, w.admin, `{"name":"newer name"}`, "If-Match", `"1"`)
	w.must(409, patch, "/v1/tenants/acme", w.admin, `{"uid":"bolt"}`)
	w.endpoint(w.a, map[string]any{"uid": "one"})
	w.endpoint(w.a, map[string]any{"uid": "two"})
	w.must(409, patch, "/v1/tenants/acme/endpoints/one", w.a.write, `{"uid":"two"}`)
	const batch = `{"events":[{"type":"order.paid","payload":1}]}`
	w.must(422, post, "/v1/tenants/acme/events/batch", w.a.send, `{"events":[{"type":"a b","payload":1}]}`)
	for status, err := range map[int]error{429: hook.ErrRateLimited, 503: hook.ErrOverloaded} {
		w.ingest.fail = err
		w.must(status, post, "/v1/tenants/acme/events/batch", w.a.send, batch)
	}
	w.ingest.fail = hook.ErrKeyReused
	w.must(409, post, "/v1/tenants/acme/endpoints/one/test", w.a.write, `{}`, "Idempotency-Key", "k")
}
