package storetest

import (
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var usageTests = []test{
	{"what is pending is counted by tenant", usageByTenant},
	{"several nodes count together", usageOverNodes},
	{"counters agree with the rows after a mixed life", usageAgrees},
	{"what is stored is counted with what destinations answered", storedGrows},
	{"what is stored is counted until it has left", storedLeaves},
	{"a tenant that is gone has nothing stored", storedOfNobody},
}

func usageByTenant(w *world) {
	a, b, idle := w.tenant(), w.tenant(), w.tenant()
	w.stored(a, w.endpoints(a, 3)...)
	w.stored(b, w.endpoint(b))
	w.stored(idle)
	all, err := w.db.Usage(w.ctx())
	w.check(err, "Usage")
	w.same(all, map[hook.ID]store.Usage{
		a.ID: {Pending: 3, Bytes: 21, Stored: store.StoredBy(3, 7)}, b.ID: {Pending: 1, Bytes: 7, Stored: store.StoredBy(1, 7)},
		idle.ID: {Stored: store.StoredBy(0, 7)},
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
	w.wantUsage(ten.ID, 0, 0, "after all settles")
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

// storedGrows: events, their deliveries and their attempts count, each once.
func storedGrows(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	accepts := []*store.Accept{w.accept(ten, e, w.endpoint(ten)), w.keyed(ten, "k", 1, e), w.keyed(ten, "k", 1, e)}
	for _, a := range accepts {
		a.ConfigRev = w.configRev(ten.ID)
	}
	b := &store.Batch{Accepts: accepts}
	w.commit(b)
	want := store.StoredBy(2, 7) + store.StoredBy(1, 7)
	w.same(w.usage(ten.ID).Stored, want, "stored after two events and a repetition")
	w.again(b)
	w.same(w.usage(ten.ID).Stored, want, "stored after the batch ran again")

	first, second := w.success(accepts[0].Deliveries[0]), w.retry(accepts[0].Deliveries[1], time.Minute)
	for _, s := range []*store.Settle{first, second} {
		s.Attempt.Excerpt = make([]byte, 5000)
		s.Attempt.Detail.ResponseHeaders = map[string][]string{"X-Long": {strings.Repeat("x", 3000)}}
		before := w.usage(ten.ID).Stored
		settles := &store.Batch{Settles: []*store.Settle{s}}
		w.commit(settles)
		grown := w.usage(ten.ID).Stored - before
		if grown < store.StoredByAttempt(8000) || grown > store.StoredByAttempt(9000) {
			w.t.Errorf("an attempt with an answer of 8000 bytes counts as %d", grown)
		}
		w.again(settles)
		w.same(w.usage(ten.ID).Stored-before, grown, "growth after the batch ran again")
	}
	before := w.usage(ten.ID)
	w.written(w.expired(accepts[1].Deliveries[0]))
	w.same(w.usage(ten.ID).Stored, before.Stored, "stored after an end without an attempt")
}

// storedLeaves: after everything has left nothing is counted, whatever its life
// was.
func storedLeaves(w *world) {
	ten := w.tenant()
	targets := w.endpoints(ten, 4)
	for i := range 5 {
		a := w.stored(ten, targets...)
		born, retried, dead, expired := w.success(a.Deliveries[0]), w.retry(a.Deliveries[1], time.Minute), w.dead(a.Deliveries[2]), w.expired(a.Deliveries[3])
		born.Attempt.Excerpt, dead.Attempt.Excerpt = make([]byte, 100*i), make([]byte, 10)
		retried.Attempt.Error, dead.Attempt.Error = "größer", "no"
		w.written(born, retried, dead, expired)
		w.written(w.success(w.delivery(a.Deliveries[1].ID)))
		w.manual(w.delivery(a.Deliveries[2].ID))
		w.written(w.success(w.delivery(a.Deliveries[2].ID)))
	}
	w.stored(ten)
	w.nextDay()
	kept := w.stored(ten, targets[0])
	w.written(w.success(kept.Deliveries[0]))
	own := w.usage(ten.ID).Stored
	w.nextDay()
	w.prune(kept.Event.CreatedAt.Truncate(day), w.now)
	left := w.usage(ten.ID).Stored
	if least := store.StoredBy(1, 7) + store.StoredByAttempt(0); left < least || left > least+1000 || left >= own {
		w.t.Errorf("%d bytes are counted for one event that is left, of %d before", left, own)
	}
	w.prune(w.now.Truncate(day), w.now)
	w.same(w.usage(ten.ID), store.Usage{}, "usage after everything has left")
}

func storedOfNobody(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	w.written(w.success(w.stored(ten, e).Deliveries[0]))
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	w.check(w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(ten.ID, "tenant.delete")), "DeleteTenant")
	w.nextDay()
	w.prune(w.now.Truncate(day), w.now)
	all, err := w.db.Usage(w.ctx())
	w.check(err, "Usage")
	w.same(all, map[hook.ID]store.Usage{}, "usage")
}
