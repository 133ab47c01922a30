// Package settings is what an operator looks after: nodes, keys, the configuration in
// force, presets, the audit log and the reference of the API. A tenant sees the part
// of the audit log that is about it.
//
// It decides nothing: what a key may do is the API's business.
package settings

import (
	"embed"
	"io/fs"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

const place = "Settings"

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: "/ui/settings", Template: "settings.html", Title: "Settings", Place: place, Operator: true, Live: []string{"settings-nodes"}, Load: loadNodes},
			{Path: keysPath, Template: "settings-keys.html", Title: "Keys", Place: place, Operator: true, Writes: true, Load: loadKeys},
			newKeyPage, revokePage, linkPage,
			{Path: "/ui/settings/config", Template: "settings-config.html", Title: "Configuration", Place: place, Operator: true, Load: loadConfig},
			{Path: "/ui/settings/presets", Template: "settings-presets.html", Title: "Presets", Place: place, Inside: true, Load: loadPresets},
			{Path: "/ui/settings/audit", Template: "settings-audit.html", Title: "Audit log", Place: place, Inside: true, Load: loadAudit},
			{Path: "/ui/settings/api", Template: "settings-api.html", Title: "API reference", Place: place, Inside: true, Load: loadAPI},
		},
		Actions: []site.Action{
			{Path: keysPath, Do: createKey, Form: &newKeyPage},
			{Path: keysPath + "/{key}/revoke", Do: revokeKey, Form: &revokePage},
			{Path: linkPath, Do: makeLink, Form: &linkPage},
		},
	}
}

// Tab is a part of the settings.
type Tab struct {
	Name, Path string
	Current    bool
}

// tabs are the parts that the visitor may see.
func tabs(v *site.Visit) []Tab {
	var list []Tab
	for _, t := range []struct {
		Tab
		operator, writes bool
	}{
		{Tab{Name: "Nodes", Path: "/ui/settings"}, true, false},
		{Tab{Name: "Keys", Path: keysPath}, true, true},
		{Tab{Name: "Configuration", Path: "/ui/settings/config"}, true, false},
		{Tab{Name: "Presets", Path: "/ui/settings/presets"}, false, false},
		{Tab{Name: "Audit log", Path: "/ui/settings/audit"}, false, false},
		{Tab{Name: "API reference", Path: "/ui/settings/api"}, false, false},
	} {
		if t.operator && !v.Me.Operator() || t.writes && !v.Me.Writes() {
			continue
		}
		t.Current = v.Request.URL.Path == t.Path
		list = append(list, t.Tab)
	}
	return list
}
