package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// EventType is what a tenant says about one type of its events.
type EventType struct {
	Type        string          `json:"type" example:"order.paid"`
	Tenant      string          `json:"tenant"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema" doc:"JSON Schema 2020-12 that payloads have to fit; null: they are not checked."`
	Example     json.RawMessage `json:"example" doc:"A payload, for people; null: none."`
	CreatedAt   Stamp           `json:"created_at"`
	UpdatedAt   Stamp           `json:"updated_at"`
	Version     int64           `json:"version"`
}

// OfEventType shows an event type.
func OfEventType(t *hook.EventType) EventType {
	return EventType{
		Type: t.Type, Tenant: hook.TenantPrefix.Format(t.TenantID), Description: t.Description, Schema: t.Schema, Example: t.Example,
		CreatedAt: Stamp(t.CreatedAt), UpdatedAt: Stamp(t.UpdatedAt), Version: t.Version,
	}
}
