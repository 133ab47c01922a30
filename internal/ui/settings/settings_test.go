package settings_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

func TestSettingsAreForOperators(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	own := []string{"/ui/settings/audit", "/ui/settings/presets", "/ui/settings/api"}
	server := []string{"/ui/settings", "/ui/settings/config"}
	keys := []string{"/ui/settings/keys", "/ui/settings/keys/new"}
	for key, pages := range map[string]struct{ there, not []string }{
		w.Admin:      {append(append(own, server...), keys...), nil},
		w.AdminRead:  {append(own, server...), keys},
		w.Acme.Write: {own, append(server, keys...)},
		w.Acme.Read:  {own, append(server, keys...)},
	} {
		b := w.Login(key)
		for _, path := range pages.there {
			p := b.Open(path)
			if len(p.Body) > 100_000 {
				t.Errorf("%s has %d bytes", path, len(p.Body))
			}
		}
		for _, path := range pages.not {
			b.Want(http.StatusNotFound, path)
		}
		// The navigation leads where the key may go.
		entry := "/ui/settings"
		if slices.Contains(pages.not, entry) {
			entry = "/ui/settings/audit"
		}
		b.Open("/ui").Has(`<a href="` + entry + `"`)
	}
}

func TestNodesTellTheirShare(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	p := w.Login(w.AdminRead).Open("/ui/settings")
	p.Says("Nodes", "n1", "Live", "1.2.3", "0–")
	p.SaysNot("have no owner", "Keys")
}

func TestKeyIsShownOnceAndRevoked(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	b.Open("/ui/settings/keys/new").Says("tenant:send", "publishes events of one tenant")
	made := b.Post("/ui/settings/keys", url.Values{"name": {"shop <1>"}, "scope": {"tenant:write"}, "of": {"acme"}, "expires_at": {"30d"}})
	made.Says("The key shop <1> is created", "It is shown once", "bw_", "1 Apr 10:30")
	_, text, _ := strings.Cut(made.Body, `id="key">`)
	text, _, _ = strings.Cut(text, "<")
	shop := w.Login(text)
	shop.Open("/ui/alerts")

	list := b.Open("/ui/settings/keys")
	list.Says("shop <1>", "acme", "Active", "yours")
	list.HasNot(text)
	_, id, _ := strings.Cut(list.Body, `data-row="key_`)
	id, _, _ = strings.Cut(id, `"`)
	path := "/ui/settings/keys/key_" + id + "/revoke"
	ask := b.Open(path)
	ask.Says("Revoke the key shop <1>?", "It cannot be taken back.", "Links to the portal that were made with it end, too.")
	ask.SaysNot("you will be logged out")
	b.Done(path, nil).Says("The key is revoked.", "Revoked")
	if p := shop.Want(http.StatusSeeOther, "/ui/alerts"); p.Header.Get("Location") == "" {
		t.Error("who is logged in with a revoked key is not asked to log in")
	}
}

func TestWrongKeysAreNamedField(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	for name, tc := range map[string]struct {
		form url.Values
		want string
	}{
		"no tenant":      {url.Values{"name": {"a"}, "scope": {"tenant:send"}}, "is required with this scope"},
		"other tenant":   {url.Values{"name": {"a"}, "scope": {"tenant:send"}, "of": {"moon"}}, "does not exist"},
		"tenant of all":  {url.Values{"name": {"a"}, "scope": {"admin"}, "of": {"acme"}}, "goes with tenant scopes only"},
		"no name":        {url.Values{"scope": {"admin"}}, "Nothing was changed."},
		"unknown scope":  {url.Values{"name": {"a"}, "scope": {"moon"}}, "Nothing was changed."},
		"no such expiry": {url.Values{"name": {"a"}, "scope": {"admin"}, "expires_at": {"soon"}}, "must be a duration such as 30d"},
	} {
		p := b.Post("/ui/settings/keys", tc.form)
		if p.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s = %d", name, p.Status)
		}
		p.Says(tc.want)
	}
	if p := w.Login(w.Acme.Write).Post("/ui/settings/keys", url.Values{"name": {"a"}, "scope": {"tenant:write"}, "of": {"acme"}}); p.Status != http.StatusNotFound {
		t.Errorf("a tenant's key made a key: %d", p.Status)
	}
	if p := w.Login(w.Acme.Write).Post("/ui/settings/keys/key_0000000000000/revoke", nil); p.Status != http.StatusNotFound {
		t.Errorf("a tenant's key revoked a key: %d", p.Status)
	}
}

func TestLastAdminKeyStays(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	var me struct{ Key string }
	w.Call(http.StatusOK, http.MethodGet, "/v1/me", w.Admin, nil, &me)
	path := "/ui/settings/keys/" + me.Key + "/revoke"
	b.Open(path).Says("You are logged in with this key: you will be logged out.")
	p := b.Post(path, nil)
	if p.Status != http.StatusConflict {
		t.Errorf("revoke of the last admin key = %d", p.Status)
	}
	p.Says("Nothing was changed.", "admin key")
	b.Open("/ui/settings/keys").Says("Active")
}

func TestPresetsShowTheirLadders(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Read)
	p := b.Open("/ui/settings/presets")
	p.Says("attempts over", "Since the first")
	p.Has("<svg", "Waits of ")
	p = b.Open("/ui/settings/presets?preset=default")
	p.Says("1 s to 1 m 30 s", "4 h 31 m") // as people write it
	if n := strings.Count(p.Body, "<pre"); n != 1 {
		t.Errorf("%d policies are written out, want the one that was asked for", n)
	}
}

func TestAuditIsFiltered(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	ep := w.Endpoint(w.Acme, map[string]any{"description": "<b>shop</b>"})
	w.Clock.Pass(2 * time.Hour)
	w.Endpoint(w.Bolt, nil)
	b := w.Login(w.Admin)
	p := b.Open("/ui/settings/audit")
	p.Says("endpoint.create", ep, "tenant:write", "<b>shop</b>")
	p.HasNot("<b>shop</b>")
	for query, want := range map[string]int{"action=endpoint.*": 2, "subject=" + ep: 1, "since=1h": 1, "action=endpoint.create&since=24h": 2, "action=moon.*": 0, "tenant=acme": 1} {
		p := b.Open("/ui/settings/audit?" + query)
		if n := strings.Count(p.Body, "<tr data-row="); n != want {
			t.Errorf("%s: %d rows, want %d\n%s", query, n, want, p.Text())
		}
	}
	b.Open("/ui/settings/audit?action=moon.*").Says("Nothing matches this filter")
	b.Want(http.StatusBadRequest, "/ui/settings/audit?action=*moon")
	tenant := w.Login(w.Acme.Write).Open("/ui/settings/audit")
	tenant.Says(ep)
	if n := strings.Count(tenant.Body, "<tr data-row="); n != 1 {
		t.Errorf("a tenant sees %d changes", n)
	}
}

func TestReferenceHasEveryRoute(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	p := w.Login(w.Acme.Read).Open("/ui/settings/api")
	p.Says("/v1/alerts/{alert}/ack", "Acknowledge an alert")
	p.Has(`href="/openapi.json"`)
}

func TestConfigurationSaysWhereItComesFrom(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.AdminRead)
	b.Open("/ui/settings/config").Says("retention.data 30d default", "smtp.password *** env")
	b.Open("/ui/settings/config?set=true").SaysNot("retention.data")
}

func TestPortalLinkIsMade(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	path := "/ui/tenants/acme/portal-link"
	b.Open(path).Says("Portal link for acme", "reads one tenant, changes nothing")
	b.Post(path, url.Values{"ttl": {"1h"}, "scope": {"tenant:read"}}).Says("/ui/portal?link=", "lasts until 11:30:15 UTC", "shown once")
	b.Post(path, url.Values{"ttl": {"9d"}, "scope": {"tenant:read"}}).Says("Nothing was changed.", "must be a duration from 5m to 24h")
	b.Want(http.StatusNotFound, "/ui/tenants/moon/portal-link")
	w.Login(w.Acme.Read).Want(http.StatusNotFound, path)
	if p := w.Login(w.Bolt.Write).Post(path, url.Values{"ttl": {"1h"}, "scope": {"tenant:read"}}); p.Status != http.StatusNotFound {
		t.Errorf("another tenant's key made a link: %d", p.Status)
	}
}
