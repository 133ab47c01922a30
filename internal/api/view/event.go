package view

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Event is an event as the API shows it.
type Event struct {
	ID            string          `json:"id"`
	Tenant        string          `json:"tenant"`
	Type          string          `json:"type"`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"When it is JSON in UTF-8; in lists with ?with=payload only."`
	PayloadBase64 []byte          `json:"payload_base64,omitempty" doc:"When it is not."`
	Size          int             `json:"size"`
	ContentType   string          `json:"content_type"`
	Traceparent   string          `json:"traceparent,omitempty" doc:"Of the trace that it belongs to, if that was kept."`
	AcceptedAt    Stamp           `json:"accepted_at"`
	Deliveries    *Counts         `json:"deliveries,omitempty" doc:"Not in lists."`
}

// Counts are the deliveries of an event by status.
type Counts struct {
	Total     int `json:"total"`
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
}

// OfEvent shows an event without its deliveries.
func OfEvent(s store.EventSummary) Event {
	e := s.Event
	contentType, _ := hook.CutHops(e.ContentType)
	_, trace := hook.CutTrace(e.ContentType)
	v := Event{
		ID:          hook.EventPrefix.Format(e.ID),
		Tenant:      hook.TenantPrefix.Format(e.TenantID),
		Type:        e.Type,
		Size:        s.Size,
		ContentType: contentType,
		Traceparent: trace.Parent,
		AcceptedAt:  Stamp(e.CreatedAt),
	}
	switch {
	case e.Payload == nil:
	case strings.HasPrefix(contentType, "application/json") && utf8.Valid(e.Payload) && json.Valid(e.Payload):
		// JSON lets no other encoding pass, though our decoder would.
		v.Payload = e.Payload
	default:
		v.PayloadBase64 = e.Payload
	}
	return v
}
