package rest_test

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

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

func TestNewKeysAreDrawnEvenly(t *testing.T) {
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

func TestKeysOfOperatorsAreTakenAndShownInNoPart(t *testing.T) {
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

// newServer is a server with one route, which any key may use.
func newServer(t *testing.T, keys store.Keys) *rest.Server {
	t.Helper()
	key, err := vault.NewKey(rand.Reader)
	ok(t, err)
	v, err := vault.Open([]vault.Key{key})
	ok(t, err)
	ids, err := hook.NewIDSource(0, 0)
	ok(t, err)
	s, err := rest.New(rest.Config{
		Keys: keys, Vault: v, IDs: ids,
		FindTenant: func(context.Context, string) (hook.ID, error) { return 0, hook.ErrNotFound },
	})
	ok(t, err)
	rest.Add(s.Group("test"), rest.NeedAnyKey, "GET /me", "get-me", "Nothing",
		func(context.Context, *rest.Call, *struct{}) (*rest.Nothing, error) { return &rest.Nothing{}, nil })
	return s
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, h http.Handler, path, key string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+key)
	rec := httptest.NewRecorder()
	if h.ServeHTTP(rec, r); rec.Code != http.StatusNoContent {
		t.Fatalf("GET %s = %d %s", path, rec.Code, rec.Body)
	}
}

// touches counts what Run records.
type touches struct {
	store.Keys
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

func TestRunRecordsUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text, prefix, hash := rest.NewKey(rand.Reader)
		s := &touches{key: hook.APIKey{ID: 7, Prefix: prefix, Hash: hash, Scope: hook.ScopeAdmin}}
		a := newServer(t, s)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		get(t, a, "/me", text)
		used := time.Now()
		time.Sleep(25 * time.Second) // one failed flush, one good one
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if len(s.seen) != 2 || !s.seen[1][7].Equal(used) {
			t.Errorf("recorded %v, want the use at %v again after the failure", s.seen, used)
		}
		get(t, a, "/me", text)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ended); err != nil || len(s.seen) != 3 {
			t.Errorf("Run = %v, recorded %v: what is left at the end is written", err, s.seen)
		}
	})
}
