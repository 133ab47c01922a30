package site

import (
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// nameLength is how much of an address stands for the endpoint at it.
const nameLength = 48

// Endpoint returns an endpoint by its id or uid, and asks for each once. nil: it is
// deleted, not the visitor's, or cannot be read now.
func (v *Visit) Endpoint(id string) *view.Endpoint {
	if e, known := v.endpoints[id]; known {
		return e
	}
	if v.endpoints == nil {
		v.endpoints = make(map[string]*view.Endpoint)
	}
	e := new(view.Endpoint)
	if err := v.Get(v.API("endpoints", id), nil, e); err != nil {
		e = nil
	}
	v.endpoints[id] = e
	return e
}

// EndpointName returns what people call an endpoint: its uid, else where it is, else
// its id.
func (v *Visit) EndpointName(id string) string {
	e := v.Endpoint(id)
	if e == nil {
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
