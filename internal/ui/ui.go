package ui

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/ui/alerts"
	"github.com/breakwaterhq/breakwater/internal/ui/apidocs"
	"github.com/breakwaterhq/breakwater/internal/ui/deadletters"
	"github.com/breakwaterhq/breakwater/internal/ui/deliveries"
	"github.com/breakwaterhq/breakwater/internal/ui/endpoints"
	"github.com/breakwaterhq/breakwater/internal/ui/find"
	"github.com/breakwaterhq/breakwater/internal/ui/overview"
	"github.com/breakwaterhq/breakwater/internal/ui/playground"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
	"github.com/breakwaterhq/breakwater/internal/ui/settings"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/tenants"
)

// Config is what New needs. Fields are required unless a default is named.
type Config struct {
	API     http.Handler // the product's own
	Vault   session.Sealer
	Logouts site.Logouts
	Version string
	Node    string
	Vendor  site.Vendor      // whose portal it is
	Secure  bool             // browsers reach the server over TLS, also behind a proxy
	Log     *slog.Logger     // nil: discarded
	Now     func() time.Time // nil: time.Now
}

// places are the entries of the navigation.
var places = []site.Place{
	{Name: "Overview", Path: "/ui", Keys: "g o"},
	{Name: "Tenants", Path: "/ui/tenants", Keys: "g t", Operator: true},
	{Name: "Endpoints", Path: "/ui/endpoints", Keys: "g e"},
	{Name: "Deliveries", Path: "/ui/deliveries", Keys: "g d"},
	{Name: "Dead letters", Path: "/ui/dead-letters", Keys: "g x"},
	{Name: "Replays", Path: "/ui/replays", Keys: "g r"},
	{Name: "Alerts", Path: "/ui/alerts", Keys: "g a"},
	{Name: "Playground", Path: "/ui/playground", Keys: "g p", Inside: true},
	{Name: "Settings", Path: "/ui/settings", Own: "/ui/settings/audit", Keys: "g s", Inside: true},
}

// sections are the parts of the dashboard.
func sections() []site.Section {
	return []site.Section{
		overview.Section(),
		find.Section(),
		tenants.Section(),
		endpoints.Section(),
		deliveries.Section(),
		deadletters.Section(),
		alerts.Section(),
		playground.Section(),
		settings.Section(),
	}
}

// NewDocs makes the page that shows an OpenAPI document to people, in the looks of the
// dashboard but for everybody: as the document, it needs no key.
func NewDocs(document []byte) (*apidocs.Page, error) {
	return apidocs.New(apidocs.Config{Document: document, Asset: assetPath})
}

// New checks cfg, reads the templates, and starts nothing.
func New(cfg Config) (*site.Site, error) {
	return site.New(site.Config{
		API: cfg.API, Vault: cfg.Vault, Logouts: cfg.Logouts, Assets: newAssets(), Sections: sections(), Places: places,
		Version: cfg.Version, Node: cfg.Node, Vendor: cfg.Vendor, Secure: cfg.Secure, Log: cfg.Log, Now: cfg.Now,
	})
}
