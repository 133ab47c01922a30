package storetest

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var deadTests = []test{
	{"dead letters are added up by endpoint, reason and status", deadGroups},
	{"of very many dead letters the newest are added up", deadGroupsBounded},
	{"dead letters of all tenants are found among all that was delivered", deadOfAll},
	{"few that wait are found among all that was delivered to all tenants", pendingOfAll},
	{"dead letters are discarded step by step, and recorded once", discardSteps},
	{"what is not dead any more is not discarded", discardMeanwhile},
}

func (w *world) groups(f store.DeliveryFilter, p store.Page) store.DeadGroups {
	w.t.Helper()
	f.States = onlyDead
	got, err := w.db.GroupDead(w.ctx(), f, p)
	w.check(err, "GroupDead")
	return got
}

func deadGroups(w *world) {
	ten, other := w.tenant(), w.tenant()
	one, two, foreign := w.endpoint(ten), w.endpoint(ten), w.endpoint(other)
	a := w.deadLetters(ten, one, 3)
	w.pass(time.Hour)
	a = append(a, w.deadLetters(ten, one, 1)...)
	b := w.deadLetters(ten, two, 2)
	held := w.delivery(w.stored(ten, one).Deliveries[0].ID)
	w.written(w.expired(held))
	heldAt := w.now
	w.written(w.success(w.delivery(w.stored(ten, one).Deliveries[0].ID)))
	w.stored(ten, two)
	c := w.deadLetters(other, foreign, 5)

	ofOne := store.DeadGroup{
		Tenant: ten.ID, Endpoint: one.ID, Reason: hook.DeadPermanent, Status: 404, Count: 4,
		Oldest: a[0].SettledAt, Newest: a[3].SettledAt, First: a[0].EventID, Sample: a[3].ID,
	}
	ofTwo := store.DeadGroup{
		Tenant: ten.ID, Endpoint: two.ID, Reason: hook.DeadPermanent, Status: 404, Count: 2,
		Oldest: b[0].SettledAt, Newest: b[1].SettledAt, First: b[0].EventID, Sample: b[1].ID,
	}
	expired := store.DeadGroup{
		Tenant: ten.ID, Endpoint: one.ID, Reason: hook.DeadExpired, Count: 1, Oldest: heldAt, Newest: heldAt, First: held.EventID, Sample: held.ID,
	}
	theirs := store.DeadGroup{
		Tenant: other.ID, Endpoint: foreign.ID, Reason: hook.DeadPermanent, Status: 404, Count: 5,
		Oldest: c[0].SettledAt, Newest: c[4].SettledAt, First: c[0].EventID, Sample: c[4].ID,
	}
	for name, tc := range map[string]struct {
		filter store.DeliveryFilter
		limit  int
		want   store.DeadGroups
	}{
		"of a tenant": {store.DeliveryFilter{Tenant: ten.ID}, 10, store.DeadGroups{Groups: []store.DeadGroup{ofOne, ofTwo, expired}, Count: 7, Exact: true}},
		"the largest": {store.DeliveryFilter{Tenant: ten.ID}, 1, store.DeadGroups{Groups: []store.DeadGroup{ofOne}, Count: 7, Exact: true, Cut: true}},
		"of an endpoint": {
			store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{one.ID}},
			10,
			store.DeadGroups{Groups: []store.DeadGroup{ofOne, expired}, Count: 5, Exact: true},
		},
		"of a reason": {
			store.DeliveryFilter{Tenant: ten.ID, Reasons: []hook.EndReason{hook.DeadExpired}},
			10,
			store.DeadGroups{Groups: []store.DeadGroup{expired}, Count: 1, Exact: true},
		},
		"of all":      {store.DeliveryFilter{}, 10, store.DeadGroups{Groups: []store.DeadGroup{theirs, ofOne, ofTwo, expired}, Count: 12, Exact: true}},
		"of a type":   {store.DeliveryFilter{Tenant: ten.ID, Types: []string{"order.*"}}, 1, store.DeadGroups{Groups: []store.DeadGroup{ofOne}, Count: 7, Exact: true, Cut: true}},
		"of no type":  {store.DeliveryFilter{Tenant: ten.ID, Types: []string{"none"}}, 10, store.DeadGroups{Exact: true}},
		"of an event": {store.DeliveryFilter{Tenant: ten.ID, Event: held.EventID}, 10, store.DeadGroups{Groups: []store.DeadGroup{expired}, Count: 1, Exact: true}},
		"of an hour": {store.DeliveryFilter{Tenant: ten.ID, Until: a[3].SettledAt}, 1, store.DeadGroups{Groups: []store.DeadGroup{{
			Tenant: ten.ID, Endpoint: one.ID, Reason: hook.DeadPermanent, Status: 404, Count: 3, Oldest: a[0].SettledAt, Newest: a[2].SettledAt, First: a[0].EventID, Sample: a[2].ID,
		}}, Count: 3, Exact: true}},
		"of a stranger": {store.DeliveryFilter{Tenant: other.ID, Endpoints: []hook.ID{one.ID}}, 10, store.DeadGroups{Exact: true}},
	} {
		w.same(w.groups(tc.filter, store.Page{Limit: tc.limit}), tc.want, name)
	}
}

func deadGroupsBounded(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	all := w.deadLetters(ten, e, 6)
	for _, f := range []store.DeliveryFilter{{}, {Tenant: ten.ID}, {Tenant: ten.ID, Endpoints: []hook.ID{e.ID}}, {Types: []string{"order.*"}}} {
		got := w.groups(f, store.Page{Limit: 5, ScanLimit: 4})
		if got.Count != 4 || got.Exact || len(got.Groups) != 1 || got.Groups[0].Sample != all[5].ID {
			w.t.Errorf("%+v: %+v, want the 4 newest", f, got)
		}
		if got = w.groups(f, store.Page{Limit: 5, ScanLimit: 6}); got.Count != 6 || !got.Exact {
			w.t.Errorf("%+v: %+v, want all 6", f, got)
		}
	}
}

func deadOfAll(w *world) {
	ten, other := w.tenant(), w.tenant()
	want := []hook.ID{w.deadLetters(ten, w.endpoint(ten), 1)[0].ID, w.deadLetters(other, w.endpoint(other), 1)[0].ID}
	for range 5 {
		w.written(w.success(w.one(ten)))
	}
	f := store.DeliveryFilter{States: onlyDead}
	rows, next, err := w.db.ListDeliveries(w.ctx(), f, store.Page{Limit: 10, Asc: true, ScanLimit: 1})
	w.check(err, "ListDeliveries")
	w.same(idsOf(rows), want, "dead letters")
	counted, err := w.db.CountMatching(w.ctx(), f, store.Page{Limit: 10, ScanLimit: 1})
	w.check(err, "CountMatching")
	w.same(counted, store.Counted{N: 2, Exact: true}, "count")
	if next != 0 {
		w.t.Errorf("next = %d on the only page", next)
	}
}

func pendingOfAll(w *world) {
	ten, other := w.tenant(), w.tenant()
	want := []hook.ID{w.one(ten).ID, w.one(other).ID}
	for range 5 {
		w.written(w.success(w.one(ten)))
	}
	f := store.DeliveryFilter{States: []hook.DeliveryState{hook.Pending}}
	rows, next, err := w.db.ListDeliveries(w.ctx(), f, store.Page{Limit: 10, Asc: true, ScanLimit: 3})
	w.check(err, "ListDeliveries")
	w.same(idsOf(rows), want, "pending")
	counted, err := w.db.CountMatching(w.ctx(), f, store.Page{Limit: 10, ScanLimit: 3})
	w.check(err, "CountMatching")
	w.same(counted, store.Counted{N: 2, Exact: true}, "count")
	if next != 0 {
		w.t.Errorf("next = %d on the only page", next)
	}
}

// discard ends what a filter matches, step by step.
func (w *world) discard(f store.DeliveryFilter, limit int) (n, steps int) {
	w.t.Helper()
	f.States = onlyDead
	rec := w.audit(f.Tenant, "dead_letters.discard")
	step := store.Discard{Filter: f, Limit: limit, Now: w.now, Audit: &rec}
	for {
		got, err := w.db.DiscardDead(w.ctx(), step)
		w.check(err, "DiscardDead")
		n, steps = n+got.N, steps+1
		if got.N > 0 {
			step.Audit = nil
		}
		if step.After = got.Next; step.After == 0 {
			return n, steps
		}
	}
}

func discardSteps(w *world) {
	ten, other := w.tenant(), w.tenant()
	one, two := w.endpoint(ten), w.endpoint(ten)
	mine := append(w.deadLetters(ten, one, 5), w.deadLetters(ten, two, 2)...)
	theirs := w.deadLetters(other, w.endpoint(other), 2)
	pending := w.one(ten)
	before := len(w.audits())
	w.pass(time.Minute)
	n, steps := w.discard(store.DeliveryFilter{Tenant: ten.ID}, 3)
	if n != 7 || steps < 3 {
		w.t.Errorf("discarded %d in %d steps, want 7 in steps of 3", n, steps)
	}
	for _, d := range mine {
		want := w.delivery(d.ID)
		if want.State != hook.Cancelled || want.Reason != hook.CancelledByUser || !want.SettledAt.Equal(w.now) || want.Attempts != 1 || want.Last.Status != 404 {
			w.t.Errorf("delivery is %+v, want cancelled, and its history as it was", want)
		}
	}
	w.same(w.delivery(theirs[0].ID), theirs[0], "dead letter of another tenant")
	w.same(w.delivery(pending.ID), pending, "delivery that waits")
	w.wantUsage(ten.ID, 1, 7, "after the discard")
	w.same(len(w.audits()), before+1, "records")
	w.wantStats(tenantStats(ten.ID), map[stats.Counter]uint64{
		stats.Accepted: 8, stats.Dead(hook.DeadPermanent): 7, stats.Reopened: 7, stats.Cancelled: 7,
	}, "figures")
	w.wantStats(endpointStats(two.ID), map[stats.Counter]uint64{stats.Reopened: 2, stats.Cancelled: 2}, "figures of one endpoint")
	if n, _ := w.discard(store.DeliveryFilter{Tenant: ten.ID}, 3); n != 0 {
		w.t.Errorf("discarded %d again", n)
	}
	w.same(len(w.audits()), before+1, "records after a discard of nothing")
}

func discardMeanwhile(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	all := w.deadLetters(ten, e, 3)
	asked := w.now
	w.manual(all[0])
	w.pass(time.Minute)
	late := w.deadLetters(ten, e, 1)[0]
	rec := w.audit(ten.ID, "dead_letters.discard")
	got, err := w.db.DiscardDead(w.ctx(), store.Discard{
		Filter: store.DeliveryFilter{Tenant: ten.ID, States: onlyDead}, Limit: 10, Now: asked, Audit: &rec,
	})
	w.check(err, "DiscardDead")
	w.same(got, store.Discarded{N: 2}, "discarded")
	w.same(w.delivery(late.ID), late, "delivery that died later")
	if d := w.delivery(all[0].ID); d.State != hook.Pending {
		w.t.Errorf("a delivery that was asked for is %v", d.State)
	}
	taken := rec // its id is taken: what cannot be recorded does not happen
	_, err = w.db.DiscardDead(w.ctx(), store.Discard{
		Filter: store.DeliveryFilter{Tenant: ten.ID, States: onlyDead}, Limit: 10, Now: w.now, Audit: &taken,
	})
	if err == nil {
		w.t.Error("discarded without a record")
	}
	w.same(w.delivery(late.ID), late, "delivery after a discard that could not be recorded")
}
