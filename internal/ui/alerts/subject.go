package alerts

import (
	"errors"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// subject is what an alert is about: its name, where it has a page, and whose it is.
type subject struct {
	Name string
	Path string // empty: it has no page
	URL  bool   // Name is an address
	Of   string // its uid, or the tenant that it belongs to
}

// subjects finds the names of what alerts are about, each once. What is gone
// meanwhile keeps its id.
type subjects struct {
	v       *site.Visit
	known   map[string]subject
	tenants map[string]string
}

func newSubjects(v *site.Visit) *subjects {
	return &subjects{v: v, known: map[string]subject{}, tenants: map[string]string{}}
}

func (s *subjects) of(a *view.AlertSubject) (subject, error) {
	switch {
	case a.Endpoint != nil:
		return s.endpoint(site.Either(a.Tenant, "-"), *a.Endpoint)
	case a.Replay != nil:
		name, err := s.tenant(a.Tenant)
		return subject{Name: *a.Replay, Path: "/ui/replays/" + *a.Replay, Of: name}, err
	case a.Node != nil:
		return subject{Name: *a.Node, Of: "node"}, nil
	case a.Tenant != nil:
		name, err := s.tenant(a.Tenant)
		if s.v.Me.Operator() {
			return subject{Name: name, Path: "/ui/tenants/" + *a.Tenant, Of: "tenant"}, err
		}
		return subject{Name: name, Of: "all endpoints"}, err
	default:
		return subject{Name: "the whole server"}, nil
	}
}

func (s *subjects) endpoint(tenant, id string) (subject, error) {
	if found, ok := s.known[id]; ok {
		return found, nil
	}
	var e view.Endpoint
	err := s.v.Get(s.v.Server("tenants", tenant, "endpoints", id), nil, &e)
	found := subject{Name: id, Path: "/ui/endpoints/" + id}
	switch {
	case missing(err):
		found.Path, found.Of = "", "deleted"
	case err != nil:
		return found, err
	default:
		found.Name, found.URL, found.Of = e.URL, true, site.Either(e.UID, id)
	}
	s.known[id] = found
	return found, nil
}

// tenant returns the name that people gave to a tenant.
func (s *subjects) tenant(id *string) (string, error) {
	if id == nil {
		return "", nil
	}
	if name, ok := s.tenants[*id]; ok {
		return name, nil
	}
	var t view.Tenant
	err := s.v.Get(s.v.Server("tenants", *id), nil, &t)
	name := *id
	if err == nil {
		name = site.Either(t.UID, *id)
	} else if !missing(err) {
		return name, err
	}
	s.tenants[*id] = name
	return name, nil
}

// missing reports whether something is not there, or not for this visitor.
func missing(err error) bool {
	p := new(site.Problem)
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}
