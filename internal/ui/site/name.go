package site

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// nameLength is how much of an address stands for the endpoint at it.
const nameLength = 48

// Endpoint returns an endpoint by its id or uid, and asks for each once. nil: it is
// deleted, or not the visitor's.
func (v *Visit) Endpoint(id string) (*view.Endpoint, error) {
	if e, known := v.endpoints[id]; known {
		return e, nil
	}
	e := new(view.Endpoint)
	if err := v.Get(v.API("endpoints", id), nil, e); err != nil {
		if p := new(Problem); !errors.As(err, &p) || p.Status != http.StatusNotFound {
			return nil, err
		}
		e = nil
	}
	if v.endpoints == nil {
		v.endpoints = make(map[string]*view.Endpoint)
	}
	v.endpoints[id] = e
	return e, nil
}

// EndpointName returns what people call an endpoint: its uid, else where it is, else
// its id.
func (v *Visit) EndpointName(id string) string {
	e, err := v.Endpoint(id)
	if e == nil || err != nil { // a page is not worse for having the id
		return id
	}
	return Either(e.UID, words.OfURL(e.URL, nameLength).String())
}

// TenantName returns what people call a tenant: its uid, else its id. Who sees one
// tenant only needs no name for it.
func (v *Visit) TenantName(id string) string {
	if !v.Me.Operator() {
		return ""
	}
	if name, known := v.tenants[id]; known {
		return name
	}
	if v.tenants == nil {
		v.tenants = make(map[string]string)
	}
	v.tenants[id] = id
	var t view.Tenant
	if err := v.Get(v.Server("tenants", id), nil, &t); err == nil {
		v.tenants[id] = Either(t.UID, t.ID)
	}
	return v.tenants[id]
}

// KeyNames returns the names of the newest keys by id, where the visitor may know
// them.
func (v *Visit) KeyNames() (map[string]string, error) {
	names := map[string]string{v.Me.Key: v.Me.Name}
	if v.Me.Scope != "admin" {
		return names, nil
	}
	var list List[view.Key]
	err := v.Get(v.Server("keys"), url.Values{"limit": {"100"}}, &list)
	for _, k := range list.Data {
		names[k.ID] = k.Name
	}
	return names, err
}
