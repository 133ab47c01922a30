package api_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

func TestPortalLinks(t *testing.T) {
	t.Parallel()
	var v *vault.Vault
	w := newWorld(t, func(cfg *api.Config) {
		v, cfg.PublicURL = cfg.Vault, func() string { return "https://hooks.example.com" }
	})
	open := func(key, body string) (view.PortalLink, portal.Link) {
		t.Helper()
		var made view.PortalLink
		r := w.must(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/portal-links", key, body)
		r.into(t, &made)
		u, err := url.Parse(made.URL)
		if err != nil || u.Scheme+"://"+u.Host+u.Path != "https://hooks.example.com/ui/portal" || r.header.Get("Location") != "" {
			t.Fatalf("link %q, %v", made.URL, err)
		}
		l, err := portal.Open(v, u.Query().Get("link"), w.clock.now())
		w.ok(err)
		return made, l
	}
	made, l := open(w.a.write, "")
	if l.Tenant != w.a.tenant || l.Scope != hook.ScopeTenantWrite || l.Until.Sub(w.clock.now()).Round(time.Minute) != time.Hour || !time.Time(made.ExpiresAt).Equal(l.Until) {
		t.Errorf("link %+v, told %v", l, time.Time(made.ExpiresAt))
	}
	key, err := w.db.KeyByHash(w.ctx(), l.Hash)
	w.ok(err)
	w.ok(l.Check(&key, w.clock.now()))
	rec := w.lastAudit()
	if rec.Action != "portal_link.create" || rec.Actor != hook.KeyPrefix.Format(l.Key) || rec.TenantID != w.a.tenant {
		t.Errorf("record %+v", rec)
	}
	if _, l := open(w.admin, `{"ttl":"5m","scope":"tenant:read"}`); l.Tenant != w.a.tenant || l.Scope != hook.ScopeTenantRead || l.Until.Sub(l.Issued) != 5*time.Minute {
		t.Errorf("link of an operator %+v", l)
	}
	// With the key the link ends.
	w.must(http.StatusNoContent, http.MethodDelete, "/v1/keys/"+hook.KeyPrefix.Format(l.Key), w.admin, nil)
	key, err = w.db.KeyByHash(w.ctx(), l.Hash)
	w.ok(err)
	if l.Check(&key, w.clock.now()) == nil {
		t.Error("the link outlives its key")
	}
}

func TestConfigIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(cfg *api.Config) {
		cfg.Settings = []view.Setting{{Key: "listen", Value: ":8080", Origin: "BREAKWATER_LISTEN"}, {Key: "database_url", Value: "***", Origin: "x.yaml line 2"}}
	})
	var got view.Settings
	w.must(http.StatusOK, http.MethodGet, "/v1/config", w.adminRead, nil).into(t, &got)
	if len(got.Data) != 2 || got.Data[0].Value != ":8080" || got.Data[1].Origin != "x.yaml line 2" {
		t.Errorf("settings %+v", got)
	}
}
