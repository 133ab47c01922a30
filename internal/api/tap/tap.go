// Package tap is the stream of events as they are accepted, with their payloads: for
// somebody who writes a receiver and wants to see what it would get. It is a tap: it
// makes no deliveries, and promises nothing.
package tap

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Store is what the route asks of the database.
type Store interface {
	ListEvents(ctx context.Context, f store.EventFilter, p store.Page) ([]store.EventSummary, error)
	Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error)
}

// Config is what AddRoute needs. All of it is required but Every.
type Config struct {
	Path    string
	Store   Store
	Streams *sse.Room[hook.ID] // those that are open; its Stop ends them
	Every   time.Duration      // how often a stream looks; 0: 500 ms
}

// small is what a payload may have without asking for room.
const small = 64 << 10

// copies is how often a payload is in memory while it is written.
const copies = 3

// AddRoute adds the route of the stream.
func AddRoute(s *rest.Server, cfg Config) {
	s.Stream(&huma.Operation{
		OperationID: "stream-events", Method: http.MethodGet, Path: cfg.Path,
		Summary: "Follow events as they are accepted", Tags: []string{"events"},
		Description: "Server-sent events. Each event that was accepted is an event named event whose id is its own and whose data is as Get an event shows it, with its " +
			"payload and without its deliveries; a comment comes every 15 s. It is a tap for those who write receivers: it makes no deliveries and promises nothing. " +
			"With Last-Event-ID the stream goes on behind that event if it was accepted within the last 5 minutes and no more than 10,000 were since. " +
			"Otherwise, and when more were accepted than the client could be sent, an event named lagged comes, whose data has how many were skipped, null when unknown. " +
			"A client that reads nothing for 10 s is dropped. A key may have 10 streams open.",
		Parameters: []*huma.Param{
			rest.TenantParam(), sse.ListParam("type", "order.paid or order.*; repeat for alternatives."), sse.LastEventID("Id of the last event that was received."),
		},
		Responses: sse.Answers(),
	}, rest.NeedRead, func(w http.ResponseWriter, r *http.Request) {
		c := rest.CallBy(w)
		f := store.EventFilter{Tenant: c.Tenant, Types: r.URL.Query()["type"]}
		for _, p := range f.Types {
			if err := hook.CheckPattern(p); err != nil {
				s.Fail(w, c, rest.BadParameter("query.type", err.Error()))
				return
			}
		}
		sse.Follow(s, w, r, sse.Log[store.EventSummary]{
			Name: "event", Prefix: hook.EventPrefix, ID: func(e store.EventSummary) hook.ID { return e.Event.ID },
			Read: func(ctx context.Context, from hook.ID, p store.Page) ([]store.EventSummary, hook.ID, error) {
				return cfg.read(ctx, f, from, p)
			},
			Data: func(ctx context.Context, e store.EventSummary) ([]byte, func(), error) { return cfg.show(ctx, s, c, e) },
			Room: cfg.Streams, Every: cfg.Every,
		})
	})
}

func (cfg *Config) read(ctx context.Context, f store.EventFilter, from hook.ID, p store.Page) ([]store.EventSummary, hook.ID, error) {
	f.Since = from.Time()
	p.After = max(p.After, from-1)
	rows, err := cfg.Store.ListEvents(ctx, f, p)
	if err != nil || len(rows) < p.Limit {
		return rows, 0, err
	}
	return rows, rows[len(rows)-1].Event.ID, nil
}

// show reads the payload of an event. Large ones take turns with all large answers.
func (cfg *Config) show(ctx context.Context, s *rest.Server, c *rest.Call, e store.EventSummary) (data []byte, release func(), err error) {
	if e.Size > small {
		if release, err = s.Hold(ctx, c, copies*int64(e.Size)); err != nil {
			return nil, nil, err
		}
	}
	if e.Event, err = cfg.Store.Event(ctx, e.Event.TenantID, e.Event.ID); err == nil {
		data, err = sse.Encode(view.OfEvent(e))
	}
	return data, release, err
}
