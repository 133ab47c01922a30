package site_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// link makes a portal link with a key and returns its address.
func (k *kit) link(key string, t uitest.Tenant, body map[string]any) string {
	k.T.Helper()
	var made struct{ URL string }
	if body == nil {
		body = map[string]any{}
	}
	k.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/"+t.Text+"/portal-links", key, body, &made)
	return made.URL
}

func vendor(c *site.Config) {
	c.Vendor = site.Vendor{Name: "Shop & Co", Logo: "https://cdn.example/logo.png", Color: "#ffcc00"}
}

func embedded(c *site.Config) {
	vendor(c)
	c.Vendor.Ancestors = []string{"https://app.example", "https://*.example.com"}
}

// visit opens a link and the page that it leads to.
func (k *kit) visit(link string) *uitest.Browser {
	k.T.Helper()
	b := k.browser()
	p := b.Open(link)
	p.Has(`content="0; url=/ui"`)
	p.HasNot(link)
	return b
}

func TestLinkOpensThePortalOfOneTenant(t *testing.T) {
	t.Parallel()
	k := newKit(t, vendor)
	mine, other := k.Endpoint(k.Acme, nil), k.Endpoint(k.Bolt, nil)
	b := k.visit(k.link(k.Admin, k.Acme, nil))
	p := b.Open("/ui")
	p.Says("Log out")
	p.Has("<span>Shop &amp; Co</span>")
	p.SaysNot("Breakwater", "n1", "1.2.3", "All tenants", "Server", "Inner", "portal")
	p.Has("<title>Kit · Shop &amp; Co</title>", `src="https://cdn.example/logo.png"`, `href="/ui/brand.css?v=`)
	p.HasNot("Breakwater", `href="/ui/server"`, `href="/ui/inner"`, `id="tenant"`)
	b.Open("/ui/endpoint/" + mine)
	for _, path := range []string{"/ui/endpoint/" + other, "/ui/endpoint/" + other + "?tenant=bolt", "/ui/server", "/ui/inner"} {
		b.Want(http.StatusNotFound, path)
	}
	b.Done("/ui/kit", url.Values{"word": {"x"}}).Says("Said x")
	if c := b.Cookie("bw_portal"); !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui" {
		t.Errorf("cookie %+v", c)
	}
	for name, want := range map[string]string{"frame-ancestors": "frame-ancestors 'none'", "logo": "img-src 'self' data: https://cdn.example/logo.png;"} {
		if csp := p.Header.Get("Content-Security-Policy"); !strings.Contains(csp, want) {
			t.Errorf("%s: %s", name, csp)
		}
	}
	// What everybody else sees is the product.
	k.login(k.Admin).Open("/ui").HasNot("Shop &amp; Co", "brand.css", "cdn.example")
}

func TestReadersLinkChangesNothing(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.visit(k.link(k.Acme.Write, k.Acme, map[string]any{"scope": "tenant:read"}))
	if p := b.Post("/ui/kit", url.Values{"word": {"x"}}); p.Status != http.StatusForbidden || k.done.Load() != 0 {
		t.Errorf("a form of a reader = %d", p.Status)
	}
}

func TestVisitEndsWithItsLink(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	link := k.link(k.Admin, k.Acme, map[string]any{"ttl": "30m"})
	b := k.visit(link)
	k.Clock.Pass(29 * time.Minute)
	b.Open("/ui")
	k.Clock.Pass(time.Minute)
	p := b.Want(http.StatusForbidden, "/ui")
	p.Says("Your visit has ended.", "Go back to where you came from")
	p.SaysNot("API key")
	k.browser().Want(http.StatusGone, link).Says("This link has ended.")
	if b.Cookie("bw_portal") != nil {
		t.Error("the cookie of the visit stays")
	}
}

func TestVisitEndsWithTheKeyThatMadeTheLink(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	key := k.Key(k.Acme.ID, hook.ScopeTenantWrite)
	link := k.link(key, k.Acme, nil)
	b := k.visit(link)
	server := k.serve(t)
	s := k.listen(t, server, b, "/ui/live")
	s.until("now")
	k.revoke(key)
	s.until("ended")
	if p := b.Send(http.MethodPost, "/ui/kit", url.Values{"word": {"x"}}); p.Status != http.StatusForbidden || k.done.Load() != 0 {
		t.Errorf("a form after the end = %d", p.Status)
	}
	k.browser().Want(http.StatusGone, link).Says("This link has ended.")
}

func TestWrongLinksOpenNothing(t *testing.T) {
	t.Parallel()
	k, other := newKit(t, nil), newKit(t, nil)
	good := k.link(k.Admin, k.Acme, nil)
	for _, link := range []string{"/ui/portal", "/ui/portal?link=", "/ui/portal?link=hello", good[:len(good)-3], good + "x", other.link(other.Admin, other.Acme, nil), strings.Replace(good, "link=", "token=", 1)} {
		b := k.browser()
		b.Want(http.StatusForbidden, link).Says("This link is not valid.")
		if b.Cookie("bw_portal") != nil {
			t.Errorf("%s began a visit", link)
		}
	}
	// Neither kind of cookie passes as the other.
	b := k.visit(good)
	c := *b.Cookie("bw_portal")
	c.Name = "bw_session"
	stray := k.browser()
	stray.Keep(&c)
	stray.Want(http.StatusSeeOther, "/ui")
	key := *k.login(k.Admin).Cookie("bw_session")
	key.Name = "bw_portal"
	stray = k.browser()
	stray.Keep(&key)
	stray.Want(http.StatusForbidden, "/ui")
}

func TestVisitorsMakeNeitherKeysNorLinks(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	var made struct{ URL string }
	w.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/portal-links", w.Admin, nil, &made)
	b := w.Browser()
	b.Open(made.URL)
	for _, path := range []string{"/ui/settings", "/ui/settings/keys", "/ui/settings/audit", "/ui/settings/api", "/ui/tenants/acme/portal-link"} {
		b.Want(http.StatusNotFound, path)
	}
	for path, form := range map[string]url.Values{
		"/ui/tenants/acme/portal-link": {"ttl": {"1h"}, "scope": {"tenant:write"}},
		"/ui/settings/keys":            {"name": {"x"}, "scope": {"tenant:write"}, "of": {"acme"}},
	} {
		if p := b.Post(path, form); p.Status != http.StatusForbidden && p.Status != http.StatusNotFound {
			t.Errorf("%s = %d\n%s", path, p.Status, p.Text())
		}
	}
	b.Open("/ui/alerts").Says("Nothing fires")
}

// TestPortalIsShownInFramesOfSomeSites: its cookie is kept there, over TLS; pages of
// keys are shown in no frame.
func TestPortalIsShownInFramesOfSomeSites(t *testing.T) {
	t.Parallel()
	k := newKit(t, embedded)
	link := k.link(k.Admin, k.Acme, nil)
	plain := k.visit(link)
	if c := plain.Cookie("bw_portal"); c.SameSite != http.SameSiteStrictMode || c.Partitioned {
		t.Errorf("without TLS the cookie is %+v", c)
	}
	b := k.browser()
	b.Header.Set("X-Forwarded-Proto", "https")
	const want = "frame-ancestors https://app.example https://*.example.com;"
	pages := []*uitest.Page{b.Open(link), b.Open("/ui"), b.Want(http.StatusNotFound, "/ui/moon"), b.Post("/ui/kit", nil)}
	for i, p := range pages {
		if csp := p.Header.Get("Content-Security-Policy"); !strings.Contains(csp, want) {
			t.Errorf("page %d: %s", i, csp)
		}
	}
	b.Done("/ui/kit", url.Values{"word": {"x"}})
	for _, name := range []string{"bw_portal"} {
		if c := b.Cookie(name); c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.Partitioned || !c.HttpOnly {
			t.Errorf("%s is %+v", name, c)
		}
	}
	admin := k.browser()
	admin.Header.Set("X-Forwarded-Proto", "https")
	admin.Login(k.Admin)
	if c := admin.Cookie("bw_session"); c.SameSite != http.SameSiteStrictMode || c.Partitioned {
		t.Errorf("the cookie of a key is %+v", c)
	}
	if csp := admin.Open("/ui").Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none';") {
		t.Error(csp)
	}
}

// TestLoginsAndVisitsStandApart: an operator who tries a link is back in the own
// session after leaving, and a login ends a visit.
func TestLoginsAndVisitsStandApart(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.login(k.Admin)
	link := k.link(k.Admin, k.Acme, nil)
	b.Open(link)
	b.Want(http.StatusNotFound, "/ui/server")
	left := b.Post("/ui/logout", nil)
	left.Says("You have left.")
	b.Open("/ui/server")
	b.Open(link)
	b.Login(k.Admin)
	b.Open("/ui/server")
}

func TestBrandSheetHasTheColour(t *testing.T) {
	t.Parallel()
	k := newKit(t, vendor)
	page := k.visit(k.link(k.Admin, k.Acme, nil)).Open("/ui")
	_, address, _ := strings.Cut(page.Body, `href="/ui/brand.css`)
	address, _, _ = strings.Cut(address, `"`)
	p := k.browser().Open("/ui/brand.css" + address)
	p.Has(":root {", "--accent: light-dark(#")
	if p.Header.Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(p.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%v", p.Header)
	}
	if p := k.browser().Open("/ui/brand.css?v=old"); strings.Contains(p.Header.Get("Cache-Control"), "immutable") {
		t.Error("an old address is kept for ever")
	}
	newKit(t, nil).browser().Want(http.StatusNotFound, "/ui/brand.css")
}
