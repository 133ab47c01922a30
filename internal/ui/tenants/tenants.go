// Package tenants has the pages of customers: which there are, how each is doing, its
// endpoints, keys and limits. Only operators have them.
package tenants

import (
	"embed"
	"io/fs"
	"net/url"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/figures"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

//go:embed templates/*.html
var files embed.FS

const (
	place    = "Tenants"
	listPath = "/ui/tenants"
	onePath  = listPath + "/{tenant}"
)

var (
	newPage = site.Page{
		Path: listPath + "/new", Template: "tenants-form.html", Title: "New tenant", Place: place, Operator: true, Writes: true, Load: loadNew,
	}
	editPage = site.Page{
		Path: onePath + "/edit", Template: "tenants-form.html", Title: "Edit tenant", Place: place, Operator: true, Writes: true, Load: loadEdit,
	}
	deletePage = site.Page{
		Path: onePath + "/delete", Template: "confirm.html", Title: "Delete tenant", Place: place, Operator: true, Writes: true, Load: loadDelete,
	}
)

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: listPath, Template: "tenants.html", Title: "Tenants", Place: place, Operator: true, Load: loadList},
			{Path: onePath, Template: "tenants-one.html", Title: "Tenant", Place: place, Operator: true, Live: []string{"tenants-tiles"}, Load: loadOne},
			newPage, editPage, deletePage,
		},
		Actions: []site.Action{
			{Path: listPath, Do: create, Form: &newPage},
			{Path: onePath + "/edit", Do: edit, Form: &editPage},
			{Path: onePath + "/delete", Do: remove, Form: &deletePage},
		},
	}
}

// tenantPath returns the address of a tenant's page, or of something below it.
func tenantPath(id string, below ...string) string {
	return strings.Join(append([]string{listPath, url.PathEscape(id)}, below...), "/")
}

// mostListed is how many tenants a page has: the figures of each are read.
const mostListed = "20"

// list is what the list shows.
type list struct {
	Rows    []row
	Next    string
	Search  string
	Nothing words.Nothing
}

// row is a tenant with how it did in the last hour.
type row struct {
	view.Tenant

	Known     bool // its figures could be read
	Endpoints int64
	Open      int64
	Events    uint64
	Success   *float64
	Dead      string
}

func loadList(v *site.Visit) (any, error) {
	c := &list{Search: v.Query("q"), Nothing: words.Empty(words.NoTenants)}
	query := url.Values{"limit": {mostListed}}
	for _, name := range []string{"q", "cursor"} {
		if value := v.Query(name); value != "" {
			query.Set(name, value)
			c.Nothing = words.Empty(words.NoMatch)
		}
	}
	var got site.List[view.Tenant]
	if err := v.Get(v.Server("tenants"), query, &got); err != nil {
		return nil, err
	}
	c.Next = site.Either(got.NextCursor, "")
	for _, t := range got.Data {
		r := row{Tenant: t, Dead: words.None}
		var o view.Overview
		if err := v.Get(v.Server("tenants", t.ID, "stats"), url.Values{"window": {"1h"}}, &o); err == nil {
			r.Known, r.Open, r.Events, r.Success = true, o.Breakers.Open+o.Breakers.HalfOpen, o.Totals.Events, o.SuccessRate
			r.Endpoints, r.Dead = r.Open+o.Breakers.Closed, words.AtLeast(o.DeadLetters.Total, o.DeadLetters.AtLeast)
		}
		c.Rows = append(c.Rows, r)
	}
	return c, nil
}

// one is what the page of a tenant shows.
type one struct {
	view.Tenant

	Window    string
	Windows   []string
	Tiles     []figures.Tile
	Endpoints []endpoint
	More      bool // endpoints
	Keys      []key
	MoreKeys  bool
	Limits    []limit
	NoKeys    words.Nothing
	NoTargets words.Nothing
	Handle    string // uid, else id: what the picker takes
	Policy    string // its level; empty: it has none
}

type endpoint struct {
	view.Endpoint

	Badge   words.Word
	Address words.Address
}

type key struct {
	view.Key

	May words.Word
	Off bool // revoked or expired
}

type limit struct{ Name, Value string }

func read(v *site.Visit) (*view.Tenant, error) {
	t := new(view.Tenant)
	return t, v.Get(v.Server("tenants", v.ID("tenant")), nil, t)
}

const (
	endpointsShown = "10"
	keysShown      = "20"
)

func loadOne(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	v.Frame.Title = t.Name
	c := &one{
		Tenant: *t, Window: v.OneOf("window", "1h", "15m", "24h", "7d"), Windows: []string{"15m", "1h", "24h", "7d"}, Limits: limits(&t.Limits),
		NoKeys: words.Empty(words.NoKeys), NoTargets: words.Empty(words.NoEndpoints), Handle: site.Either(t.UID, t.ID), Policy: pretty(t.Policy),
	}
	var o view.Overview
	if err := v.Get(v.Server("tenants", t.ID, "stats"), url.Values{"window": {c.Window}}, &o); err != nil {
		return nil, err
	}
	link := func(path string, pairs ...any) string {
		return v.Frame.Link(path, append(pairs, "tenant", c.Handle)...)
	}
	c.Tiles = figures.Of(&o.Stats).Tiles(&o, c.Window, link)
	if err := c.readEndpoints(v); err != nil {
		return nil, err
	}
	if v.Me.Writes() { // keys are listed for those who may make some
		if err := c.readKeys(v); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *one) readEndpoints(v *site.Visit) error {
	var got site.List[view.Endpoint]
	if err := v.Get(v.Server("tenants", c.ID, "endpoints"), url.Values{"limit": {endpointsShown}}, &got); err != nil {
		return err
	}
	c.More = got.NextCursor != nil
	for i := range got.Data {
		e := &got.Data[i]
		c.Endpoints = append(c.Endpoints, endpoint{*e, words.StateOfEndpoint(e).Badge(), words.OfURL(e.URL, 60)})
	}
	return nil
}

func (c *one) readKeys(v *site.Visit) error {
	var got site.List[view.Key]
	if err := v.Get(v.Server("keys"), url.Values{"tenant": {c.ID}, "limit": {keysShown}}, &got); err != nil {
		return err
	}
	c.MoreKeys = got.NextCursor != nil
	for i := range got.Data {
		k := key{Key: got.Data[i], May: words.ScopeOf(got.Data[i].Scope)}
		k.Off = over(&k.Key, v.Now)
		c.Keys = append(c.Keys, k)
	}
	return nil
}
