package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

type portalLinkCreate struct {
	rest.TenantPath
	Body *struct {
		TTL   string `json:"ttl,omitempty" maxLength:"32" doc:"How long the link lasts: 5m to 24h, 1h when absent."`
		Scope string `json:"scope,omitempty" enum:"tenant:write,tenant:read" doc:"What the visitor may do; tenant:write when absent."`
	}
}

// portalLinkCreated has no Location: headers are logged more often than bodies.
type portalLinkCreated struct{ Body view.PortalLink }

// DefaultStatus is 201.
func (*portalLinkCreated) DefaultStatus() int { return http.StatusCreated }

func (a *API) addPortalRoutes() {
	g := a.server.Group("portal")
	rest.Add(g, rest.NeedWrite, "POST "+tenantPath+"/portal-links", "create-portal-link", "Make a link that opens the dashboard for this tenant alone", a.createPortalLink,
		rest.Describe("The link is not stored and cannot be listed. It ends at expires_at, or with the key that made it. Who came by a link can make neither keys nor links."))
}

func (a *API) createPortalLink(ctx context.Context, c *rest.Call, in *portalLinkCreate) (*portalLinkCreated, error) {
	if c.Key.Hash == [32]byte{} { // somebody who came by a link has no key
		return nil, rest.Forbidden("who came by a portal link may make none")
	}
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	link, err := newLink(c, t.ID, in)
	if err != nil {
		return nil, err
	}
	token, err := link.Seal(a.cfg.Vault)
	if err != nil {
		return nil, fmt.Errorf("make portal link: %w", err)
	}
	diff := map[string]any{"scope": link.Scope.String(), "expires_at": view.Stamp(link.Until)}
	rec := a.server.Audit(c, t.ID, "portal_link.create", hook.TenantPrefix.Format(t.ID), diff)
	if err := a.cfg.Store.WriteAudit(ctx, rec); err != nil {
		return nil, fmt.Errorf("make portal link: %w", err)
	}
	address := portal.Address(a.cfg.PublicURL(), token)
	return &portalLinkCreated{Body: view.PortalLink{URL: address, ExpiresAt: view.Stamp(link.Until)}}, nil
}

// newLink checks the body. A link cannot outlive its key.
func newLink(c *rest.Call, tenant hook.ID, in *portalLinkCreate) (*portal.Link, error) {
	ttl, scope := portal.DefaultTTL, hook.ScopeTenantWrite
	if in.Body != nil {
		bad := &rest.Invalid{}
		var err error
		if in.Body.TTL != "" {
			if ttl, err = quantity.ParseDuration(in.Body.TTL); err != nil || ttl < portal.MinTTL || ttl > portal.MaxTTL {
				bad.Add("ttl", "out_of_range", "must be a duration from 5m to 24h")
			}
		}
		if scope, err = hook.ParseScope(cmp.Or(in.Body.Scope, scope.String())); err != nil {
			bad.Add("scope", "not_allowed", err.Error())
		}
		if err := bad.Err(); err != nil {
			return nil, err
		}
	}
	// Seconds are enough, and make the link shorter.
	issued := c.Now.UTC().Truncate(time.Second)
	l := &portal.Link{Tenant: tenant, Scope: scope, Key: c.Key.ID, Hash: c.Key.Hash, Issued: issued, Until: issued.Add(ttl)}
	if ends := c.Key.ExpiresAt; !ends.IsZero() && ends.Before(l.Until) {
		l.Until = ends.UTC()
	}
	return l, nil
}
