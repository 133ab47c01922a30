package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// announcedEvents is eventsByID with what the events tell of their deliveries. Large
// payloads stay where they are until they are wanted.
const announcedEvents = `
SELECT e.id, e.tenant_id, e.type, e.created_at, e.content_type, CASE WHEN octet_length(e.payload) <= $2 THEN e.payload END, e.targets
FROM unnest($1::bigint[]) AS n(id)
CROSS JOIN LATERAL (SELECT * FROM %s WHERE id >= n.id ORDER BY id LIMIT 1) e WHERE e.id = n.id`

// announcedBytes bounds the payloads that come along.
const announcedBytes = 1 << 20

// readAnnounced adds the deliveries that other nodes have told of and that have no
// row, and returns their events. For the endpoints of the others it says to look
// for rows.
//
// From here on they count as unwritten on this node too, so that their rows come
// with their results. The node that has accepted them sees to it that they get
// one in any case.
func (d *DB) readAnnounced(ctx context.Context, w *store.Wanted, due map[hook.ID]store.Due) ([]hook.Event, error) {
	news := unknown(w)
	if len(news) == 0 {
		return nil, nil
	}
	found, err := d.lookUp(ctx, news)
	if err != nil {
		return nil, err
	}
	for _, n := range news {
		of := due[n.Endpoint]
		t, ok := found.targets[n.Delivery]
		u := d.holderOf(n.Endpoint)
		if !ok || u == nil || found.rows[n.Delivery] {
			of.Next = w.Now
		} else {
			u.hear(t.SeenAt(w.Now))
			of.Deliveries = append(of.Deliveries, dueBy(w.Now, t.Delivery()))
		}
		due[n.Endpoint] = of
	}
	return found.events, nil
}

// dueBy returns a new delivery that was due on the node that accepted it: the clock
// of this one may be behind.
func dueBy(now time.Time, d hook.Delivery) hook.Delivery {
	if d.DueAt.After(now) {
		d.DueAt, d.Progress.RunDueAt = now, now
	}
	return d
}

// unknown returns what was heard of and is not in memory.
func unknown(w *store.Wanted) (news []store.Announced) {
	known := make(map[hook.ID]bool, len(w.Known))
	for _, id := range w.Known {
		known[id] = true
	}
	for _, n := range w.Announced {
		if !known[n.Delivery] {
			news = append(news, n)
		}
	}
	return news
}

// lookedUp is what there is of deliveries that were heard of.
type lookedUp struct {
	events  []hook.Event             // those whose payloads came along
	targets map[hook.ID]store.Target // by delivery
	rows    map[hook.ID]bool         // deliveries that have a row
}

// lookUp reads events and which of the deliveries have a row, in one round trip.
func (d *DB) lookUp(ctx context.Context, news []store.Announced) (*lookedUp, error) {
	found := &lookedUp{targets: make(map[hook.ID]store.Target, len(news)), rows: make(map[hook.ID]bool)}
	events, deliveries := make([]hook.ID, len(news)), make([]hook.ID, len(news))
	for i, n := range news {
		events[i], deliveries[i] = n.Event, n.Delivery
	}
	b := &pgx.Batch{}
	for day, ids := range byDay(events) {
		b.Queue(fmt.Sprintf(announcedEvents, day.partition("events")), ids, announcedBytes/len(news)).Query(found.scanEvents)
	}
	b.Queue(withRow, deliveries).Query(func(rows pgx.Rows) error {
		return eachRow(rows, scanID, func(id hook.ID) { found.rows[id] = true })
	})
	err := d.lanes.SendBatch(ctx, b).Close()
	if err != nil && !isCode(err, codeUndefinedTable) { // a day that has gone took its events along
		return nil, failed("read new deliveries", err)
	}
	return found, nil
}

func (l *lookedUp) scanEvents(rows pgx.Rows) error {
	var e hook.Event
	var named []byte
	_, err := pgx.ForEachRow(rows, []any{&e.ID, &e.TenantID, &e.Type, (*moment)(&e.CreatedAt), &e.ContentType, &e.Payload, &named}, func() error {
		targets, err := store.ParseTargets(named, &e)
		for _, t := range targets {
			l.targets[t.ID] = t
		}
		if e.Payload != nil {
			l.events = append(l.events, e)
		}
		return err
	})
	return err
}

// holderOf returns what is known of the node of this process that owns the lane
// of the endpoint; nil: none does.
func (d *DB) holderOf(endpoint hook.ID) *unwritten {
	for _, u := range d.everyUnwritten() {
		if u.holds(hook.ShardOf(endpoint)) {
			return u
		}
	}
	return nil
}
