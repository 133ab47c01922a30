package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// LaneParams are the filters of lanes.
type LaneParams struct {
	Storm   string `query:"storm" enum:"true,false" doc:"With or without a retry storm."`
	Growing string `query:"growing" enum:"true,false" doc:"With or without the early warning of their retry queue."`
	Paused  string `query:"paused" enum:"true,false" doc:"The endpoint is paused or disabled."`
	Hold    string `query:"hold" enum:"true,false" doc:"The destination asked for silence that has not ended."`
	Recover string `query:"recovering" enum:"true,false" doc:"On their way back to full speed after an outage (learnt.recovery)."`
	EndpointParams
}

// EndpointParams are the filters that lanes and endpoints share.
type EndpointParams struct {
	Status []string `query:"status,explode" enum:"active,paused,disabled" doc:"Of the endpoint; repeat for alternatives."`
	Type   string   `query:"type" maxLength:"128" doc:"An event type: endpoints that get such events."`
	State  string   `query:"state" enum:"open,closed" doc:"Of the breaker."`
	Text   string   `query:"q" maxLength:"128" doc:"Id of the endpoint, or a part of its URL, uid or description."`
}

// LaneQuery selects lanes.
type LaneQuery struct {
	rest.PageParams
	LaneParams
}

type laneList struct {
	rest.TenantPath
	LaneQuery
}

type laneCount struct {
	rest.TenantPath
	LaneParams
}

type laneCountView struct {
	Count int64 `json:"count"`
	Exact bool  `json:"exact" doc:"false: there are at least that many. Counting stops at 2,000."`
}

// mostLanes is where counting lanes stops.
const mostLanes = 2000

func (a *API) addLaneRoutes() {
	g := a.server.Group("lanes")
	rest.Add(g, rest.NeedRead, "GET "+endpointPath+"/lane", "get-lane", "Get the lane of an endpoint",
		func(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[view.Lane], error) {
			e, err := a.endpoint(ctx, c, in.Endpoint)
			if err != nil {
				return nil, err
			}
			return a.laneOf(ctx, e)
		})
	rest.Add(g, rest.NeedRead, "GET "+endpointPath+"/policy", "get-endpoint-policy",
		"Get the resolved policy and where each value came from", a.getPolicy)
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/lanes", "list-lanes", "List lanes",
		func(ctx context.Context, c *rest.Call, in *laneList) (*rest.ListOutput[view.Lane], error) {
			return a.listLanes(ctx, c, &in.LaneQuery)
		})
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/lanes/count", "count-lanes", "Count lanes",
		func(ctx context.Context, c *rest.Call, in *laneCount) (*rest.Output[laneCountView], error) {
			f, err := in.filter(c)
			if err != nil {
				return nil, err
			}
			n, err := a.cfg.Store.CountLanesLike(ctx, f, mostLanes)
			if err != nil {
				return nil, err
			}
			return &rest.Output[laneCountView]{Body: laneCountView{Count: n, Exact: n < mostLanes}}, nil
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/lanes", "list-all-lanes", "List lanes of all tenants", a.listLanes)
}

// filter translates the parameters; the schema has checked their values.
func (p *LaneParams) filter(c *rest.Call) (store.LaneFilter, error) {
	f, err := p.EndpointParams.filter(c)
	f.Storm, f.Growing, f.Paused = choice(p.Storm, "true"), choice(p.Growing, "true"), choice(p.Paused, "true")
	f.Hold, f.Now, f.Recovering = choice(p.Hold, "true"), c.Now, choice(p.Recover, "true")
	return f, err
}

func (p *EndpointParams) filter(c *rest.Call) (store.LaneFilter, error) {
	f := store.LaneFilter{Tenant: c.Tenant, Open: choice(p.State, view.LaneOpen), Type: p.Type, Text: p.Text}
	for _, state := range []hook.EndpointState{hook.Active, hook.Paused, hook.Disabled} {
		if slices.Contains(p.Status, state.String()) {
			f.States = append(f.States, state)
		}
	}
	if p.Type != "" {
		if err := hook.CheckType(p.Type); err != nil {
			return f, rest.BadParameter("query.type", err.Error())
		}
	}
	if id, err := hook.EndpointPrefix.Parse(p.Text); err == nil {
		f.Endpoint, f.Text = id, ""
	}
	return f, nil
}

// choice is a filter that says yes, no, or nothing.
func choice(given, yes string) *bool {
	if given == "" {
		return nil
	}
	is := given == yes
	return &is
}

// shownLane is a lane and how it is shown.
type shownLane struct {
	endpoint hook.ID
	watched  bool // by its owner, which has reason to
	view     view.Lane
}

func (a *API) listLanes(ctx context.Context, c *rest.Call, in *LaneQuery) (*rest.ListOutput[view.Lane], error) {
	read := func(p store.Page) ([]shownLane, error) {
		f, err := in.filter(c)
		if err != nil {
			return nil, err
		}
		endpoints, err := a.cfg.Store.ListLanes(ctx, f, p)
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
		r, err := a.policies.Resolve(s.TenantLevel, s.Endpoint.Level())
		if err != nil {
			return nil, err
		}
		w, watched := watches[s.Endpoint.ID]
		out[i] = shownLane{s.Endpoint.ID, watched, view.OfLane(s.Destination, &r.Policy, a.server.Now())}
		if watched {
			out[i].view.Storm, out[i].view.RetryQueue = view.OfStorm(w), view.OfRetryQueue(w)
		}
	}
	return out, nil
}

// countedDepth is how far the queue of a lane is counted that nobody watches.
const countedDepth = 10_000

// laneOf shows the lane of an endpoint. A queue that its owner has no reason to
// measure is measured here.
func (a *API) laneOf(ctx context.Context, e hook.Endpoint) (*rest.Output[view.Lane], error) {
	lanes, err := a.showLanes(ctx, []hook.Endpoint{e})
	if err != nil {
		return nil, err
	}
	out := &rest.Output[view.Lane]{Body: lanes[0].view}
	if lanes[0].watched {
		return out, nil
	}
	depths, err := a.cfg.Store.RetryDepths(ctx, []hook.ID{e.ID}, a.server.Now(), countedDepth)
	if err != nil {
		return nil, fmt.Errorf("measure retry queue: %w", err)
	}
	for _, d := range depths {
		out.Body.RetryQueue = view.RetryQueue{Depth: &d.Depth, AtLeast: d.AtLeast}
	}
	return out, nil
}
