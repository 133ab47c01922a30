package find_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// TestAnyIDLeadsToItsPage: of everything that has an id, with blanks around it too.
func TestAnyIDLeadsToItsPage(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	endpoint := w.Endpoint(w.Acme, map[string]any{"url": "https://hooks.acme.example/in", "types": []string{"*"}})
	event := w.Event(w.Acme, "order.paid", map[string]int{"order": 42})
	b := w.Login(w.Admin)
	for id, page := range map[string]string{
		endpoint: "/ui/endpoints/" + endpoint, event: "/ui/events/" + event, w.Acme.Text: "/ui/tenants/" + w.Acme.Text, "+" + event + "+": "/ui/events/" + event,
	} {
		p := b.Send(http.MethodGet, "/ui/find?q="+id, nil)
		if p.Status != http.StatusSeeOther || p.Header.Get("Location") != page {
			t.Errorf("%s: %d to %q, want %s", id, p.Status, p.Header.Get("Location"), page)
		}
	}
}

// TestFindShowsWhatThereIs: lists for what is no id, and says so when there is nothing.
func TestFindShowsWhatThereIs(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Endpoint(w.Acme, map[string]any{"url": "https://hooks.acme.example/in", "types": []string{"*"}})
	b := w.Login(w.Admin)
	b.Want(http.StatusOK, "/ui/find?q=acme").Says("Tenants", w.Acme.Text)
	b.Want(http.StatusOK, "/ui/find").Says("What are you looking for?")
	b.Want(http.StatusOK, "/ui/find?q=evt_0000000000001").Says("Nothing found", "There is no event with this id")
	b.Want(http.StatusOK, "/ui/find?q=dlv_nonsense").Says("There is no delivery with this id")
	b.Want(http.StatusOK, "/ui/find?q=%3Cscript%3E").HasNot("<script>alert")
	b.Want(http.StatusBadRequest, "/ui/find?q="+strings.Repeat("x", 501)).Says("too long")
}

// TestFindKeepsTenantsApart: what is another tenant's is not found.
func TestFindKeepsTenantsApart(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	endpoint := w.Endpoint(w.Acme, map[string]any{"url": "https://hooks.acme.example/in", "types": []string{"*"}})
	b := w.Login(w.Bolt.Read)
	for _, q := range []string{endpoint, w.Acme.Text, "hooks.acme.example"} {
		page := b.Want(http.StatusOK, "/ui/find?q="+q)
		page.Says("Nothing found")
		page.HasNot("acme.example/in")
	}
}
