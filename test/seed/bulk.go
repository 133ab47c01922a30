package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Size is how much Bulk writes.
type Size struct {
	Tenants, Endpoints, Deliveries int
}

// Large is the size that the speed of pages is promised for.
var Large = Size{Tenants: 50, Endpoints: 10_000, Deliveries: 1_000_000}

// bulkTypes are the types of events in bulk.
var bulkTypes = []string{"order.paid", "order.created", "invoice.created", "invoice.paid", "customer.updated", "shipment.delivered"}

// copies is how many times the last part of the day is there: the store's own code writes it
// once, and the database copies it to the hours before.
const copies = 20

// span is how long that part is.
const span = day / copies

// Bulk fills an empty store with the last of the copies of a day: nearly all delivered, some
// dead, some pending behind open breakers. Half of the deliveries belong to one tenant and
// a tenth to one endpoint, as it is in life. The caller copies what has ended, and logs the
// figures that are returned.
func Bulk(ctx context.Context, db store.DB, encryptionKey string, size Size, now time.Time, progress func(done int)) (*Places, []stats.Record, error) {
	w, err := newWriter(ctx, db, encryptionKey, now)
	if err != nil {
		return nil, nil, err
	}
	all, err := w.bulkCast(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	b := &batch{revs: map[hook.ID]int64{}}
	for _, d := range all {
		if b.revs[d.of.id] == 0 {
			if b.revs[d.of.id], err = db.ConfigRev(ctx, d.of.id); err != nil {
				return nil, nil, err
			}
		}
	}
	once := size.Deliveries/copies + size.Deliveries/copies/50 + 1 // what is pending is not copied
	step := span / time.Duration(once)
	for i := range once {
		w.bulkEvent(b, all[bulkPick(w.rng, len(all))], w.ago(span-time.Duration(i)*step).Truncate(time.Microsecond))
		if len(b.Accepts) >= 5*rowsPerBatch {
			if err := w.commit(ctx, b); err != nil {
				return nil, nil, err
			}
			progress(i + 1)
		}
	}
	if err := w.commit(ctx, b); err != nil {
		return nil, nil, err
	}
	if err := w.writeLanes(ctx, all); err != nil {
		return nil, nil, err
	}
	w.alias(all[0])
	records := w.bulkFigures(all)
	return &w.places, records, w.leave(ctx)
}

// alias gives the busiest endpoint and the largest tenant the names of all places of the story,
// so that the same pages can be looked at.
func (w *writer) alias(busiest *destination) {
	tenants, all := cast()
	for _, t := range tenants {
		w.places.Tenants[t.uid] = hook.TenantPrefix.Format(busiest.of.id)
	}
	for _, d := range all {
		w.places.Endpoints[d.uid] = hook.EndpointPrefix.Format(busiest.id)
	}
	for _, m := range []map[string]string{w.places.Deliveries, w.places.Events} {
		m["retrying"], m["gone"] = m["held"], m["dead"]
	}
}

// bulkPick draws an endpoint: a tenth go to the first one, the rest to all.
func bulkPick(rng *rand.Rand, n int) int {
	if rng.IntN(10) == 0 {
		return 0
	}
	return int(float64(n) * rng.Float64() * rng.Float64())
}

// bulkCast writes tenants and endpoints. The first tenant has a half of all.
func (w *writer) bulkCast(ctx context.Context, size Size) ([]*destination, error) {
	tenants := make([]*tenant, size.Tenants)
	for i := range tenants {
		tenants[i] = &tenant{uid: fmt.Sprintf("customer-%02d", i), name: fmt.Sprintf("Customer %d", i)}
	}
	tenants[0].uid = "acme" // as the first of the story
	if err := w.enter(ctx, tenants, nil); err != nil {
		return nil, err
	}
	all := make([]*destination, size.Endpoints)
	for i := range all {
		d := &destination{
			uid: fmt.Sprintf("endpoint-%05d", i), url: fmt.Sprintf("https://hooks-%05d.customer.example/in", i), about: "Endpoint", pattern: "*",
			types: bulkTypes, rate: 1, took: time.Duration(20+i%200) * time.Millisecond, of: tenants[0],
		}
		if i%2 == 1 {
			d.of = tenants[i/2%size.Tenants]
		}
		if i%100 == 7 {
			d.plot = outage
		}
		if err := w.enterEndpoint(ctx, d, w.ago(20*day-time.Duration(i)*time.Minute)); err != nil {
			return nil, fmt.Errorf("endpoint %d: %w", i, err)
		}
		all[i] = d
	}
	clear(w.places.Endpoints)
	return all, nil
}

// bulkEvent is event with less in it: what is looked at is how many there are.
func (w *writer) bulkEvent(b *batch, d *destination, at time.Time) {
	body := json.RawMessage(`{"id":"obj_1","amount":1290,"currency":"EUR","customer":{"name":"Ada Martin","country":"NL"}}`)
	a := &store.Accept{
		Event: hook.Event{
			ID: w.id(at), TenantID: d.of.id, Type: bulkTypes[w.rng.IntN(len(bulkTypes))], CreatedAt: at, ContentType: "application/json", Payload: body,
		},
		ConfigRev: b.revs[d.of.id],
	}
	row := hook.Delivery{
		ID: w.id(at), TenantID: d.of.id, EventID: a.Event.ID, EndpointID: d.id, DueAt: at, Size: len(body), Progress: hook.Progress{Run: 1, RunDueAt: at},
	}
	a.Deliveries = []hook.Delivery{row}
	b.Accepts = append(b.Accepts, a)
	what := "delivered"
	switch chance := w.rng.IntN(1000); {
	case d.plot == outage && at.After(w.ago(outageFor)):
		what = "held"
	case chance < 20:
		what = "dead"
		w.attempt(b, d, &row, at.Add(time.Millisecond), 422, time.Time{})
	case chance < 30 && at.Before(w.ago(time.Minute)):
		what = "retried"
		w.attempt(b, d, &row, at.Add(time.Millisecond), 502, at.Add(10*time.Second))
		w.attempt(b, d, &row, at.Add(10*time.Second+time.Millisecond), 200, time.Time{})
	default:
		w.attempt(b, d, &row, at.Add(time.Millisecond), 200, time.Time{})
	}
	w.places.Deliveries[what] = hook.DeliveryPrefix.Format(row.ID)
	w.places.Events[what] = hook.EventPrefix.Format(a.Event.ID)
}

// Figures of bulk: so many endpoints have some of every minute of the day, and the others of so
// many minutes.
const (
	busyEndpoints = 200
	quietMinutes  = 4
)

// bulkFigures are those of the busy endpoints, each minute, and a few of all others: what such
// a fleet leaves.
func (w *writer) bulkFigures(all []*destination) []stats.Record {
	var out []stats.Record
	every := int(day.Minutes()) / quietMinutes
	minute := 0
	for at := w.ago(day).Truncate(time.Minute); at.Before(w.now); at = at.Add(time.Minute) {
		var l stats.Log
		waits := make(waiting)
		for i, d := range all {
			if i < busyEndpoints || i%every == minute%every {
				w.minute(&l, waits, d, at, 1)
			}
		}
		waits.log(&l, time.Minute)
		minute++
		out = append(out, stats.Record{At: at, Packed: append([]byte(nil), l.Packed()...)})
	}
	return out
}
