package ui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

var part = regexp.MustCompile(`\{\w+\}`)

// TestEveryFormIsGuarded: no action is done for a reader, without the token of the
// session, or from another site.
func TestEveryFormIsGuarded(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	reader, tenant, admin := w.Login(w.AdminRead), w.Login(w.Acme.Read), w.Login(w.Admin)
	foreign := w.Login(w.Admin)
	token := foreign.Token()
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	actions := 0
	for _, section := range ui.Sections() {
		for _, a := range section.Actions {
			actions++
			path := part.ReplaceAllString(a.Path, "x")
			for name, p := range map[string]*uitest.Page{
				"a reader": reader.Post(path, nil), "a tenant's reader": tenant.Post(path, nil),
				"no token": admin.Send(http.MethodPost, path, url.Values{}), "another site": foreign.Send(http.MethodPost, path, url.Values{"token": {token}}),
			} {
				if p.Status != http.StatusForbidden {
					t.Errorf("%s: %s = %d", path, name, p.Status)
				}
			}
			if p := w.Browser().Send(http.MethodPost, path, url.Values{}); p.Status != http.StatusSeeOther || p.Header.Get("Location") != "/ui/login" {
				t.Errorf("%s: nobody = %d", path, p.Status)
			}
		}
	}
	if actions < 5 {
		t.Errorf("only %d actions", actions)
	}
}

// TestEveryPageKeepsToItsReaders: nobody sees a page without a login, tenants see
// none of operators, readers no form.
func TestEveryPageKeepsToItsReaders(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	tenant, reader := w.Login(w.Acme.Write), w.Login(w.AdminRead)
	for _, section := range ui.Sections() {
		for _, page := range section.Pages {
			path := part.ReplaceAllString(page.Path, "x")
			if p := w.Browser().Send(http.MethodGet, path, nil); p.Status != http.StatusSeeOther || !strings.HasPrefix(p.Header.Get("Location"), "/ui/login") {
				t.Errorf("%s: nobody = %d", path, p.Status)
			}
			if page.Operator {
				tenant.Want(http.StatusNotFound, path)
			}
			if page.Writes {
				reader.Want(http.StatusNotFound, path)
			}
		}
	}
}
