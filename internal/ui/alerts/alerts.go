// Package alerts is the part of the dashboard about alerts: what fires and what to do
// about it, what has fired, the rules with their thresholds, and the channels over
// which people are told.
//
// It judges and sends nothing: acknowledgements, channels and their tests are the
// API's.
package alerts

import (
	"embed"
	"io/fs"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

const place = "Alerts"

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{
				Path: "/ui/alerts", Template: "alerts.html", Title: "Alerts", Place: place,
				Live: []string{"alerts-head", "alerts-firing", "alerts-lanes", "alerts-past"}, Load: loadList,
			},
			alertPage,
			{Path: "/ui/alerts/rules", Template: "alerts-rules.html", Title: "Rules", Place: place, Operator: true, Load: loadRules},
			channelsPage, newChannelPage, channelPage, editChannelPage,
			{Path: "/ui/alerts/channels/{channel}/delete", Template: "confirm.html", Title: "Delete channel", Place: place, Writes: true, Load: askDelete},
		},
		Actions: []site.Action{
			{Path: "/ui/alerts/{alert}/ack", Do: acknowledge, Form: &alertPage},
			{Path: "/ui/alerts/channels", Do: createChannel, Form: &newChannelPage},
			{Path: "/ui/alerts/channels/{channel}/edit", Do: changeChannel, Form: &editChannelPage},
			{Path: "/ui/alerts/channels/{channel}/test", Do: testChannel},
			{Path: "/ui/alerts/channels/{channel}/delete", Do: deleteChannel},
		},
	}
}
