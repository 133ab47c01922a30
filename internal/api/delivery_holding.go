package api

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// holding says which endpoints of a page hold their deliveries at a moment, why,
// and how long deliveries may take there.
type holding struct {
	at    time.Time
	lanes map[hook.ID]view.LaneFacts
}

// holdingOf reads what the views of pending deliveries depend on.
func (a *API) holdingOf(ctx context.Context, rows []store.DeliveryRow) (holding, error) {
	var ids []hook.ID
	seen := map[hook.ID]bool{}
	for _, r := range rows {
		if r.State == hook.Pending && !seen[r.EndpointID] {
			seen[r.EndpointID] = true
			ids = append(ids, r.EndpointID)
		}
	}
	h := holding{at: a.server.Now()}
	if len(ids) == 0 {
		return h, nil
	}
	dests, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return h, fmt.Errorf("read destinations: %w", err)
	}
	h.lanes = make(map[hook.ID]view.LaneFacts, len(dests))
	for _, d := range dests {
		h.lanes[d.Endpoint.ID] = view.FactsOf(d, a.policyOf(d), h.at)
	}
	return h, nil
}

func (h holding) show(r store.DeliveryRow) view.Delivery {
	return view.OfDelivery(r, h.lanes[r.EndpointID], h.at)
}
