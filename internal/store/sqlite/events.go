package sqlite

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

const eventByID = `
SELECT id, tenant_id, type, created_at, content_type, payload FROM events WHERE id = ?1 AND (?2 = 0 OR tenant_id = ?2)`

const eventsByID = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, e.payload FROM json_each(?1) AS wanted JOIN events e ON e.id = wanted.value`

// Event implements store.LaneReader.
func (d *DB) Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error) {
	e, err := first(list(ctx, d, sqlstore.ScanEvent, eventByID, id, tenant))
	return e, d.readErr("read event", err)
}

// Events implements store.LaneReader.
func (d *DB) Events(ctx context.Context, ids []hook.ID) ([]hook.Event, error) {
	out, err := list(ctx, d, sqlstore.ScanEvent, eventsByID, idList(ids))
	return out, d.readErr("read events", err)
}
