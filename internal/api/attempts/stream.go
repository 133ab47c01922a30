package attempts

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func (l *Log) addStream() {
	l.server.Stream(&huma.Operation{
		OperationID: "stream-attempts", Method: http.MethodGet, Path: l.cfg.Path + "/stream",
		Summary: "Follow attempts as they end", Tags: []string{"attempts"},
		Description: "Server-sent events. Each attempt is an event named attempt whose id is the attempt's and whose data is an entry of the list; a comment comes " +
			"every 15 s. With Last-Event-ID the stream goes on behind that attempt if it ended within the last 5 minutes and no more than 10,000 ended since. " +
			"Otherwise, and when more ended than the client could be sent, an event named lagged comes, whose data has how many were skipped, null when unknown. " +
			"A client that reads nothing for 10 s is dropped. A key may have 10 streams open.",
		Parameters: []*huma.Param{
			rest.TenantParam(),
			sse.ListParam("endpoint", "ep_… or uid; repeat for alternatives."), sse.ListParam("type", "order.paid or order.*"),
			sse.ListParam("kind", "first, retry, probe, replay or manual."), sse.ListParam("class", "success, down, throttled, permanent, …"),
			sse.ListParam("reason", "ok, server_error, timeout_total, …"),
			sse.LastEventID("Id of the last attempt that was received."),
		},
		Responses: sse.Answers(),
	}, rest.NeedRead, l.serve)
}

func (l *Log) serve(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	q := r.URL.Query()
	f, err := l.filter(r.Context(), c, &Params{Endpoint: q["endpoint"], Type: q["type"], Kind: q["kind"], Class: q["class"], Reason: q["reason"]})
	if err != nil {
		l.server.Fail(w, c, err)
		return
	}
	sse.Follow(l.server, w, r, sse.Log[store.AttemptRow]{
		Name: "attempt", Prefix: hook.AttemptPrefix, ID: func(row store.AttemptRow) hook.ID { return row.ID },
		Read: func(ctx context.Context, from hook.ID, p store.Page) ([]store.AttemptRow, hook.ID, error) {
			f.EndedFrom, f.Since = from, from.Time().Add(-placed)
			return l.cfg.Store.ListAttempts(ctx, f, p)
		},
		Data: func(_ context.Context, row store.AttemptRow) ([]byte, func(), error) {
			data, err := sse.Encode(view.OfAttemptRow(row))
			return data, nil, err
		},
		Room: l.cfg.Streams, Every: l.cfg.Every,
	})
}
