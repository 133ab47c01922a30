package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func checkWaits(wanted []string) error {
	for _, w := range wanted {
		if !slices.Contains(view.Waits, w) {
			return rest.BadParameter("query.waiting_for", fmt.Sprintf("%q is not one of %s", w, strings.Join(view.Waits, ", ")))
		}
	}
	return nil
}

// filterWaiting narrows a filter to what is due and waits for one of the given
// things. none means that nothing can match.
func (a *API) filterWaiting(ctx context.Context, c *rest.Call, f store.DeliveryFilter, wanted []string) (_ store.DeliveryFilter, none bool, err error) {
	if len(wanted) == 0 {
		return f, false, nil
	}
	f.DueBy = c.Now
	f.Endpoints, err = a.endpointsThat(ctx, f.Tenant, f.Endpoints, func(d store.Destination) bool {
		w := view.WaitAt(d, 0, c.Now)
		if w == "" && slices.Contains(wanted, view.WaitPace) { // policies are dear: most need not be read
			w = view.WaitAt(d, a.policyOf(d).RateLimit.PerSecond, c.Now)
		}
		return slices.Contains(wanted, w)
	})
	return f, len(f.Endpoints) == 0, err
}

// policyOf returns the policy of a destination, empty when that is not valid any
// more: what waits must be seen all the same.
func (a *API) policyOf(d store.Destination) *policy.Policy {
	r, err := a.policies.Resolve(d.TenantLevel, d.Endpoint.Level())
	if err != nil {
		return &policy.Policy{}
	}
	return &r.Policy
}

// endpointsThat returns the endpoints of a tenant for which is holds, among the
// given ones if there are any.
func (a *API) endpointsThat(ctx context.Context, tenant hook.ID, among []hook.ID, is func(store.Destination) bool) ([]hook.ID, error) {
	if len(among) > 0 {
		return a.thoseThat(ctx, tenant, among, is)
	}
	var out []hook.ID
	read := func(p store.Page) ([]hook.Endpoint, error) { return a.cfg.Store.ListEndpoints(ctx, tenant, p) }
	err := eachPage(read, func(e hook.Endpoint) hook.ID { return e.ID }, func(list []hook.Endpoint) error {
		some, err := a.thoseThat(ctx, tenant, idsOf(list), is)
		out = append(out, some...)
		return err
	})
	return out, err
}

func (a *API) thoseThat(ctx context.Context, tenant hook.ID, ids []hook.ID, is func(store.Destination) bool) (out []hook.ID, err error) {
	for some := range slices.Chunk(ids, readTogether) {
		dests, err := a.destinations(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			if d, ok := dests[id]; ok && d.Endpoint.TenantID == tenant && is(d) {
				out = append(out, id)
			}
		}
	}
	return out, nil
}
