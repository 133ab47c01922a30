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
	{name: "endpoints", path: "/ui/endpoints", see: "billing"},
	{name: "endpoint-holding", path: "/ui/endpoints/{endpoint:billing}", see: "Holding"},
	{name: "endpoint", path: "/ui/endpoints/{endpoint:crm}", see: "crm"},
	{name: "endpoint-policy", path: "/ui/endpoints/{endpoint:crm}?tab=policy", see: "default"},
	{name: "endpoint-new", path: "/ui/endpoints/new?tenant=acme", see: "URL"},
	{name: "endpoint-secrets", path: "/ui/endpoints/{endpoint:crm}?tab=secrets", see: "Newest secret"},
	{name: "endpoint-audit", path: "/ui/endpoints/{endpoint:crm}?tab=audit", see: "Audit"},
	{name: "endpoint-edit", path: "/ui/endpoints/{endpoint:crm}/edit", see: "What changes"},
	{name: "endpoint-rotate", path: "/ui/endpoints/{endpoint:crm}/rotate-secret", see: "Rotate the secret"},
	{name: "endpoint-delete", path: "/ui/endpoints/{endpoint:crm}/delete", see: "to confirm"},
	{name: "tenants", path: "/ui/tenants", see: "acme"},
	{name: "tenant", path: "/ui/tenants/acme", see: "acme"},
	{name: "settings", path: "/ui/settings", see: "Settings"},
	{name: "keys", path: "/ui/settings/keys", see: "New key"},
	{name: "key-new", path: "/ui/settings/keys/new", see: "Create the key"},
	{name: "config", path: "/ui/settings/config", see: "Configuration"},
	{name: "presets", path: "/ui/settings/presets", see: "Since the first"},
	{name: "audit", path: "/ui/settings/audit", see: "Audit log"},
	{name: "api", path: "/ui/settings/api", see: "openapi.json"},
	{name: "docs", path: "/docs", see: "Before you begin", guest: true},
	{name: "find-nothing", path: "/ui/find?q=nothing-like-this", see: "nothing-like-this"},
	{name: "deliveries", path: "/ui/deliveries", see: "newest first"},
	{name: "deliveries-dead", path: "/ui/deliveries?status=dead&since=24h", see: "status=dead"},
	{name: "delivery", path: "/ui/deliveries/{delivery:retried}", see: "Why attempt"},
	{name: "delivery-dead", path: "/ui/deliveries/{delivery:dead}?tab=request", see: "The request as curl"},
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
	{name: "alerts", path: "/ui/alerts", see: "breaker_open"},
	{name: "alert", path: "/ui/alerts/{alert:firing}", see: "firing"},
	{name: "alerts-rules", path: "/ui/alerts/rules", see: "retry_storm"},
	{name: "channels", path: "/ui/alerts/channels", see: "on call"},
	{name: "channel-new", path: "/ui/alerts/channels/new", see: "New channel"},
	{name: "playground", path: "/ui/playground?run=1", see: "Simulated outage"},
	{name: "playground-save", path: "/ui/playground/save?preset=quick", see: "Save as policy"},
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
