package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestRevokedAndExpiredKeysAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"tenant:read","tenant":"acme","expires_at":"2026-03-02T11:30:15Z"}`)
	key, id := made.text(t, "key"), made.text(t, "id")
	me := w.must(200, http.MethodGet, "/v1/me", key, nil).object(t)
	if me["scope"] != "tenant:read" || me["tenant"] != w.a.id || me["version"] != "1.2.3" || me["key"] != id {
		t.Errorf("me = %v", me)
	}
	// Revoked elsewhere: the store knows, this process finds out within 1 s.
	keyID, err := hook.KeyPrefix.Parse(id)
	w.ok(err)
	w.ok(w.db.RevokeKey(w.ctx(), keyID, w.clock.now(), w.record()))
	w.clock.pass(time.Second)
	w.must(401, http.MethodGet, "/v1/me", key, nil)

	// Revoked here: at once.
	made = w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin"}`)
	w.must(200, http.MethodGet, "/v1/me", made.text(t, "key"), nil)
	w.must(204, http.MethodDelete, "/v1/keys/"+made.text(t, "id"), w.admin, nil)
	w.must(401, http.MethodGet, "/v1/me", made.text(t, "key"), nil)

	// Expired.
	made = w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin:read","expires_at":"2026-03-02T11:30:15Z"}`)
	w.must(200, http.MethodGet, "/v1/me", made.text(t, "key"), nil)
	w.clock.pass(time.Hour)
	w.must(401, http.MethodGet, "/v1/me", made.text(t, "key"), nil)
}

func TestLastAdminKeyCannotBeRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.must(200, http.MethodGet, "/v1/me", w.admin, nil).text(t, "key")
	r := w.do(http.MethodDelete, "/v1/keys/"+id, w.admin, nil)
	if p := r.problem(t); r.status != 409 || p.Code != "last_admin_key" {
		t.Errorf("= %d %s", r.status, r.body)
	}
}

func TestBadKeysAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	try := func(key, from string) reply {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/me", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		r.RemoteAddr = from
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, r)
		return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
	}
	guess := func(i int) string { return "bw_guess-number-" + strings.Repeat("x", i) }
	if r := try(w.admin, "[2001:db8::1]:1"); r.status != 200 {
		t.Fatalf("good key = %d", r.status)
	}
	for i := range 30 {
		if r := try(guess(i), "[2001:db8::1]:1"); r.status != 401 {
			t.Fatalf("guess %d = %d", i, r.status)
		}
	}
	r := try(guess(30), "[2001:db8::2]:1") // the same network
	if p := r.problem(t); r.status != 429 || p.Code != "rate_limited" || r.header.Get("Retry-After") != "60" {
		t.Errorf("31st guess = %d %s %v", r.status, r.body, r.header)
	}
	w.clock.pass(5 * time.Second)
	if r := try(w.admin, "[2001:db8::1]:1"); r.status != 200 {
		t.Errorf("a key known to be good = %d: its owner must not suffer", r.status)
	}
	if r := try(guess(31), "198.51.100.1:1"); r.status != 401 {
		t.Errorf("another address = %d", r.status)
	}
	w.clock.pass(time.Minute)
	if r := try(guess(32), "[2001:db8::1]:1"); r.status != 401 {
		t.Errorf("a minute later = %d", r.status)
	}
}
