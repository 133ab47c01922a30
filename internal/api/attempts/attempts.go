// Package attempts is the part of the API that tells of attempts over all
// deliveries: a list, one of them, and a stream of what ends now.
package attempts

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Store is what the routes ask of the database.
type Store interface {
	store.AttemptLog
	AttemptsOf(ctx context.Context, tenant, delivery hook.ID) ([]hook.Attempt, error)
}

// Config is what AddRoutes needs. All of it is required but Every.
type Config struct {
	Path  string // of the list
	Store Store
	// EndpointIDs reads the filter by endpoint: ids and uids.
	EndpointIDs func(context.Context, *rest.Call, []string) ([]hook.ID, error)
	Streams     *sse.Room[hook.ID] // those that are open; its Stop ends them
	Every       time.Duration      // how often a stream looks; 0: 500 ms
}

// Log serves the routes.
type Log struct {
	cfg    Config
	server *rest.Server
}

// Params are the filters of attempts.
type Params struct {
	Endpoint []string `query:"endpoint,explode" doc:"ep_… or uid; repeat for alternatives."`
	Type     []string `query:"type,explode" doc:"order.paid or order.*"`
	Kind     []string `query:"kind,explode" doc:"first, retry, probe, replay or manual."`
	Class    []string `query:"class,explode" doc:"success, down, throttled, permanent, …"`
	Reason   []string `query:"reason,explode" doc:"ok, server_error, timeout_total, …"`
}

type listInput struct {
	rest.TenantPath
	rest.PageParams
	rest.WindowParams
	Params
}

type pathInput struct {
	rest.TenantPath
	Attempt string `path:"attempt" maxLength:"64"`
}

// AddRoutes adds the routes of attempts.
func AddRoutes(s *rest.Server, cfg Config) {
	l := &Log{cfg: cfg, server: s}
	g := s.Group("attempts")
	rest.Add(g, rest.NeedRead, "GET "+cfg.Path, "list-all-attempts", "List attempts over all deliveries", l.list,
		rest.Describe("In the order in which they ended. An attempt that succeeded at once stands where its delivery was accepted. "+
			"Without since it is the last hour that is listed. A page may be short, or empty, and have a next_cursor."))
	l.addStream()
	rest.Add(g, rest.NeedRead, "GET "+cfg.Path+"/{attempt}", "get-attempt", "Get an attempt", l.get)
}

// listed is how far back a list goes that is not told so.
const listed = time.Hour

func (l *Log) list(ctx context.Context, c *rest.Call, in *listInput) (*rest.ListOutput[view.AttemptEntry], error) {
	f, err := l.filter(ctx, c, &in.Params)
	if err != nil {
		return nil, err
	}
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return nil, err
	}
	if in.Since == "" {
		f.Since = c.Now.Add(-listed)
	}
	page, err := l.server.Page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	rows, next, err := l.cfg.Store.ListAttempts(ctx, f, page)
	if err != nil {
		return nil, err
	}
	return rest.PagedUpTo(l.server, c, in.PageParams, rows, next, func(r store.AttemptRow) hook.ID { return r.Place }, view.OfAttemptRow)
}

// filter reads the filters.
func (l *Log) filter(ctx context.Context, c *rest.Call, in *Params) (f store.AttemptFilter, err error) {
	f.Tenant, f.Types = c.Tenant, in.Type
	for _, p := range in.Type {
		if err := hook.CheckPattern(p); err != nil {
			return f, rest.BadParameter("query.type", err.Error())
		}
	}
	if f.Kinds, err = members("kind", in.Kind, hook.ParseAttemptKind); err != nil {
		return f, err
	}
	if f.Classes, err = members("class", in.Class, hook.ParseClass); err != nil {
		return f, err
	}
	if f.Reasons, err = members("reason", in.Reason, hook.ParseReason); err != nil {
		return f, err
	}
	f.Endpoints, err = l.cfg.EndpointIDs(ctx, c, in.Endpoint)
	return f, err
}

func members[E any](name string, list []string, parse func(string) (E, error)) (out []E, err error) {
	for _, text := range list {
		member, err := parse(text)
		if err != nil {
			return nil, rest.BadParameter("query."+name, err.Error())
		}
		out = append(out, member)
	}
	return out, nil
}

// placed is how long before its end an attempt may stand in the list: see
// store.AttemptRow.
const placed = 30 * time.Second

// get finds the attempt by when it ended, and shows it as its delivery does.
func (l *Log) get(ctx context.Context, c *rest.Call, in *pathInput) (*rest.Output[view.Attempt], error) {
	id, err := hook.AttemptPrefix.Parse(in.Attempt)
	if err != nil {
		return nil, hook.ErrNotFound
	}
	f := store.AttemptFilter{
		Tenant: c.Tenant, EndedFrom: id, Since: id.Time().Add(-placed), Until: id.Time().Add(time.Millisecond),
	}
	for p := (store.Page{Limit: sse.MaxLook}); ; {
		rows, next, err := l.cfg.Store.ListAttempts(ctx, f, p)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if r.ID == id {
				return l.show(ctx, r)
			}
		}
		if p.After = next; next == 0 {
			return nil, hook.ErrNotFound
		}
	}
}

func (l *Log) show(ctx context.Context, r store.AttemptRow) (*rest.Output[view.Attempt], error) {
	all, err := l.cfg.Store.AttemptsOf(ctx, r.TenantID, r.DeliveryID)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	for _, a := range all {
		if a.ID == r.ID {
			return &rest.Output[view.Attempt]{Body: view.OfAttempt(a)}, nil
		}
	}
	return nil, hook.ErrNotFound
}
