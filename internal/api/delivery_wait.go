package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// What a delivery waits for that is pending and due. A lane sends what is due at
// once unless it has one of these reasons not to; the first that holds counts.
const (
	waitPaused = "paused" // the endpoint is paused or disabled
	waitOpen   = "open"   // the breaker is open
	waitHold   = "hold"   // the endpoint asked for silence
	waitPace   = "pace"   // requests are kept apart
)

var waits = []string{waitPaused, waitOpen, waitHold, waitPace}

// waitAt says what deliveries to a destination wait for at now, "" for nothing.
// limit is the rate limit of its policy, 0: none.
func waitAt(d store.Destination, limit float64, now time.Time) string {
	switch {
	case d.Endpoint.State != hook.Active:
		return waitPaused
	case laneState(d) == laneOpen:
		return waitOpen
	case d.Lane != nil && d.Lane.HoldUntil.After(now):
		return waitHold
	}
	if by, _ := pacingOf(d, limit, now); by != nil {
		return waitPace
	}
	return ""
}

func checkWaits(wanted []string) error {
	for _, w := range wanted {
		if !slices.Contains(waits, w) {
			return badParameter("query.waiting_for", fmt.Sprintf("%q is not one of %s", w, strings.Join(waits, ", ")))
		}
	}
	return nil
}

// filterWaiting narrows a filter to what is due and waits for one of the given
// things. none means that nothing can match.
func (a *API) filterWaiting(ctx context.Context, c *call, f store.DeliveryFilter, wanted []string) (_ store.DeliveryFilter, none bool, err error) {
	if len(wanted) == 0 {
		return f, false, nil
	}
	f.DueBy = c.now
	f.Endpoints, err = a.endpointsThat(ctx, f.Tenant, f.Endpoints, func(d store.Destination) bool {
		w := waitAt(d, 0, c.now)
		if w == "" && slices.Contains(wanted, waitPace) { // policies are dear: most need not be read
			w = waitAt(d, a.policyOf(d).RateLimit.PerSecond, c.now)
		}
		return slices.Contains(wanted, w)
	})
	return f, len(f.Endpoints) == 0, err
}

// policyOf returns the policy of a destination, empty when that is not valid any
// more: what waits must be seen all the same.
func (a *API) policyOf(d store.Destination) *policy.Policy {
	r, err := a.resolve(d.TenantPolicy, d.Endpoint.Policy)
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
	page := store.Page{Limit: 250}
	for {
		list, err := a.cfg.Store.ListEndpoints(ctx, tenant, page)
		if err != nil {
			return nil, fmt.Errorf("list endpoints: %w", err)
		}
		ids := make([]hook.ID, len(list))
		for i, e := range list {
			ids[i] = e.ID
		}
		some, err := a.thoseThat(ctx, tenant, ids, is)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		if len(list) < page.Limit {
			return out, nil
		}
		page.After = list[len(list)-1].ID
	}
}

func (a *API) thoseThat(ctx context.Context, tenant hook.ID, ids []hook.ID, is func(store.Destination) bool) (out []hook.ID, err error) {
	for some := range slices.Chunk(ids, 250) {
		dests, err := a.cfg.Store.Destinations(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("read destinations: %w", err)
		}
		for _, d := range dests {
			if d.Endpoint.TenantID == tenant && is(d) {
				out = append(out, d.Endpoint.ID)
			}
		}
	}
	return out, nil
}
