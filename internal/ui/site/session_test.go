package site_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestIdleSessionsEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	for range 3 {
		k.Clock.Pass(11 * time.Hour)
		b.Open("/ui")
	}
	k.Clock.Pass(12 * time.Hour)
	b.Want(http.StatusSeeOther, "/ui")
}

func TestBusySessionsEndAtLast(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	for range 27 {
		k.Clock.Pass(6 * time.Hour)
		b.Open("/ui")
	}
	k.Clock.Pass(6 * time.Hour) // a week
	b.Want(http.StatusSeeOther, "/ui")
}

// TestOpenPagesAreNobodysActivity: a stream does not keep a session alive.
func TestOpenPagesAreNobodysActivity(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	before := b.Cookie("bw_session").Value
	k.Clock.Pass(6 * time.Hour)
	b.Header.Set("Accept", "text/event-stream")
	b.Send(http.MethodGet, "/ui", nil) // has nothing that is kept current
	if b.Cookie("bw_session").Value != before {
		t.Error("a stream renewed the cookie")
	}
	b.Header.Del("Accept")
	b.Open("/ui")
	if b.Cookie("bw_session").Value == before {
		t.Error("a page did not renew the cookie")
	}
}

func TestRevokedKeyEndsItsSessions(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	key := k.Key(k.Acme.ID, hook.ScopeTenantWrite)
	b := k.login(key)
	b.Open("/ui")
	k.revoke(key)
	b.Want(http.StatusSeeOther, "/ui")
	if p := b.Send(http.MethodPost, "/ui/kit", url.Values{"word": {"x"}}); p.Status != http.StatusSeeOther || k.done.Load() != 0 {
		t.Errorf("a form after the end = %d", p.Status)
	}
}

// revoke revokes a key.
func (k *kit) revoke(key string) {
	k.T.Helper()
	var me struct{ Key string }
	k.Call(http.StatusOK, http.MethodGet, "/v1/me", key, nil, &me)
	k.Call(http.StatusNoContent, http.MethodDelete, "/v1/keys/"+me.Key, k.Admin, nil, nil)
}

func TestForgedCookiesAreNobodys(t *testing.T) {
	t.Parallel()
	k, other := newKit(t, nil), newKit(t, nil)
	foreign := other.login(other.Admin).Cookie("bw_session")
	for _, value := range []string{"", "x", strings.Repeat("A", 4000), foreign.Value} {
		b := k.browser()
		b.Keep(&http.Cookie{Name: "bw_session", Value: value})
		b.Want(http.StatusSeeOther, "/ui")
		b.Keep(&http.Cookie{Name: "bw_portal", Value: value})
		b.Want(http.StatusForbidden, "/ui")
	}
}

// TestFormsNeedTheirToken: without one, with a wrong one, and with that of another
// session nothing happens.
func TestFormsNeedTheirToken(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b, other := k.login(k.Admin), k.login(k.Admin)
	for name, token := range map[string]string{"none": "", "wrong": "AAAAAAAAAAAAAAAAAAAAAAAA", "another session's": other.Token()} {
		p := b.Send(http.MethodPost, "/ui/kit", url.Values{"word": {"x"}, "token": {token}})
		if p.Status != http.StatusForbidden || k.done.Load() != 0 {
			t.Errorf("%s: %d", name, p.Status)
		}
		p.Says("This form does not belong to your session.")
	}
	b.Done("/ui/kit", url.Values{"word": {"x"}})
	if k.done.Load() != 1 {
		t.Error("the right token did nothing")
	}
	// In the address it is no token: addresses get around.
	if p := b.Send(http.MethodPost, "/ui/kit?token="+b.Token(), url.Values{"word": {"x"}}); p.Status != http.StatusForbidden {
		t.Errorf("a token in the address = %d", p.Status)
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for name, header := range map[string][2]string{
		"cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"}, "origin": {"Origin", "https://evil.example"}, "null": {"Origin", "null"},
	} {
		b := k.login(k.Admin)
		token := b.Token()
		b.Header.Set(header[0], header[1])
		for _, path := range []string{"/ui/kit", "/ui/logout", "/ui/login", "/ui/theme"} {
			p := b.Send(http.MethodPost, path, url.Values{"word": {"x"}, "token": {token}, "key": {k.Admin}})
			if p.Status != http.StatusForbidden {
				t.Errorf("%s: %s = %d", name, path, p.Status)
			}
			p.Says("This form was sent from another site.")
		}
		b.Open("/ui") // reading is a link
	}
	if k.done.Load() != 0 {
		t.Error("a form of another site was carried out")
	}
}

func TestReadersChangeNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for _, key := range []string{k.AdminRead, k.Acme.Read} {
		b := k.login(key)
		if p := b.Post("/ui/kit", url.Values{"word": {"x"}}); p.Status != http.StatusForbidden {
			t.Errorf("a form of a reader = %d", p.Status)
		} else {
			p.Says("Your key may read, and change nothing.")
		}
		b.Want(http.StatusNotFound, "/ui/kit")
	}
	if k.done.Load() != 0 {
		t.Error("a reader changed something")
	}
}

func TestAnothersPagesAreNotThere(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	mine, other := k.Endpoint(k.Acme, nil), k.Endpoint(k.Bolt, map[string]any{"url": "https://bolt.example/secret"})
	b := k.login(k.Acme.Write)
	b.Open("/ui/endpoint/" + mine)
	for _, path := range []string{"/ui/endpoint/" + other, "/ui/endpoint/" + other + "?tenant=bolt", "/ui/server", "/ui/moon", "/ui/endpoint/..%2f..%2fkeys", "/ui/endpoint/%2e%2e"} {
		b.Want(http.StatusNotFound, path).SaysNot("bolt.example")
	}
	b.Open("/ui?tenant=bolt").SaysNot("bolt") // who has one tenant picks none
	k.login(k.Admin).Open("/ui?tenant=bolt").Says("tenant bolt")
	k.login(k.AdminRead).Open("/ui/server").Says("for operators")
}

func TestFormsGoToThePickedTenant(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	p := k.login(k.Admin).Post("/ui/kit", url.Values{"word": {"x"}, "tenant": {"bolt"}})
	if to := p.Header.Get("Location"); to != "/ui?tenant=bolt" {
		t.Errorf("an operator's form leads to %s", to)
	}
	p = k.login(k.Acme.Write).Post("/ui/kit", url.Values{"word": {"x"}, "tenant": {"bolt"}})
	if to := p.Header.Get("Location"); to != "/ui" {
		t.Errorf("a tenant's form leads to %s", to)
	}
}

func TestWrongFormsKeepWhatWasTyped(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	p := k.login(k.Admin).Post("/ui/kit", url.Values{"word": {" "}})
	if p.Status != http.StatusUnprocessableEntity {
		t.Errorf("= %d", p.Status)
	}
	p.Says("Nothing was changed. must not be empty")
	p.Has(`id="err-word"`)
	b := k.login(k.Admin)
	if p := b.Post("/ui/kit", url.Values{"word": {strings.Repeat("x", 300<<10)}}); p.Status != http.StatusBadRequest {
		t.Errorf("a form of 300 KiB = %d", p.Status)
	}
}

func TestNotesAreShownOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	p := b.Done("/ui/kit", url.Values{"word": {"<script>hi</script>"}, "link": {"/ui/server"}})
	p.Says("Said <script>hi</script>", "there")
	p.Has(`href="/ui/server"`)
	p.HasNot("<script>hi")
	b.Open("/ui").SaysNot("Said")

	p = b.Done("/ui/kit", url.Values{"word": {"x"}, "link": {"https://evil.example/"}})
	p.HasNot("evil.example")
	for _, value := range []string{"x", "e30", strings.Repeat("A", 3000), "bnVsbA"} {
		b.Keep(&http.Cookie{Name: "bw_note", Value: value})
		b.Open("/ui")
	}
}

func TestThemeIsKept(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	b.Open("/ui").HasNot("data-theme=")
	for _, theme := range []string{"dark", "light"} {
		if p := b.Send(http.MethodPost, "/ui/theme", url.Values{"theme": {theme}, "next": {"/ui/server"}}); p.Header.Get("Location") != "/ui/server" {
			t.Errorf("leads to %s", p.Header.Get("Location"))
		}
		b.Open("/ui").Has(`data-theme="` + theme + `"`)
	}
	b.Send(http.MethodPost, "/ui/theme", url.Values{"theme": {"moon"}, "next": {"https://evil.example"}})
	b.Open("/ui").HasNot("data-theme=")
	b.Keep(&http.Cookie{Name: "bw_theme", Value: `"><script>`})
	b.Open("/ui").HasNot("data-theme=", `"><script>`)
}

func TestProblemsSayNoMoreThanTheyMust(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	p := b.Want(http.StatusInternalServerError, "/ui/broken")
	p.Says("Something went wrong on our side.")
	p.SaysNot("disk 7")
	p = b.Want(http.StatusInternalServerError, "/ui/panic")
	p.Says("Something went wrong on our side.")
	p.SaysNot("disco", "goroutine")
	if p := b.Post("/ui/crash", nil); p.Status != http.StatusInternalServerError {
		t.Errorf("a form that panics = %d", p.Status)
	}
	b.Want(http.StatusNotFound, "/ui/moon").Says("There is no such page, or it is not yours to see.")
	if p := b.Send(http.MethodDelete, "/ui/kit", nil); p.Status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE = %d", p.Status)
	}
	if p := b.Want(http.StatusMovedPermanently, "/ui/server/?tenant=acme"); p.Header.Get("Location") != "/ui/server?tenant=acme" {
		t.Errorf("a slash at the end leads to %s", p.Header.Get("Location"))
	}
}
