package portal_test

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func sealer(t testing.TB, fill byte) *vault.Vault {
	t.Helper()
	key, err := vault.NewKey(bytes.NewReader(bytes.Repeat([]byte{fill}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open([]vault.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func link() portal.Link {
	return portal.Link{Tenant: 8, Scope: hook.ScopeTenantRead, Key: 5, Hash: [32]byte{1}, Issued: noon, Until: noon.Add(time.Hour)}
}

func TestLinkComesBack(t *testing.T) {
	t.Parallel()
	v, l := sealer(t, 1), link()
	token, err := l.Seal(v)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(portal.Address("https://hooks.example.com/", token))
	if err != nil || u.Host != "hooks.example.com" || u.Path != portal.Path || u.Query().Get(portal.Parameter) != token {
		t.Errorf("address %v, %v", u, err)
	}
	if got, err := portal.Open(v, token, noon.Add(time.Minute)); err != nil || got != l {
		t.Errorf("Open = %+v, %v; want %+v", got, err, l)
	}
	if strings.Contains(token, "tenant") {
		t.Error("the token can be read")
	}
	for name, tc := range map[string]struct {
		token string
		now   time.Time
		want  error
	}{
		"at its end":   {token, noon.Add(time.Hour), portal.ErrExpired},
		"before it is": {token, noon.Add(-2 * time.Minute), portal.ErrInvalid},
		"empty":        {"", noon, portal.ErrInvalid},
		"text":         {"hello", noon, portal.ErrInvalid},
		"long":         {strings.Repeat("A", 5000), noon, portal.ErrInvalid},
		"cut":          {token[:len(token)-4], noon, portal.ErrInvalid},
	} {
		if _, err := portal.Open(v, tc.token, tc.now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, err := portal.Open(sealer(t, 2), token, noon); !errors.Is(err, portal.ErrInvalid) {
		t.Errorf("another server's link: %v", err)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(token)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[i] = rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")).Draw(t, "letter")
		if string(b) == token {
			return
		}
		if _, err := portal.Open(v, string(b), noon); err == nil {
			t.Fatal("a changed link passed")
		}
	})
}

// TestLinksThatNobodyMayHave: a scope of more than a tenant, no tenant, a longer
// life than any link has.
func TestLinksThatNobodyMayHave(t *testing.T) {
	t.Parallel()
	v := sealer(t, 1)
	for name, change := range map[string]func(*portal.Link){
		"admin":     func(l *portal.Link) { l.Scope = hook.ScopeAdmin },
		"sender":    func(l *portal.Link) { l.Scope = hook.ScopeTenantSend },
		"no tenant": func(l *portal.Link) { l.Tenant = 0 },
		"for ever":  func(l *portal.Link) { l.Until = noon.Add(25 * time.Hour) },
	} {
		l := link()
		change(&l)
		token, err := l.Seal(v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := portal.Open(v, token, noon); !errors.Is(err, portal.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestLinkEndsWithItsKey(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*hook.APIKey)
		want   error
	}{
		"alive":          {func(*hook.APIKey) {}, nil},
		"tenant's":       {func(k *hook.APIKey) { k.Scope, k.TenantID = hook.ScopeTenantWrite, 8 }, nil},
		"revoked":        {func(k *hook.APIKey) { k.RevokedAt = noon }, portal.ErrExpired},
		"expired":        {func(k *hook.APIKey) { k.ExpiresAt = noon }, portal.ErrExpired},
		"another":        {func(k *hook.APIKey) { k.ID = 6 }, portal.ErrInvalid},
		"another's hash": {func(k *hook.APIKey) { k.Hash[0] = 9 }, portal.ErrInvalid},
		"other tenant's": {func(k *hook.APIKey) { k.Scope, k.TenantID = hook.ScopeTenantWrite, 9 }, portal.ErrInvalid},
		"reader":         {func(k *hook.APIKey) { k.Scope = hook.ScopeAdminRead }, portal.ErrInvalid},
	} {
		k := hook.APIKey{ID: 5, Hash: [32]byte{1}, Scope: hook.ScopeAdmin}
		tc.change(&k)
		l := link()
		if err := l.Check(&k, noon.Add(time.Minute)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	l := link()
	if v := l.Visitor(); v.TenantID != 8 || v.Scope != hook.ScopeTenantRead || v.Hash != [32]byte{} || !v.ExpiresAt.Equal(l.Until) {
		t.Errorf("visitor %+v", v)
	}
}
