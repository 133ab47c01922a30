package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var usageTests = []test{
	{"what is pending is counted by tenant", usageByTenant},
	{"several nodes count together", usageOverNodes},
	{"counters agree with the rows after a mixed life", usageAgrees},
}

func usageByTenant(w *world) {
	a, b, idle := w.tenant(), w.tenant(), w.tenant()
	w.stored(a, w.endpoints(a, 3)...)
	w.stored(b, w.endpoint(b))
	w.stored(idle)
	all, err := w.db.Usage(w.ctx())
	w.check(err, "Usage")
	w.same(all, map[hook.ID]store.Usage{
		a.ID: {Pending: 3, Bytes: 21}, b.ID: {Pending: 1, Bytes: 7},
	}, "usage")
}

// usageOverNodes lets one node accept and another settle.
func usageOverNodes(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	other := w.join("node-b")
	a, b := w.accept(ten, e), w.accept(ten, e)
	w.commit(&store.Batch{Node: other.ID, Accepts: []*store.Accept{a, b}})
	w.wantUsage(ten.ID, 2, 14, "after two accepts")
	w.written(w.success(a.Deliveries[0]))
	w.wantUsage(ten.ID, 1, 7, "after one settle")
	w.written(w.success(b.Deliveries[0]))
	all, err := w.db.Usage(w.ctx())
	w.check(err, "Usage")
	w.same(all, map[hook.ID]store.Usage{}, "usage after all settles")
}

func usageAgrees(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 4)
	var rows []hook.Delivery
	for range 6 {
		rows = append(rows, w.stored(ten, targets...).Deliveries...)
	}
	var settles []*store.Settle
	for i, d := range rows {
		switch i % 5 {
		case 0:
			settles = append(settles, w.success(d))
		case 1:
			settles = append(settles, w.retry(d, time.Minute))
		case 2:
			settles = append(settles, w.dead(d))
		case 3:
			settles = append(settles, w.expired(d))
		}
	}
	w.written(settles...)
	for i, d := range rows {
		if i%10 == 2 {
			w.manual(d)
		}
		if i%10 == 4 {
			_, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, w.audit(ten.ID, "delivery.cancel"))
			w.check(err, "CancelDelivery")
		}
	}
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, targets[0].ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")

	pending := w.counted(store.DeliveryFilter{Tenant: ten.ID, States: []hook.DeliveryState{hook.Pending}}, 1000)
	if pending == 0 {
		w.t.Fatal("nothing is pending: the test shows nothing")
	}
	w.wantUsage(ten.ID, int64(pending), int64(7*pending), "after a mixed life")
}
