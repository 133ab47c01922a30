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
	{name: "deliveries", path: "/ui/deliveries", see: "newest first"},
	{name: "deliveries-dead", path: "/ui/deliveries?status=dead&since=24h", see: "status=dead"},
	{name: "delivery", path: "/ui/deliveries/{delivery:retried}", see: "Why attempt"},
	{name: "delivery-dead", path: "/ui/deliveries/{delivery:dead}?tab=request", see: "The same request as curl"},
	{name: "delivery-held", path: "/ui/deliveries/{delivery:held}", see: "Held"},
	{name: "delivery-event", path: "/ui/deliveries/{delivery:retrying}?tab=event", see: "Payload"},
	{name: "redeliver", path: "/ui/deliveries/{delivery:dead}/redeliver", see: "Redeliver now"},
	{name: "events", path: "/ui/events", see: "newest first"},
	{name: "event", path: "/ui/events/{event:delivered}", see: "Payload"},
	{name: "dead-letters", path: "/ui/dead-letters", see: "have been given up on"},
	{name: "dead-letters-all", path: "/ui/dead-letters?tenant=acme&group=all", see: "selected: all that match"},
	{name: "discard", path: "/ui/dead-letters/discard?endpoint={endpoint:crm}", see: "to confirm"},
	{name: "replays", path: "/ui/replays", see: "newest first"},
	{name: "replay-new", path: "/ui/replays/new?endpoint={endpoint:crm}", see: "Expected course"},
	{name: "replay", path: "/ui/replays/{replay:done}", see: "Delivered"},
	{name: "replay-running", path: "/ui/replays/{replay:running}", see: "waiting for an answer"},
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
