package site

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
)

// maxForm bounds the body of a posted form.
const maxForm = 256 << 10

// loginPage is what the login page shows.
type loginPage struct {
	Frame
	Error string
	Next  string
}

func (s *Site) showLogin(w http.ResponseWriter, r *http.Request) {
	s.answerLogin(w, r, http.StatusOK, "")
}

func (s *Site) answerLogin(w http.ResponseWriter, r *http.Request, status int, text string) {
	next := r.FormValue("next")
	s.render(w, status, "login.html", loginPage{Frame: s.bare(r, "Log in"), Error: text, Next: localPath(next)})
}

// localPath keeps an address of the dashboard; anything else would lead people away
// from here.
func localPath(p string) string {
	u, err := url.Parse(p)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.ContainsAny(p, "\\\r\n") {
		return ""
	}
	// As browsers read it: dots lead upwards, also escaped ones.
	clean := path.Clean(u.Path)
	if clean != "/ui" && !strings.HasPrefix(clean, "/ui/") || clean == "/ui/login" || !strings.HasPrefix(p, "/ui") {
		return ""
	}
	return p
}

// login begins a session. Wrong keys are counted by the API, as everywhere.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	text := strings.TrimSpace(r.PostFormValue("key"))
	_, hash, err := rest.HashKey(text)
	if err != nil {
		s.answerLogin(w, r, http.StatusUnprocessableEntity, "This is no API key: a key begins with bw_.")
		return
	}
	b := s.backend(r, rest.Actor{Hash: hash})
	var who Me
	if err := b.get(r.Context(), "/v1/me", nil, &who); err != nil {
		p := new(Problem)
		if !errors.As(err, &p) {
			s.fail(w, r, err)
			return
		}
		if p.Status == http.StatusUnauthorized {
			p.Detail = "No such key, or it was revoked or has expired."
		}
		s.answerLogin(w, r, p.Status, p.Detail)
		return
	}
	if who.Scope == "tenant:send" {
		s.answerLogin(w, r, http.StatusForbidden, "A key that may only send cannot log in. Use one that may read.")
		return
	}
	s.dropCookie(w, r, false) // a visit of the portal would hide the login
	begun := session.New(hash, s.cfg.Now())
	if err := s.setCookie(w, r, &begun); err != nil {
		s.fail(w, r, err)
		return
	}
	next := localPath(r.PostFormValue("next"))
	if next == "" {
		next = "/ui"
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // a page of ours: localPath
}

// logout ends the session, also for whoever may have copied its cookie.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	open, err := s.opened(r, s.cfg.Now())
	if err == nil {
		if !open.Owns(r.PostFormValue("token")) {
			s.refuse(w, r, http.StatusForbidden, "This form is not of your session.", "Open the page again.")
			return
		}
		if err := s.ended(r.Context(), &open); err != nil {
			s.fail(w, r, err)
			return
		}
	}
	if s.cameByLink(r) {
		s.portalOver(w, r, http.StatusOK, "You have left.")
		return
	}
	s.dropCookie(w, r, true)
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}
