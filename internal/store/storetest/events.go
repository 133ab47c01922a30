package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var eventTests = []test{
	{"a list has everything but the payload", eventList},
	{"lists are filtered by type and time", eventFilter},
	{"pages are stable while events arrive", eventPages},
	{"deliveries are counted by state", eventCounts},
}

// typed stores one event of each type, a second apart, and returns their ids.
func (w *world) typed(ten hook.Tenant, types ...string) []hook.ID {
	w.t.Helper()
	var ids []hook.ID
	for _, typ := range types {
		a := w.accept(ten)
		a.Event.Type = typ
		w.store(a)
		ids = append(ids, a.Event.ID)
		w.pass(time.Second)
	}
	return ids
}

func (w *world) eventIDs(f store.EventFilter, p store.Page) (out []hook.ID) {
	w.t.Helper()
	got, err := w.db.ListEvents(w.ctx(), f, p)
	w.check(err, "ListEvents")
	for _, e := range got {
		out = append(out, e.Event.ID)
	}
	return out
}

func eventList(w *world) {
	ten := w.tenant()
	a := w.accept(ten)
	a.Event.Payload = make([]byte, 3000)
	w.store(a)
	got, err := w.db.ListEvents(w.ctx(), store.EventFilter{Tenant: ten.ID}, store.Page{Limit: 5})
	w.check(err, "ListEvents")
	want := store.EventSummary{Event: a.Event, Size: 3000}
	want.Event.Payload = nil
	w.same(got, []store.EventSummary{want}, "events")
}

func eventFilter(w *world) {
	ten, other := w.tenant(), w.tenant()
	begin := w.now
	ids := w.typed(ten, "order.paid", "order", "order.paid.late", "orderx.paid", "refund.made", "order_paid", "ORDER.paid")
	foreign := w.typed(other, "order.paid")
	all := store.Page{Limit: 20, Asc: true}
	for name, tc := range map[string]struct {
		filter store.EventFilter
		want   []hook.ID
	}{
		"any type":        {store.EventFilter{Tenant: ten.ID, Types: []string{"*"}}, ids},
		"one type":        {store.EventFilter{Tenant: ten.ID, Types: []string{"order.paid"}}, ids[:1]},
		"below a segment": {store.EventFilter{Tenant: ten.ID, Types: []string{"order.*"}}, []hook.ID{ids[0], ids[2]}},
		"alternatives":    {store.EventFilter{Tenant: ten.ID, Types: []string{"order", "refund.*"}}, []hook.ID{ids[1], ids[4]}},
		"not a pattern":   {store.EventFilter{Tenant: ten.ID, Types: []string{"order%", "order?paid", "[o]rder", "' OR 1=1 --"}}, nil},
		"odd patterns":    {store.EventFilter{Tenant: ten.ID, Types: []string{"%.*", "_____.*", "[o]rder.*"}}, nil},
		"since":           {store.EventFilter{Tenant: ten.ID, Since: begin.Add(3 * time.Second)}, ids[3:]},
		"until":           {store.EventFilter{Tenant: ten.ID, Until: begin.Add(3 * time.Second)}, ids[:3]},
		"window and type": {store.EventFilter{
			Tenant: ten.ID, Since: begin.Add(time.Second), Until: begin.Add(5 * time.Second), Types: []string{"order.*"},
		}, ids[2:3]},
		"any tenant": {store.EventFilter{Types: []string{"order.paid"}}, []hook.ID{ids[0], foreign[0]}},
	} {
		w.same(w.eventIDs(tc.filter, all), tc.want, name)
	}
}

func eventPages(w *world) {
	ten := w.tenant()
	ids := w.typed(ten, "a", "b", "c", "d", "e")
	f := store.EventFilter{Tenant: ten.ID}
	w.same(w.eventIDs(f, store.Page{Limit: 2}), []hook.ID{ids[4], ids[3]}, "first page")
	newer := w.typed(ten, "f")
	w.same(w.eventIDs(f, store.Page{Limit: 2, After: ids[3]}), []hook.ID{ids[2], ids[1]}, "second page")
	w.same(w.eventIDs(f, store.Page{Limit: 2, After: ids[1]}), []hook.ID{ids[0]}, "last page")
	w.same(w.eventIDs(f, store.Page{Limit: 2, After: ids[0]}), []hook.ID(nil), "page after the last")
	w.same(w.eventIDs(f, store.Page{Limit: 9, After: ids[3], Asc: true}), []hook.ID{ids[4], newer[0]}, "oldest first")
}

func eventCounts(w *world) {
	ten, other := w.tenant(), w.tenant()
	a := w.stored(ten, w.endpoints(ten, 5)...)
	w.written(w.success(a.Deliveries[0]), w.dead(a.Deliveries[1]), w.retry(a.Deliveries[2], time.Minute))
	_, err := w.db.CancelDelivery(w.ctx(), ten.ID, a.Deliveries[3].ID, w.now, w.audit(ten.ID, "delivery.cancel"))
	w.check(err, "CancelDelivery")
	got, err := w.db.CountDeliveries(w.ctx(), ten.ID, a.Event.ID)
	w.check(err, "CountDeliveries")
	w.same(got, store.EventCounts{Total: 5, Pending: 2, Delivered: 1, Dead: 1, Cancelled: 1}, "counts")
	_, err = w.db.CountDeliveries(w.ctx(), other.ID, a.Event.ID)
	w.wantErr(err, hook.ErrNotFound, "CountDeliveries of another tenant")
}
