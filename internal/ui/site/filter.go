package site

import (
	"net/url"
	"slices"
)

// Filter is what a page's query says about a list: names and values of the API's own
// filters, so that a page can be turned into a request by hand.
type Filter struct {
	names  []string
	values url.Values
	frame  *Frame
}

// maxFilterValues bounds the alternatives of one filter, as the API does.
const maxFilterValues = 100

// Filter reads the filters with these names. Empty ones, which forms send, are none.
func (v *Visit) Filter(names ...string) *Filter {
	f := &Filter{names: names, values: url.Values{}, frame: v.Frame}
	query := v.Request.URL.Query()
	for _, name := range names {
		for _, value := range query[name] {
			if value != "" && !slices.Contains(f.values[name], value) && len(f.values[name]) < maxFilterValues {
				f.values.Add(name, value)
			}
		}
	}
	return f
}

// Query returns a copy of the filter for a request.
func (f *Filter) Query() url.Values {
	q := make(url.Values, len(f.values))
	for name, values := range f.values {
		q[name] = slices.Clone(values)
	}
	return q
}

// Any reports whether anything is filtered.
func (f *Filter) Any() bool { return len(f.values) > 0 }

// Value returns the first value of a filter.
func (f *Filter) Value(name string) string { return f.values.Get(name) }

// Values returns all values of a filter.
func (f *Filter) Values(name string) []string { return f.values[name] }

// Chip is one value of a filter, and the address of the page without it.
type Chip struct {
	Name, Value, Remove string
}

// Chips lists the filter value by value.
func (f *Filter) Chips() []Chip {
	var out []Chip
	for _, name := range f.names {
		for _, value := range f.values[name] {
			q := f.Query()
			q[name] = slices.DeleteFunc(q[name], func(v string) bool { return v == value })
			out = append(out, Chip{name, value, f.address(f.frame.Path, q)})
		}
	}
	return out
}

// On returns the address of another page with this filter.
func (f *Filter) On(path string) string { return f.address(path, f.Query()) }

// address keeps the tenant that is looked at.
func (f *Filter) address(path string, q url.Values) string {
	if f.frame.Tenant != "" && f.frame.Me != nil && f.frame.Me.Operator() {
		q.Set("tenant", f.frame.Tenant)
	}
	if text := q.Encode(); text != "" {
		return path + "?" + text
	}
	return path
}
