package api

import (
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// stormView compares the retries of the last 15 minutes with the first
// attempts, as the lane's owner last saved them.
type stormView struct {
	Active  bool    `json:"active"`
	Since   stamp   `json:"since"`
	Retries int64   `json:"retries" doc:"In the last 15 minutes."`
	First   *int64  `json:"first" doc:"First attempts in the last 15 minutes; null: not known, because there were no retries."`
	Ratio   float64 `json:"ratio" doc:"retries / max(first, 1)"`
	NoFirst bool    `json:"no_first" doc:"There were retries and no first attempts at all."`
	AsOf    stamp   `json:"as_of" doc:"When this was saved; null: there was nothing to save."`
}

// retryQueueView is what waits for another attempt: pending deliveries that have
// had one, and those that are held.
type retryQueueView struct {
	Depth          *int64   `json:"depth" doc:"null: not measured; get the lane itself."`
	AtLeast        bool     `json:"at_least" doc:"Counting stopped at depth; there may be more."`
	Growing        bool     `json:"growing" doc:"The early warning of a storm."`
	Since          stamp    `json:"since" doc:"Of the warning."`
	DrainPerMinute *float64 `json:"drain_per_minute" doc:"Over the last minute; 0 or less: not draining; null: not known."`
	EmptyAt        stamp    `json:"empty_at" doc:"If it goes on draining like this; null: it does not."`
}

func showStorm(w *hook.LaneWatch) stormView {
	v := stormView{
		Active: w.Storm.Active(), Since: stamp(w.Storm.Since), Retries: w.Storm.Retries,
		Ratio: w.Storm.Ratio(), NoFirst: w.Storm.Retries > 0 && w.Storm.First == 0, AsOf: stamp(w.UpdatedAt),
	}
	if w.Storm.Retries > 0 || w.Storm.First > 0 {
		v.First = &w.Storm.First
	}
	return v
}

func showRetryQueue(w *hook.LaneWatch) retryQueueView {
	q := &w.Queue
	v := retryQueueView{
		Depth: &q.Depth, AtLeast: q.AtLeast, Growing: q.Growing(), Since: stamp(q.Since), DrainPerMinute: &q.DrainPerMinute,
	}
	if d, ok := q.EmptyIn(); ok {
		v.EmptyAt = stamp(w.UpdatedAt.Add(d))
	}
	return v
}

// countedDepth is how far the queue of a lane is counted that nobody watches.
const countedDepth = 10_000

// watchOf shows what the owner of a lane has seen. A queue that its owner has no
// reason to measure is measured here.
func (a *API) watchOf(ctx context.Context, endpoint hook.ID) (stormView, retryQueueView, error) {
	rows, err := a.cfg.Store.LaneWatches(ctx, []hook.ID{endpoint})
	if err != nil {
		return stormView{}, retryQueueView{}, fmt.Errorf("read lane watch: %w", err)
	}
	if len(rows) > 0 {
		return showStorm(&rows[0]), showRetryQueue(&rows[0]), nil
	}
	depths, err := a.cfg.Store.RetryDepths(ctx, []hook.ID{endpoint}, a.now(), countedDepth)
	if err != nil {
		return stormView{}, retryQueueView{}, fmt.Errorf("measure retry queue: %w", err)
	}
	var q retryQueueView
	for _, d := range depths {
		q = retryQueueView{Depth: &d.Depth, AtLeast: d.AtLeast}
	}
	return stormView{}, q, nil
}

// LaneParams select lanes.
type LaneParams struct {
	Storm   string `query:"storm" enum:"true,false" doc:"With or without a retry storm."`
	Growing string `query:"growing" enum:"true,false" doc:"With or without the early warning of their retry queue."`
	State   string `query:"state" enum:"open,closed" doc:"Of the breaker."`
	Paused  string `query:"paused" enum:"true,false" doc:"The endpoint is paused or disabled."`
}

type laneList struct {
	TenantPath
	PageParams
	LaneParams
}

type allLaneList struct {
	PageParams
	LaneParams
}

// filter translates the parameters; the schema has checked their values.
func (p LaneParams) filter(tenant hook.ID) store.LaneFilter {
	choice := func(given, yes string) *bool {
		if given == "" {
			return nil
		}
		is := given == yes
		return &is
	}
	return store.LaneFilter{
		Tenant: tenant, Storm: choice(p.Storm, "true"), Growing: choice(p.Growing, "true"),
		Open: choice(p.State, laneOpen), Paused: choice(p.Paused, "true"),
	}
}

// shownLane is a lane of a list.
type shownLane struct {
	endpoint hook.ID
	view     laneView
}

func (a *API) listLanes(ctx context.Context, c *call, p PageParams, in LaneParams) (*listOutput[laneView], error) {
	page, err := a.cursors.page(c, p)
	if err != nil {
		return nil, err
	}
	endpoints, err := a.cfg.Store.ListLanes(ctx, in.filter(c.tenant), page)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	lanes, err := a.showLanes(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	return paged(a, c, p, lanes,
		func(l shownLane) hook.ID { return l.endpoint },
		func(l shownLane) laneView { return l.view })
}

// showLanes reads what belongs to the lanes of endpoints, each kind at once.
func (a *API) showLanes(ctx context.Context, endpoints []hook.Endpoint) ([]shownLane, error) {
	full, err := a.surround(ctx, endpoints)
	if err != nil || len(full) == 0 {
		return nil, err
	}
	ids := make([]hook.ID, len(endpoints))
	for i, e := range endpoints {
		ids[i] = e.ID
	}
	rows, err := a.cfg.Store.LaneWatches(ctx, ids)
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
		out[i] = shownLane{s.Endpoint.ID, showLane(s.Destination, &r.Policy, a.now())}
		if w := watches[s.Endpoint.ID]; w != nil {
			out[i].view.Storm, out[i].view.RetryQueue = showStorm(w), showRetryQueue(w)
		}
	}
	return out, nil
}
