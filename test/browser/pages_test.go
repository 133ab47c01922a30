package browser_test

import (
	"strings"

	"github.com/breakwaterhq/breakwater/test/seed"
)

// view is a page of the dashboard that every check and every picture visits.
type view struct {
	name string // of its pictures
	path string // with places of the story in braces
	see  string // what must be there to read
	// guest is set where nobody is logged in.
	guest bool
}

// views is every page.
var views = []view{
	{name: "login", path: "/ui/login", see: "API key", guest: true},
	{name: "overview", path: "/ui", see: "Overview"},
	{name: "alerts", path: "/ui/alerts", see: "Last 24 hours"},
	{name: "rules", path: "/ui/alerts/rules", see: "retry_storm"},
	{name: "channels", path: "/ui/alerts/channels", see: "Channels"},
	{name: "channel-new", path: "/ui/alerts/channels/new", see: "Operational events"},
	{name: "settings", path: "/ui/settings", see: "Nodes"},
	{name: "keys", path: "/ui/settings/keys", see: "New key"},
	{name: "key-new", path: "/ui/settings/keys/new", see: "Create the key"},
	{name: "config", path: "/ui/settings/config", see: "Configuration"},
	{name: "presets", path: "/ui/settings/presets", see: "Since the first"},
	{name: "audit", path: "/ui/settings/audit", see: "Audit log"},
	{name: "api", path: "/ui/settings/api", see: "openapi.json"},
}

// at returns the path of a view in a story.
func (v *view) at(p *seed.Places) string {
	var pairs []string
	for kind, places := range map[string]map[string]string{
		"tenant": p.Tenants, "endpoint": p.Endpoints, "delivery": p.Deliveries, "event": p.Events, "replay": p.Replays,
	} {
		for name, id := range places {
			pairs = append(pairs, "{"+kind+":"+name+"}", id)
		}
	}
	return strings.NewReplacer(pairs...).Replace(v.path)
}
