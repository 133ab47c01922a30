package api

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

const (
	// worstShown is how many of the worst endpoints are shown.
	worstShown = 10
	// deadCounted is how far dead letters are counted: some milliseconds.
	deadCounted = 10_000
)

// overviewOf shows the figures of a tenant, or of all for 0, and how its lanes are.
func (a *API) overviewOf(ctx context.Context, c *rest.Call, tenant hook.ID, q *StatsQuery) (*rest.Output[view.Overview], error) {
	subject := stats.Subject{Level: stats.OfTenant, ID: tenant}
	if tenant == 0 {
		subject.Level = stats.OfSystem
	}
	f, err := a.figures(ctx, c, subject, q)
	if err != nil {
		return nil, err
	}
	v := view.Overview{Stats: f.view(), WorstEndpoints: []view.WorstEndpoint{}}
	if err := a.addQueues(ctx, &v.Stats, f, tenant); err != nil {
		return nil, err
	}
	lanes, err := a.cfg.Store.CountLanes(ctx, tenant, c.Now)
	if err != nil {
		return nil, err
	}
	v.Storms = lanes.Storms
	v.Breakers = view.Breakers{Closed: max(lanes.Endpoints-lanes.Open, 0), Open: lanes.Open - lanes.Probing, HalfOpen: lanes.Probing}
	if err := a.addDead(ctx, &v, subject, tenant, c.Now); err != nil {
		return nil, err
	}
	if err := a.addWorst(ctx, &v, tenant, c.Now); err != nil {
		return nil, err
	}
	return &rest.Output[view.Overview]{Body: v}, nil
}

// addQueues adds what waited. How long anybody looked is known of all tenants
// together.
func (a *API) addQueues(ctx context.Context, v *view.Stats, f *figures, tenant hook.ID) error {
	all := f.series
	if tenant != 0 {
		points, err := a.cfg.Store.Stats(ctx, stats.Subject{Level: stats.OfSystem}, f.from, f.to)
		if err != nil {
			return err
		}
		all = stats.Series(points, f.from, f.to, f.step)
	}
	v.AddQueues(f.series, func(i int) uint64 { return all[i].Counts.Get(stats.LookedSeconds) })
	return nil
}

func (a *API) addDead(ctx context.Context, v *view.Overview, s stats.Subject, tenant hook.ID, now time.Time) error {
	n, err := a.cfg.Store.CountDead(ctx, tenant, deadCounted)
	if err != nil {
		return err
	}
	hour, err := a.cfg.Store.Stats(ctx, s, now.Add(-59*time.Minute), now)
	if err != nil {
		return err
	}
	total := stats.Total(hour)
	v.DeadLetters = view.DeadLetters{Total: n, AtLeast: n == deadCounted, LastHour: total.AllDead()}
	return nil
}

func (a *API) addWorst(ctx context.Context, v *view.Overview, tenant hook.ID, now time.Time) error {
	worst, err := a.cfg.Store.WorstLanes(ctx, tenant, worstShown)
	if err != nil || len(worst) == 0 {
		return err
	}
	ids := make([]hook.ID, len(worst))
	for i := range worst {
		ids[i] = worst[i].EndpointID
	}
	hour, err := a.cfg.Store.EndpointStats(ctx, ids, now.Add(-59*time.Minute), now)
	if err != nil {
		return err
	}
	for i := range worst {
		v.WorstEndpoints = append(v.WorstEndpoints, view.OfWorst(&worst[i], hour[ids[i]], now))
	}
	return nil
}
