package settings

import (
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// The form that makes a link to the portal stands on the page of a tenant.
const linkPath = "/ui/tenants/{tenant}/portal-link"

var (
	linkPage = site.Page{Path: linkPath, Template: "settings-link.html", Title: "Portal link", Place: "Tenants", Inside: true, Writes: true, Load: loadLink}
	// linkMadePage is shown once: it has the link.
	linkMadePage = site.Page{Template: "settings-link-made.html", Title: "Portal link", Place: "Tenants", Inside: true}
)

// link is the form of a link.
type link struct {
	Tenant string // its name
	Back   string
	Action string
	Lives  []string
	Scopes []words.Word
}

// linkMade is what is shown once.
type linkMade struct {
	view.PortalLink
	Tenant string
	Back   string
}

func tenantPath(v *site.Visit) string { return "/ui/tenants/" + url.PathEscape(v.ID("tenant")) }

func loadLink(v *site.Visit) (any, error) {
	var t view.Tenant
	if err := v.Get(v.Server("tenants", v.ID("tenant")), nil, &t); err != nil {
		return nil, err
	}
	c := &link{Tenant: site.Either(t.UID, t.ID), Back: tenantPath(v), Action: tenantPath(v) + "/portal-link", Lives: []string{"5m", "1h", "8h", "24h"}}
	for _, scope := range []string{"tenant:write", "tenant:read"} {
		c.Scopes = append(c.Scopes, words.ScopeOf(scope))
	}
	v.Fill(url.Values{"ttl": {"1h"}, "scope": {"tenant:write"}})
	return c, nil
}

func makeLink(v *site.Visit) (site.Done, error) {
	in := map[string]string{"ttl": v.Posted("ttl"), "scope": v.Posted("scope")}
	made := &linkMade{Tenant: v.ID("tenant"), Back: tenantPath(v)}
	if err := v.Do(http.MethodPost, v.Server("tenants", v.ID("tenant"), "portal-links"), in, &made.PortalLink); err != nil {
		return site.Done{}, err
	}
	return site.Done{Show: &linkMadePage, Content: made}, nil
}
