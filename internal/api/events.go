package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

type eventList struct {
	rest.TenantPath
	rest.PageParams
	rest.WindowParams
	Type []string `query:"type,explode" doc:"Event types: order.paid or order.*; repeat for alternatives."`
	Q    string   `query:"q" maxLength:"255" doc:"An event id, or an idempotency key while it lives."`
	With string   `query:"with" enum:"payload" doc:"payload: show payloads too."`
}

// EventPath is an event of a path.
type EventPath struct {
	rest.TenantPath
	Event string `path:"event" maxLength:"64"`
}

const (
	eventsPath = tenantPath + "/events"
	eventPath  = eventsPath + "/{event}"
)

// maxListPayloads bounds the payloads of one page.
const maxListPayloads = 4 << 20

func (a *API) addEventRoutes() {
	g := a.server.Group("events")
	rest.Add(g, rest.NeedRead, "GET "+eventsPath, "list-events", "List events", a.listEvents)
	rest.Add(g, rest.NeedRead, "GET "+eventPath, "get-event", "Get an event", a.getEvent)
	rest.Add(g, rest.NeedRead, "GET "+eventPath+"/deliveries", "list-event-deliveries", "List the deliveries of an event", a.listEventDeliveries)
	a.server.Plain(&huma.Operation{
		OperationID: "get-event-payload", Method: http.MethodGet, Path: eventPath + "/payload",
		Summary: "Get the raw bytes of a payload", Tags: []string{"events"},
		Parameters: []*huma.Param{rest.TenantParam(), {
			Name: "event", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		}},
		Responses: map[string]*huma.Response{"200": {
			Description: "The bytes as they were accepted",
			Headers: map[string]*huma.Param{"X-Payload-Type": {
				Description: "The content type they were accepted with.", Schema: &huma.Schema{Type: huma.TypeString},
			}},
			Content: map[string]*huma.MediaType{"application/octet-stream": {
				Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"},
			}},
		}},
	}, rest.NeedRead, a.getPayload)
	rest.Add(a.server.Group("endpoints"), rest.NeedWrite, "POST "+endpointPath+"/test", "test-endpoint",
		"Send a test event to this endpoint only", a.testEndpoint)
}

// checkPatterns checks the type filter.
func checkPatterns(list []string) error {
	for _, p := range list {
		if err := hook.CheckPattern(p); err != nil {
			return rest.BadParameter("query.type", err.Error())
		}
	}
	return nil
}

func (a *API) listEvents(ctx context.Context, c *rest.Call, in *eventList) (*rest.ListOutput[view.Event], error) {
	if err := checkPatterns(in.Type); err != nil {
		return nil, err
	}
	f := store.EventFilter{Tenant: c.Tenant, Types: in.Type}
	var err error
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return nil, err
	}
	page, err := a.server.Page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	if in.With == "payload" {
		if err := a.server.Large(ctx, c, max(maxListPayloads, a.cfg.MaxPayload)); err != nil {
			return nil, err
		}
	}
	if in.Q != "" {
		return a.findEvent(ctx, c, in, f)
	}
	rows, err := a.cfg.Store.ListEvents(ctx, f, page)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	if in.With == "payload" {
		if err := a.addPayloads(ctx, &in.PageParams, rows); err != nil {
			return nil, err
		}
	}
	return rest.Paged(a.server, c, in.PageParams, rows, func(e store.EventSummary) hook.ID { return e.Event.ID }, view.OfEvent)
}

// addPayloads reads the payloads of a page. A page of large ones is cut short:
// its cursor leads to the rest.
func (a *API) addPayloads(ctx context.Context, p *rest.PageParams, rows []store.EventSummary) error {
	total := 0
	for i := range rows[:min(len(rows), p.Limit)] {
		if total += rows[i].Size; total > maxListPayloads && i > 0 {
			p.Limit = i
			return nil
		}
		e, err := a.cfg.Store.Event(ctx, rows[i].Event.TenantID, rows[i].Event.ID)
		if err != nil && !errors.Is(err, hook.ErrNotFound) {
			return fmt.Errorf("read event: %w", err)
		}
		rows[i].Event.Payload = e.Payload
	}
	return nil
}

// findEvent answers the filter q: the one event with that id or idempotency
// key, if the other filters let it through.
func (a *API) findEvent(ctx context.Context, c *rest.Call, in *eventList, f store.EventFilter) (*rest.ListOutput[view.Event], error) {
	out := &rest.ListOutput[view.Event]{Body: rest.List[view.Event]{Data: []view.Event{}}}
	id, err := hook.EventPrefix.Parse(in.Q)
	if err != nil {
		tenant, noTenant := c.OneTenant()
		if noTenant != nil {
			return nil, noTenant // keys are unique within a tenant only
		}
		id, err = a.cfg.Store.EventOfKey(ctx, tenant, in.Q, c.Now)
	}
	var e hook.Event
	if err == nil {
		e, err = a.cfg.Store.Event(ctx, c.Tenant, id)
	}
	if errors.Is(err, hook.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find event: %w", err)
	}
	if !selects(f, e) {
		return out, nil
	}
	row := store.EventSummary{Event: e, Size: len(e.Payload)}
	if in.With != "payload" {
		row.Event.Payload = nil
	}
	out.Body.Data = append(out.Body.Data, view.OfEvent(row))
	return out, nil
}

// selects reports whether an event passes a filter.
func selects(f store.EventFilter, e hook.Event) bool {
	typed := len(f.Types) == 0
	for _, p := range f.Types {
		typed = typed || hook.MatchType(p, e.Type)
	}
	return typed && (f.Since.IsZero() || !e.CreatedAt.Before(f.Since)) && (f.Until.IsZero() || e.CreatedAt.Before(f.Until))
}

// event reads the event of a path.
func (a *API) event(ctx context.Context, c *rest.Call, text string) (hook.Event, error) {
	return byID(ctx, c, hook.EventPrefix, text, a.cfg.Store.Event)
}

func (a *API) getEvent(ctx context.Context, c *rest.Call, in *EventPath) (*rest.Output[view.Event], error) {
	if err := a.server.Large(ctx, c, a.cfg.MaxPayload); err != nil {
		return nil, err
	}
	e, err := a.event(ctx, c, in.Event)
	if err != nil {
		return nil, err
	}
	n, err := a.cfg.Store.CountDeliveries(ctx, e.TenantID, e.ID)
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	v := view.OfEvent(store.EventSummary{Event: e, Size: len(e.Payload)})
	counts := view.Counts(n)
	v.Deliveries = &counts
	return &rest.Output[view.Event]{Body: v}, nil
}

// getPayload sends the bytes as text that no browser runs, whatever they were
// accepted as.
func (a *API) getPayload(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	if err := a.server.Large(r.Context(), c, a.cfg.MaxPayload); err != nil {
		a.server.Fail(w, c, err)
		return
	}
	e, err := a.event(r.Context(), c, r.PathValue("event"))
	if err != nil {
		a.server.Fail(w, c, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+hook.EventPrefix.Format(e.ID)+`"`)
	contentType, _ := hook.CutHops(e.ContentType)
	h.Set("X-Payload-Type", contentType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(e.Payload)
}

type testInput struct {
	EndpointPath
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255"`
	Body           *struct {
		Type    string          `json:"type,omitempty" doc:"breakwater.test when absent."`
		Payload json.RawMessage `json:"payload,omitempty"`
	}
}

type testView struct {
	Event    string  `json:"event"`
	Delivery *string `json:"delivery"`
}

const (
	testType    = "breakwater.test"
	testPayload = `{"message":"This is a test event from Breakwater."}`
)

// testEndpoint accepts a real event for one endpoint, whatever its types.
func (a *API) testEndpoint(ctx context.Context, c *rest.Call, in *testInput) (*rest.Accepted[testView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	typ, payload := testType, []byte(testPayload)
	if in.Body != nil && in.Body.Type != "" {
		typ = in.Body.Type
	}
	if in.Body != nil && len(in.Body.Payload) > 0 {
		payload = in.Body.Payload
	}
	s, err := accept.ForEndpoint(e.ID, typ, payload, in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	receipt, err := a.cfg.Ingest.Accept(ctx, e.TenantID, s)
	if err != nil {
		return nil, err
	}
	return a.showTest(ctx, e, receipt)
}

func (a *API) showTest(ctx context.Context, e hook.Endpoint, receipt hook.Receipt) (*rest.Accepted[testView], error) {
	out := &rest.Accepted[testView]{Body: testView{Event: hook.EventPrefix.Format(receipt.EventID)}}
	rows, _, err := a.cfg.Store.ListDeliveries(ctx, store.DeliveryFilter{Tenant: e.TenantID, Event: receipt.EventID}, store.Page{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("find delivery: %w", err)
	}
	if len(rows) > 0 {
		out.Body.Delivery = view.Nullable(hook.DeliveryPrefix.Format(rows[0].ID))
	}
	return out, nil
}
