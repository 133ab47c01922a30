// Package overview is the first page of the dashboard: what is wrong, in a sentence,
// and the figures of everything that the visitor may see.
package overview

import (
	"embed"
	"io/fs"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

// Section returns the page.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{{
			Path: "/ui", Template: "overview.html", Title: "Overview", Place: "Overview", Live: []string{"overview-tiles"}, Load: load,
		}},
	}
}

type content struct{}

func load(*site.Visit) (any, error) { return content{}, nil }
