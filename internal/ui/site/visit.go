package site

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
)

// Visit is one request of somebody who is logged in.
type Visit struct {
	Request *http.Request
	Frame   *Frame
	Me      Me
	Now     time.Time

	backend *backend
	session session.Session
	tenant  string // that is looked at; empty: all

	endpoints map[string]*view.Endpoint // that were asked for
	tenants   map[string]string         // names
}

// Me is who is logged in.
type Me struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	Scope   string  `json:"scope"`
	Tenant  *string `json:"tenant"`
	Version string  `json:"version"`
	Portal  bool    `json:"-"` // came by a portal link
}

// Operator reports whether the visitor sees all tenants.
func (m *Me) Operator() bool { return strings.HasPrefix(m.Scope, "admin") }

// Writes reports whether the visitor may change anything: what cannot be done has no
// button.
func (m *Me) Writes() bool { return m.Scope == "admin" || m.Scope == "tenant:write" }

// Get reads from the API.
func (v *Visit) Get(path string, query url.Values, out any) error {
	return v.backend.get(v.Request.Context(), path, query, out)
}

// Do changes something by the API. in and out may be nil.
func (v *Visit) Do(method, path string, in, out any) error {
	return v.backend.do(v.Request.Context(), call{method: method, path: path}, in, out)
}

// Patch changes an object, if it still has the version that the posted form was filled
// with.
func (v *Visit) Patch(path string, in, out any) error {
	version := v.Posted(versionField)
	if version == "" {
		return &Problem{Status: http.StatusBadRequest, Detail: "The form does not say which version it changes. Open the page again and send it from there."}
	}
	return v.backend.do(v.Request.Context(), call{method: http.MethodPatch, path: path, match: version}, in, out)
}

// API returns a path of the API below the tenant that is looked at, or below all
// that the visitor may see. Parts may be anything: they are escaped.
func (v *Visit) API(parts ...string) string {
	tenant := v.tenant
	if tenant == "" {
		tenant = "-"
	}
	return apiPath("/v1/tenants/", append([]string{tenant}, parts...))
}

// Server returns a path of the API that belongs to no tenant.
func (v *Visit) Server(parts ...string) string { return apiPath("/v1/", parts) }

func apiPath(base string, parts []string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
		if p == "." || p == ".." { // a server would resolve them
			escaped[i] = "%2E" + p[1:]
		}
	}
	return base + strings.Join(escaped, "/")
}

// Tenant returns the tenant that is looked at; empty: all.
func (v *Visit) Tenant() string { return v.tenant }

// Query returns a value of the page's query.
func (v *Visit) Query(name string) string { return v.Request.URL.Query().Get(name) }

// OneOf returns a value of the page's query that is one of some; the first, if it is
// none of them.
func (v *Visit) OneOf(name string, values ...string) string {
	got := v.Query(name)
	for _, value := range values {
		if got == value {
			return value
		}
	}
	return values[0]
}

// ID returns a part of the page's path.
func (v *Visit) ID(name string) string { return v.Request.PathValue(name) }

// errLogin means that nobody is logged in, or not any more.
var errLogin = errors.New("log in first")

// visit finds out who asks. The cookie is written anew now and then, but not for a
// stream: a page that stays open is nobody's activity.
func (s *Site) visit(w http.ResponseWriter, r *http.Request) (*Visit, error) {
	v, err := s.known(r)
	if err != nil {
		return nil, err
	}
	if !wantsStream(r) && v.session.Touch(v.Now) {
		if err := s.setCookie(w, r, &v.session); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// known returns the visit that a request is part of, or errLogin.
func (s *Site) known(r *http.Request) (*Visit, error) {
	v := &Visit{Request: r, Now: s.cfg.Now()}
	var err error
	if v.session, err = s.opened(r, v.Now); err != nil {
		return nil, errors.Join(errLogin, err)
	}
	ended, err := s.cfg.Logouts.SessionEnded(r.Context(), v.session.ID)
	if err != nil {
		return nil, err
	}
	if ended {
		return nil, errLogin
	}
	if !v.session.OfKey() {
		if err := s.linkHolds(r, &v.session.Link, v.Now); err != nil {
			return nil, err
		}
	}
	v.backend = s.backend(r, actorOf(&v.session))
	if err := v.Get("/v1/me", nil, &v.Me); err != nil {
		if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
			return nil, errLogin
		}
		return nil, err
	}
	v.Me.Portal = !v.session.OfKey()
	if v.Me.Operator() {
		v.tenant = r.URL.Query().Get("tenant")
	}
	return v, nil
}

// actorOf is for whom the API is asked.
func actorOf(s *session.Session) rest.Actor {
	if s.OfKey() {
		return rest.Actor{Hash: s.Key}
	}
	return rest.Actor{Guest: s.Link.Visitor()}
}

// backend returns the API as an actor sees it.
func (s *Site) backend(r *http.Request, a rest.Actor) *backend {
	b := &backend{api: s.cfg.API, actor: a, remote: r.RemoteAddr, via: make(http.Header)}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Request-Id"} {
		if values := r.Header[http.CanonicalHeaderKey(name)]; values != nil {
			b.via[http.CanonicalHeaderKey(name)] = values
		}
	}
	return b
}

// Cookies of sessions. Somebody who is logged in and opens a link of the portal has
// both: the portal is what they see until they leave it.
const (
	keyCookie    = "bw_session"
	portalCookie = "bw_portal"
)

var errNoSession = errors.New("no session")

// opened returns the session of a request. One that has ended comes with the error
// that says so.
func (s *Site) opened(r *http.Request, now time.Time) (session.Session, error) {
	for _, name := range []string{portalCookie, keyCookie} {
		c, err := r.Cookie(name)
		if err != nil {
			continue
		}
		open, err := session.Open(s.cfg.Vault, c.Value, now)
		if (err == nil || errors.Is(err, session.ErrExpired)) && open.OfKey() != (name == keyCookie) {
			return session.Session{}, session.ErrInvalid
		}
		return open, err
	}
	return session.Session{}, errNoSession
}

// setCookie writes the cookie of a session.
func (s *Site) setCookie(w http.ResponseWriter, r *http.Request, open *session.Session) error {
	value, err := open.Seal(s.cfg.Vault)
	if err != nil {
		return err
	}
	c := s.cookie(r, open.OfKey(), value) //nolint:gosec // made by cookie
	if open.OfKey() {
		c.Expires = open.Ends() // browsers keep that of a portal, so that its visitor is told what has ended
	}
	http.SetCookie(w, c)
	return nil
}

// dropCookie makes the browser forget a session.
func (s *Site) dropCookie(w http.ResponseWriter, r *http.Request, ofKey bool) {
	c := s.cookie(r, ofKey, "") //nolint:gosec // made by cookie
	c.MaxAge = -1
	http.SetCookie(w, c)
}

func (s *Site) cookie(r *http.Request, ofKey bool, value string) *http.Cookie {
	c := &http.Cookie{Name: keyCookie, Value: value, Path: "/ui", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.secure(r)} //nolint:gosec // secure wherever browsers come over TLS
	if ofKey {
		return c
	}
	c.Name = portalCookie
	return s.framed(r, c)
}

// secure reports whether the browser came over TLS. Who lies about it loses only the
// own login.
func (s *Site) secure(r *http.Request) bool {
	return s.cfg.Secure || r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// ended ends a session before its time, everywhere.
func (s *Site) ended(ctx context.Context, open *session.Session) error {
	return s.cfg.Logouts.EndSession(ctx, open.ID, open.Issued.Add(session.Absolute), s.cfg.Now())
}

// Pick looks at one tenant from here on, as if the visitor had picked it: for what can
// be done in one tenant only.
func (v *Visit) Pick(tenant string) error {
	var t view.Tenant
	if err := v.Get(v.Server("tenants", tenant), nil, &t); err != nil {
		return err
	}
	v.tenant = Either(t.UID, t.ID)
	v.Frame.Tenant = v.tenant
	if !slices.Contains(v.Frame.Tenants, v.tenant) {
		v.Frame.Tenants = append(v.Frame.Tenants, v.tenant)
	}
	return nil
}
