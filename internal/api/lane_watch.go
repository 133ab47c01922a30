package api

import (
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// countedDepth is how far the queue of a lane is counted that nobody watches.
const countedDepth = 10_000

// watchOf shows what the owner of a lane has seen. A queue that its owner has no
// reason to measure is measured here.
func (a *API) watchOf(ctx context.Context, endpoint hook.ID) (view.Storm, view.RetryQueue, error) {
	rows, err := a.cfg.Store.LaneWatches(ctx, []hook.ID{endpoint})
	if err != nil {
		return view.Storm{}, view.RetryQueue{}, fmt.Errorf("read lane watch: %w", err)
	}
	if len(rows) > 0 {
		return view.OfStorm(&rows[0]), view.OfRetryQueue(&rows[0]), nil
	}
	depths, err := a.cfg.Store.RetryDepths(ctx, []hook.ID{endpoint}, a.server.Now(), countedDepth)
	if err != nil {
		return view.Storm{}, view.RetryQueue{}, fmt.Errorf("measure retry queue: %w", err)
	}
	var q view.RetryQueue
	for _, d := range depths {
		q = view.RetryQueue{Depth: &d.Depth, AtLeast: d.AtLeast}
	}
	return view.Storm{}, q, nil
}

// LaneQuery selects lanes.
type LaneQuery struct {
	rest.PageParams
	Storm   string `query:"storm" enum:"true,false" doc:"With or without a retry storm."`
	Growing string `query:"growing" enum:"true,false" doc:"With or without the early warning of their retry queue."`
	State   string `query:"state" enum:"open,closed" doc:"Of the breaker."`
	Paused  string `query:"paused" enum:"true,false" doc:"The endpoint is paused or disabled."`
}

type laneList struct {
	rest.TenantPath
	LaneQuery
}

// filter translates the parameters; the schema has checked their values.
func (p *LaneQuery) filter(tenant hook.ID) store.LaneFilter {
	choice := func(given, yes string) *bool {
		if given == "" {
			return nil
		}
		is := given == yes
		return &is
	}
	return store.LaneFilter{
		Tenant: tenant, Storm: choice(p.Storm, "true"), Growing: choice(p.Growing, "true"),
		Open: choice(p.State, view.LaneOpen), Paused: choice(p.Paused, "true"),
	}
}

// shownLane is a lane of a list.
type shownLane struct {
	endpoint hook.ID
	view     view.Lane
}

func (a *API) listLanes(ctx context.Context, c *rest.Call, in *LaneQuery) (*rest.ListOutput[view.Lane], error) {
	read := func(p store.Page) ([]shownLane, error) {
		endpoints, err := a.cfg.Store.ListLanes(ctx, in.filter(c.Tenant), p)
		if err != nil {
			return nil, err
		}
		return a.showLanes(ctx, endpoints)
	}
	return rest.ListOf(a.server, c, in.PageParams, read,
		func(l shownLane) hook.ID { return l.endpoint },
		func(l shownLane) view.Lane { return l.view })
}

// showLanes reads what belongs to the lanes of endpoints, each kind at once.
func (a *API) showLanes(ctx context.Context, endpoints []hook.Endpoint) ([]shownLane, error) {
	full, err := a.surround(ctx, endpoints)
	if err != nil || len(full) == 0 {
		return nil, err
	}
	rows, err := a.cfg.Store.LaneWatches(ctx, idsOf(endpoints))
	if err != nil {
		return nil, fmt.Errorf("read lane watches: %w", err)
	}
	watches := make(map[hook.ID]*hook.LaneWatch, len(rows))
	for i := range rows {
		watches[rows[i].EndpointID] = &rows[i]
	}
	out := make([]shownLane, len(full))
	for i, s := range full {
		r, err := a.resolve(s.TenantPolicy, s.Endpoint.Policy)
		if err != nil {
			return nil, err
		}
		out[i] = shownLane{s.Endpoint.ID, view.OfLane(s.Destination, &r.Policy, a.server.Now())}
		if w := watches[s.Endpoint.ID]; w != nil {
			out[i].view.Storm, out[i].view.RetryQueue = view.OfStorm(w), view.OfRetryQueue(w)
		}
	}
	return out, nil
}
