package tenants_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// TestATenantIsMadeChangedAndDeleted through its forms.
func TestATenantIsMadeChangedAndDeleted(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	b.Open("/ui/tenants/new").Says("New tenant", "Limits")
	page := b.Done("/ui/tenants", url.Values{"name": {"Initech"}, "uid": {"initech"}, "limits.max_endpoints": {"7"}, "policy": {`{"preset":"quick"}`}})
	page.Says("Initech", "The tenant Initech is created", "Endpoints 7", "No endpoints yet", "quick")
	b.Open("/ui/tenants?q=initech").Says("Initech")

	var made struct{ ID string }
	w.Call(http.StatusOK, http.MethodGet, "/v1/tenants/initech", w.Admin, nil, &made)
	path := "/ui/tenants/" + made.ID
	form := b.Open(path + "/edit")
	form.Has(`value="Initech"`, `value="7"`, `name="version" value="1"`)
	b.Done(path+"/edit", url.Values{"version": {"1"}, "name": {"Initech <b>"}, "uid": {"initech"}}).Says("Initech <b>", "The tenant is saved", "Endpoints as the server says")
	b.Open(path).HasNot("quick", "Initech <b>")

	stale := b.Post(path+"/edit", url.Values{"version": {"1"}, "name": {"Late"}})
	if stale.Status != http.StatusPreconditionFailed {
		t.Errorf("a form of before: %d", stale.Status)
	}
	stale.Says("Somebody else has changed it since you opened this form.", "name Initech <b> Late", "uid initech –")
	stale.Has(`name="version" value="2"`, `value="Late"`)
	b.Open(path+"/delete").Says("Delete the tenant", "It cannot be undone", "Type initech to confirm")
	wrong := b.Post(path+"/delete", url.Values{"typed": {"initec"}})
	if wrong.Status != http.StatusUnprocessableEntity {
		t.Errorf("another name typed: %d", wrong.Status)
	}
	wrong.Says("must be initech")
	b.Done(path+"/delete", url.Values{"typed": {"initech"}}).Says("is deleted")
	b.Want(http.StatusNotFound, path)
}

// TestWhatIsWrongStandsBesideItsField, and what was typed stays.
func TestWhatIsWrongStandsBesideItsField(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	for field, form := range map[string]url.Values{
		"uid":                      {"name": {"X"}, "uid": {"a b"}},
		"limits.max_pending":       {"name": {"X"}, "limits.max_pending": {"-1"}},
		"limits.max_endpoints":     {"name": {"X"}, "limits.max_endpoints": {"1.5"}},
		"limits.events_per_second": {"name": {"X"}, "limits.events_per_second": {"NaN"}},
		"policy":                   {"name": {"X"}, "policy": {"{"}},
	} {
		p := b.Post("/ui/tenants", form)
		if p.Status < 400 || p.Status >= 500 || !strings.Contains(p.Body, `id="err-`+field+`"`) {
			t.Errorf("%s: %d, no error beside it\n%s", field, p.Status, p.Text())
		}
		p.Has(`name="name" maxlength="200" required value="X"`)
		p.Says("Nothing was changed.")
	}
}

// TestOnlyOperatorsHaveTenants: to keys of a tenant the pages are not there, and keys
// that read see no buttons.
func TestOnlyOperatorsHaveTenants(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Write)
	for _, path := range []string{"/ui/tenants", "/ui/tenants/" + w.Acme.Text, "/ui/tenants/new", "/ui/tenants/" + w.Acme.Text + "/edit"} {
		b.Want(http.StatusNotFound, path)
	}
	if p := b.Post("/ui/tenants", url.Values{"name": {"X"}}); p.Status < 400 {
		t.Errorf("a tenant's key makes a tenant: %d", p.Status)
	}
	read := w.Login(w.AdminRead)
	read.Open("/ui/tenants").HasNot("New tenant")
	read.Open("/ui/tenants/"+w.Acme.Text).HasNot("/delete", "/edit", "Revoke")
	read.Want(http.StatusNotFound, "/ui/tenants/new")
	if p := read.Post("/ui/tenants", url.Values{"name": {"X"}}); p.Status != http.StatusForbidden {
		t.Errorf("a key that reads makes a tenant: %d", p.Status)
	}
	if p := b.Send(http.MethodPost, "/ui/tenants", url.Values{"name": {"X"}}); p.Status != http.StatusForbidden {
		t.Errorf("without a token: %d", p.Status)
	}
}

// TestAPageOfATenantHasItsThings: figures, endpoints and keys, and nobody else's.
func TestAPageOfATenantHasItsThings(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Endpoint(w.Acme, map[string]any{"url": "https://hooks.acme.example/in", "types": []string{"order.*"}})
	w.Endpoint(w.Bolt, map[string]any{"url": "https://hooks.bolt.example/in", "types": []string{"*"}})
	p := w.Login(w.Admin).Open("/ui/tenants/" + w.Acme.UID)
	p.Says("hooks.acme.example /in", "order.*", "tenant:write", "Breakers open", "of 1 endpoint")
	p.HasNot("bolt.example")
}
