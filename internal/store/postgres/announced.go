package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// announcedEvents is eventsByID with the names of the events' deliveries. Large
// payloads stay where they are until they are wanted.
const announcedEvents = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, CASE WHEN octet_length(e.payload) <= $2 THEN e.payload END, e.targets
FROM unnest($1::bigint[]) AS n(id)
CROSS JOIN LATERAL (SELECT * FROM %s WHERE id >= n.id ORDER BY id LIMIT 1) e WHERE e.id = n.id`

// announcedBytes bounds the payloads that come along.
const announcedBytes = 1 << 20

// readAnnounced adds the deliveries that other nodes have announced and that have
// no row, and returns their events. For the endpoints of the others it says to look
// for rows.
func (d *DB) readAnnounced(ctx context.Context, w *store.Wanted, due map[hook.ID]store.Due) ([]hook.Event, error) {
	announced := unknown(w)
	if len(announced) == 0 {
		return nil, nil
	}
	found, err := d.lookUp(ctx, announced)
	if err != nil {
		return nil, err
	}
	nodes := d.deferring()
	for _, a := range announced {
		of := due[a.Endpoint]
		named, ok := found.named[a.Delivery]
		var delivery hook.Delivery
		if ok = ok && !found.rows[a.Delivery]; ok {
			delivery, ok = nodes.Announced(named, w.Now)
		}
		if ok {
			of.Deliveries = append(of.Deliveries, delivery)
		} else {
			of.Next = w.Now
		}
		due[a.Endpoint] = of
	}
	return found.events, nil
}

// unknown returns what was announced and is not in memory.
func unknown(w *store.Wanted) (announced []store.Announced) {
	known := make(map[hook.ID]bool, len(w.Known))
	for _, id := range w.Known {
		known[id] = true
	}
	for _, n := range w.Announced {
		if !known[n.Delivery] {
			announced = append(announced, n)
		}
	}
	return announced
}

// lookedUp is what there is of deliveries that were announced.
type lookedUp struct {
	events []hook.Event                  // those whose payloads came along
	named  map[hook.ID]deferred.Delivery // by those events
	rows   map[hook.ID]bool              // deliveries that have a row
}

// lookUp reads events and which of the deliveries have a row, in one round trip.
func (d *DB) lookUp(ctx context.Context, announced []store.Announced) (*lookedUp, error) {
	found := &lookedUp{named: make(map[hook.ID]deferred.Delivery, len(announced)), rows: make(map[hook.ID]bool)}
	events, deliveries := make([]hook.ID, len(announced)), make([]hook.ID, len(announced))
	for i, n := range announced {
		events[i], deliveries[i] = n.Event, n.Delivery
	}
	b := &pgx.Batch{}
	for day, ids := range byDay(events) {
		b.Queue(fmt.Sprintf(announcedEvents, day.partition("events")), ids, announcedBytes/len(announced)).Query(found.scanEvents)
	}
	b.Queue(visible.Inserts.Text(withRow), deliveries).Query(func(rows pgx.Rows) error {
		var id hook.ID
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			found.rows[id] = true
			return nil
		})
		return err
	})
	err := d.lanes.SendBatch(ctx, b).Close()
	if err != nil && !isCode(err, codeUndefinedTable) { // a day that has gone took its events along
		return nil, failed("read new deliveries", err)
	}
	return found, nil
}

func (l *lookedUp) scanEvents(rows pgx.Rows) error {
	var e hook.Event
	var names []byte
	_, err := pgx.ForEachRow(rows, []any{&e.ID, &e.TenantID, &e.Type, sqlstore.Time(&e.CreatedAt), &e.ContentType, &e.Payload, &names}, func() error {
		named, err := deferred.ParseNames(names, &e)
		for _, d := range named {
			l.named[d.ID] = d
		}
		if e.Payload != nil {
			l.events = append(l.events, e)
		}
		return err
	})
	return err
}
