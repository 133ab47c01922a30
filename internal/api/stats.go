package api

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// StatsQuery selects a window and the pieces that it is cut into.
type StatsQuery struct {
	Window string `query:"window" enum:"15m,1h,6h,24h,7d,30d" default:"1h" doc:"Up to now."`
	Step   string `query:"step" enum:"1m,5m,15m,1h,1d" doc:"Length of the pieces; by default one that suits the window."`
}

type endpointStats struct {
	EndpointPath
	StatsQuery
}

type tenantStats struct {
	rest.TenantPath
	StatsQuery
}

func (a *API) addStatsRoutes() {
	g := a.server.Group("stats")
	rest.Add(g, rest.NeedRead, "GET "+endpointPath+"/stats", "get-endpoint-stats", "Get the figures of an endpoint",
		func(ctx context.Context, c *rest.Call, in *endpointStats) (*rest.Output[view.Stats], error) {
			e, err := a.endpoint(ctx, c, in.Endpoint)
			if err != nil {
				return nil, err
			}
			return a.statsOf(ctx, c, stats.Subject{Level: stats.OfEndpoint, ID: e.ID}, &in.StatsQuery)
		})
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/stats", "get-tenant-stats", "Get the figures of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantStats) (*rest.Output[view.Overview], error) {
			return a.overviewOf(ctx, c, c.Tenant, &in.StatsQuery)
		})
	rest.Add(g, rest.NeedAdminRead, "GET /v1/stats", "get-stats", "Get the figures of all tenants together",
		func(ctx context.Context, c *rest.Call, in *StatsQuery) (*rest.Output[view.Overview], error) {
			return a.overviewOf(ctx, c, 0, in)
		})
	a.addHealthRoutes()
}

// A window has at most so many pieces, and those of the longest ones are no shorter
// than an hour: minutes are not kept for so long.
const (
	mostPieces = 1500
	longWindow = 24 * time.Hour
)

// window returns the length of the window and of its pieces. The schema has
// checked that both are known.
func (q *StatsQuery) window() (window, step time.Duration, err error) {
	if window, err = quantity.ParseDuration(q.Window); err != nil {
		return 0, 0, fmt.Errorf("read window: %w", err)
	}
	given := q.Step
	if given == "" {
		given = map[string]string{"15m": "1m", "1h": "1m", "6h": "5m", "24h": "15m", "7d": "1h", "30d": "1d"}[q.Window]
	}
	if step, err = quantity.ParseDuration(given); err != nil {
		return 0, 0, fmt.Errorf("read step: %w", err)
	}
	switch {
	case step > window:
		err = rest.BadParameter("query.step", "must not be longer than the window of "+q.Window)
	case window > longWindow && step < time.Hour:
		err = rest.BadParameter("query.step", "must be 1h or 1d for a window of "+q.Window)
	case window/step > mostPieces:
		err = rest.BadParameter("query.step", fmt.Sprintf("must be longer for a window of %s: at most %d pieces", q.Window, mostPieces))
	}
	return window, step, err
}

func (a *API) statsOf(ctx context.Context, c *rest.Call, s stats.Subject, q *StatsQuery) (*rest.Output[view.Stats], error) {
	f, err := a.figures(ctx, c, s, q)
	if err != nil {
		return nil, err
	}
	return &rest.Output[view.Stats]{Body: f.view()}, nil
}

// figures are those of a window.
type figures struct {
	series   []stats.Point
	from, to time.Time
	step     time.Duration
	counting bool
}

func (f *figures) view() view.Stats {
	v := view.OfStats(f.series, f.from, f.to, f.step)
	v.Counting = f.counting
	return v
}

func (a *API) figures(ctx context.Context, c *rest.Call, s stats.Subject, q *StatsQuery) (*figures, error) {
	window, step, err := q.window()
	if err != nil {
		return nil, err
	}
	from := begin(c.Now, window)
	points, err := a.cfg.Store.Stats(ctx, s, from, c.Now)
	if err != nil {
		return nil, err
	}
	return &figures{stats.Series(points, from, c.Now, step), from, c.Now, step, !a.cfg.Uncounted}, nil
}

// begin returns when the window up to now begins, whatever its pieces are: at a full
// minute, and a long one at a full hour, as its figures are kept by the hour. What
// has passed of the last minute or hour is a part of the window.
func begin(now time.Time, window time.Duration) time.Time {
	kept := time.Minute
	if window > longWindow {
		kept = time.Hour
	}
	return now.Add(kept - window).UTC().Truncate(kept)
}
