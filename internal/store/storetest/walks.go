package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// deliveryLook shows what bounds a list, and which lists need no bound.
func deliveryLook(w *world) {
	ten := w.tenant()
	busy, calm := w.endpoint(ten), w.endpoint(ten)
	old := w.spread(ten, busy, 0)
	w.written(w.success(w.delivery(old[0])))
	waiting := w.spread(ten, busy, 0, 0, 0, 0, 0)
	few := w.spread(ten, calm, 0)
	ended := w.spread(ten, calm, 0, 0, 0, 0)
	quiet := w.tenant()
	target := w.endpoint(quiet)
	rare := w.spread(quiet, target, 0)
	for _, id := range append(w.spread(quiet, target, 0, 0, 0), ended...) {
		w.written(w.success(w.delivery(id)))
	}
	pending, delivered := []hook.DeliveryState{hook.Pending}, []hook.DeliveryState{hook.Delivered}
	_, err := w.db.MaxID(w.ctx()) // has all rows written: a list need not look at what has none
	w.check(err, "MaxID")

	search := store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{busy.ID}, States: delivered}
	p := store.Page{Limit: 3, ScanLimit: 4}
	rows, next, err := w.db.ListDeliveries(w.ctx(), search, p)
	w.check(err, "ListDeliveries")
	if len(rows) != 0 || next == 0 {
		w.t.Errorf("first page: %d rows, next %d; want none, and a place to go on", len(rows), next)
	}
	counted, err := w.db.CountMatching(w.ctx(), search, p)
	w.check(err, "CountMatching")
	w.same(counted, store.Counted{}, "count that has looked enough")
	p.After = next
	rows, next, err = w.db.ListDeliveries(w.ctx(), search, p)
	w.check(err, "ListDeliveries")
	if len(rows) != 1 || rows[0].ID != old[0] || next != 0 {
		w.t.Errorf("second page: %d rows, next %d; want the only one, and the end", len(rows), next)
	}

	for name, tc := range map[string]struct {
		filter store.DeliveryFilter
		want   []hook.ID
	}{
		"few pending at an endpoint with a history": {
			store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{calm.ID}, States: pending}, few,
		},
		"retrying":                {store.DeliveryFilter{Tenant: ten.ID, Endpoints: []hook.ID{calm.ID}, Retrying: true}, nil},
		"dead":                    {store.DeliveryFilter{Tenant: ten.ID, States: []hook.DeliveryState{hook.Dead}}, nil},
		"everything":              {store.DeliveryFilter{Tenant: ten.ID}, slices.Concat(old, waiting, few, ended)},
		"few pending of a tenant": {store.DeliveryFilter{Tenant: quiet.ID, States: pending}, rare},
	} {
		rows, next, err := w.db.ListDeliveries(w.ctx(), tc.filter, store.Page{Limit: 20, Asc: true, ScanLimit: 1})
		w.check(err, "ListDeliveries")
		w.same(idsOf(rows), tc.want, name)
		if next != 0 {
			w.t.Errorf("%s: next = %d on the only page", name, next)
		}
	}

	// What is pending is counted without looking at it, and never for others.
	for name, tc := range map[string]struct {
		tenant    hook.ID
		endpoints []hook.ID
		limit     int
		want      store.Counted
	}{
		"of a tenant":                   {ten.ID, nil, 6, store.Counted{N: 6, Exact: true}},
		"more than are counted":         {ten.ID, nil, 5, store.Counted{N: 5}},
		"for an endpoint":               {ten.ID, []hook.ID{busy.ID}, 9, store.Counted{N: 5, Exact: true}},
		"for another tenant's endpoint": {ten.ID, []hook.ID{target.ID}, 9, store.Counted{Exact: true}},
	} {
		f := store.DeliveryFilter{Tenant: tc.tenant, Endpoints: tc.endpoints, States: pending}
		counted, err := w.db.CountMatching(w.ctx(), f, store.Page{Limit: tc.limit, ScanLimit: 1})
		w.check(err, "CountMatching")
		w.same(counted, tc.want, "pending "+name)
	}
}

func idsOf(rows []store.DeliveryRow) (out []hook.ID) {
	for i := range rows {
		out = append(out, rows[i].ID)
	}
	return out
}

// deliveryWalks compares pages of every filter, of every size and with every
// bound, to what a plain loop over all deliveries finds.
func deliveryWalks(w *world) {
	ten, other := w.tenant(), w.tenant()
	a, b, foreign := w.endpoint(ten), w.endpoint(ten), w.endpoint(other)
	events := w.mixedLives(ten, other, a, b, foreign)
	all, _, err := w.db.ListDeliveries(w.ctx(), store.DeliveryFilter{}, store.Page{Limit: 1000, Asc: true})
	w.check(err, "ListDeliveries")

	rapid.Check(w.t, func(t *rapid.T) {
		f := drawFilter(t, w.now, []hook.ID{0, ten.ID, other.ID}, []hook.ID{a.ID, b.ID, foreign.ID}, events, idsOf(all))
		p := store.Page{
			Limit: rapid.SampledFrom([]int{1, 2, 7, 60}).Draw(t, "limit"), ScanLimit: rapid.SampledFrom([]int{1, 2, 5, 20, 100}).Draw(t, "look"), Asc: rapid.Bool().Draw(t, "asc"),
		}
		var want []hook.ID
		for i := range all {
			if matches(&f, &all[i]) {
				want = append(want, all[i].ID)
			}
		}
		c, err := w.db.CountMatching(w.ctx(), f, p)
		w.check(err, "CountMatching")
		enough := p.Limit >= len(want) && p.ScanLimit >= len(all)
		if c.N > min(len(want), p.Limit) || c.Exact && c.N != len(want) || enough && !c.Exact {
			t.Errorf("CountMatching(%+v, %+v) = %+v, want %d", f, p, c, len(want))
		}
		if !p.Asc {
			slices.Reverse(want)
		}
		if diff := cmp.Diff(want, w.pages(t, f, p, len(all)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%+v by pages of %+v (-want +got):\n%s", f, p, diff)
		}
	})
}

// pages reads a list to its end.
func (w *world) pages(t *rapid.T, f store.DeliveryFilter, p store.Page, most int) (out []hook.ID) {
	for range 2*most + 2 { // each page passes one delivery at least
		rows, next, err := w.db.ListDeliveries(w.ctx(), f, p)
		w.check(err, "ListDeliveries")
		if len(rows) > p.Limit {
			t.Fatalf("%d rows on a page of %d", len(rows), p.Limit)
		}
		out = append(out, idsOf(rows)...)
		if next == 0 {
			return out
		}
		p.After = next
	}
	t.Fatalf("%+v by pages of %+v never ends", f, p)
	return nil
}

// mixedLives makes deliveries in all states and returns their events.
func (w *world) mixedLives(ten, other hook.Tenant, a, b, foreign hook.Endpoint) (events []hook.ID) {
	w.t.Helper()
	for i := range 30 {
		acc := w.accept(ten, a, b)
		if i%5 == 4 {
			acc = w.accept(other, foreign)
		}
		acc.Event.Type = []string{"order.paid", "order.made", "refund.made", "order"}[i%4]
		w.store(acc)
		events = append(events, acc.Event.ID)
		for k := range acc.Deliveries {
			w.end(w.delivery(acc.Deliveries[k].ID), (i*7+k*3)%9)
		}
	}
	return events
}

// end gives a delivery one of several lives.
func (w *world) end(d hook.Delivery, life int) {
	w.t.Helper()
	switch life {
	case 0, 1:
		w.written(w.success(d))
	case 2:
		w.written(w.dead(d))
	case 3:
		w.written(w.expired(d))
	case 4:
		w.written(w.retry(d, 1))
	case 5:
		_, err := w.db.CancelDelivery(w.ctx(), d.TenantID, d.ID, w.now, w.audit(d.TenantID, "delivery.cancel"))
		w.check(err, "CancelDelivery")
	default: // pending
	}
}

func drawFilter(t *rapid.T, now time.Time, tenants, endpoints, events, ids []hook.ID) store.DeliveryFilter {
	some := func(name string, of []hook.ID, most int) []hook.ID {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, most, rapid.ID).Draw(t, name)
	}
	f := store.DeliveryFilter{
		Tenant:    rapid.SampledFrom(tenants).Draw(t, "tenant"),
		Endpoints: some("endpoints", endpoints, 2),
		States: rapid.SliceOfNDistinct(rapid.SampledFrom([]hook.DeliveryState{
			hook.Pending, hook.Delivered, hook.Dead, hook.Cancelled,
		}), 0, 2, rapid.ID).Draw(t, "states"),
	}
	switch rapid.IntRange(0, 9).Draw(t, "more") {
	case 0:
		f.Retrying, f.States = true, []hook.DeliveryState{hook.Pending}
	case 1:
		f.Types = []string{rapid.SampledFrom([]string{"order.*", "order", "refund.made", "none"}).Draw(t, "type")}
	case 2:
		f.Reasons = []hook.EndReason{rapid.SampledFrom([]hook.EndReason{hook.DeadPermanent, hook.DeadExpired, hook.CancelledByUser}).Draw(t, "reason")}
	case 3:
		f.Event = rapid.SampledFrom(events).Draw(t, "event")
	case 4:
		f.IDs = append(some("ids", ids, 5), ids[0])
	case 5, 6:
		f.DueBy = now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 0, time.Second, time.Hour}).Draw(t, "due by"))
		f.Retrying = rapid.Bool().Draw(t, "retrying too")
	default:
	}
	return f
}

// matches is the filter as its comment has it.
func matches(f *store.DeliveryFilter, d *store.DeliveryRow) bool {
	is := func(typ string) func(pattern string) bool {
		return func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return open && strings.HasPrefix(typ, prefix) && typ != prefix || typ == pattern
		}
	}
	return (f.Tenant == 0 || f.Tenant == d.TenantID) &&
		(len(f.Endpoints) == 0 || slices.Contains(f.Endpoints, d.EndpointID)) &&
		(f.Event == 0 || f.Event == d.EventID) &&
		(len(f.States) == 0 || slices.Contains(f.States, d.State)) &&
		(!f.Retrying || d.State == hook.Pending && d.Attempts > 0) &&
		(f.DueBy.IsZero() || d.State == hook.Pending && !d.DueAt.After(f.DueBy)) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, d.Reason)) &&
		(len(f.Types) == 0 || slices.ContainsFunc(f.Types, is(d.Type))) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, d.ID))
}
