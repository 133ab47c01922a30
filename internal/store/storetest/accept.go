package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var acceptTests = []test{
	{"event and deliveries come back as they went in", acceptRoundTrip},
	{"payload bytes are never changed", acceptKeepsPayload},
	{"an event that matches nobody is stored", acceptWithoutDeliveries},
	{"batches of every size are stored whole", acceptBatchSizes},
	{"an event matched against old endpoints is stale", acceptStale},
	{"an event of an unknown tenant is stale", acceptUnknownTenant},
	{"an id that is taken is an error, not a loss", acceptIDTaken},
}

func acceptRoundTrip(w *world) {
	ten := w.tenant()
	a := w.accept(ten, w.endpoints(ten, 2)...)
	due := w.now.Add(90*time.Minute + 7*time.Microsecond)
	a.Deliveries[1].DueAt, a.Deliveries[1].Progress.RunDueAt = due, due
	w.store(a)

	if a.EventID != a.Event.ID || a.Count != 2 {
		w.t.Errorf("answer = event %d with %d deliveries, want %d with 2", a.EventID, a.Count, a.Event.ID)
	}
	ev, err := w.db.Event(w.ctx(), ten.ID, a.Event.ID)
	w.check(err, "Event")
	w.same(ev, a.Event, "event")
	for _, d := range a.Deliveries {
		row, err := w.db.DeliveryByID(w.ctx(), ten.ID, d.ID)
		w.check(err, "DeliveryByID")
		w.same(row, store.DeliveryRow{Delivery: d, Type: "order.paid"}, "delivery")
	}
}

func acceptKeepsPayload(w *world) {
	ten := w.tenant()
	for name, payload := range map[string][]byte{
		"empty":  {},
		"binary": {0, 1, 0xff, 0xfe, 0, '\'', '"', '\\', '\n'},
		"large":  bytes.Repeat([]byte("0123456789abcdef"), 40_000),
		"json":   []byte("{\"b\":1 ,\"a\":\t[1.0]}\n"),
	} {
		a := w.accept(ten)
		a.Event.Payload, a.Event.ContentType = payload, "text/plain; x=\"y\""
		w.store(a)
		got, err := w.db.Event(w.ctx(), ten.ID, a.Event.ID)
		w.check(err, "Event")
		if !bytes.Equal(got.Payload, payload) || got.ContentType != a.Event.ContentType {
			w.t.Errorf("%s payload or content type changed: %d bytes, want %d", name, len(got.Payload), len(payload))
		}
	}
}

func acceptWithoutDeliveries(w *world) {
	ten := w.tenant()
	a := w.stored(ten)
	if a.Count != 0 {
		w.t.Errorf("count = %d, want 0", a.Count)
	}
	counts, err := w.db.CountDeliveries(w.ctx(), ten.ID, a.Event.ID)
	w.check(err, "CountDeliveries")
	w.same(counts, store.EventCounts{}, "counts")
}

// acceptBatchSizes goes over every border of a dialect that writes in chunks.
func acceptBatchSizes(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 3)
	total := 0
	for _, size := range []int{1, 3, 16, 21, 63, 64, 85, 150} {
		batch := w.accepts(size, ten, targets...)
		for i, a := range batch {
			a.Deliveries = a.Deliveries[:i%4]
			a.Event.Type = fmt.Sprintf("size.s%d", size)
			total += i % 4
		}
		w.store(batch...)
		got, err := w.db.ListEvents(w.ctx(), store.EventFilter{
			Tenant: ten.ID, Types: []string{fmt.Sprintf("size.s%d", size)},
		}, store.Page{Limit: 1000, Asc: true})
		w.check(err, "ListEvents")
		if len(got) != size {
			w.t.Fatalf("batch of %d: %d events stored", size, len(got))
		}
		for i, a := range batch {
			if got[i].Event.ID != a.Event.ID || a.Count != i%4 {
				w.t.Fatalf("batch of %d: event %d is %d with count %d, want %d with %d",
					size, i, got[i].Event.ID, a.Count, a.Event.ID, i%4)
			}
		}
	}
	w.same(w.counted(store.DeliveryFilter{Tenant: ten.ID}, 10_000), total, "deliveries stored")
}

func acceptStale(w *world) {
	ten, other := w.tenant(), w.tenant()
	stale := w.accept(ten)
	stale.Key, stale.KeyExpires = "k", w.now.Add(time.Hour)
	e := w.endpoint(ten) // moves the tenant's configuration on
	fresh, elsewhere := w.accept(ten, e), w.accept(other)

	w.commit(&store.Batch{Accepts: []*store.Accept{stale, fresh, elsewhere}})
	w.same([]store.AcceptOutcome{stale.Outcome, fresh.Outcome, elsewhere.Outcome},
		[]store.AcceptOutcome{store.AcceptStale, store.AcceptStored, store.AcceptStored}, "outcomes")
	_, err := w.db.Event(w.ctx(), ten.ID, stale.Event.ID)
	w.wantErr(err, hook.ErrNotFound, "Event of the stale accept")
	_, err = w.db.EventOfKey(w.ctx(), ten.ID, "k", w.now)
	w.wantErr(err, hook.ErrNotFound, "EventOfKey of the stale accept")

	again := w.accept(ten, e)
	again.Key, again.KeyExpires = "k", w.now.Add(time.Hour)
	w.store(again)
}

func acceptUnknownTenant(w *world) {
	ten := w.tenant()
	a := w.accept(ten)
	a.Event.TenantID = w.id()
	w.commit(&store.Batch{Accepts: []*store.Accept{a}})
	if a.Outcome != store.AcceptStale {
		w.t.Errorf("outcome = %d, want stale", a.Outcome)
	}
}

func acceptIDTaken(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	first := w.stored(ten, e)

	second := w.accept(ten, e)
	second.Event.ID, second.Event.Payload = first.Event.ID, []byte("other")
	second.Deliveries[0].EventID = first.Event.ID
	bystander := w.accept(ten, e)
	batch := &store.Batch{Accepts: []*store.Accept{bystander, second}}
	if err := w.tryCommit(batch); err == nil {
		w.t.Fatal("Commit with an event id that is taken succeeded")
	}
	batch.Rerun = true
	if err := w.tryCommit(batch); err == nil && second.Outcome == store.AcceptStored {
		w.t.Error("Commit again reported another event under a taken id as stored")
	}
	got, err := w.db.Event(w.ctx(), ten.ID, first.Event.ID)
	w.check(err, "Event")
	w.same(got, first.Event, "first event")
}
