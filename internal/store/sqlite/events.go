package sqlite

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const eventByID = `
SELECT id, tenant_id, type, created_at, content_type, payload FROM events WHERE id = ?1 AND (?2 = 0 OR tenant_id = ?2)`

const eventsByID = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, e.payload FROM json_each(?1) AS wanted JOIN events e ON e.id = wanted.value`

// Event implements store.LaneReader.
func (db *DB) Event(ctx context.Context, tenant, id hook.ID) (e hook.Event, err error) {
	err = scanEvent(db.row(ctx, eventByID, id, tenant), &e)
	return e, db.readErr("read event", err)
}

// Events implements store.LaneReader.
func (db *DB) Events(ctx context.Context, ids []hook.ID) ([]hook.Event, error) {
	out, err := list(ctx, db, scanEvent, eventsByID, idList(ids))
	return out, db.readErr("read events", err)
}

func scanEvent(r scannable, e *hook.Event) error {
	return r.Scan(&e.ID, &e.TenantID, &e.Type, when(&e.CreatedAt), &e.ContentType, &e.Payload)
}

const listEvents = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, length(e.payload) FROM events e`

// ListEvents implements store.EventLog. Times are ranges of ids.
func (db *DB) ListEvents(ctx context.Context, ef store.EventFilter, p store.Page) ([]store.EventSummary, error) {
	if err := db.usable(); err != nil {
		return nil, err
	}
	var f filter
	if ef.Tenant != 0 {
		f.and("e.tenant_id = ?", ef.Tenant)
	}
	f.types("e.type", ef.Types)
	f.window("e.id", ef.Since, ef.Until)
	f.page("e.id", p)
	out, err := search(ctx, db.read, func(r scannable, s *store.EventSummary) error {
		e := &s.Event
		return r.Scan(&e.ID, &e.TenantID, &e.Type, when(&e.CreatedAt), &e.ContentType, &s.Size)
	}, listEvents+f.text(), f.args...)
	return out, db.readErr("list events", err)
}

// countDeliveries gives no row when the event is not the tenant's.
const countDeliveries = `
SELECT count(d.id), count(*) FILTER (WHERE d.state = 0), count(*) FILTER (WHERE d.state = 1),
  count(*) FILTER (WHERE d.state = 2), count(*) FILTER (WHERE d.state = 3)
FROM events e LEFT JOIN deliveries d ON d.event_id = e.id
WHERE e.id = ?1 AND (?2 = 0 OR e.tenant_id = ?2) GROUP BY e.id`

// CountDeliveries implements store.EventLog.
func (db *DB) CountDeliveries(ctx context.Context, tenant, event hook.ID) (n store.EventCounts, err error) {
	err = db.row(ctx, countDeliveries, event, tenant).Scan(&n.Total, &n.Pending, &n.Delivered, &n.Dead, &n.Cancelled)
	return n, db.readErr("count deliveries", err)
}

const eventOfKey = `
SELECT event_id FROM idempotency_keys WHERE tenant_id = ?1 AND scope = 0 AND key = ?2 AND expires_at > ?3`

// EventOfKey implements store.EventLog.
func (db *DB) EventOfKey(ctx context.Context, tenant hook.ID, key string, now time.Time) (id hook.ID, err error) {
	err = db.row(ctx, eventOfKey, tenant, key, now.UnixMicro()).Scan(&id)
	return id, db.readErr("read idempotency key", err)
}
