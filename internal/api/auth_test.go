package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestNewKey(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^bw_[0-9A-Za-z]{51}$`)
	seen := map[string]bool{}
	for range 200 {
		text, prefix, hash := rest.NewKey(rand.Reader)
		if !form.MatchString(text) || prefix != text[3:11] || hash != sha256.Sum256([]byte(text)) || seen[text] {
			t.Fatalf("key %q prefix %q", text, prefix)
		}
		seen[text] = true
	}
	// Bytes that would make some characters likelier are passed over.
	text, _, _ := rest.NewKey(bytes.NewReader(append(bytes.Repeat([]byte{255, 250}, 32), bytes.Repeat([]byte{0, 61}, 64)...)))
	if text != "bw_"+strings.Repeat("0z", 25)+"0" {
		t.Errorf("key = %s", text)
	}
}

func TestHashKey(t *testing.T) {
	t.Parallel()
	ours := "bw_" + strings.Repeat("a", 8) + strings.Repeat("Z", 43)
	for text, want := range map[string]struct {
		prefix string
		bad    bool
	}{
		ours:                            {prefix: "aaaaaaaa"},
		ours + "x":                      {},
		"an-operators-own-key":          {},
		"sixteen-chars-ok":              {},
		"fifteen-chars-x":               {bad: true},
		strings.Repeat("k", 256):        {},
		strings.Repeat("k", 257):        {bad: true},
		"with a space in it":            {bad: true},
		"with-unicode-in-it-é":          {bad: true},
		"":                              {bad: true},
		"bw_" + strings.Repeat("!", 51): {},
	} {
		prefix, hash, err := rest.HashKey(text)
		if (err != nil) != want.bad || prefix != want.prefix {
			t.Errorf("HashKey(%q) = %q, %v", text, prefix, err)
		}
		if err == nil && hash != sha256.Sum256([]byte(text)) {
			t.Errorf("HashKey(%q): wrong hash", text)
		}
	}
}

func TestRevocation(t *testing.T) {
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

func TestLastAdminKey(t *testing.T) {
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
		w.api.Handler().ServeHTTP(rec, r)
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

// touches counts what Run records.
type touches struct {
	api.Store
	key  hook.APIKey
	seen []map[hook.ID]time.Time
}

func (s *touches) KeyByHash(context.Context, [32]byte) (hook.APIKey, error) { return s.key, nil }

func (s *touches) TouchKeys(_ context.Context, used map[hook.ID]time.Time) error {
	if s.seen = append(s.seen, used); len(s.seen) == 1 {
		return hook.ErrStoreUnavailable
	}
	return nil
}

var _ store.Keys = (*touches)(nil)

func TestRunRecordsUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text, prefix, hash := rest.NewKey(rand.Reader)
		s := &touches{key: hook.APIKey{ID: 7, Prefix: prefix, Hash: hash, Scope: hook.ScopeAdmin}}
		a := newAPI(t, s, &sink{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		send(t, a.Handler(), http.MethodGet, "/v1/me", text, nil)
		used := time.Now()
		time.Sleep(25 * time.Second) // one failed flush, one good one
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if len(s.seen) != 2 || !s.seen[1][7].Equal(used) {
			t.Errorf("recorded %v, want the use at %v again after the failure", s.seen, used)
		}
		send(t, a.Handler(), http.MethodGet, "/v1/me", text, nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ended); err != nil || len(s.seen) != 3 {
			t.Errorf("Run = %v, recorded %v: what is left at the end is written", err, s.seen)
		}
	})
}
