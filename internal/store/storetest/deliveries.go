package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var deliveryTests = []test{
	{"lists are filtered by every field", deliveryFilter},
	{"lists are paged", deliveryPages},
	{"counting stops at its limit", deliveryCount},
	{"a list looks at no more than it may", deliveryLook},
	{"pages miss nothing and repeat nothing, however short", deliveryWalks},
	{"another tenant's delivery is not found", deliveryForeign},
}

var manualTests = []test{
	{"a dead delivery is sent once more and comes back dead", retryDead},
	{"a manual send that works settles the delivery", retrySucceeds},
	{"a pending delivery keeps its schedule behind a manual send", retryPending},
	{"asked twice, it is one request, as of the second time", retryTwice},
	{"a manual send needs an endpoint", retryDeleted},
	{"only a pending delivery is cancelled", cancelOnlyPending},
}

func (w *world) listed(f store.DeliveryFilter, p store.Page) (out []hook.ID) {
	w.t.Helper()
	rows, _, err := w.db.ListDeliveries(w.ctx(), f, p)
	w.check(err, "ListDeliveries")
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

// counted counts exactly.
func (w *world) counted(f store.DeliveryFilter, limit int) int {
	w.t.Helper()
	c, err := w.db.CountMatching(w.ctx(), f, store.Page{Limit: limit})
	w.check(err, "CountMatching")
	if !c.Exact {
		w.t.Errorf("CountMatching(%+v) = %+v, want an exact count", f, c)
	}
	return c.N
}

func deliveryFilter(w *world) {
	ten, other := w.tenant(), w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	foreign := w.stored(other, w.endpoint(other))
	begin := w.now
	var ids, events []hook.ID
	for _, typ := range []string{"order.paid", "order.made", "refund.made"} {
		acc := w.accept(ten, a, b)
		acc.Event.Type = typ
		w.store(acc)
		ids = append(ids, acc.Deliveries[0].ID, acc.Deliveries[1].ID)
		events = append(events, acc.Event.ID)
		w.pass(time.Second)
	}
	w.written(w.success(w.delivery(ids[0])), w.dead(w.delivery(ids[1])),
		w.retry(w.delivery(ids[2]), time.Minute), w.expired(w.delivery(ids[3])))

	pending, dead := []hook.DeliveryState{hook.Pending}, []hook.DeliveryState{hook.Dead}
	for name, tc := range map[string]struct {
		filter store.DeliveryFilter
		want   []hook.ID
	}{
		"tenant":           {store.DeliveryFilter{Tenant: ten.ID}, ids},
		"any tenant":       {store.DeliveryFilter{}, append([]hook.ID{foreign.Deliveries[0].ID}, ids...)},
		"endpoint":         {store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{a.ID}}, []hook.ID{ids[0], ids[2], ids[4]}},
		"endpoints":        {store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{a.ID, b.ID}}, ids},
		"foreign endpoint": {store.DeliveryFilter{Tenant: other.ID, Endpoints: []hook.ID{a.ID}}, nil},
		"event":            {store.DeliveryFilter{Tenant: ten.ID, Event: events[1]}, ids[2:4]},
		"pending":          {store.DeliveryFilter{Tenant: ten.ID, States: pending}, []hook.ID{ids[2], ids[4], ids[5]}},
		"retrying":         {store.DeliveryFilter{Tenant: ten.ID, Retrying: true}, []hook.ID{ids[2]}},
		"due":              {store.DeliveryFilter{Tenant: ten.ID, DueBy: w.now}, []hook.ID{ids[4], ids[5]}},
		"due later":        {store.DeliveryFilter{Tenant: ten.ID, DueBy: w.now.Add(2 * time.Minute)}, []hook.ID{ids[2], ids[4], ids[5]}},
		"due of endpoint":  {store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{b.ID}, DueBy: w.now, States: pending}, []hook.ID{ids[5]}},
		"due and retrying": {store.DeliveryFilter{Tenant: ten.ID, Retrying: true, DueBy: w.now.Add(2 * time.Minute)}, []hook.ID{ids[2]}},
		"due and dead":     {store.DeliveryFilter{Tenant: ten.ID, States: dead, DueBy: w.now}, nil},
		"due before all":   {store.DeliveryFilter{Tenant: ten.ID, DueBy: begin.Add(-time.Second)}, nil},
		"dead":             {store.DeliveryFilter{Tenant: ten.ID, States: dead}, []hook.ID{ids[1], ids[3]}},
		"dead of endpoint": {store.DeliveryFilter{Endpoints: []hook.ID{b.ID}, States: dead}, []hook.ID{ids[1], ids[3]}},
		"two states": {store.DeliveryFilter{
			Tenant: ten.ID, States: []hook.DeliveryState{hook.Delivered, hook.Dead},
		}, []hook.ID{ids[0], ids[1], ids[3]}},
		"reason": {store.DeliveryFilter{Tenant: ten.ID, Reasons: []hook.EndReason{hook.DeadExpired}}, []hook.ID{ids[3]}},
		"reasons": {store.DeliveryFilter{
			Tenant: ten.ID, Reasons: []hook.EndReason{hook.DeadExpired, hook.DeadPermanent},
		}, []hook.ID{ids[1], ids[3]}},
		"type":  {store.DeliveryFilter{Tenant: ten.ID, Types: []string{"order.*"}}, ids[:4]},
		"types": {store.DeliveryFilter{Tenant: ten.ID, Types: []string{"order.made", "refund.*"}}, ids[2:]},
		"since": {store.DeliveryFilter{Tenant: ten.ID, Since: begin.Add(time.Second)}, ids[2:]},
		"until": {store.DeliveryFilter{Tenant: ten.ID, Until: begin.Add(time.Second)}, ids[:2]},
		"all at once": {store.DeliveryFilter{
			Tenant: ten.ID, Endpoints: []hook.ID{b.ID}, Event: events[1], States: dead, Reasons: []hook.EndReason{hook.DeadExpired},
			Types: []string{"order.*"}, Since: begin.Add(time.Second), Until: begin.Add(2 * time.Second),
		}, []hook.ID{ids[3]}},
		"nothing": {store.DeliveryFilter{Tenant: ten.ID, Event: w.id()}, nil},
	} {
		w.same(w.listed(tc.filter, store.Page{Limit: 50, Asc: true}), tc.want, name)
		w.same(w.counted(tc.filter, 50), len(tc.want), name+", counted")
	}
}

func deliveryPages(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	ids := w.spread(ten, e, 0, 0, 0, 0, 0)
	for name, f := range map[string]store.DeliveryFilter{
		"tenant": {Tenant: ten.ID}, "endpoint": {Endpoints: []hook.ID{e.ID}},
	} {
		w.same(w.listed(f, store.Page{Limit: 2}), []hook.ID{ids[4], ids[3]}, name+": first page")
		w.same(w.listed(f, store.Page{Limit: 2, After: ids[3]}), []hook.ID{ids[2], ids[1]}, name+": second page")
		w.same(w.listed(f, store.Page{Limit: 2, After: ids[1]}), []hook.ID{ids[0]}, name+": last page")
		w.same(w.listed(f, store.Page{Limit: 2, After: ids[1], Asc: true}), []hook.ID{ids[2], ids[3]}, name+": oldest first")
	}
	rows, _, err := w.db.ListDeliveries(w.ctx(), store.DeliveryFilter{Tenant: ten.ID}, store.Page{Limit: 1})
	w.check(err, "ListDeliveries")
	w.same(rows[0], store.DeliveryRow{Delivery: w.delivery(ids[4]), Type: "order.paid"}, "row")
}

func deliveryCount(w *world) {
	ten := w.tenant()
	w.spread(ten, w.endpoint(ten), 0, 0, 0, 0, 0)
	for limit, want := range map[int]store.Counted{3: {N: 3}, 5: {N: 5, Exact: true}, 6: {N: 5, Exact: true}} {
		got, err := w.db.CountMatching(w.ctx(), store.DeliveryFilter{Tenant: ten.ID}, store.Page{Limit: limit})
		w.check(err, "CountMatching")
		w.same(got, want, "counted up to the limit")
	}
}

func deliveryForeign(w *world) {
	ten, other := w.tenant(), w.tenant()
	d := w.one(ten)
	w.written(w.retry(d, time.Minute))
	_, err := w.db.DeliveryByID(w.ctx(), other.ID, d.ID)
	w.wantErr(err, hook.ErrNotFound, "DeliveryByID")
	attempts, err := w.db.AttemptsOf(w.ctx(), other.ID, d.ID)
	if err == nil && len(attempts) > 0 {
		w.t.Error("AttemptsOf shows another tenant's attempts")
	}
	_, err = w.db.RetryDelivery(w.ctx(), other.ID, d.ID, w.now, w.audit(other.ID, "delivery.retry"))
	w.wantErr(err, hook.ErrNotFound, "RetryDelivery")
	_, err = w.db.CancelDelivery(w.ctx(), other.ID, d.ID, w.now, w.audit(other.ID, "delivery.cancel"))
	w.wantErr(err, hook.ErrNotFound, "CancelDelivery")
}

func (w *world) manual(d hook.Delivery) store.DeliveryRow {
	w.t.Helper()
	row, err := w.db.RetryDelivery(w.ctx(), d.TenantID, d.ID, w.now, w.audit(d.TenantID, "delivery.retry"))
	w.check(err, "RetryDelivery")
	w.same(row.Delivery, w.delivery(d.ID), "answer of the request")
	w.same(row.Type, "order.paid", "type")
	return row
}

// retryDead follows a dead delivery through a manual send that fails: it is
// pending only while it waits, and then exactly what it was.
func retryDead(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	dead := w.delivery(s.Delivery.ID)
	w.pass(time.Hour)

	row := w.manual(dead)
	want := dead
	want.State, want.DueAt, want.Reason = hook.Pending, w.now, 0
	want.Restore = &hook.Restore{State: hook.Dead, DueAt: dead.DueAt, Reason: hook.DeadPermanent}
	w.same(row.Delivery, want, "delivery that waits for its manual send")
	w.wantUsage(ten.ID, 1, 7, "while it waits")
	due, err := w.db.ReadAhead(w.ctx(), dead.EndpointID, w.now, 5)
	w.check(err, "ReadAhead")
	w.same(due, []hook.Delivery{want}, "read ahead")

	failed := w.attempt(want, hook.Down, hook.ServerError, 500)
	failed.Attempt.Kind, failed.Restored = hook.Manual, true
	back := &failed.Delivery
	back.State, back.DueAt, back.Reason, back.Restore = hook.Dead, want.Restore.DueAt, want.Restore.Reason, nil
	w.written(failed)
	got := dead
	got.Attempts, got.Last = 2, failed.Delivery.Last
	w.same(w.delivery(dead.ID), got, "delivery after the failed send")
	w.wantUsage(ten.ID, 0, 0, "after the failed send")
}

func retrySucceeds(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	w.pass(time.Hour)
	sent := w.success(w.manual(s.Delivery).Delivery)
	w.written(sent)
	got := w.delivery(s.Delivery.ID)
	w.same(got, sent.Delivery, "delivery")
	if got.Restore != nil {
		w.t.Errorf("restore = %+v, want none", got.Restore)
	}
}

func retryPending(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	w.written(w.retry(d, 6*time.Hour))
	w.pass(time.Minute)
	d = w.delivery(d.ID)
	row := w.manual(d)
	w.same(row.Restore, &hook.Restore{State: hook.Pending, DueAt: d.DueAt}, "restore")
	w.same(row.DueAt, w.now, "due")
	w.wantUsage(ten.ID, 1, 7, "while it waits")
}

func retryTwice(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	first := w.manual(s.Delivery)
	w.pass(time.Minute)
	first.DueAt = w.now
	w.same(w.manual(s.Delivery), first, "delivery after the second request")
	w.wantUsage(ten.ID, 1, 7, "after two requests")
}

func retryDeleted(w *world) {
	ten := w.tenant()
	s := w.dead(w.one(ten))
	w.written(s)
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, s.Delivery.EndpointID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	_, err = w.db.RetryDelivery(w.ctx(), ten.ID, s.Delivery.ID, w.now, w.audit(ten.ID, "delivery.retry"))
	w.wantErr(err, hook.ErrStateConflict, "RetryDelivery")
	_, err = w.db.RetryDelivery(w.ctx(), ten.ID, w.id(), w.now, w.audit(ten.ID, "delivery.retry"))
	w.wantErr(err, hook.ErrNotFound, "RetryDelivery of nothing")
}

func cancelOnlyPending(w *world) {
	ten := w.tenant()
	d := w.one(ten)
	w.pass(time.Minute)
	cancel := func(id hook.ID) (store.DeliveryRow, error) {
		return w.db.CancelDelivery(w.ctx(), ten.ID, id, w.now, w.audit(ten.ID, "delivery.cancel"))
	}
	row, err := cancel(d.ID)
	w.check(err, "CancelDelivery")
	want := d
	want.State, want.Reason, want.SettledAt = hook.Cancelled, hook.CancelledByUser, w.now
	w.same(row, store.DeliveryRow{Delivery: want, Type: "order.paid"}, "answer")
	w.same(w.delivery(d.ID), want, "delivery")
	_, err = cancel(d.ID)
	w.wantErr(err, hook.ErrStateConflict, "CancelDelivery of a cancelled one")
	s := w.dead(w.one(ten))
	w.written(s)
	_, err = cancel(s.Delivery.ID)
	w.wantErr(err, hook.ErrStateConflict, "CancelDelivery of a dead one")
	_, err = cancel(w.id())
	w.wantErr(err, hook.ErrNotFound, "CancelDelivery of nothing")
	w.wantUsage(ten.ID, 0, 0, "after the cancellation")
}
