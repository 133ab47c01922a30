package deliveries

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// pageSize is how many deliveries or events a page has: what is sent at once stays
// small, also over a slow line.
const pageSize = 30

// list is what the page of deliveries shows.
type list struct {
	Filter   *site.Filter
	Views    []savedView
	Options  options
	Wrong    string // the filter cannot be read
	Rows     []row
	Count    string // of what matches; empty: it is not counted on further pages
	Next     string // cursor
	First    string // address of the first page; empty: this is it
	Nothing  words.Nothing
	Searched bool // nothing was found among those that were looked at, and there are more
}

// savedView is a filter that many people ask for.
type savedView struct {
	Name, Link string
	Current    bool
}

// options are the values that filters can have.
type options struct{ Statuses, Reasons, Waits []string }

var allOptions = options{
	Statuses: []string{"pending", "held", "retrying", "delivered", "dead", "cancelled"},
	Reasons:  []string{"exhausted", "limited", "permanent", "gone", "expired", "breaker_open", "user", "endpoint_deleted"},
	Waits:    []string{"paused", "open", "hold", "pace"},
}

// row is a delivery in a list.
type row struct {
	view.Delivery
	Badge    words.Word
	Endpoint *view.Endpoint // null: it is deleted
	Link     string
}

func loadList(v *site.Visit) (any, error) {
	f := v.Filter(filters...)
	c := &list{Filter: f, Views: savedViews(v, f), Options: allOptions}
	q := f.Query()
	q.Set("limit", strconv.Itoa(pageSize))
	if cursor := v.Query("cursor"); cursor != "" {
		q.Set("cursor", cursor)
		c.First = f.On(v.Frame.Path)
		v.Frame.Live = false // what is new is on the first page
	}
	var page site.List[view.Delivery]
	if err := v.Get(v.API("deliveries"), q, &page); err != nil {
		if c.Wrong = badFilter(err); c.Wrong == "" {
			return nil, err
		}
		v.Frame.Live = false
		return c, nil
	}
	c.Next = site.Either(page.NextCursor, "")
	var err error
	if c.Rows, err = rowsOf(v, page.Data, f.On); err != nil {
		return nil, err
	}
	c.Searched = len(c.Rows) == 0 && c.Next != ""
	c.Nothing = nothing(f, words.NoDeliveries)
	if c.First == "" {
		c.Count, err = count(v, f.Query(), len(c.Rows), c.Next != "")
	}
	return c, err
}

// badFilter returns what is wrong with a filter that the API refused; empty: it was
// something else.
func badFilter(err error) string {
	p := new(site.Problem)
	if !errors.As(err, &p) || p.Status != http.StatusBadRequest && p.Status != http.StatusUnprocessableEntity {
		return ""
	}
	if len(p.Errors) == 0 {
		return p.Detail
	}
	var parts []string
	for _, e := range p.Errors {
		parts = append(parts, strings.TrimPrefix(e.Path, "query.")+": "+e.Message)
	}
	return strings.Join(parts, "; ") + "."
}

// nothing is what an empty list says.
func nothing(f *site.Filter, p words.Place) words.Nothing {
	if f.Any() {
		return words.Empty(words.NoMatch)
	}
	return words.Empty(p)
}

// rowsOf adds what a list says beside a delivery. link is the address of a page with
// the list's filter.
func rowsOf(v *site.Visit, data []view.Delivery, link func(path string) string) ([]row, error) {
	rows := make([]row, len(data))
	for i, d := range data {
		rows[i] = row{Delivery: d, Badge: words.StatusOf(d.Status, d.View), Link: link("/ui/deliveries/" + url.PathEscape(d.ID))}
		var err error
		if rows[i].Endpoint, err = v.Endpoint(d.Endpoint); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// count says how many match. What fits on the page is not counted again.
func count(v *site.Visit, q url.Values, shown int, more bool) (string, error) {
	if !more {
		return words.Number(shown), nil
	}
	var n struct {
		Count int  `json:"count"`
		Exact bool `json:"exact"`
	}
	if err := v.Get(v.API("deliveries", "count"), q, &n); err != nil {
		return "", err
	}
	return words.AtLeast(n.Count, !n.Exact), nil
}

// savedViews are the filters that people ask for most.
func savedViews(v *site.Visit, f *site.Filter) []savedView {
	views := []savedView{
		{Name: "All", Link: v.Frame.Link("/ui/deliveries"), Current: !f.Any()},
	}
	for _, s := range []struct {
		name  string
		pairs []any
	}{
		{"Failed last hour", []any{"status", "dead", "since", "1h"}},
		{"Held", []any{"status", "held"}},
		{"Retrying", []any{"status", "retrying"}},
	} {
		current := len(f.Chips()) == len(s.pairs)/2
		for i := 0; i < len(s.pairs); i += 2 {
			current = current && slices.Equal(f.Values(s.pairs[i].(string)), []string{s.pairs[i+1].(string)})
		}
		views = append(views, savedView{Name: s.name, Link: v.Frame.Link("/ui/deliveries", s.pairs...), Current: current})
	}
	return views
}
