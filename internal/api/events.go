package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// eventView is an event as the API shows it.
type eventView struct {
	ID            string          `json:"id"`
	Tenant        string          `json:"tenant"`
	Type          string          `json:"type"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"When it is JSON in UTF-8; in lists with ?with=payload only."`
	PayloadBase64 []byte          `json:"payload_base64,omitempty" doc:"When it is not."`
	Size          int             `json:"size"`
	ContentType   string          `json:"content_type"`
	AcceptedAt    stamp           `json:"accepted_at"`
	Deliveries    *countsView     `json:"deliveries,omitempty" doc:"Not in lists."`
}

// countsView are the deliveries of an event by status.
type countsView struct {
	Total     int `json:"total"`
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
}

type eventList struct {
	TenantPath
	PageParams
	WindowParams
	Type []string `query:"type,explode" doc:"Event types: order.paid or order.*; repeat for alternatives."`
	Q    string   `query:"q" maxLength:"255" doc:"An event id, or an idempotency key while it lives."`
	With string   `query:"with" enum:"payload" doc:"payload: show payloads too."`
}

// EventPath is an event of a path.
type EventPath struct {
	TenantPath
	Event string `path:"event" maxLength:"64"`
}

type eventInput struct {
	EventPath
}

const eventPath = eventsPath + "/{event}"

func (a *API) addEventRoutes() {
	tags := []string{"events"}
	register(a, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: eventsPath,
		Summary: "List events", Tags: tags,
	}, needRead, a.listEvents)
	register(a, huma.Operation{
		OperationID: "get-event", Method: http.MethodGet, Path: eventPath,
		Summary: "Get an event", Tags: tags,
	}, needRead, a.getEvent)
	register(a, huma.Operation{
		OperationID: "list-event-deliveries", Method: http.MethodGet, Path: eventPath + "/deliveries",
		Summary: "List the deliveries of an event", Tags: tags,
	}, needRead, a.listEventDeliveries)
	a.plain(&huma.Operation{
		OperationID: "get-event-payload", Method: http.MethodGet, Path: eventPath + "/payload",
		Summary: "Get the raw bytes of a payload", Tags: tags,
		Parameters: []*huma.Param{tenantParam(), {
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
	}, needRead, a.getPayload)
	register(a, huma.Operation{
		OperationID: "test-endpoint", Method: http.MethodPost, Path: endpointPath + "/test",
		Summary: "Send a test event to this endpoint only", Tags: []string{"endpoints"}, DefaultStatus: http.StatusAccepted,
	}, needWrite, a.testEndpoint)
}

// checkPatterns checks the type filter.
func checkPatterns(list []string) error {
	for _, p := range list {
		if err := hook.CheckPattern(p); err != nil {
			return badParameter("query.type", err.Error())
		}
	}
	return nil
}

func (a *API) listEvents(ctx context.Context, c *call, in *eventList) (*listOutput[eventView], error) {
	if err := checkPatterns(in.Type); err != nil {
		return nil, err
	}
	f := store.EventFilter{Tenant: c.tenant, Types: in.Type}
	var err error
	if f.Since, f.Until, err = in.times(c.now); err != nil {
		return nil, err
	}
	page, err := a.cursors.page(c, in.PageParams)
	if err != nil {
		return nil, err
	}
	if in.With == "payload" {
		if err := a.large(ctx, c, max(maxListPayloads, a.cfg.MaxPayload)); err != nil {
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
	return paged(a, c, in.PageParams, rows, func(e store.EventSummary) hook.ID { return e.Event.ID }, showSummary)
}

// addPayloads reads the payloads of a page. A page of large ones is cut short:
// its cursor leads to the rest.
func (a *API) addPayloads(ctx context.Context, p *PageParams, rows []store.EventSummary) error {
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
func (a *API) findEvent(ctx context.Context, c *call, in *eventList, f store.EventFilter) (*listOutput[eventView], error) {
	out := &listOutput[eventView]{Body: list[eventView]{Data: []eventView{}}}
	id, err := hook.EventPrefix.Parse(in.Q)
	if err != nil {
		tenant, noTenant := c.oneTenant()
		if noTenant != nil {
			return nil, noTenant // keys are unique within a tenant only
		}
		id, err = a.cfg.Store.EventOfKey(ctx, tenant, in.Q, c.now)
	}
	var e hook.Event
	if err == nil {
		e, err = a.cfg.Store.Event(ctx, c.tenant, id)
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
	out.Body.Data = append(out.Body.Data, showSummary(row))
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
func (a *API) event(ctx context.Context, c *call, text string) (hook.Event, error) {
	id, err := hook.EventPrefix.Parse(text)
	if err != nil {
		return hook.Event{}, hook.ErrNotFound
	}
	return a.cfg.Store.Event(ctx, c.tenant, id)
}

func (a *API) getEvent(ctx context.Context, c *call, in *eventInput) (*output[eventView], error) {
	if err := a.large(ctx, c, a.cfg.MaxPayload); err != nil {
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
	v := showSummary(store.EventSummary{Event: e, Size: len(e.Payload)})
	v.Deliveries = &countsView{
		Total: n.Total, Pending: n.Pending, Delivered: n.Delivered, Dead: n.Dead, Cancelled: n.Cancelled,
	}
	return &output[eventView]{Body: v}, nil
}

func showSummary(s store.EventSummary) eventView {
	e := s.Event
	contentType, _ := hook.CutHops(e.ContentType)
	v := eventView{
		ID:          hook.EventPrefix.Format(e.ID),
		Tenant:      hook.TenantPrefix.Format(e.TenantID),
		Type:        e.Type,
		Size:        s.Size,
		ContentType: contentType,
		AcceptedAt:  stamp(e.CreatedAt),
	}
	switch {
	case e.Payload == nil:
	case strings.HasPrefix(contentType, jsonContent) && utf8.Valid(e.Payload) && json.Valid(e.Payload):
		// JSON lets no other encoding pass, though our decoder would.
		v.Payload = e.Payload
	default:
		v.PayloadBase64 = e.Payload
	}
	return v
}

// getPayload sends the bytes as text that no browser runs, whatever they were
// accepted as.
func (a *API) getPayload(w http.ResponseWriter, r *http.Request) {
	c := callBy(w)
	if err := a.large(r.Context(), c, a.cfg.MaxPayload); err != nil {
		a.fail(w, c, err)
		return
	}
	e, err := a.event(r.Context(), c, r.PathValue("event"))
	if err != nil {
		a.fail(w, c, err)
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
func (a *API) testEndpoint(ctx context.Context, c *call, in *testInput) (*output[testView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	f := eventFields{typ: testType, payload: []byte(testPayload), targets: []string{hook.EndpointPrefix.Format(e.ID)}}
	if in.Body != nil && in.Body.Type != "" {
		f.typ = in.Body.Type
	}
	if in.Body != nil && len(in.Body.Payload) > 0 {
		f.payload = in.Body.Payload
	}
	if err := hook.CheckType(f.typ); err != nil {
		bad := &invalid{}
		bad.addAs("type_invalid", "type", err.Error())
		return nil, bad
	}
	if in.IdempotencyKey != "" && !visibleASCII(in.IdempotencyKey) {
		return nil, badParameter("header.Idempotency-Key", badKeyMessage)
	}
	receipt, err := a.cfg.Ingest.Accept(ctx, e.TenantID, &hook.Submission{
		Type: f.typ, Payload: f.payload, ContentType: jsonContent, Endpoints: []hook.ID{e.ID},
		Key: in.IdempotencyKey, ContentHash: f.contentHash(f.payload),
	})
	if err != nil {
		return nil, err
	}
	return a.showTest(ctx, e, receipt)
}

func (a *API) showTest(ctx context.Context, e hook.Endpoint, receipt hook.Receipt) (*output[testView], error) {
	out := &output[testView]{Body: testView{Event: hook.EventPrefix.Format(receipt.EventID)}}
	rows, _, err := a.cfg.Store.ListDeliveries(ctx, store.DeliveryFilter{Tenant: e.TenantID, Event: receipt.EventID}, store.Page{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("find delivery: %w", err)
	}
	if len(rows) > 0 {
		out.Body.Delivery = nullable(hook.DeliveryPrefix.Format(rows[0].ID))
	}
	return out, nil
}
