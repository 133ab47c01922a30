package site

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/ui/brand"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
)

// Vendor is whose service visitors of the portal see. All of it was checked by
// whoever read the settings.
type Vendor struct {
	Name      string   // empty: the product's
	Logo      string   // https: or data: URL of an image; empty: the product's mark
	Color     string   // #rrggbb; empty: the product's
	Ancestors []string // origins that may show the portal in a frame
}

// Image is the logo for templates, which would refuse data: URLs otherwise.
func (v Vendor) Image() template.URL {
	return template.URL(v.Logo) //nolint:gosec // a setting, checked when it was read; it is an image wherever it stands
}

// product is what everybody else sees.
var product = Vendor{Name: "Breakwater"}

// sheet has the colours of the vendor.
type sheet struct{ text, address string }

const brandPath = "/ui/brand.css"

func newSheet(color string) sheet {
	text := brand.Sheet(color)
	if text == "" {
		return sheet{}
	}
	sum := sha256.Sum256([]byte(text))
	return sheet{text, brandPath + "?" + url.Values{"v": {hex.EncodeToString(sum[:6])}}.Encode()}
}

// serveBrand serves the colours of the vendor. Their address changes with them.
func (s *Site) serveBrand(w http.ResponseWriter, r *http.Request) {
	if s.brand.text == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	if r.URL.RequestURI() == s.brand.address {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write([]byte(s.brand.text))
}

// dress puts the vendor's name, logo and colours on a page, and takes off what is
// about the server.
func (s *Site) dress(f *Frame) {
	if f.Vendor = s.cfg.Vendor; f.Vendor.Name == "" {
		f.Vendor.Name = product.Name
	}
	f.Brand, f.Node, f.Version = s.brand.address, "", ""
}

// portalPolicy is what pages of the portal may load, and who may show them in a
// frame.
func (s *Site) portalPolicy() string {
	images := ""
	if strings.HasPrefix(s.cfg.Vendor.Logo, "https://") {
		images = " " + s.cfg.Vendor.Logo
	}
	ancestors := "'none'"
	if len(s.cfg.Vendor.Ancestors) > 0 {
		ancestors = strings.Join(s.cfg.Vendor.Ancestors, " ")
	}
	return policy(images, ancestors)
}

// framed lets a cookie be kept inside a frame of another site, where the portal may be
// shown in one. It then belongs to that site and ours together: no other site has it.
// Browsers take such cookies over TLS only. Key logins never get one: nobody may show
// their pages in a frame.
func (s *Site) framed(r *http.Request, c *http.Cookie) *http.Cookie { //nolint:gosec // its attributes are those that it came with, and these
	if len(s.cfg.Vendor.Ancestors) > 0 && s.secure(r) {
		c.SameSite, c.Secure, c.Partitioned = http.SameSiteNoneMode, true, true
	}
	return c
}

// portalPage is a page of the portal outside of its frame.
type portalPage struct {
	Frame
	Say  string
	Next string // where it leads by itself; empty: nowhere
}

// openPortal begins the visit of somebody who came by a link, and leads to an address
// without it. It does not redirect: the cookie is kept to our own pages, and a browser
// that was sent here from another site would not send it along.
func (s *Site) openPortal(w http.ResponseWriter, r *http.Request) {
	now := s.cfg.Now()
	link, err := portal.Open(s.cfg.Vault, r.URL.Query().Get(portal.Parameter), now)
	if err == nil {
		err = s.linkHolds(r, &link, now)
	}
	switch {
	case errors.Is(err, portal.ErrExpired), errors.Is(err, errLogin):
		s.portalOver(w, r, http.StatusGone, "This link has ended.")
		return
	case errors.Is(err, portal.ErrInvalid):
		s.portalOver(w, r, http.StatusForbidden, "This link is not valid.")
		return
	case err != nil:
		s.fail(w, r, err)
		return
	}
	begun := session.NewPortal(link, now)
	if err := s.setCookie(w, r, &begun); err != nil {
		s.fail(w, r, err)
		return
	}
	s.renderPortal(w, http.StatusOK, portalPage{Frame: s.bare(r, "Welcome"), Say: "One moment: your webhooks are opened.", Next: "/ui"})
}

// portalOver tells somebody who came by a link that it goes on no further. A visitor
// has no key to log in with.
func (s *Site) portalOver(w http.ResponseWriter, r *http.Request, status int, say string) {
	s.dropCookie(w, r, false)
	s.renderPortal(w, status, portalPage{Frame: s.bare(r, "Ended"), Say: say})
}

func (s *Site) renderPortal(w http.ResponseWriter, status int, p portalPage) {
	w.Header().Set("Content-Security-Policy", s.portalPolicy())
	s.dress(&p.Frame)
	p.Here = "" // it may have the link in it
	s.render(w, status, "portal.html", p)
}

// linkHolds asks for the key that made a link: a link ends with it.
func (s *Site) linkHolds(r *http.Request, link *portal.Link, now time.Time) error {
	var maker Me
	if err := s.backend(r, rest.Actor{Hash: link.Hash}).get(r.Context(), "/v1/me", nil, &maker); err != nil {
		if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
			return errLogin
		}
		return err
	}
	k := hook.APIKey{Hash: link.Hash}
	var err error
	if k.ID, err = hook.KeyPrefix.Parse(maker.Key); err != nil {
		return errLogin
	}
	if k.Scope, err = hook.ParseScope(maker.Scope); err != nil {
		return errLogin
	}
	if maker.Tenant != nil {
		if k.TenantID, err = hook.TenantPrefix.Parse(*maker.Tenant); err != nil {
			return errLogin
		}
	}
	if err := link.Check(&k, now); err != nil {
		return errors.Join(errLogin, err)
	}
	return nil
}

// cameByLink reports whether a request is part of a visit of the portal, also of one
// that has ended.
func (s *Site) cameByLink(r *http.Request) bool {
	_, err := r.Cookie(portalCookie)
	return err == nil
}
