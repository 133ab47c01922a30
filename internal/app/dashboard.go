package app

import (
	"net/http"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/ui"
	"github.com/breakwaterhq/breakwater/internal/ui/apidocs"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// buildDashboard makes the pages, which ask the API inside the process.
func (a *App) buildDashboard() (err error) {
	a.site, err = ui.New(ui.Config{
		API: a.api.Handler(), Vault: a.vault, Logouts: a.db, Version: a.opts.Version, Node: a.node.Name,
		Vendor: site.Vendor{
			Name: a.opts.UI.VendorName, Logo: a.opts.UI.VendorLogo, Color: a.opts.UI.VendorColor, Ancestors: a.opts.UI.FrameAncestors,
		},
		Secure: a.opts.TLSCertFile != "", Log: a.log,
	})
	if err != nil {
		return err
	}
	a.docs, err = ui.NewDocs(a.api.Document())
	return err
}

// handler serves the dashboard under /ui, the documentation of the API under /docs and
// the API everywhere else. A person who opens the address of the server sees the
// dashboard, a program what the API says.
func (a *App) handler() http.Handler {
	rest := a.api.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/"):
			a.site.ServeHTTP(w, r)
		case r.URL.Path == apidocs.Path || strings.HasPrefix(r.URL.Path, apidocs.Path+"/"):
			a.docs.ServeHTTP(w, r)
		case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
			http.Redirect(w, r, "/ui", http.StatusSeeOther)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}
