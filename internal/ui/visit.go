package ui

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
)

// visit is one request of somebody who is logged in.
type visit struct {
	*backend
	r       *http.Request
	session session.Session
	me      me
	now     time.Time
}

// me is who is logged in.
type me struct {
	Key     string  `json:"key"`
	Name    string  `json:"name"`
	Scope   string  `json:"scope"`
	Tenant  *string `json:"tenant"`
	Version string  `json:"version"`
}

// Operator reports whether the visitor sees all tenants.
func (m *me) Operator() bool { return strings.HasPrefix(m.Scope, "admin") }

// Writes reports whether the visitor may change anything: what cannot be done has no
// button.
func (m *me) Writes() bool { return m.Scope == "admin" || m.Scope == "tenant:write" }

// errLogin means that nobody is logged in, or not any more.
var errLogin = errors.New("log in first")

// visit finds out who asks. The cookie is written anew now and then.
func (u *UI) visit(w http.ResponseWriter, r *http.Request) (*visit, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return nil, errLogin
	}
	v := &visit{r: r, now: u.cfg.Now()}
	if v.session, err = session.Open(u.cfg.Vault, cookie.Value, v.now); err != nil {
		return nil, errors.Join(errLogin, err)
	}
	ended, err := u.cfg.Logouts.SessionEnded(r.Context(), v.session.ID)
	if err != nil {
		return nil, err
	}
	if ended {
		return nil, errLogin
	}
	v.backend = u.backend(r, actorOf(&v.session))
	if err := v.get(r.Context(), "/v1/me", nil, &v.me); err != nil {
		if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized {
			return nil, errLogin
		}
		return nil, err
	}
	if v.session.Touch(v.now) {
		if err := u.setCookie(w, &v.session); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// actorOf is for whom the API is asked.
func actorOf(s *session.Session) rest.Actor {
	if s.OfKey() {
		return rest.Actor{Hash: s.Key}
	}
	return rest.Actor{Guest: &hook.APIKey{
		ID: s.Tenant, TenantID: s.Tenant, Name: "portal", Scope: s.Scope, CreatedAt: s.Issued, ExpiresAt: s.Until,
	}}
}

// backend returns the API as an actor sees it.
func (u *UI) backend(r *http.Request, a rest.Actor) *backend {
	b := &backend{api: u.cfg.API, actor: a, remote: r.RemoteAddr, via: make(http.Header)}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Request-Id"} {
		if values := r.Header[http.CanonicalHeaderKey(name)]; values != nil {
			b.via[http.CanonicalHeaderKey(name)] = values
		}
	}
	return b
}

const cookieName = "bw_session"

// setCookie writes the cookie of a session.
func (u *UI) setCookie(w http.ResponseWriter, s *session.Session) error {
	value, err := s.Seal(u.cfg.Vault)
	if err != nil {
		return err
	}
	http.SetCookie(w, u.cookie(value, s.Ends()))
	return nil
}

func (u *UI) cookie(value string, ends time.Time) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/ui", Expires: ends, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: u.cfg.Secure,
	}
}

// ended ends a session before its time, everywhere.
func (u *UI) ended(ctx context.Context, s *session.Session) error {
	return u.cfg.Logouts.EndSession(ctx, s.ID, s.Issued.Add(session.Absolute), u.cfg.Now())
}
