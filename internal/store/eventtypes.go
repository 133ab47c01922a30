package store

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TypeLimits bound what a tenant may keep about its event types.
type TypeLimits struct {
	Types       int64
	SchemaBytes int64 // of all schemas together
}

// EventTypes keeps what tenants say about the types of their events. Every change bumps
// the tenant's ConfigRev: an event that was checked before it is stale.
type EventTypes interface {
	// CreateEventType fails with hook.ErrUIDTaken when the tenant has said something
	// about the type already, and with hook.ErrTooManyTypes and hook.ErrSchemasTooLarge.
	CreateEventType(ctx context.Context, t hook.EventType, l TypeLimits, a hook.Audit) error
	EventTypeByName(ctx context.Context, tenant hook.ID, name string) (hook.EventType, error)
	// ListEventTypes lists those of a tenant, of 0 all.
	ListEventTypes(ctx context.Context, tenant hook.ID, p Page) ([]hook.EventType, error)
	// EventTypesOf returns all of a tenant that have a schema, with the ConfigRev that
	// they belong to, read in one snapshot.
	EventTypesOf(ctx context.Context, tenant hook.ID) ([]hook.EventType, int64, error)
	// UpdateEventType stores t if the stored Version is t.Version, else it fails with
	// hook.ErrVersionMismatch.
	UpdateEventType(ctx context.Context, t hook.EventType, l TypeLimits, a hook.Audit) (hook.EventType, error)
	DeleteEventType(ctx context.Context, tenant hook.ID, name string, a hook.Audit) error
}
