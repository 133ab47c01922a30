package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// ScanEvent reads id, tenant_id, type, created_at, content_type and payload.
func ScanEvent(r Row, e *hook.Event) error {
	return r.Scan(&e.ID, &e.TenantID, &e.Type, Time(&e.CreatedAt), &e.ContentType, &e.Payload)
}

const listEvents = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, octet_length(e.payload) FROM events e WHERE true`

// ListEvents implements store.EventLog. Times are ranges of ids, which also tells
// the planner which partitions to leave alone.
func (t *Tables) ListEvents(ctx context.Context, f store.EventFilter, p store.Page) ([]store.EventSummary, error) {
	q := &Query{SQL: listEvents}
	if f.Tenant != 0 {
		q.And("e.tenant_id = ?", f.Tenant)
	}
	q.Window("e.id", f.Since, f.Until)
	if condition := q.TypeIn("e.type", f.Types); condition != "" {
		q.And(condition)
	}
	q.Page("e.id", p)
	return list(ctx, t, "list events", func(r Row, s *store.EventSummary) error {
		e := &s.Event
		return r.Scan(&e.ID, &e.TenantID, &e.Type, Time(&e.CreatedAt), &e.ContentType, &s.Size)
	}, q)
}

// countDeliveries gives no row when the event is not the tenant's.
const countDeliveries visible.SQL = `
SELECT count(d.id), count(*) FILTER (WHERE d.state = 0), count(*) FILTER (WHERE d.state = 1),
  count(*) FILTER (WHERE d.state = 2), count(*) FILTER (WHERE d.state = 3)
FROM events e LEFT JOIN deliveries d ON d.event_id = e.id
WHERE e.id = $1 AND (e.tenant_id = $2 OR $2 = 0) GROUP BY e.id`

// CountDeliveries implements store.EventLog.
func (t *Tables) CountDeliveries(ctx context.Context, tenant, event hook.ID) (store.EventCounts, error) {
	seen, err := t.dialect.MakeVisible(ctx, &store.DeliveryFilter{Event: event})
	if err != nil {
		return store.EventCounts{}, err
	}
	return get(ctx, t, "count deliveries", func(r Row, c *store.EventCounts) error {
		return r.Scan(&c.Total, &c.Pending, &c.Delivered, &c.Dead, &c.Cancelled)
	}, seen.Text(countDeliveries), event, tenant)
}

const eventOfKey = `
SELECT event_id FROM idempotency_keys WHERE tenant_id = $1 AND scope = 0 AND key = $2 AND expires_at > $3 AND event_id IS NOT NULL`

// EventOfKey implements store.EventLog.
func (t *Tables) EventOfKey(ctx context.Context, tenant hook.ID, key string, now time.Time) (hook.ID, error) {
	return get(ctx, t, "read event of key", ScanValue[hook.ID], eventOfKey, tenant, key, now)
}
