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
