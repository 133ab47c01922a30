package overview_test

import (
	"net/http"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// TestTheFirstPageOfANewServer: nothing is wrong, and it says what will be where.
func TestTheFirstPageOfANewServer(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	for _, key := range []string{w.Admin, w.AdminRead, w.Acme.Write, w.Acme.Read} {
		p := w.Login(key).Open("/ui")
		p.Says("Overview", "Accepted", "Dead letters", "Nothing needs attention")
		p.HasNot(`class="banner bad"`, "NaN", "%!")
		for _, block := range []string{"banner", "tiles", "attempts", "pending", "attention", "events"} {
			p.Has(`data-live="overview-` + block + `"`)
		}
	}
}

// TestTheWindowIsInTheAddress, and nonsense is the usual hour.
func TestTheWindowIsInTheAddress(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	for query, want := range map[string]string{"": "1h", "?window=15m": "15m", "?window=24h": "24h", "?window=7d": "7d", "?window=moon": "1h"} {
		b.Open("/ui" + query).Has(`window=` + want + `" aria-current="true"`)
	}
	b.Open("/ui?tenant=" + w.Acme.UID).Says("Overview " + w.Acme.UID)
	b.Want(http.StatusNotFound, "/ui?tenant=moon")
}

// TestATenantSeesItsOwnEndpointsOnly on its first page.
func TestATenantSeesItsOwnEndpointsOnly(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	e := w.Endpoint(w.Acme, map[string]any{"url": "https://hooks.acme.example/in", "types": []string{"*"}})
	w.Call(http.StatusOK, http.MethodPost, "/v1/tenants/acme/endpoints/"+e+"/pause", w.Admin, map[string]any{}, nil)
	w.Login(w.Acme.Read).Open("/ui").Says("of 1 endpoint")
	w.Login(w.Admin).Open("/ui").Says("Paused", "hooks.acme.example")
	other := w.Login(w.Bolt.Read).Open("/ui")
	other.Says("of 0 endpoints")
	other.HasNot("acme.example")
}
