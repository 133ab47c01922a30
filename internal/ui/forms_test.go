package ui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestEveryFormNeedsTheTokenOfItsSession(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b, other := s.Login(s.Admin), s.Login(s.Admin).Token()
	before := s.state()
	for _, a := range actions() {
		for name, token := range map[string]string{"none": "", "wrong": "AAAA", "another's": other} {
			form := s.form()
			form.Set("token", token)
			if p := b.Send(http.MethodPost, s.path(a.Path), form); p.Status != http.StatusForbidden {
				t.Errorf("%s with the token %s = %d", a.Path, name, p.Status)
			}
		}
		if p := s.Browser().Send(http.MethodPost, s.path(a.Path), s.form()); p.Status != http.StatusSeeOther || p.Header.Get("Location") != "/ui/login" {
			t.Errorf("%s of nobody = %d to %s", a.Path, p.Status, p.Header.Get("Location"))
		}
	}
	if p := b.Send(http.MethodPost, "/ui/logout", url.Values{"token": {other}}); p.Status != http.StatusForbidden {
		t.Errorf("log out with another's token = %d", p.Status)
	}
	s.unchanged(before)
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Admin)
	token := b.Token()
	before := s.state()
	paths := []string{"/ui/login", "/ui/logout", "/ui/theme"}
	for _, a := range actions() {
		paths = append(paths, s.path(a.Path))
	}
	for name, header := range map[string]http.Header{
		"another site": {"Sec-Fetch-Site": {"cross-site"}}, "a sister": {"Sec-Fetch-Site": {"same-site"}},
		"an old browser": {"Origin": {"https://evil.example"}}, "a sandbox": {"Origin": {"null"}},
	} {
		b.Header = header
		for _, path := range paths {
			form := s.form()
			form.Set("token", token)
			form.Set("key", s.Admin)
			if p := b.Send(http.MethodPost, path, form); p.Status != http.StatusForbidden || len(p.Header["Set-Cookie"]) > 0 {
				t.Errorf("%s from %s = %d %v", path, name, p.Status, p.Header["Set-Cookie"])
			}
		}
	}
	s.unchanged(before)
}

var posts = regexp.MustCompile(`<form[^>]*method="post"[^>]*>`)

func TestWhoReadsHasNoFormsAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	all := s.who()
	before := s.state()
	for _, name := range []string{"reading operator", "reading tenant", "reading visitor"} {
		b := all[name]
		for _, p := range pages() {
			path := s.path(p.Path)
			page := b.Send(http.MethodGet, path, nil)
			if p.Writes && page.Status != http.StatusNotFound {
				t.Errorf("%s: %s = %d", name, path, page.Status)
			}
			for _, form := range posts.FindAllString(page.Body, -1) {
				if !strings.Contains(form, `"/ui/theme"`) && !strings.Contains(form, `"/ui/logout"`) {
					t.Errorf("%s: %s has %s", name, path, form)
				}
			}
		}
		for _, a := range actions() {
			if p := b.Post(s.path(a.Path), s.form()); p.Status != http.StatusForbidden {
				t.Errorf("%s: %s = %d", name, a.Path, p.Status)
			}
		}
	}
	s.unchanged(before)
}

func TestAnotherTenantFindsAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Bolt.Write)
	before := s.state()
	ids := []string{"hooks.example.com/in", s.Acme.Text}
	for _, id := range s.at {
		ids = append(ids, id)
	}
	for _, p := range pages() {
		for _, query := range []string{"", "?tenant=acme", "?tenant=" + s.Acme.Text, "?endpoint=main", "?q=main"} {
			path := s.path(p.Path) + query
			page := b.Send(http.MethodGet, path, nil)
			hidden := strings.Contains(p.Path, "{") || p.Operator
			if hidden && page.Status != http.StatusNotFound || page.Status >= http.StatusInternalServerError {
				t.Errorf("%s = %d", path, page.Status)
			}
			for _, id := range ids {
				if strings.Contains(page.Text(), id) && !strings.Contains(path, id) {
					t.Errorf("%s shows %s:\n%s", path, id, page.Text())
				}
			}
		}
	}
	for _, d := range downloads() {
		b.Want(http.StatusNotFound, s.path(d.Path))
	}
	for _, a := range actions() {
		for _, tenant := range []string{"", "acme"} {
			form := s.form()
			form.Set("tenant", tenant)
			p := b.Post(s.path(a.Path)+"?tenant="+tenant, form)
			if strings.Contains(a.Path, "{") && p.Status != http.StatusNotFound {
				t.Errorf("%s = %d\n%s", a.Path, p.Status, p.Text())
			}
		}
	}
	s.unchanged(before)
}

func TestVisitorsOfThePortalStayInIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.guest("tenant:write")
	inside := map[string]bool{}
	for _, p := range pages() {
		status := http.StatusOK
		if p.Inside || p.Operator {
			status = http.StatusNotFound
			inside[p.Path] = true
		}
		if page := b.Send(http.MethodGet, s.path(p.Path), nil); page.Status != status {
			t.Errorf("%s = %d, want %d", p.Path, page.Status, status)
		}
	}
	before := s.state()
	for _, a := range actions() {
		if !inside[a.Path] && (a.Form == nil || !a.Form.Inside && !a.Form.Operator) {
			continue
		}
		p := b.Post(s.path(a.Path), s.form())
		if p.Status != http.StatusNotFound {
			t.Errorf("%s = %d\n%s", a.Path, p.Status, p.Text())
		}
	}
	s.unchanged(before)
}

func TestWhatIsShownOnceHasNoFormThatLosesIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Admin)
	for _, path := range []string{"/ui/endpoints/" + s.at["/ui/endpoints/"] + "/secret", "/ui/tenants/acme/portal-link"} {
		p := b.Post(path, url.Values{"ttl": {"1h"}, "scope": {"tenant:read"}})
		if p.Status != http.StatusOK {
			t.Fatalf("%s = %d\n%s", path, p.Status, p.Text())
		}
		p.HasNot(`action="/ui/theme"`, `action="`+path+`"><label`) // they would lead to an address that is no page
	}
}
