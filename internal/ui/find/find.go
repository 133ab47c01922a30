// Package find is the search box of the dashboard: any id leads to its page, anything
// else is looked for among idempotency keys, endpoints and tenants.
package find

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
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
		Pages:     []site.Page{{Path: "/ui/find", Template: "find.html", Title: "Find", Load: load}},
	}
}

// target is where the things with a kind of id are: in the API, and as a page.
type target struct {
	prefix, api, page string
	server            bool // it belongs to no tenant in the API
}

var targets = []target{
	{"evt_", "events", "/ui/events/", false},
	{"dlv_", "deliveries", "/ui/deliveries/", false},
	{"ep_", "endpoints", "/ui/endpoints/", false},
	{"rpl_", "replays", "/ui/replays/", false},
	{"alr_", "alerts", "/ui/alerts/", false},
	{"ten_", "tenants", "/ui/tenants/", true},
}

// mostFound bounds each list.
const mostFound = "20"

// content is what the page shows.
type content struct {
	Query     string
	Missing   string // what an id that was not found would be
	Events    []view.Event
	Endpoints []endpoint
	Tenants   []view.Tenant
}

type endpoint struct {
	view.Endpoint

	Badge   words.Word
	Address words.Address
}

// Found reports whether there is anything to show.
func (c *content) Found() bool { return len(c.Events)+len(c.Endpoints)+len(c.Tenants) > 0 }

// maxQuery bounds what is looked for: nothing that has a name is longer.
const maxQuery = 500

func load(v *site.Visit) (any, error) {
	q := strings.TrimSpace(v.Query("q"))
	if len(q) > maxQuery {
		return nil, &site.Problem{Status: http.StatusBadRequest, Detail: "That is too long to be an id, a key or an address."}
	}
	c := &content{Query: q}
	if q == "" {
		return c, nil
	}
	for i := range targets {
		if t := &targets[i]; strings.HasPrefix(q, t.prefix) {
			found, err := t.find(v, q)
			if err != nil || found {
				return nil, leadTo(v, t.page+url.PathEscape(q), err)
			}
			c.Missing = strings.TrimSuffix(t.api, "s")
			if t.api == "deliveries" {
				c.Missing = "delivery"
			}
		}
	}
	if strings.HasPrefix(q, "key_") && v.Me.Scope == "admin" {
		return nil, &site.Redirect{To: v.Frame.Link("/ui/settings/keys") + "#" + url.PathEscape(q)}
	}
	if err := c.search(v); err != nil {
		return nil, err
	}
	return c, nil
}

func leadTo(v *site.Visit, page string, err error) error {
	if err != nil {
		return err
	}
	return &site.Redirect{To: v.Frame.Link(page)}
}

// find reports whether the visitor has what has this id.
func (t *target) find(v *site.Visit, id string) (bool, error) {
	if t.server && !v.Me.Operator() {
		return false, nil
	}
	path := v.API(t.api, id)
	if t.server {
		path = v.Server(t.api, id)
	}
	err := v.Get(path, nil, nil)
	if p := new(site.Problem); errors.As(err, &p) && p.Status < http.StatusInternalServerError {
		return false, nil // not there, not an id, or not the visitor's
	}
	return err == nil, err
}

// search looks for what is no id.
func (c *content) search(v *site.Visit) error {
	var events site.List[view.Event]
	if err := lenient(v.Get(v.API("events"), url.Values{"q": {c.Query}, "limit": {mostFound}}, &events)); err != nil {
		return err
	}
	var lanes site.List[view.Lane]
	if err := lenient(v.Get(v.API("lanes"), url.Values{"q": {c.Query}, "limit": {mostFound}}, &lanes)); err != nil {
		return err
	}
	c.Events = events.Data
	for i := range lanes.Data {
		l := &lanes.Data[i]
		e, err := v.Endpoint(l.Endpoint)
		if err != nil {
			return err
		}
		if e != nil {
			c.Endpoints = append(c.Endpoints, endpoint{*e, words.StateOf(l, nil, v.Now).Badge(), words.OfURL(e.URL, 60)})
		}
	}
	if !v.Me.Operator() {
		return nil
	}
	var tenants site.List[view.Tenant]
	if err := lenient(v.Get(v.Server("tenants"), url.Values{"q": {c.Query}, "limit": {mostFound}}, &tenants)); err != nil {
		return err
	}
	c.Tenants = tenants.Data
	return nil
}

// lenient forgives that something cannot be looked for in one of the places: it may
// be of the wrong form there.
func lenient(err error) error {
	if p := new(site.Problem); errors.As(err, &p) && p.Status < http.StatusInternalServerError {
		return nil
	}
	return err
}
