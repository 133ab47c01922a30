package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// OperationalEvent is something an operator wants to know of.
type OperationalEvent struct {
	ID       string          `json:"id"`
	Type     string          `json:"type" doc:"Such as storm.started or breaker.opened."`
	Tenant   *string         `json:"tenant" doc:"null: the whole server."`
	Endpoint *string         `json:"endpoint"`
	At       Stamp           `json:"at"`
	Detail   json.RawMessage `json:"detail" doc:"Figures; which ones depends on the type."`
}

// OfOperational shows an operational event.
func OfOperational(e hook.OperationalEvent) OperationalEvent {
	return OperationalEvent{
		ID: hook.OperationalPrefix.Format(e.ID), Type: string(e.Type), At: Stamp(e.At), Detail: OrEmpty(e.Detail),
		Tenant: IDOrNull(hook.TenantPrefix, e.TenantID), Endpoint: IDOrNull(hook.EndpointPrefix, e.EndpointID),
	}
}
