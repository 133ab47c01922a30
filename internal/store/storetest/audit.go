package storetest

import (
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var auditTests = []test{
	{"a change that cannot be recorded does not happen", auditAtomic},
	{"every change is recorded, a refused one is not", auditRecords},
	{"a record comes back as it went in", auditRoundTrip},
	{"records are found by who did what to what, and when", auditList},
	{"a search of records is bounded, and goes on where it stopped", auditListBounded},
	{"changes of one thing are found past those of others", auditOfOneThing},
}

// auditAtomic gives every change a record whose id is taken: the record cannot
// be stored, so the change must not be either.
func auditAtomic(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	d := w.stored(ten, e).Deliveries[0]
	k := w.key(hook.ScopeTenantRead, ten.ID, time.Time{})
	taken := w.audit(ten.ID, "first")
	w.check(w.db.WriteAudit(w.ctx(), taken), "WriteAudit")
	before := w.configRev(ten.ID)

	replay := w.replay(ten, hook.ReplayFilter{States: endedStates})
	newReplay := replay
	newReplay.ID = w.id()
	newTenant, newEndpoint, newKey := ten, w.newEndpoint(ten), w.newKey(hook.ScopeAdmin, 0)
	newTenant.ID, newTenant.UID = w.id(), "other"
	changed := e
	changed.URL = "https://example.test/changed"
	for name, change := range map[string]func() error{
		"WriteAudit":     func() error { return w.db.WriteAudit(w.ctx(), taken) },
		"CreateTenant":   func() error { return w.db.CreateTenant(w.ctx(), newTenant, taken) },
		"UpdateTenant":   func() error { _, err := w.db.UpdateTenant(w.ctx(), ten, taken); return err },
		"CreateEndpoint": func() error { return w.db.CreateEndpoint(w.ctx(), newEndpoint, nil, 0, taken) },
		"UpdateEndpoint": func() error { _, err := w.db.UpdateEndpoint(w.ctx(), changed, taken); return err },
		"DeleteEndpoint": func() error { _, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, taken); return err },
		"RotateSecret":   func() error { return w.db.RotateSecret(w.ctx(), w.secret(e), w.now, w.now, taken) },
		"CreateKey":      func() error { return w.db.CreateKey(w.ctx(), newKey, taken) },
		"RevokeKey":      func() error { return w.db.RevokeKey(w.ctx(), k.ID, w.now, taken) },
		"RetryDelivery":  func() error { _, err := w.db.RetryDelivery(w.ctx(), ten.ID, d.ID, w.now, taken); return err },
		"CancelDelivery": func() error { _, err := w.db.CancelDelivery(w.ctx(), ten.ID, d.ID, w.now, taken); return err },
		"CreateReplay":   func() error { return w.db.CreateReplay(w.ctx(), newReplay, taken) },
		"UpdateReplay":   func() error { _, err := w.db.UpdateReplay(w.ctx(), replay, &taken); return err },
		"StartReplay":    func() error { _, err := w.db.StartReplay(w.ctx(), replay.ID, w.now, taken); return err },
	} {
		if change() == nil {
			w.t.Errorf("%s without its record succeeded", name)
		}
	}

	w.same(w.configRev(ten.ID), before, "ConfigRev")
	_, err := w.db.TenantByID(w.ctx(), newTenant.ID)
	w.wantErr(err, hook.ErrNotFound, "TenantByID")
	_, err = w.db.EndpointByID(w.ctx(), ten.ID, newEndpoint.ID)
	w.wantErr(err, hook.ErrNotFound, "EndpointByID")
	got, err := w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
	w.check(err, "EndpointByID")
	w.same(got, e, "endpoint")
	w.same(w.expiries(e), []time.Time(nil), "secrets")
	_, err = w.db.KeyByHash(w.ctx(), newKey.Hash)
	w.wantErr(err, hook.ErrNotFound, "KeyByHash")
	read, err := w.db.KeyByHash(w.ctx(), k.Hash)
	w.check(err, "KeyByHash")
	w.same(read, k, "key")
	w.same(w.delivery(d.ID), d, "delivery")
	_, err = w.db.ReplayByID(w.ctx(), ten.ID, newReplay.ID)
	w.wantErr(err, hook.ErrNotFound, "ReplayByID")
	w.same(w.job(replay.ID), replay, "replay")
	w.wantUsage(ten.ID, 1, 7, "after changes that did not happen")
}

// audits reads all records.
func (w *world) audits() []hook.Audit {
	w.t.Helper()
	return w.features.Audits(w.t, w.db)
}

func auditRecords(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	e, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	old := e
	old.Rev--
	_, err = w.db.UpdateEndpoint(w.ctx(), old, w.audit(ten.ID, "endpoint.refused"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateEndpoint")
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	var actions []string
	for _, a := range w.audits() {
		actions = append(actions, a.Action)
	}
	w.same(actions, []string{"tenant.create", "endpoint.create", "endpoint.update", "endpoint.delete"}, "actions")
}

func auditRoundTrip(w *world) {
	w.audits()
	full := w.audit(w.id(), "endpoint.pause")
	bare := hook.Audit{ID: w.id(), Actor: "server", Action: "retention", Subject: "events", At: w.now}
	for _, a := range []hook.Audit{full, bare} {
		w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
	}
	w.same(w.audits(), []hook.Audit{full, bare}, "records")
}

func (w *world) listAudit(f store.AuditFilter, p store.Page) (ids []hook.ID, next hook.ID) {
	w.t.Helper()
	rows, next, err := w.db.ListAudit(w.ctx(), f, p)
	w.check(err, "ListAudit")
	for _, a := range rows {
		ids = append(ids, a.ID)
	}
	return ids, next
}

func auditList(w *world) {
	ten, other := w.tenant(), w.tenant()
	write := func(tenant hook.ID, actor, action, subject string) hook.Audit {
		a := w.audit(tenant, action)
		a.Actor, a.Subject = actor, subject
		w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
		return a
	}
	w.pass(time.Hour)
	since := w.now
	a := write(ten.ID, "key_a", "endpoint.pause", "ep_1")
	b := write(ten.ID, "key_b", "endpoint.resume", "ep_1")
	w.pass(time.Hour)
	c := write(ten.ID, "key_a", "delivery.retry", "dlv_1")
	d := write(other.ID, "key_a", "endpoint.pause", "ep_2")
	e := hook.Audit{ID: w.id(), Actor: "server", Action: "retention", Subject: "events", At: w.now}
	w.check(w.db.WriteAudit(w.ctx(), e), "WriteAudit")
	rows, _, err := w.db.ListAudit(w.ctx(), store.AuditFilter{Since: since}, store.Page{Limit: 10, Asc: true})
	w.check(err, "ListAudit")
	w.same(rows, []hook.Audit{a, b, c, d, e}, "records")
	for name, tc := range map[string]struct {
		filter store.AuditFilter
		want   []hook.ID
	}{
		"tenant":            {store.AuditFilter{Tenant: ten.ID}, []hook.ID{c.ID, b.ID, a.ID}},
		"actor":             {store.AuditFilter{Actors: []string{"key_a"}}, []hook.ID{d.ID, c.ID, a.ID}},
		"actors of tenant":  {store.AuditFilter{Tenant: ten.ID, Actors: []string{"key_a", "key_b"}}, []hook.ID{c.ID, b.ID, a.ID}},
		"action":            {store.AuditFilter{Actions: []string{"endpoint.pause"}}, []hook.ID{d.ID, a.ID}},
		"actions":           {store.AuditFilter{Tenant: ten.ID, Actions: []string{"endpoint.*"}}, []hook.ID{b.ID, a.ID}},
		"subject":           {store.AuditFilter{Subjects: []string{"ep_1"}, Actors: []string{"key_b"}}, []hook.ID{b.ID}},
		"until":             {store.AuditFilter{Until: w.now}, []hook.ID{b.ID, a.ID}},
		"one of a subject":  {store.AuditFilter{Tenant: ten.ID, Subjects: []string{"ep_1"}, Actions: []string{"endpoint.pause"}}, []hook.ID{a.ID}},
		"subjects":          {store.AuditFilter{Subjects: []string{"ep_1", "ep_2"}}, []hook.ID{d.ID, b.ID, a.ID}},
		"nothing of a kind": {store.AuditFilter{Tenant: other.ID, Subjects: []string{"ep_1"}}, nil},
	} {
		tc.filter.Since = since
		got, next := w.listAudit(tc.filter, store.Page{Limit: 10})
		w.same(got, tc.want, name)
		w.same(next, hook.ID(0), name+": next")
	}
}

func auditListBounded(w *world) {
	ten := w.tenant()
	w.pass(time.Hour)
	since := w.now
	var all []hook.ID
	for i := range 9 {
		a := w.audit(ten.ID, "x")
		if i == 1 {
			a.Action = "rare"
		}
		w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
		all = append(all, a.ID)
	}
	for _, tenant := range []hook.ID{0, ten.ID} {
		for _, asc := range []bool{true, false} {
			f, p := store.AuditFilter{Tenant: tenant, Actions: []string{"rare"}, Since: since}, store.Page{Limit: 2, Asc: asc, ScanLimit: 3}
			var found []hook.ID
			pages := 0
			for {
				rows, next := w.listAudit(f, p)
				found, pages = append(found, rows...), pages+1
				if p.After = next; next == 0 || pages > 9 {
					break
				}
			}
			w.same(found, all[1:2], "found")
			if pages < 3 || pages > 4 {
				w.t.Errorf("%d pages of 3 records among 9", pages)
			}
			f.Actions, p.ScanLimit, p.After = nil, 0, 0
			var got []hook.ID
			for {
				rows, next := w.listAudit(f, p)
				got = append(got, rows...)
				if p.After = next; next == 0 || len(got) > 9 {
					break
				}
			}
			want := slices.Clone(all)
			if !asc {
				slices.Reverse(want)
			}
			w.same(got, want, "page by page")
		}
	}
}

func auditOfOneThing(w *world) {
	ten, other := w.tenant(), w.tenant()
	a := w.audit(ten.ID, "x")
	a.Subject = "ep_1"
	w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
	for range 9 {
		w.check(w.db.WriteAudit(w.ctx(), w.audit(ten.ID, "x")), "WriteAudit")
	}
	for tenant, want := range map[hook.ID][]hook.ID{0: {a.ID}, ten.ID: {a.ID}, other.ID: nil} {
		got, _ := w.listAudit(store.AuditFilter{Tenant: tenant, Subjects: []string{"ep_1"}}, store.Page{Limit: 1, ScanLimit: 3})
		w.same(got, want, "changes of one thing")
	}
}
