package browser_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
	"github.com/breakwaterhq/breakwater/internal/vault"
	"github.com/breakwaterhq/breakwater/test/program"
)

// seals makes the cookies and links that the servers of these tests open.
func seals(t *testing.T) *vault.Vault {
	t.Helper()
	key, err := vault.ParseKey(program.EncryptionKey)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open([]vault.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// keep gives the tab a login that began some time ago.
func (b *tab) keep(v *vault.Vault, began, seen time.Time) {
	b.t.Helper()
	_, hash, err := rest.HashKey(program.AdminKey)
	if err != nil {
		b.t.Fatal(err)
	}
	s := session.New(hash, began)
	s.Seen = seen
	value, err := s.Seal(v)
	if err != nil {
		b.t.Fatal(err)
	}
	yes := true
	b.do("keep a login", command(network.SetCookie, network.SetCookieParams{Name: "bw_session", Value: value, URL: b.base + "/ui", Path: "/ui", HTTPOnly: &yes, SameSite: network.CookieSameSiteStrict}))
}

// TestSessionEndsUnderAnOpenPage: somebody who comes back to a page of yesterday is asked
// to log in and led back to it, whether it was open, asked for, or had a form to send.
func TestSessionEndsUnderAnOpenPage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	page := "/ui/endpoints/" + h.endpoint("/hook")
	v := seals(t)
	b := open(t, h.url, desk)

	for left := 3 * time.Second; ; left *= 2 { // a busy machine needs longer to show the page
		now := time.Now()
		b.keep(v, now.Add(left-session.Absolute), now)
		b.visit(page)
		if b.path() == page {
			break
		}
	}
	b.eventually("the open page leads to the login", func() bool { return strings.HasPrefix(b.path(), "/ui/login") })
	b.loggedOut(page)
	b.fill("#key", program.AdminKey)
	b.follow("form[action='/ui/login'] button")
	if b.path() != page {
		t.Errorf("after logging in the page is %s, want %s", b.path(), page)
	}

	b.eventually("the page is live", b.live)
	b.press("p") // a live page would find out before its form is sent, on a busy machine
	b.eventually("the page is paused", func() bool { return b.has("#live.paused") })
	yesterday := time.Now().Add(-25 * time.Hour)
	b.keep(v, yesterday, yesterday)
	b.submit("send a form of yesterday", 200, click("form[action*='/pause'] button"))
	b.loggedOut("")
	var endpoint struct{ Status string }
	h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/endpoints/"+strings.TrimPrefix(page, "/ui/endpoints/"), nil, &endpoint)
	if endpoint.Status != "active" {
		t.Errorf("a form of an ended session made the endpoint %s", endpoint.Status)
	}
	b.keep(v, yesterday, yesterday)
	b.visit(page)
	b.loggedOut(page)
}

// TestPageThatWasAwayLearnsThatItsSessionHasEnded: a tab that was hidden, or a server that
// was not there, must not leave figures of yesterday on the screen.
func TestPageThatWasAwayLearnsThatItsSessionHasEnded(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := open(t, h.url, desk)
	b.login(program.AdminKey)
	b.visit("/ui?window=24h")
	b.eventually("the page is live", b.live)
	b.press("p")
	b.eventually("the page is paused", func() bool { return b.has("#live.paused") })
	b.do("lose the login", command(network.ClearBrowserCookies, cdp.Empty{}))
	b.press("p")
	b.eventually("the page leads to the login", func() bool { return strings.HasPrefix(b.path(), "/ui/login") })
	b.loggedOut("/ui?window=24h")
}

// loggedOut checks that the tab shows the login, and that it leads back.
func (b *tab) loggedOut(next string) {
	b.t.Helper()
	at, err := url.Parse(b.path())
	if err != nil || at.Path != "/ui/login" || at.Query().Get("next") != next {
		b.t.Errorf("the page is %s, want the login with next=%s", b.path(), next)
	}
}

// TestFormsWithoutTheirTokenDoNothing takes the token out of forms that the browser has,
// as a page of another site would have to send them.
func TestFormsWithoutTheirTokenDoNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	id := h.endpoint("/hook")
	page := "/ui/endpoints/" + id
	b := open(t, h.url, desk)
	b.login(program.AdminKey)
	for name, script := range map[string]string{
		"missing": "document.querySelectorAll('input[name=token]').forEach(e => e.remove())",
		"empty":   "document.querySelectorAll('input[name=token]').forEach(e => e.value = '')",
		"wrong":   "document.querySelectorAll('input[name=token]').forEach(e => e.value = [...e.value].reverse().join(''))",
	} {
		for path, button := range map[string]string{page: "form[action*='/pause'] button", page + "/rotate-secret": "main form button.primary", "/ui": "form[action='/ui/logout'] button"} {
			b.visit(path)
			b.press("p") // a live block would bring its token back
			b.do(name+" token", chromedp.Evaluate[chromedp.Void](script))
			b.submit(name+" token, "+button, 403, click(button))
			if text := b.text("main"); !strings.Contains(text, "your session") {
				t.Errorf("%s token: the page says %q", name, text)
			}
		}
	}
	b.visit(page) // still logged in
	b.says("Delivering")
	var endpoint struct {
		Status  string
		Secrets int `json:"secrets_active"`
	}
	h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/endpoints/"+id, nil, &endpoint)
	if endpoint.Status != "active" || endpoint.Secrets != 1 {
		t.Errorf("forms without their token made of the endpoint %+v", endpoint)
	}
}

// TestTenantsSeeTheirOwnPagesOnly looks for another tenant by its addresses.
func TestTenantsSeeTheirOwnPagesOnly(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.login(s.Keys["globex"])
	for _, path := range []string{
		"/ui/endpoints/" + s.Endpoints["crm"], "/ui/endpoints/" + s.Endpoints["crm"] + "?tenant=acme", "/ui/deliveries/" + s.Deliveries["dead"] + "?tenant=" + s.Tenants["acme"],
		"/ui/events/" + s.Events["dead"], "/ui/replays/" + s.Replays["done"], "/ui/tenants/acme", "/ui/tenants",
	} {
		b.visitAs(path, 404)
		if text := b.text("body"); strings.Contains(text, "acme") {
			t.Errorf("%s tells of another tenant: %q", path, text)
		}
	}
	for _, path := range []string{"/ui?tenant=acme", "/ui/endpoints?tenant=acme", "/ui/deliveries?tenant=acme", "/ui/dead-letters?tenant=acme", "/ui/find?q=acme", "/ui/find?q=" + s.Endpoints["crm"]} {
		b.visit(path)
		if text := b.text("main"); strings.Contains(strings.ReplaceAll(text, "Find acme", ""), "acme") {
			t.Errorf("%s shows another tenant: %q", path, text)
		}
	}
}

// TestPortalLinkOpensOneTenantAndEnds follows a link as a customer does, and tries what its
// cookie is good for besides.
func TestPortalLinkOpensOneTenantAndEnds(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--ui-vendor-name", "Tidal Shop", "--ui-vendor-color", "#0a7d55")
	own, stranger := h.endpoint("/hook"), strangersEndpoint(h)
	maker, key := h.key("backend", "tenant:write", "default")
	var link struct{ URL string }
	h.callAs(key, nil, http.StatusCreated, http.MethodPost, "/v1/tenants/default/portal-links", map[string]any{"scope": "tenant:read"}, &link)
	at, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, h.url, desk)
	b.do("open the link", chromedp.Navigate(h.url+at.RequestURI()))
	b.eventually("the portal opens at a clean address", func() bool { return b.path() == "/ui" })
	if brand := b.text("nav .brand"); brand != "Tidal Shop" {
		t.Errorf("the portal is called %q", brand)
	}
	for path, status := range map[string]int64{
		"/ui/endpoints": 200, "/ui/endpoints/" + own: 200, "/ui/deliveries": 200, "/ui/dead-letters": 200, "/ui/replays": 200,
		"/ui/endpoints/" + stranger: 404, "/ui/settings": 404, "/ui/settings/audit": 404, "/ui/settings/keys": 404, "/ui/tenants": 404, "/ui/playground": 404,
	} {
		b.visitAs(path, status)
		if b.has("main form[method=post]") {
			t.Errorf("%s has a form for somebody who may only read", path)
		}
	}
	// The browser sends the cookie to pages only, and the API does not take it for a key.
	b.mu.Lock()
	b.expect = http.StatusUnauthorized
	b.mu.Unlock()
	if status := get(b, "ask the API", chromedp.Evaluate[int]("fetch('/v1/me').then(r => r.status)", chromedp.EvalAwaitPromise)); status != http.StatusUnauthorized {
		t.Errorf("the API answers a page of the portal with %d", status)
	}
	cookies := get(b, "read the cookies", func(ctx context.Context, target *chromedp.Target) ([]*network.Cookie, error) {
		got, err := cdp.Call(ctx, target, network.GetCookies, network.GetCookiesParams{URLs: []string{h.url + "/ui"}})
		return got.Cookies, err
	})
	token := ""
	for _, c := range cookies {
		if c.Name == "bw_portal" {
			token = c.Value
		}
		if c.Path != "/ui" || !c.HTTPOnly {
			t.Errorf("cookie %s: path %s, HttpOnly %v", c.Name, c.Path, c.HTTPOnly)
		}
	}
	if token == "" {
		t.Fatal("there is no cookie of the portal")
	}
	for _, secret := range []string{token, at.Query().Get("link")} {
		for _, path := range []string{"/v1/me", "/v1/tenants/default/endpoints"} {
			h.callAs(secret, http.Header{"Cookie": {"bw_portal=" + token}}, http.StatusUnauthorized, http.MethodGet, path, nil, nil)
			h.callAs("", http.Header{"Cookie": {"bw_portal=" + token}}, http.StatusUnauthorized, http.MethodGet, path, nil, nil)
		}
	}

	b.visit("/ui/endpoints/" + own)
	h.call(http.StatusNoContent, http.MethodDelete, "/v1/keys/"+maker, nil, nil)
	b.mu.Lock()
	b.expect = http.StatusForbidden
	b.mu.Unlock()
	b.eventually("the open page says that the visit has ended", func() bool { return strings.Contains(b.text("main"), "Your visit has ended") })
	b.visitAs(at.RequestURI(), http.StatusGone)
	b.says("This link has ended")

	_, hash, err := rest.HashKey(program.AdminKey)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	old := portal.Link{Tenant: 1 << 60, Scope: hook.ScopeTenantRead, Key: 1 << 60, Hash: hash, Issued: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}
	text, err := old.Seal(seals(t))
	if err != nil {
		t.Fatal(err)
	}
	b.visitAs("/ui/portal?link="+text, http.StatusGone)
	b.says("This link has ended")
	b.visitAs("/ui/portal?link="+text[:20]+"AAAA"+text[24:], http.StatusForbidden)
	b.says("This link is not valid")
}
