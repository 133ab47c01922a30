package ui

import (
	"errors"
	"net/http"
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

func (u *UI) showLogin(w http.ResponseWriter, r *http.Request) {
	u.answerLogin(w, r, http.StatusOK, "")
}

func (u *UI) answerLogin(w http.ResponseWriter, r *http.Request, status int, text string) {
	next := r.FormValue("next")
	u.render(w, status, "login.html", loginPage{Frame: u.bare(r, "Log in"), Error: text, Next: localPath(next)})
}

// localPath keeps a path of the dashboard; anything else would lead people away from
// here.
func localPath(p string) string {
	if !strings.HasPrefix(p, "/ui") || strings.ContainsAny(p, "\\\r\n") || strings.HasPrefix(p, "/ui/login") {
		return ""
	}
	return p
}

// login begins a session. Wrong keys are counted by the API, as everywhere.
func (u *UI) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	text := strings.TrimSpace(r.PostFormValue("key"))
	_, hash, err := rest.HashKey(text)
	if err != nil {
		u.answerLogin(w, r, http.StatusUnprocessableEntity, "This is no API key: a key begins with bw_.")
		return
	}
	b := u.backend(r, rest.Actor{Hash: hash})
	var who me
	if err := b.get(r.Context(), "/v1/me", nil, &who); err != nil {
		p := new(Problem)
		if !errors.As(err, &p) {
			u.fail(w, r, err)
			return
		}
		if p.Status == http.StatusUnauthorized {
			p.Detail = "No such key, or it was revoked or has expired."
		}
		u.answerLogin(w, r, p.Status, p.Detail)
		return
	}
	if who.Scope == "tenant:send" {
		u.answerLogin(w, r, http.StatusForbidden, "A key that may only send cannot log in. Use one that may read.")
		return
	}
	s := session.New(hash, u.cfg.Now())
	if err := u.setCookie(w, &s); err != nil {
		u.fail(w, r, err)
		return
	}
	next := localPath(r.PostFormValue("next"))
	if next == "" {
		next = "/ui"
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// logout ends the session, also for whoever may have copied its cookie.
func (u *UI) logout(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	cookie, err := r.Cookie(cookieName)
	if err == nil {
		s, err := session.Open(u.cfg.Vault, cookie.Value, u.cfg.Now())
		if err == nil {
			if !s.Owns(r.PostFormValue("token")) {
				u.refuse(w, r, http.StatusForbidden, "This form is not of your session.", "Open the page again.")
				return
			}
			if err := u.ended(r.Context(), &s); err != nil {
				u.fail(w, r, err)
				return
			}
		}
	}
	gone := u.cookie("", u.cfg.Now())
	gone.MaxAge = -1
	http.SetCookie(w, gone)
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}
