package accept

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
)

// This file describes the two plain routes that take events for the OpenAPI
// document.

func (a *acceptor) eventOperation() *huma.Operation {
	return &huma.Operation{
		OperationID: "send-event", Method: http.MethodPost, Path: a.cfg.Path,
		Summary: "Hand over an event", Tags: []string{"events"},
		Description: "Answered once the event is on disk. The payload is kept and sent byte for byte. " +
			"After an answer of 5xx, or none, send it again with the same Idempotency-Key.",
		Parameters: []*huma.Param{rest.TenantParam(), {
			Name: "Idempotency-Key", In: "header",
			Description: "Sent again with the same content, the first answer is repeated; with other content: 409.",
			Schema:      &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(maxKeyChars)},
		}, traceParam()},
		RequestBody: orCloudEvents(jsonBody(eventSchema(false)), cloudEventType, cloudEventSchema()),
		Responses: map[string]*huma.Response{"202": {
			Description: "Accepted and durable",
			Headers: map[string]*huma.Param{"Idempotency-Replayed": {
				Description: "true when this repeats an earlier answer.", Schema: &huma.Schema{Type: huma.TypeString},
			}},
			Content: map[string]*huma.MediaType{rest.JSON: {Schema: &huma.Schema{
				Type: huma.TypeObject, Required: []string{"id", "deliveries"},
				Properties: map[string]*huma.Schema{
					"id":         {Type: huma.TypeString},
					"deliveries": {Type: huma.TypeInteger, Description: "Endpoints that match; 0 is not an error."},
				},
			}}},
		}},
	}
}

func (a *acceptor) batchOperation() *huma.Operation {
	answer := map[string]*huma.MediaType{rest.JSON: {Schema: a.server.Schema(reflect.TypeFor[batchAnswer]())}}
	return &huma.Operation{
		OperationID: "send-events", Method: http.MethodPost, Path: a.cfg.Path + batchSuffix,
		Summary: "Hand over up to 1000 events", Tags: []string{"events"},
		Parameters: []*huma.Param{rest.TenantParam(), traceParam()},
		RequestBody: orCloudEvents(jsonBody(&huma.Schema{
			Type: huma.TypeObject, Required: []string{"events"}, AdditionalProperties: false,
			Properties: map[string]*huma.Schema{"events": {
				Type: huma.TypeArray, MinItems: new(1), MaxItems: new(maxBatch), Items: eventSchema(true),
			}},
		}), cloudEventsType, &huma.Schema{Type: huma.TypeArray, MinItems: new(1), MaxItems: new(maxBatch), Items: cloudEventSchema()}),
		Responses: map[string]*huma.Response{
			"202": {Description: "At least one event was accepted", Content: answer},
			"422": {Description: "No event was accepted", Content: answer},
			"429": {Description: "No event was accepted; try again", Content: answer},
			"503": {Description: "No event was accepted; try again", Content: answer},
			"507": {Description: "No event was accepted: there is no room left", Content: answer},
		},
	}
}

func traceParam() *huma.Param {
	return &huma.Param{
		Name: "traceparent", In: "header",
		Description: "W3C trace context, with tracestate if there is one: sent along to endpoints whose trace_context is forward. Ignored when malformed.",
		Schema:      &huma.Schema{Type: huma.TypeString},
	}
}

func jsonBody(s *huma.Schema) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{rest.JSON: {Schema: s}}}
}

func eventSchema(inBatch bool) *huma.Schema {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	s := &huma.Schema{
		Type: huma.TypeObject, Required: []string{"type"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"type":           text("Such as order.paid."),
			"payload":        {Description: "Any JSON; this or payload_base64."},
			"payload_base64": text("Any bytes, with content_type."),
			"content_type":   text("Of payload_base64."),
			"deliver_at":     text("RFC 3339, at most 30 days ahead."),
			"delay":          text("Instead of deliver_at: 15m, 2h, 7d; at most 30d."),
			"endpoints": {
				Type: huma.TypeArray, MinItems: new(1), MaxItems: new(maxTargets), Items: text(""),
				Description: "Only these, by id or uid, instead of all whose types match.",
			},
		},
	}
	if inBatch {
		s.Properties["idempotency_key"] = text("1 to 255 visible ASCII characters.")
	}
	return s
}

// orCloudEvents adds the format of CloudEvents to a body.
func orCloudEvents(b *huma.RequestBody, media string, s *huma.Schema) *huma.RequestBody {
	var example any = map[string]any{
		"specversion": "1.0", "id": "7f1c", "source": "/shop", "type": "order.paid", "data": map[string]any{"order": 42},
	}
	if s.Type == huma.TypeArray {
		example = []any{example}
	}
	b.Content[media] = &huma.MediaType{Schema: s, Example: example}
	return b
}

func cloudEventSchema() *huma.Schema {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: doc} }
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"specversion", "id", "source", "type"},
		Description: "A CloudEvent. Its data is the payload; other attributes are checked and not kept.",
		Properties: map[string]*huma.Schema{
			"specversion":     {Type: huma.TypeString, Enum: []any{"1.0"}},
			"id":              text("With source it is the idempotency key, unless the request has one."),
			"source":          text("Where the event comes from."),
			"type":            text("The event's type, such as order.paid."),
			"datacontenttype": text("The media type of data; application/json when absent."),
			"data":            {Description: "The payload: any JSON, or a string when datacontenttype is not JSON."},
			"data_base64":     text("Instead of data: any bytes, with datacontenttype."),
			"time":            {Type: huma.TypeString, Format: "date-time"},
		},
		Examples: []any{map[string]any{
			"specversion": "1.0", "id": "o-42-paid", "source": "/shop", "type": "order.paid", "data": map[string]any{"order": 42},
		}},
	}
}
