package uitest

import (
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Browser keeps cookies as a browser does, and runs no scripts.
type Browser struct {
	t       testing.TB
	h       http.Handler
	cookies map[string]*http.Cookie
	token   string // of the session of, which is asked for once
	of      string
	Header  http.Header // sent with every request
}

// Page is an answer.
type Page struct {
	Status int
	Header http.Header
	Body   string
	t      testing.TB
}

// Browser opens a browser in which nobody is logged in.
func (w *World) Browser() *Browser { return NewBrowser(w.T, w.Site) }

// NewBrowser opens one of any pages.
func NewBrowser(t testing.TB, h http.Handler) *Browser {
	return &Browser{t: t, h: h, cookies: map[string]*http.Cookie{}, Header: http.Header{}}
}

// Login opens a browser and logs in with a key.
func (w *World) Login(key string) *Browser {
	w.T.Helper()
	b := w.Browser()
	b.Login(key)
	return b
}

// Login logs in, or fails the test.
func (b *Browser) Login(key string) {
	b.t.Helper()
	if p := b.Send(http.MethodPost, "/ui/login", url.Values{"key": {key}}); p.Status != http.StatusSeeOther {
		b.t.Fatalf("login = %d\n%s", p.Status, p.Text())
	}
}

// Send makes a request, with a form if there is one, and takes the cookies of the
// answer.
func (b *Browser) Send(method, path string, form url.Values) *Page {
	b.t.Helper()
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	maps.Copy(r.Header, b.Header)
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	rec := httptest.NewRecorder()
	b.h.ServeHTTP(rec, r)
	res := rec.Result()
	defer res.Body.Close()
	for _, c := range res.Cookies() {
		b.Keep(c)
	}
	return &Page{Status: rec.Code, Header: res.Header, Body: rec.Body.String(), t: b.t}
}

// Keep takes a cookie, or forgets it.
func (b *Browser) Keep(c *http.Cookie) {
	if c.MaxAge < 0 {
		delete(b.cookies, c.Name)
		return
	}
	b.cookies[c.Name] = c
}

// Cookie returns a cookie; nil: there is none.
func (b *Browser) Cookie(name string) *http.Cookie { return b.cookies[name] }

// Copy is another browser with the same cookies.
func (b *Browser) Copy() *Browser {
	c := NewBrowser(b.t, b.h)
	maps.Copy(c.cookies, b.cookies)
	return c
}

// Open reads a page and fails unless it is there.
func (b *Browser) Open(path string) *Page {
	b.t.Helper()
	return b.Want(http.StatusOK, path)
}

// Want reads a page and fails unless it gets the status.
func (b *Browser) Want(status int, path string) *Page {
	b.t.Helper()
	p := b.Send(http.MethodGet, path, nil)
	if p.Status != status {
		b.t.Fatalf("GET %s = %d, want %d\n%s", path, p.Status, status, p.Text())
	}
	return p
}

// Token is what forms of this login carry.
func (b *Browser) Token() string {
	b.t.Helper()
	var both [2]string
	for i, name := range []string{"bw_session", "bw_portal"} {
		if c := b.cookies[name]; c != nil {
			both[i] = c.Value
		}
	}
	session := strings.TrimSpace(both[0] + " " + both[1])
	if session != "" && session == b.of {
		return b.token
	}
	p := b.Send(http.MethodGet, "/ui/login/token", nil) // any page has the form to log out
	m := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(p.Body)
	if m == nil {
		b.t.Fatalf("no form has a token: %d\n%s", p.Status, p.Text())
	}
	b.token, b.of = html.UnescapeString(m[1]), session
	return b.token
}

// Post sends a form, with its token.
func (b *Browser) Post(path string, form url.Values) *Page {
	b.t.Helper()
	with := url.Values{"token": {b.Token()}}
	maps.Copy(with, form)
	return b.Send(http.MethodPost, path, with)
}

// Done sends a form and returns the page that it leads to; it fails unless it leads
// to one.
func (b *Browser) Done(path string, form url.Values) *Page {
	b.t.Helper()
	p := b.Post(path, form)
	if p.Status != http.StatusSeeOther {
		b.t.Fatalf("POST %s = %d\n%s", path, p.Status, p.Text())
	}
	return b.Open(p.Header.Get("Location"))
}

var (
	hidden = regexp.MustCompile(`(?s)<(script|style|head|dialog|nav)\b.*?</(script|style|head|dialog|nav)>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
)

// Text is what a person reads on the page, with single blanks, without the
// navigation.
func (p *Page) Text() string {
	text := tags.ReplaceAllString(hidden.ReplaceAllString(p.Body, " "), " ")
	return strings.TrimSpace(blanks.ReplaceAllString(html.UnescapeString(text), " "))
}

// Says fails unless the page has all these texts.
func (p *Page) Says(texts ...string) {
	p.t.Helper()
	have := p.Text()
	for _, text := range texts {
		if !strings.Contains(have, text) {
			p.t.Errorf("the page does not say %q:\n%s", text, have)
		}
	}
}

// SaysNot fails if the page has one of these texts.
func (p *Page) SaysNot(texts ...string) {
	p.t.Helper()
	have := p.Text()
	for _, text := range texts {
		if strings.Contains(have, text) {
			p.t.Errorf("the page says %q:\n%s", text, have)
		}
	}
}

// Has fails unless the markup of the page has all these texts.
func (p *Page) Has(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Body, text) {
			p.t.Errorf("the page does not have %q:\n%s", text, p.Body)
		}
	}
}

// HasNot fails if the markup of the page has one of these texts.
func (p *Page) HasNot(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if strings.Contains(p.Body, text) {
			p.t.Errorf("the page has %q:\n%s", text, p.Body)
		}
	}
}

// Soon is how long tests wait for what happens at once on a machine that is not
// starved.
const Soon = 30 * time.Second
