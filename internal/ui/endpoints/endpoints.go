// Package endpoints is the part of the dashboard about endpoints: the list of all,
// and of each its lane, its charts and what belongs to it, with the forms that make,
// change, halt and remove one.
//
// Everything it shows and does goes through the API of the product: it decides
// nothing about deliveries, and keeps nothing.
package endpoints

import (
	"embed"
	"io/fs"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

const (
	place    = "Endpoints"
	listPath = "/ui/endpoints"
	onePath  = listPath + "/{endpoint}"
)

var (
	newPage    = site.Page{Path: listPath + "/new", Template: "endpoints-form.html", Title: "New endpoint", Place: place, Writes: true, Load: loadNew}
	editPage   = site.Page{Path: onePath + "/edit", Template: "endpoints-form.html", Title: "Edit endpoint", Place: place, Writes: true, Load: loadEdit}
	rotatePage = site.Page{Path: onePath + "/rotate-secret", Template: "endpoints-rotate.html", Title: "Rotate secret", Place: place, Writes: true, Load: loadRotate}
	secretPage = site.Page{Template: "endpoints-secret.html", Title: "Secret", Place: place}
)

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	s := site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: listPath, Template: "endpoints.html", Title: "Endpoints", Place: place, Live: []string{"endpoints-segments", "endpoints-rows"}, Load: loadList},
			{
				Path: onePath, Template: "endpoints-one.html", Title: "Endpoint", Place: place,
				Live: []string{"endpoints-head", "endpoints-test", "endpoints-lane", "endpoints-charts", "endpoints-tab"}, Load: loadOne,
			},
			newPage, editPage, rotatePage,
		},
		Actions: []site.Action{
			{Path: listPath, Do: create, Form: &newPage},
			{Path: onePath + "/edit", Do: edit, Form: &editPage},
			{Path: onePath + "/rotate-secret", Do: rotate, Form: &rotatePage},
			{Path: onePath + "/secret", Do: showSecret},
			{Path: onePath + "/test", Do: sendTest},
		},
	}
	for i := range commands {
		c := &commands[i]
		a := site.Action{Path: onePath + "/" + c.name, Do: c.do}
		if c.asks {
			p := site.Page{Path: a.Path, Template: "confirm.html", Title: c.title, Place: place, Writes: true, Load: c.ask}
			s.Pages, a.Form = append(s.Pages, p), &p
		}
		s.Actions = append(s.Actions, a)
	}
	return s
}

// pathOf is the page of an endpoint.
func pathOf(id string, more ...string) string {
	p := listPath + "/" + id
	var pSb71 strings.Builder
	for _, part := range more {
		pSb71.WriteString("/" + part)
	}
	p += pSb71.String()
	return p
}
