package session_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

var someKey = [32]byte{7}

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, fill byte) *vault.Vault {
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

func link(until time.Time) portal.Link {
	return portal.Link{Tenant: 1<<62 + 8, Scope: hook.ScopeTenantRead, Key: 1<<62 + 5, Hash: [32]byte(bytes.Repeat([]byte{0xff}, 32)), Issued: noon, Until: until}
}

func TestCookieComesBack(t *testing.T) {
	t.Parallel()
	v := open(t, 1)
	for name, s := range map[string]session.Session{
		"key":    session.New(someKey, noon),
		"portal": session.NewPortal(link(noon.Add(time.Hour)), noon),
	} {
		cookie, err := s.Seal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := session.Open(v, cookie, noon.Add(time.Minute))
		if err != nil || got != s {
			t.Errorf("%s: Open = %+v, %v; want %+v", name, got, err, s)
		}
		if _, err := session.Open(open(t, 2), cookie, noon); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: another server's cookie: %v", name, err)
		}
	}
}

func TestForgedCookiesAreRefused(t *testing.T) {
	t.Parallel()
	v := open(t, 1)
	s := session.New(someKey, noon)
	cookie, err := s.Seal(v)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "text": "hello", "long": strings.Repeat("A", 5000), "cut": cookie[:len(cookie)-4], "twice": cookie + cookie,
	} {
		if _, err := session.Open(v, text, noon); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(cookie)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[i] = rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")).Draw(t, "letter")
		if string(b) == cookie {
			return
		}
		if _, err := session.Open(v, string(b), noon); err == nil {
			t.Fatal("a changed cookie passed")
		}
	})
}

// TestSessionsEnd: after a time without a request, after a time at all, and with
// their link.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	key := session.New(someKey, noon)
	busy := key
	for at := noon; at.Before(noon.Add(session.Absolute)); at = at.Add(time.Hour) {
		if err := busy.Check(at); err != nil {
			t.Fatalf("busy at %v: %v", at, err)
		}
		busy.Touch(at)
	}
	guest := session.NewPortal(link(noon.Add(time.Hour)), noon)
	for name, c := range map[string]struct {
		s    session.Session
		last time.Time
	}{
		"idle":   {key, noon.Add(session.Idle)},
		"busy":   {busy, noon.Add(session.Absolute)},
		"portal": {guest, noon.Add(time.Hour)},
	} {
		if err := c.s.Check(c.last.Add(-time.Second)); err != nil {
			t.Errorf("%s: ended too early: %v", name, err)
		}
		if err := c.s.Check(c.last); !errors.Is(err, session.ErrExpired) || !c.s.Ends().Equal(c.last) {
			t.Errorf("%s: %v at its end, which is %v; want ErrExpired at %v", name, err, c.s.Ends(), c.last)
		}
	}
	if err := key.Check(noon.Add(-2 * time.Minute)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a session of the future: %v", err)
	}
	if err := (&session.Session{ID: key.ID, Issued: noon, Seen: noon}).Check(noon); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a session of nobody: %v", err)
	}
}

func TestCookiesAreRenewedNowAndThen(t *testing.T) {
	t.Parallel()
	s := session.New(someKey, noon)
	renewed := 0
	for at := noon; at.Before(noon.Add(time.Hour)); at = at.Add(time.Second) {
		if s.Touch(at) {
			renewed++
		}
	}
	if renewed != 11 {
		t.Errorf("renewed %d times in an hour, want 11", renewed)
	}
}

func TestFormsBelongToOneSession(t *testing.T) {
	t.Parallel()
	one, other := session.New(someKey, noon), session.New(someKey, noon)
	later := one
	later.Touch(noon.Add(time.Hour))
	if token := one.FormToken(); !one.Owns(token) || !later.Owns(token) || other.Owns(token) || one.Owns("") || one.Owns(token+"x") {
		t.Error("a form token does not tell sessions apart")
	}
}
