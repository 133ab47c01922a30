package storetest

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var attemptLogTests = []test{
	{"attempts are listed with what happened", attemptListed},
	{"attempts are filtered by every field", attemptFilter},
	{"pages of attempts miss nothing and repeat nothing, however short", attemptPages},
}

// listedAttempts returns the attempts of all pages.
func (w *world) listedAttempts(f store.AttemptFilter, p store.Page) (rows []store.AttemptRow) {
	w.t.Helper()
	for range 1000 {
		page, next, err := w.db.ListAttempts(w.ctx(), f, p)
		w.check(err, "ListAttempts")
		rows = append(rows, page...)
		if next == 0 {
			return rows
		}
		p.After = next
	}
	w.t.Fatal("ListAttempts goes on for ever")
	return nil
}

// attemptIDs returns ids in their order, which that of a list is but for what ended
// within moments.
func attemptIDs(rows []store.AttemptRow) (ids []hook.ID) {
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// attempted stores events and what came of each: a success at once, one that was
// written meanwhile, a retry, and an end.
func (w *world) attempted(ten hook.Tenant, e hook.Endpoint) (out []*store.Settle) {
	w.t.Helper()
	for i, end := range []func(hook.Delivery) *store.Settle{
		w.success, w.success, func(d hook.Delivery) *store.Settle { return w.retry(d, time.Minute) }, w.dead,
	} {
		acc := w.accept(ten, e)
		acc.Event.Type = []string{"order.paid", "order.made"}[i%2]
		w.store(acc)
		w.pass(time.Second)
		d := acc.Deliveries[0]
		if i == 1 {
			d = w.delivery(d.ID)
		}
		s := end(d)
		w.written(s)
		out = append(out, s)
		w.pass(time.Second)
	}
	return out
}

func attemptListed(w *world) {
	ten := w.tenant()
	settles := w.attempted(ten, w.endpoint(ten))
	rows := w.listedAttempts(store.AttemptFilter{Tenant: ten.ID}, store.Page{Limit: 50, Asc: true})
	if len(rows) != len(settles) {
		w.t.Fatalf("%d attempts are listed, want %d", len(rows), len(settles))
	}
	for i, r := range rows {
		want := *settles[i].Attempt
		want.Detail, want.Excerpt = hook.AttemptDetail{}, nil
		w.same(r.Attempt, want, "attempt")
		w.same(r.Type, []string{"order.paid", "order.made"}[i%2], "type")
	}
}

func attemptFilter(w *world) {
	ten, other := w.tenant(), w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	begin := w.now
	var ids []hook.ID
	for _, e := range []hook.Endpoint{a, b} {
		for _, s := range w.attempted(ten, e) {
			ids = append(ids, s.Attempt.ID)
		}
	}
	var foreign []hook.ID
	for _, s := range w.attempted(other, w.endpoint(other)) {
		foreign = append(foreign, s.Attempt.ID)
	}
	for name, tc := range map[string]struct {
		filter store.AttemptFilter
		want   []hook.ID
	}{
		"all":          {store.AttemptFilter{}, append(slices.Clone(ids), foreign...)},
		"tenant":       {store.AttemptFilter{Tenant: ten.ID}, ids},
		"endpoint":     {store.AttemptFilter{Tenant: ten.ID, Endpoints: []hook.ID{b.ID}}, ids[4:]},
		"endpoints":    {store.AttemptFilter{Endpoints: []hook.ID{a.ID, b.ID}}, ids},
		"not its own":  {store.AttemptFilter{Tenant: other.ID, Endpoints: []hook.ID{a.ID}}, nil},
		"type":         {store.AttemptFilter{Tenant: ten.ID, Types: []string{"order.paid"}}, []hook.ID{ids[0], ids[2], ids[4], ids[6]}},
		"types":        {store.AttemptFilter{Tenant: ten.ID, Types: []string{"order.*"}}, ids},
		"class":        {store.AttemptFilter{Tenant: ten.ID, Classes: []hook.Class{hook.Success}}, []hook.ID{ids[0], ids[1], ids[4], ids[5]}},
		"reason":       {store.AttemptFilter{Tenant: ten.ID, Reasons: []hook.Reason{hook.ServerError}}, []hook.ID{ids[2], ids[6]}},
		"kind":         {store.AttemptFilter{Tenant: ten.ID, Kinds: []hook.AttemptKind{hook.Probe}}, nil},
		"since":        {store.AttemptFilter{Tenant: ten.ID, Since: begin.Add(8 * time.Second)}, ids[4:]},
		"until":        {store.AttemptFilter{Tenant: ten.ID, Until: begin.Add(8 * time.Second)}, ids[:4]},
		"from":         {store.AttemptFilter{Tenant: ten.ID, EndedFrom: ids[3]}, ids[3:]},
		"all together": {store.AttemptFilter{Tenant: ten.ID, Endpoints: []hook.ID{a.ID}, Types: []string{"order.made"}, Classes: []hook.Class{hook.Permanent}, EndedFrom: ids[1]}, ids[3:4]},
	} {
		w.same(attemptIDs(w.listedAttempts(tc.filter, store.Page{Limit: 50, Asc: true})), tc.want, name)
		w.same(attemptIDs(w.listedAttempts(tc.filter, store.Page{Limit: 50})), tc.want, name+", newest first")
	}
}

func attemptPages(w *world) {
	ten := w.tenant()
	a, b := w.endpoint(ten), w.endpoint(ten)
	var ids []hook.ID
	for i := range 6 {
		for _, s := range w.attempted(ten, []hook.Endpoint{a, b}[i%2]) {
			ids = append(ids, s.Attempt.ID)
		}
	}
	for _, limit := range []int{1, 2, 3, 7, 50} {
		for _, look := range []int{1, 2, 5, 0} {
			for _, asc := range []bool{true, false} {
				p := store.Page{Limit: limit, Asc: asc, ScanLimit: look}
				rows := w.listedAttempts(store.AttemptFilter{Tenant: ten.ID}, p)
				w.same(attemptIDs(rows), ids, "all")
				ordered := slices.IsSortedFunc(rows, func(x, y store.AttemptRow) int {
					if asc {
						return int(x.Place - y.Place)
					}
					return int(y.Place - x.Place)
				})
				if !ordered {
					w.t.Errorf("%+v: the pages are not in the order of places", p)
				}
				w.same(len(w.listedAttempts(store.AttemptFilter{Endpoints: []hook.ID{b.ID}, Classes: []hook.Class{hook.Down}}, p)), 3, "few")
			}
		}
	}
}
