package api

import (
	"context"
	"slices"
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
	kept  time.Duration // how long data is kept; 0: for ever
}

// holdingOf reads what the views of pending deliveries depend on.
func (a *API) holdingOf(ctx context.Context, rows []store.DeliveryRow) (holding, error) {
	var ids []hook.ID
	for _, r := range rows {
		if r.State == hook.Pending && !slices.Contains(ids, r.EndpointID) {
			ids = append(ids, r.EndpointID)
		}
	}
	h := holding{at: a.server.Now(), lanes: map[hook.ID]view.LaneFacts{}, kept: a.cfg.Retention}
	dests, err := a.destinations(ctx, ids)
	for id, d := range dests {
		h.lanes[id] = view.FactsOf(d, a.policyOf(d), h.at)
	}
	return h, err
}

func (h holding) show(r store.DeliveryRow) view.Delivery {
	v := view.OfDelivery(r, h.lanes[r.EndpointID], h.at)
	if h.kept > 0 {
		v.KeptUntil = view.Stamp(r.KeptUntil(h.kept))
	}
	return v
}
