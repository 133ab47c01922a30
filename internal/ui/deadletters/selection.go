package deadletters

import (
	"maps"
	"net/url"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// chosenBy are the names that an address chooses deliveries by. They are those of the
// lists, so that a link from a list is its filter.
var chosenBy = []string{"endpoint", "reason", "type", "since", "until", "status", "delivery_ids", "include_missing"}

// selection is which deliveries are to be replayed or discarded.
type selection struct{ filter *site.Filter }

// selectionOf reads it from the address, and looks at the one tenant that it is of.
func selectionOf(v *site.Visit) (*selection, error) {
	s := &selection{v.Filter(chosenBy...)}
	if len(s.filter.Values("endpoint")) > 1 {
		return nil, site.Wrong("endpoint", "A replay is of one endpoint or of all. Choose one.")
	}
	if !v.Me.Operator() || v.Tenant() != "" {
		return s, nil
	}
	tenant, err := s.tenant(v)
	if err != nil {
		return nil, err
	}
	if tenant == "" {
		return nil, site.Wrong("tenant", "A replay is of one tenant. Pick one above, or choose an endpoint.")
	}
	return s, v.Pick(tenant)
}

// tenant finds the tenant of what is chosen; empty: of several, perhaps.
func (s *selection) tenant(v *site.Visit) (string, error) {
	var of struct {
		Tenant string `json:"tenant"`
	}
	var err error
	if ids := s.filter.Values("delivery_ids"); len(ids) > 0 {
		err = v.Get(v.API("deliveries", ids[0]), nil, &of)
	} else if e := s.filter.Value("endpoint"); e != "" {
		err = v.Get(v.API("endpoints", e), nil, &of)
	}
	return of.Tenant, err
}

// request is the part of the API's request that chooses.
func (s *selection) request() map[string]any {
	in := map[string]any{}
	for name, field := range map[string]string{"reason": "reasons", "type": "types", "status": "statuses", "delivery_ids": "delivery_ids"} {
		if values := s.filter.Values(name); len(values) > 0 {
			in[field] = values
		}
	}
	for _, name := range []string{"endpoint", "since", "until"} {
		if value := s.filter.Value(name); value != "" {
			in[name] = value
		}
	}
	if s.missing() {
		in["include_missing"] = true
	}
	if len(in) == 0 {
		in["all"] = true
	}
	return in
}

// missing reports whether events are wanted that the endpoint has no delivery of.
func (s *selection) missing() bool { return s.filter.Value("include_missing") == "true" }

// address returns a page with this selection and more.
func (s *selection) address(v *site.Visit, path string, more url.Values) string {
	q := s.filter.Query()
	for name, values := range more {
		q[name] = slices.Clone(values)
	}
	if v.Me.Operator() && v.Frame.Tenant != "" {
		q.Set("tenant", v.Frame.Tenant)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// tags are the selection in words of the API. Single deliveries are only counted.
func (s *selection) tags() []string {
	var out []string
	for _, c := range s.filter.Chips() {
		if c.Name != "delivery_ids" {
			out = append(out, c.Name+"="+c.Value)
		}
	}
	return out
}

// preview asks what a replay of it would do.
func (s *selection) preview(v *site.Visit, pace map[string]any) (*view.ReplayPreview, error) {
	in := s.request()
	maps.Copy(in, pace)
	in["dry_run"] = true
	p := new(view.ReplayPreview)
	return p, v.Do("POST", v.API("replays"), in, p)
}
