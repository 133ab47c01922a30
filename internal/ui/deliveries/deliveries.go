// Package deliveries is where people look for what became of an event: the list of
// deliveries with its filters, one delivery with its attempts and why each one ended
// as it did, and the events that they belong to.
//
// Payloads, headers and answers are what others wrote. They are shown as text, and of
// long ones the beginning only.
package deliveries

import (
	"embed"
	"io/fs"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

const place = "Deliveries"

// filters are the names of the API's filters of deliveries.
var filters = []string{"status", "reason", "waiting_for", "endpoint", "type", "event", "since", "until"}

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	redeliver := site.Page{Path: "/ui/deliveries/{id}/redeliver", Template: "confirm.html", Title: "Redeliver", Place: place, Writes: true, Load: askRedeliver}
	cancel := site.Page{Path: "/ui/deliveries/{id}/cancel", Template: "confirm.html", Title: "Cancel", Place: place, Writes: true, Load: askCancel}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: "/ui/deliveries", Template: "deliveries.html", Title: "Deliveries", Place: place, Live: []string{"deliveries-rows"}, Load: loadList},
			{
				Path: "/ui/deliveries/{id}", Template: "deliveries-one.html", Title: "Delivery", Place: place,
				Live: []string{"deliveries-head", "deliveries-actions", "deliveries-timeline", "deliveries-attempts", "deliveries-attempt"}, Load: loadDelivery,
			},
			redeliver, cancel,
			{Path: "/ui/events", Template: "deliveries-events.html", Title: "Events", Place: place, Live: []string{"deliveries-event-rows"}, Load: loadEvents},
			{Path: "/ui/events/{id}", Template: "deliveries-event.html", Title: "Event", Place: place, Live: []string{"deliveries-event-deliveries"}, Load: loadEvent},
		},
		Actions: []site.Action{
			{Path: redeliver.Path, Form: &redeliver, Do: doRedeliver},
			{Path: cancel.Path, Form: &cancel, Do: doCancel},
		},
		Downloads: []site.Download{
			{Path: "/ui/events/{id}/payload", Load: payloadFile},
			{Path: "/ui/deliveries/{id}/curl", Load: curlFile},
			{Path: "/ui/deliveries/{id}/attempts/{number}/response", Load: responseFile},
		},
	}
}
