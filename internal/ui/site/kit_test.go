package site_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// kit is a site with pages of its own, over the API of a world.
type kit struct {
	*uitest.World
	site  *site.Site
	done  atomic.Int64 // how often the form was carried out
	value atomic.Int64 // what the live page shows
	fails atomic.Bool  // the live page cannot be read
}

type plainAssets struct{}

func (plainAssets) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
func (plainAssets) Path(name string) string                          { return "/ui/static/" + name }

var templates = fstest.MapFS{
	"kit.html":      {Data: []byte(`{{template "top" .}}<h1>{{.Title}}</h1><p>{{.Content}}</p>{{template "bottom" .}}`)},
	"kit-form.html": {Data: []byte(`{{template "top" .}}{{template "wrong" .}}<form method="post" action="/ui/kit">{{template "token" .}}<input name="word" value="{{.Form.Value "word"}}">{{template "error" dict "Form" .Form "Name" "word"}}</form>{{template "bottom" .}}`)},
	"kit-live.html": {Data: []byte(`{{template "top" .}}<div data-live="kit-block">{{template "kit-block" .}}</div>{{template "bottom" .}}{{define "kit-block"}}value {{.Content}}{{end}}{{define "kit-still"}}still{{end}}`)},
}

func newKit(t *testing.T, change func(*site.Config), tune ...uitest.Tune) *kit {
	t.Helper()
	k := &kit{World: uitest.New(t, tune...)}
	form := &site.Page{Path: "/ui/kit", Template: "kit-form.html", Title: "Kit", Writes: true, Load: func(*site.Visit) (any, error) { return nil, nil }}
	cfg := site.Config{
		API: k.API.Handler(), Vault: k.Vault, Logouts: k.DB, Assets: plainAssets{}, Version: "1.2.3", Node: "n1", Now: k.Clock.Now,
		Places: []site.Place{{Name: "Kit", Path: "/ui"}, {Name: "Server", Path: "/ui/server", Operator: true}, {Name: "Inner", Path: "/ui/inner", Inside: true}},
		Sections: []site.Section{{
			Templates: templates,
			Pages: []site.Page{
				{Path: "/ui", Template: "kit.html", Title: "Kit", Place: "Kit", Load: func(v *site.Visit) (any, error) { return "tenant " + v.Tenant(), nil }},
				*form,
				{Path: "/ui/server", Template: "kit.html", Title: "Server", Operator: true, Load: func(*site.Visit) (any, error) { return "for operators", nil }},
				{Path: "/ui/inner", Template: "kit.html", Title: "Inner", Inside: true, Load: func(*site.Visit) (any, error) { return "not for guests", nil }},
				{Path: "/ui/endpoint/{id}", Template: "kit.html", Title: "Endpoint", Load: func(v *site.Visit) (any, error) {
					var e struct{ URL string }
					err := v.Get(v.API("endpoints", v.ID("id")), nil, &e)
					return e.URL, err
				}},
				{Path: "/ui/live", Template: "kit-live.html", Title: "Live", Live: []string{"kit-block", "kit-still"}, Load: func(*site.Visit) (any, error) {
					if k.fails.Load() {
						return nil, errors.New("the store is away")
					}
					return k.value.Load(), nil
				}},
				{Path: "/ui/broken", Template: "kit.html", Title: "Broken", Load: func(*site.Visit) (any, error) { return nil, errors.New("disk 7 is on fire") }},
				{Path: "/ui/panic", Template: "kit.html", Title: "Panic", Load: func(*site.Visit) (any, error) { panic("at the disco") }},
			},
			Actions: []site.Action{
				{Path: "/ui/kit", Form: form, Do: func(v *site.Visit) (site.Done, error) {
					if v.Posted("word") == "" {
						return site.Done{}, site.Wrong("word", "must not be empty")
					}
					k.done.Add(1)
					return site.Done{To: v.Frame.Link("/ui"), Say: "Said " + v.Posted("word"), Link: v.Posted("link"), Name: "there"}, nil
				}},
				{Path: "/ui/crash", Do: func(*site.Visit) (site.Done, error) { panic("in a form") }},
			},
		}},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	k.site, err = site.New(cfg)
	k.OK(err)
	t.Cleanup(k.site.Stop)
	return k
}

// browser opens one in which nobody is logged in.
func (k *kit) browser() *uitest.Browser { return uitest.NewBrowser(k.T, k.site) }

func (k *kit) login(key string) *uitest.Browser {
	k.T.Helper()
	b := k.browser()
	b.Login(key)
	return b
}

func TestWrongKeysDoNotLogIn(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b := k.browser()
	for text, tc := range map[string]struct {
		status int
		want   string
	}{
		"":                              {http.StatusUnprocessableEntity, "This is no API key"},
		"password":                      {http.StatusUnprocessableEntity, "This is no API key"},
		"bw_" + strings.Repeat("0", 40): {http.StatusUnauthorized, "No such key"},
		k.Acme.Send:                     {http.StatusForbidden, "A key that may only send cannot log in."},
	} {
		p := b.Send(http.MethodPost, "/ui/login", url.Values{"key": {text}})
		if p.Status != tc.status {
			t.Errorf("login with %.6s… = %d", text, p.Status)
		}
		p.Says(tc.want)
		if len(text) > 10 {
			p.HasNot(text)
		}
	}
	revoked := k.Key(0, hook.ScopeAdminRead)
	var me struct{ Key string }
	k.Call(http.StatusOK, http.MethodGet, "/v1/me", revoked, nil, &me)
	k.Call(http.StatusNoContent, http.MethodDelete, "/v1/keys/"+me.Key, k.Admin, nil, nil)
	if p := b.Send(http.MethodPost, "/ui/login", url.Values{"key": {revoked}}); p.Status != http.StatusUnauthorized {
		t.Errorf("login with a revoked key = %d", p.Status)
	} else {
		p.Says("No such key, or it was revoked or has expired.")
	}
	if b.Cookie("bw_session") != nil {
		t.Error("a wrong key left a session")
	}
}

// TestGuessingIsCountedAndLimited: as everywhere in the API, and never at the cost of
// who has a key.
func TestGuessingIsCountedAndLimited(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	limited := 0
	for i := range 200 {
		key, _, _ := rest.NewKey(rand.Reader)
		switch p := k.browser().Send(http.MethodPost, "/ui/login", url.Values{"key": {key}}); p.Status {
		case http.StatusUnauthorized:
		case http.StatusTooManyRequests:
			limited++
		default:
			t.Fatalf("guess %d = %d\n%s", i, p.Status, p.Text())
		}
	}
	if limited < 100 {
		t.Errorf("%d of 200 guesses were limited", limited)
	}
	k.login(k.Acme.Read).Open("/ui")
}

func TestLoginLeadsToLocalPagesOnly(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	for next, want := range map[string]string{
		"/ui/server?tenant=acme": "/ui/server?tenant=acme", "/ui": "/ui", "": "/ui",
		"https://evil.example/ui": "/ui", "//evil.example/ui": "/ui", "/\\evil.example": "/ui", "/ui\\@evil.example": "/ui", "/ui/login?next=/ui": "/ui",
		"/ui\r\nSet-Cookie: a=b": "/ui", "/v1/keys": "/ui", "/uix": "/ui", "/ui.evil.example": "/ui", "javascript:alert(1)": "/ui", "/ui/../v1/keys": "/ui", "/ui/%2e%2e/v1": "/ui",
	} {
		p := k.browser().Send(http.MethodPost, "/ui/login", url.Values{"key": {k.Admin}, "next": {next}})
		if got := p.Header.Get("Location"); p.Status != http.StatusSeeOther || got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
	}
	p := k.browser().Want(http.StatusSeeOther, "/ui/endpoint/7?tenant=acme&x=%2f")
	login := p.Header.Get("Location")
	if login != "/ui/login?next=%2Fui%2Fendpoint%2F7%3Ftenant%3Dacme%26x%3D%252f" {
		t.Errorf("a page leads to %s", login)
	}
	k.browser().Open(login).Has(`value="/ui/endpoint/7?tenant=acme&amp;x=%2f"`)
	if p := k.browser().Send(http.MethodPost, "/ui/kit", url.Values{}); p.Header.Get("Location") != "/ui/login" {
		t.Errorf("a form leads to %s", p.Header.Get("Location"))
	}
}

func TestLogoutEndsTheSessionEverywhere(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	b, other := k.login(k.Admin), k.login(k.Admin)
	copied := b.Copy()
	if p := b.Send(http.MethodPost, "/ui/logout", url.Values{"token": {other.Token()}}); p.Status != http.StatusForbidden {
		t.Errorf("logout with another session's token = %d", p.Status)
	}
	b.Open("/ui")
	if p := b.Post("/ui/logout", nil); p.Header.Get("Location") != "/ui/login" || b.Cookie("bw_session") != nil {
		t.Errorf("logout = %d to %s", p.Status, p.Header.Get("Location"))
	}
	copied.Want(http.StatusSeeOther, "/ui")
	other.Open("/ui")
	if p := k.browser().Send(http.MethodPost, "/ui/logout", nil); p.Status != http.StatusSeeOther {
		t.Errorf("logout of nobody = %d", p.Status)
	}
}

func TestCookieIsForPagesAlone(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	c := k.login(k.Admin).Cookie("bw_session")
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui" || c.Secure || c.Expires.IsZero() {
		t.Errorf("over http the cookie is %+v", c)
	}
	b := k.browser()
	b.Header.Set("X-Forwarded-Proto", "https")
	b.Login(k.Admin)
	if c := b.Cookie("bw_session"); !c.Secure {
		t.Errorf("behind TLS the cookie is %+v", c)
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	p := k.login(k.Admin).Open("/ui")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := p.Header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
