package site

import (
	"errors"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Endpoints reads endpoints by id, each once. Those that are deleted are not in it.
func (v *Visit) Endpoints(ids ...string) (map[string]view.Endpoint, error) {
	out := make(map[string]view.Endpoint)
	asked := make(map[string]bool)
	for _, id := range ids {
		if id == "" || asked[id] {
			continue
		}
		asked[id] = true
		if e := v.endpoints[id]; e != nil {
			out[id] = *e
			continue
		}
		var e view.Endpoint
		err := v.Get(v.API("endpoints", id), nil, &e)
		if p := new(Problem); errors.As(err, &p) && p.Status == http.StatusNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[id] = e
		if v.endpoints == nil {
			v.endpoints = make(map[string]*view.Endpoint)
		}
		v.endpoints[id] = &e
	}
	return out, nil
}
