package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// eventsByID names the partition: a statement on the whole table locks and
// prepares for all of them, however few it looks into. It goes by the order of the
// key, as withRow does, for the same reason.
const eventsByID = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, e.payload FROM unnest($1::bigint[]) AS n(id)
CROSS JOIN LATERAL (SELECT * FROM %s WHERE id >= n.id ORDER BY id LIMIT 1) e WHERE e.id = n.id`

// Event returns an event with its payload.
func (d *DB) Event(ctx context.Context, tenant, id hook.ID) (hook.Event, error) {
	found, err := d.Events(ctx, []hook.ID{id})
	switch {
	case err != nil:
		return hook.Event{}, err
	case len(found) == 0 || tenant != 0 && found[0].TenantID != tenant:
		return hook.Event{}, fmt.Errorf("read event: %w", hook.ErrNotFound)
	default:
		return found[0], nil
	}
}

// Events returns those of the given events that there are, with their payloads.
func (d *DB) Events(ctx context.Context, ids []hook.ID) ([]hook.Event, error) {
	all := make([]hook.Event, 0, len(ids))
	for day, ids := range byDay(ids) {
		q := &query{fmt.Sprintf(eventsByID, day.partition("events")), []any{ids}}
		found, err := collect(ctx, d.lanes, q, "read events", scanEvent)
		if err != nil && !isCode(err, codeUndefinedTable) { // a day that has gone took its events along
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// byDay returns the ids by day, each once.
func byDay(ids []hook.ID) map[day][]hook.ID {
	days := make(map[day][]hook.ID, 1)
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		days[dayOf(id)] = append(days[dayOf(id)], id)
	}
	return days
}

func scanEvent(row pgx.Row) (e hook.Event, err error) {
	err = row.Scan(&e.ID, &e.TenantID, &e.Type, (*moment)(&e.CreatedAt), &e.ContentType, &e.Payload)
	return e, err
}

const listEvents = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, octet_length(e.payload) FROM events e WHERE true`

// ListEvents returns events without their payloads.
func (d *DB) ListEvents(ctx context.Context, f store.EventFilter, p store.Page) ([]store.EventSummary, error) {
	list := query{sql: listEvents}
	if f.Tenant != 0 {
		list.and("e.tenant_id = ?", f.Tenant)
	}
	list.between("e.id", f.Since, f.Until)
	if filtersTypes(f.Types) {
		condition, exact, below := typed(f.Types)
		list.and(condition, exact, below)
	}
	list.page("e.id", p)
	return collect(ctx, d.pool, &list, "list events", func(row pgx.Row) (s store.EventSummary, err error) {
		e := &s.Event
		err = row.Scan(&e.ID, &e.TenantID, &e.Type, (*moment)(&e.CreatedAt), &e.ContentType, &s.Size)
		return s, err
	})
}

// between adds a time window, which is an id range: it also tells the planner
// which partitions to leave alone.
func (q *query) between(column string, since, until time.Time) {
	if !since.IsZero() {
		q.and(column+" >= ?", hook.IDFloor(since))
	}
	if !until.IsZero() {
		q.and(column+" < ?", hook.IDFloor(until))
	}
}

func filtersTypes(patterns []string) bool {
	return len(patterns) > 0 && !slices.Contains(patterns, "*")
}

// typed is the condition that the event's type is one of exact, or one below.
// Patterns are compared without LIKE, so that no character but the final star
// has a meaning.
func typed(patterns []string) (condition string, exact, below []string) {
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			below = append(below, clean(prefix))
		} else {
			exact = append(exact, clean(p))
		}
	}
	return "(e.type = ANY(?) OR EXISTS (SELECT FROM unnest(?::text[]) AS p WHERE starts_with(e.type, p) AND e.type <> p))", exact, below
}

const countDeliveries visible.SQL = `
SELECT count(d.id), count(*) FILTER (WHERE d.state = 0), count(*) FILTER (WHERE d.state = 1),
       count(*) FILTER (WHERE d.state = 2), count(*) FILTER (WHERE d.state = 3)
FROM events e LEFT JOIN deliveries d ON d.event_id = e.id
WHERE e.id = $1 AND ($2::bigint = 0 OR e.tenant_id = $2) GROUP BY e.id`

// CountDeliveries counts the deliveries of an event by state.
func (d *DB) CountDeliveries(ctx context.Context, tenant, event hook.ID) (store.EventCounts, error) {
	seen, err := d.makeVisibleToShow(ctx, deferred.Scope{Event: event})
	if err != nil {
		return store.EventCounts{}, err
	}
	var c store.EventCounts
	err = d.pool.QueryRow(ctx, seen.Text(countDeliveries), event, int64(tenant)).
		Scan(&c.Total, &c.Pending, &c.Delivered, &c.Dead, &c.Cancelled)
	if err != nil {
		return store.EventCounts{}, failed("count deliveries", err)
	}
	return c, nil
}

const eventOfKey = `
SELECT event_id FROM idempotency_keys WHERE tenant_id = $1 AND scope = 0 AND key = $2 AND expires_at > $3 AND event_id IS NOT NULL`

// EventOfKey returns the event that was accepted under an idempotency key.
func (d *DB) EventOfKey(ctx context.Context, tenant hook.ID, key string, now time.Time) (hook.ID, error) {
	var id hook.ID
	if err := d.pool.QueryRow(ctx, eventOfKey, tenant, clean(key), at(now)).Scan(&id); err != nil {
		return 0, failed("read event of key", err)
	}
	return id, nil
}
