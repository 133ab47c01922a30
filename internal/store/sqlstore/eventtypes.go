package sqlstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const eventTypeColumns = `id, tenant_id, type, description, schema, example, version, created_at, updated_at`

func scanEventType(r Row, t *hook.EventType) error {
	return r.Scan(&t.ID, &t.TenantID, &t.Type, &t.Description, Document(&t.Schema), Document(&t.Example), &t.Version, Time(&t.CreatedAt), Time(&t.UpdatedAt))
}

// rawOrNull stores a document that is not there as NULL.
func rawOrNull(doc json.RawMessage) any {
	if len(doc) == 0 {
		return nil
	}
	return doc
}

const (
	// otherTypes is what a tenant keeps about all types but one.
	otherTypes = `SELECT count(*), coalesce(sum(length(CAST(schema AS text))), 0) FROM event_types WHERE tenant_id = $1 AND type <> $2`

	insertEventType = `
INSERT INTO event_types (id, tenant_id, type, description, schema, example, version, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8)`
)

// roomForType checks the limits of a tenant. The lock of its configuration is held, so
// nothing comes in between.
func roomForType(tx Tx, t *hook.EventType, l store.TypeLimits) error {
	used, err := one(tx, func(r Row, l *store.TypeLimits) error { return r.Scan(&l.Types, &l.SchemaBytes) }, otherTypes, t.TenantID, t.Type)
	switch {
	case err != nil:
		return err
	case used.Types >= l.Types:
		return hook.ErrTooManyTypes
	case len(t.Schema) > 0 && used.SchemaBytes+int64(len(t.Schema)) > l.SchemaBytes:
		return hook.ErrSchemasTooLarge
	default:
		return nil
	}
}

// CreateEventType implements store.EventTypes.
func (t *Tables) CreateEventType(ctx context.Context, e hook.EventType, l store.TypeLimits, a hook.Audit) error {
	return t.changeConfig(ctx, "create event type", e.TenantID, a, func(tx Tx) error {
		if err := roomForType(tx, &e, l); err != nil {
			return err
		}
		_, err := tx.Exec(insertEventType, e.ID, e.TenantID, e.Type, e.Description, rawOrNull(e.Schema), rawOrNull(e.Example), e.CreatedAt, e.UpdatedAt)
		return err
	})
}

const (
	eventTypeByName = `SELECT ` + eventTypeColumns + ` FROM event_types WHERE tenant_id = $1 AND type = $2`
	eventTypesOf    = `SELECT ` + eventTypeColumns + ` FROM event_types WHERE tenant_id = $1 AND schema IS NOT NULL ORDER BY id`
)

// EventTypeByName implements store.EventTypes.
func (t *Tables) EventTypeByName(ctx context.Context, tenant hook.ID, name string) (hook.EventType, error) {
	return get(ctx, t, "read event type", scanEventType, eventTypeByName, tenant, name)
}

// ListEventTypes implements store.EventTypes.
func (t *Tables) ListEventTypes(ctx context.Context, tenant hook.ID, p store.Page) ([]hook.EventType, error) {
	q := &Query{SQL: `SELECT ` + eventTypeColumns + ` FROM event_types WHERE true`}
	if tenant != 0 {
		q.And("tenant_id = ?", tenant)
	}
	q.Page("id", p)
	return list(ctx, t, "list event types", scanEventType, q)
}

// EventTypesOf implements store.EventTypes.
func (t *Tables) EventTypesOf(ctx context.Context, tenant hook.ID) (all []hook.EventType, rev int64, err error) {
	err = t.dialect.Snapshot(ctx, "read event types of tenant", func(tx Tx) error {
		if rev, err = one(tx, ScanValue[int64], configRev, tenant); err != nil {
			return err
		}
		return tx.Query(eventTypesOf, []any{tenant}, Collect(&all, scanEventType))
	})
	return all, rev, err
}

const (
	updateEventType = `
UPDATE event_types SET description = $3, schema = $4, example = $5, updated_at = $6, version = version + 1
WHERE tenant_id = $1 AND type = $2 AND version = $7`

	eventTypeExists = `SELECT EXISTS (SELECT 1 FROM event_types WHERE tenant_id = $1 AND type = $2)`
)

// UpdateEventType implements store.EventTypes.
func (t *Tables) UpdateEventType(ctx context.Context, e hook.EventType, l store.TypeLimits, a hook.Audit) (stored hook.EventType, err error) {
	err = t.changeConfig(ctx, "update event type", e.TenantID, a, func(tx Tx) error {
		if err := roomForType(tx, &e, l); err != nil {
			return err
		}
		err := mustChange(tx, updateEventType, e.TenantID, e.Type, e.Description, rawOrNull(e.Schema), rawOrNull(e.Example), e.UpdatedAt, e.Version)
		if errors.Is(err, hook.ErrNotFound) {
			return mismatchOrAbsent(tx, eventTypeExists, e.TenantID, e.Type)
		}
		if err == nil {
			stored, err = one(tx, scanEventType, eventTypeByName, e.TenantID, e.Type)
		}
		return err
	})
	return stored, err
}

const deleteEventType = `DELETE FROM event_types WHERE tenant_id = $1 AND type = $2`

// DeleteEventType implements store.EventTypes.
func (t *Tables) DeleteEventType(ctx context.Context, tenant hook.ID, name string, a hook.Audit) error {
	return t.changeConfig(ctx, "delete event type", tenant, a, func(tx Tx) error { return mustChange(tx, deleteEventType, tenant, name) })
}
