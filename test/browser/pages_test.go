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
	guest  bool
	status int64 // 0: 200
}

// views is every page.
var views = []view{
	{name: "login", path: "/ui/login", see: "API key", guest: true},
	{name: "overview", path: "/ui", see: "Needs attention"},
	{name: "overview-day", path: "/ui?window=24h", see: "Needs attention"},
	{name: "deliveries", path: "/ui/deliveries", see: "Deliveries"},
	{name: "deliveries-dead", path: "/ui/deliveries?status=dead", see: "422"},
	{name: "delivery-delivered", path: "/ui/deliveries/{delivery:delivered}", see: "200"},
	{name: "delivery-retried", path: "/ui/deliveries/{delivery:retried}", see: "502"},
	{name: "delivery-dead", path: "/ui/deliveries/{delivery:dead}", see: "422"},
	{name: "delivery-held", path: "/ui/deliveries/{delivery:held}", see: "dlv_"},
	{name: "delivery-redeliver", path: "/ui/deliveries/{delivery:dead}/redeliver", see: "Redeliver"},
	{name: "events", path: "/ui/events", see: "Events"},
	{name: "event", path: "/ui/events/{event:retried}", see: "Deliver"},
	{name: "alerts", path: "/ui/alerts", see: "breaker_open"},
	{name: "alert", path: "/ui/alerts/{alert:firing}", see: "firing"},
	{name: "alerts-rules", path: "/ui/alerts/rules", see: "retry_storm"},
	{name: "channels", path: "/ui/alerts/channels", see: "on call"},
	{name: "channel-new", path: "/ui/alerts/channels/new", see: "New channel"},
	{name: "playground", path: "/ui/playground", see: "Playground"},
	{name: "not-found", path: "/ui/nothing-here", see: "no such page", status: 404},
}

// want is the status of its answer.
func (v *view) want() int64 {
	if v.status == 0 {
		return 200
	}
	return v.status
}

// at returns the path of a view in a story.
func (v *view) at(p *seed.Places) string {
	var pairs []string
	for kind, places := range map[string]map[string]string{
		"tenant": p.Tenants, "endpoint": p.Endpoints, "delivery": p.Deliveries, "event": p.Events, "replay": p.Replays, "alert": p.Alerts,
	} {
		for name, id := range places {
			pairs = append(pairs, "{"+kind+":"+name+"}", id)
		}
	}
	return strings.NewReplacer(pairs...).Replace(v.path)
}
