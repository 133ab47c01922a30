package api

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	stripCell  = 30 * time.Minute
	stripCells = view.StripCells
	// stripFinal is how long after its end a cell may still change: figures are
	// seconds late.
	stripFinal = 10 * time.Minute
	// stripKept is after how long all of a strip is read again, should its cells
	// have changed later than that, and stripsKept how many are remembered.
	stripKept  = time.Hour
	stripsKept = 4096
)

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
	strips, err := a.strips.of(own, c.Now, func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error) {
		return a.cfg.Store.EndpointStats(ctx, ids, from, c.Now)
	})
	if err != nil {
		return nil, err
	}
	from := time.Unix((cellOf(c.Now)-stripCells+1)*int64(stripCell.Seconds()), 0)
	v := view.Strips{From: view.Stamp(from), To: view.Stamp(c.Now), CellSeconds: int64(stripCell.Seconds())}
	for _, id := range ids {
		v.Endpoints = append(v.Endpoints, view.OfStrip(id, strips[id]))
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

// strips remembers the cells that do not change any more: an endpoint that gets
// something every minute has 1,440 rows of figures a day.
type strips struct {
	mu   sync.Mutex
	kept map[hook.ID]keptStrip
}

type keptStrip struct {
	at    time.Time // it was read
	upTo  int64     // cells before it are known, of a day
	cells view.Cells
}

// cellOf is the number of the cell that a moment is in.
func cellOf(t time.Time) int64 { return t.Unix() / int64(stripCell.Seconds()) }

// of returns the strips of endpoints up to now. read reads figures from a moment on.
func (s *strips) of(ids []hook.ID, now time.Time, read func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error),
) (map[hook.ID]view.Cells, error) {
	last, final := cellOf(now), cellOf(now.Add(-stripFinal))
	known, cold, warm, from := s.known(ids, now)
	out := make(map[hook.ID]view.Cells, len(ids))
	for _, part := range []struct {
		ids  []hook.ID
		from int64
	}{{cold, last - stripCells + 1}, {warm, from}} {
		if len(part.ids) == 0 {
			continue
		}
		points, err := read(part.ids, time.Unix(part.from*int64(stripCell.Seconds()), 0))
		if err != nil {
			return nil, err
		}
		for _, id := range part.ids {
			cells := known[id].cells.From(last-stripCells+1, part.from)
			for i := range points[id] {
				if n := cellOf(points[id][i].At); n >= part.from {
					cells.Add(n, &points[id][i].Counts)
				}
			}
			out[id] = cells
		}
	}
	s.keep(out, known, now, final)
	return out, nil
}

// known returns what is remembered, who has to be read from the beginning, who need
// not, and from which cell on these have to be.
func (s *strips) known(ids []hook.ID, now time.Time) (known map[hook.ID]keptStrip, cold, warm []hook.ID, from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, from = make(map[hook.ID]keptStrip, len(ids)), cellOf(now)
	for _, id := range ids {
		if k, ok := s.kept[id]; ok && now.Sub(k.at) < stripKept && !now.Before(k.at) {
			known[id], from, warm = k, min(from, k.upTo), append(warm, id)
			continue
		}
		cold = append(cold, id)
	}
	return known, cold, warm, from
}

func (s *strips) keep(read map[hook.ID]view.Cells, known map[hook.ID]keptStrip, now time.Time, final int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept)+len(read) > stripsKept {
		s.kept = make(map[hook.ID]keptStrip)
	}
	for id, cells := range read {
		k := keptStrip{at: now, upTo: final, cells: cells}
		if before, ok := known[id]; ok {
			k.at = before.at
		}
		s.kept[id] = k
	}
}
