package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// worstShown is how many of the worst endpoints are shown.
	worstShown = 10
	// deadCounted is how far dead letters are counted: some milliseconds.
	deadCounted = 10_000

	stripCell  = 30 * time.Minute
	stripCells = 48
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
// together; that only the last piece is not looked at in full is near enough.
func (a *API) addQueues(ctx context.Context, v *view.Stats, f *figures, tenant hook.ID) error {
	if len(f.series) == 0 {
		return nil
	}
	if tenant == 0 {
		v.AddQueues(f.series, func(i int) uint64 { return f.series[i].Counts.Get(stats.LookedSeconds) })
		return nil
	}
	last := len(f.series) - 1
	points, err := a.cfg.Store.Stats(ctx, stats.Subject{Level: stats.OfSystem}, f.series[last].At, f.to)
	if err != nil {
		return err
	}
	all := stats.Total(points)
	v.AddQueues(f.series, func(i int) uint64 {
		if i == last {
			return all.Get(stats.LookedSeconds)
		}
		return uint64(f.step.Seconds())
	})
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

// HealthQuery names endpoints.
type HealthQuery struct {
	Endpoint []string `query:"endpoint,explode" required:"true" minItems:"1" maxItems:"50" doc:"Ids or uids; may be repeated."`
}

type tenantHealth struct {
	rest.TenantPath
	HealthQuery
}

func (a *API) addHealthRoutes() {
	g := a.server.Group("stats")
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/endpoint-health", "get-endpoint-health",
		"Get what happened to up to 50 endpoints in the last 24 hours, by the half hour",
		func(ctx context.Context, c *rest.Call, in *tenantHealth) (*rest.Output[view.Strips], error) {
			return a.health(ctx, c, in.Endpoint)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/endpoint-health", "get-all-endpoint-health",
		"Get what happened to up to 50 endpoints of any tenant in the last 24 hours, by the half hour",
		func(ctx context.Context, c *rest.Call, in *HealthQuery) (*rest.Output[view.Strips], error) {
			return a.health(ctx, c, in.Endpoint)
		})
}

func (a *API) health(ctx context.Context, c *rest.Call, names []string) (*rest.Output[view.Strips], error) {
	ids, err := a.filterEndpoints(ctx, c, names)
	if err != nil {
		return nil, err
	}
	own, err := a.ownEndpoints(ctx, c.Tenant, ids)
	if err != nil {
		return nil, err
	}
	from := c.Now.UTC().Truncate(stripCell).Add(-(stripCells - 1) * stripCell)
	points, err := a.cfg.Store.EndpointStats(ctx, own, from, c.Now)
	if err != nil {
		return nil, err
	}
	v := view.Strips{From: view.Stamp(from), To: view.Stamp(c.Now), CellSeconds: int64(stripCell.Seconds())}
	for _, id := range ids {
		v.Endpoints = append(v.Endpoints, view.OfStrip(id, stats.Series(points[id], from, from.Add(stripCells*stripCell), stripCell)))
	}
	return &rest.Output[view.Strips]{Body: v}, nil
}

// ownEndpoints keeps those of a tenant: figures know endpoints alone.
func (a *API) ownEndpoints(ctx context.Context, tenant hook.ID, ids []hook.ID) ([]hook.ID, error) {
	found, err := a.cfg.Store.Destinations(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	found = slices.DeleteFunc(found, func(d store.Destination) bool { return tenant != 0 && d.Endpoint.TenantID != tenant })
	own := make([]hook.ID, len(found))
	for i := range found {
		own[i] = found[i].Endpoint.ID
	}
	return own, nil
}
