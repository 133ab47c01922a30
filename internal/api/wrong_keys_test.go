package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// watchedKeys counts what keys cost the store.
type watchedKeys struct {
	api.Store
	lookups, readings atomic.Int64
	slow              func() // lets time pass during a reading
}

func (s *watchedKeys) KeyByHash(ctx context.Context, hash [32]byte) (hook.APIKey, error) {
	s.lookups.Add(1)
	return s.Store.KeyByHash(ctx, hash)
}

func (s *watchedKeys) ListKeys(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.APIKey, error) {
	s.readings.Add(1)
	if s.slow != nil {
		s.slow()
	}
	return s.Store.ListKeys(ctx, tenant, p)
}

// gateWorld is a world whose store is watched.
func gateWorld(t *testing.T) (*world, *watchedKeys) {
	t.Helper()
	var watched *watchedKeys
	w := newWorldWith(t, func(cfg *api.Config) {
		watched = &watchedKeys{Store: cfg.Store}
		cfg.Store = watched
	})
	return w, watched
}

func (w *world) from(addr, key string, headers ...string) reply {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/v1/me", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	r.RemoteAddr = addr
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return reply{rec.Code, rec.Header(), rec.Body.Bytes()}
}

func guessed(i int) string { return fmt.Sprintf("bw_guess-number-%09d", i) }

// TestRightKeysWorkBesideWrongOnes has everybody behind one address, as behind
// a proxy: keys that were never used before work while others guess.
func TestRightKeysWorkBesideWrongOnes(t *testing.T) {
	t.Parallel()
	const proxy = "192.0.2.1:4711"
	w, _ := gateWorld(t)
	for i := range 100 {
		if r := w.from(proxy, guessed(i)); r.status != 401 && r.status != 429 {
			t.Fatalf("guess %d = %d", i, r.status)
		}
	}
	for name, key := range map[string]string{"admin": w.admin, "admin:read": w.adminRead, "tenant": w.a.send} {
		if r := w.from(proxy, key); r.status != 200 {
			t.Errorf("%s key, never used before = %d %s", name, r.status, r.body)
		}
	}
	made := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin"}`)
	if r := w.from(proxy, made.text(t, "key")); r.status != 200 {
		t.Errorf("new key = %d %s", r.status, r.body)
	}
	w.must(204, http.MethodDelete, "/v1/keys/"+made.text(t, "id"), w.admin, nil)
	if r := w.from(proxy, w.adminRead); r.status != 200 {
		t.Errorf("another key after a revocation = %d %s", r.status, r.body)
	}
	if r := w.from(proxy, made.text(t, "key")); r.status == 200 {
		t.Errorf("the revoked key = %d", r.status)
	}

	// A key that another node made is known here within a second.
	elsewhere := w.key(w.a.tenant, hook.ScopeTenantRead)
	w.clock.pass(time.Second)
	if r := w.from(proxy, elsewhere); r.status != 200 {
		t.Errorf("key of another node after a second = %d %s", r.status, r.body)
	}
}

// TestSlowReadingsAreRare: what wrong keys cost is a share of the store, however long it
// takes to read all keys. So a key of another node may take longer to be known, by
// those who share an address with the flood.
func TestSlowReadingsAreRare(t *testing.T) {
	t.Parallel()
	const proxy = "192.0.2.1:4711"
	w, keys := gateWorld(t)
	keys.slow = func() { w.clock.pass(200 * time.Millisecond) }
	for i := range 100 {
		w.from(proxy, guessed(i))
	}
	elsewhere := w.key(w.a.tenant, hook.ScopeTenantRead)
	w.clock.pass(time.Second)
	if r := w.from(proxy, elsewhere); r.status != 429 {
		t.Errorf("after a second = %d, want 429: the keys were read a second ago, which took a fifth of one", r.status)
	}
	w.clock.pass(3 * time.Second)
	if r := w.from(proxy, elsewhere); r.status != 200 {
		t.Errorf("after four seconds = %d %s", r.status, r.body)
	}
	if n := keys.readings.Load(); n != 2 {
		t.Errorf("all keys were read %d times, want twice", n)
	}
}

// TestRevocationKeepsOtherKeysCached counts the lookups of other keys.
func TestRevocationKeepsOtherKeysCached(t *testing.T) {
	t.Parallel()
	w, keys := gateWorld(t)
	made := w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin"}`)
	w.must(200, http.MethodGet, "/v1/me", w.a.read, nil)
	w.must(204, http.MethodDelete, "/v1/keys/"+made.text(t, "id"), w.admin, nil)
	before := keys.lookups.Load()
	w.must(200, http.MethodGet, "/v1/me", w.a.read, nil)
	w.must(200, http.MethodGet, "/v1/me", w.admin, nil)
	if n := keys.lookups.Load() - before; n != 0 {
		t.Errorf("%d lookups of other keys after a revocation, want none", n)
	}
}

// TestWrongKeysCostABoundedShare guesses from more addresses than any limit per
// address can hold.
func TestWrongKeysCostABoundedShare(t *testing.T) {
	t.Parallel()
	w, keys := gateWorld(t)
	const seconds, perSecond = 10, 500
	for s := range seconds {
		for i := range perSecond {
			n := s*perSecond + i
			if r := w.from(fmt.Sprintf("10.%d.%d.7:1", n>>8, n&255), guessed(n)); r.status != 401 {
				t.Fatalf("guess %d = %d", n, r.status)
			}
		}
		w.clock.pass(time.Second)
	}
	if n := keys.lookups.Load(); n > 100+20*seconds {
		t.Errorf("%d lookups for %d wrong keys", n, seconds*perSecond)
	}
	if n := keys.readings.Load(); n > seconds {
		t.Errorf("%d readings of the index in %d s", n, seconds)
	}
}

func TestTrustedProxiesTellTheClient(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(cfg *api.Config) {
		cfg.TrustedProxies = rest.Proxies{prefix(t, "10.0.0.0/8"), prefix(t, "2001:db8::/32")}
	})
	client := func(peer string, forwarded ...string) string {
		t.Helper()
		id := fmt.Sprintf("who-%d", w.clock.now().UnixNano())
		headers := []string{"X-Request-Id", id}
		for _, f := range forwarded {
			headers = append(headers, "X-Forwarded-For", f)
		}
		w.from(peer, w.admin, headers...)
		w.clock.pass(time.Microsecond)
		return w.logged(id)["remote"].(string)
	}
	for name, tc := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy is believed unless named": {"203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		"the client of a proxy":             {"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		"rightmost that is not ours":        {"10.0.0.1:1", []string{"127.0.0.1, 198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		"several lines":                     {"10.0.0.1:1", []string{"1.1.1.1", "198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		"ports and brackets":                {"[2001:db8::1]:1", []string{"[2a00::1]:443"}, "2a00::1"},
		"mapped":                            {"[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"only proxies":                      {"10.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"rubbish ends the walk":             {"10.0.0.1:1", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"nothing said":                      {"10.0.0.1:1", nil, "10.0.0.1"},
	} {
		if got := client(tc.peer, tc.forwarded...); got != tc.want {
			t.Errorf("%s: client = %s, want %s", name, got, tc.want)
		}
	}
}

// TestMetricsThroughAProxyNeedAKey: a proxy on this machine makes everybody
// look local.
func TestMetricsThroughAProxyNeedAKey(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(cfg *api.Config) { cfg.TrustedProxies = rest.Proxies{prefix(t, "192.0.2.1/32")} })
	w.loopback = true
	w.must(200, http.MethodGet, "/metrics", "", nil)
	w.must(404, http.MethodGet, "/metrics", "", nil, "X-Forwarded-For", "198.51.100.1")
}
