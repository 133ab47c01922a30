package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
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
		found, err := list(ctx, d.lanes, "read events", sqlstore.ScanEvent, fmt.Sprintf(eventsByID, day.partition("events")), ids)
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
