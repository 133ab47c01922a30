package storetest

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var tenantTests = []test{
	{"a tenant comes back as it went in", tenantRoundTrip},
	{"a uid is taken once, an empty one never", tenantUID},
	{"an unknown tenant is not found", tenantUnknown},
	{"an update needs the current version", tenantUpdate},
	{"the list is searched and paged", tenantList},
	{"only an empty tenant is deleted", tenantDelete},
}

func compact(raw []byte) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

func tenantRoundTrip(w *world) {
	full := hook.Tenant{
		ID: w.id(), UID: "acme", Name: "Acme, “Inc”", Policy: json.RawMessage(`{"preset":"patient","retry":{"max":2}}`),
		Limits:   hook.TenantLimits{EventsPerSecond: 12.5, MaxPending: 1 << 40, MaxEndpoints: 3, MaxStoredBytes: 1 << 50},
		Metadata: map[string]string{"plan": "gold", "": "empty"}, Rev: 1, ConfigRev: 1,
		CreatedAt: w.now, UpdatedAt: w.now.Add(time.Microsecond),
	}
	bare := hook.Tenant{
		ID: w.id(), Name: "bare", Policy: json.RawMessage(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}
	for _, ten := range []hook.Tenant{full, bare} {
		w.check(w.db.CreateTenant(w.ctx(), ten, w.audit(ten.ID, "tenant.create")), "CreateTenant")
		got, err := w.db.TenantByID(w.ctx(), ten.ID)
		w.check(err, "TenantByID")
		w.same(got, ten, "tenant")
	}
	got, err := w.db.TenantByUID(w.ctx(), "acme")
	w.check(err, "TenantByUID")
	w.same(got, full, "tenant by uid")
}

func tenantUID(w *world) {
	ten := w.tenant()
	twin := ten
	twin.ID = w.id()
	w.wantErr(w.db.CreateTenant(w.ctx(), twin, w.audit(twin.ID, "tenant.create")), hook.ErrUIDTaken, "CreateTenant")
	for range 2 {
		twin.ID, twin.UID = w.id(), ""
		w.check(w.db.CreateTenant(w.ctx(), twin, w.audit(twin.ID, "tenant.create")), "CreateTenant without uid")
	}
	other := w.tenant()
	other.UID = ten.UID
	_, err := w.db.UpdateTenant(w.ctx(), other, w.audit(other.ID, "tenant.update"))
	w.wantErr(err, hook.ErrUIDTaken, "UpdateTenant")
}

func tenantUnknown(w *world) {
	_, err := w.db.TenantByID(w.ctx(), w.id())
	w.wantErr(err, hook.ErrNotFound, "TenantByID")
	for _, uid := range []string{"nobody", ""} {
		_, err = w.db.TenantByUID(w.ctx(), uid)
		w.wantErr(err, hook.ErrNotFound, "TenantByUID "+uid)
	}
	_, err = w.db.ConfigRev(w.ctx(), w.id())
	w.wantErr(err, hook.ErrNotFound, "ConfigRev")
	_, err = w.db.UpdateTenant(w.ctx(), hook.Tenant{ID: w.id(), Rev: 1, Policy: []byte(`{}`)}, w.audit(0, "tenant.update"))
	w.wantErr(err, hook.ErrNotFound, "UpdateTenant")
	w.wantErr(w.db.DeleteTenant(w.ctx(), w.id(), w.audit(0, "tenant.delete")), hook.ErrNotFound, "DeleteTenant")
}

func tenantUpdate(w *world) {
	ten := w.tenant()
	change := ten
	change.Name, change.UID = "New name", ""
	change.Policy = json.RawMessage(`{"a":1}`)
	change.Limits = hook.TenantLimits{MaxPending: 5}
	change.Metadata = map[string]string{"k": "v"}
	change.UpdatedAt = w.now.Add(time.Hour)
	got, err := w.db.UpdateTenant(w.ctx(), change, w.audit(ten.ID, "tenant.update"))
	w.check(err, "UpdateTenant")
	want := change
	want.Rev, want.ConfigRev = ten.Rev+1, ten.ConfigRev+1
	w.same(got, want, "answer of the update")
	read, err := w.db.TenantByID(w.ctx(), ten.ID)
	w.check(err, "TenantByID")
	w.same(read, want, "tenant after the update")

	_, err = w.db.UpdateTenant(w.ctx(), change, w.audit(ten.ID, "tenant.update"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateTenant with the old version")
	w.same(w.configRev(ten.ID), want.ConfigRev, "ConfigRev after a refused update")
}

func tenantList(w *world) {
	var ids []hook.ID
	for _, name := range []string{"alpha one", "beta", "alpha two", "100%_sure", "gamma"} {
		ten := hook.Tenant{
			ID: w.id(), UID: "u-" + strings.Fields(name)[0] + strconv.Itoa(len(ids)), Name: name,
			Policy: json.RawMessage(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: w.now, UpdatedAt: w.now,
		}
		ids = append(ids, ten.ID)
		w.check(w.db.CreateTenant(w.ctx(), ten, w.audit(ten.ID, "tenant.create")), "CreateTenant")
	}
	list := func(q string, p store.Page) (out []hook.ID) {
		w.t.Helper()
		got, err := w.db.ListTenants(w.ctx(), q, p)
		w.check(err, "ListTenants")
		for _, ten := range got {
			out = append(out, ten.ID)
		}
		return out
	}
	w.same(list("", store.Page{Limit: 2}), []hook.ID{ids[4], ids[3]}, "first page")
	w.same(list("", store.Page{Limit: 2, After: ids[3]}), []hook.ID{ids[2], ids[1]}, "second page")
	w.same(list("", store.Page{Limit: 9, Asc: true, After: ids[2]}), []hook.ID{ids[3], ids[4]}, "oldest first")
	w.same(list("alpha", store.Page{Limit: 9, Asc: true}), []hook.ID{ids[0], ids[2]}, "by name")
	w.same(list("u-beta", store.Page{Limit: 9}), []hook.ID{ids[1]}, "by uid")
	w.same(list("%_", store.Page{Limit: 9}), []hook.ID{ids[3]}, "by characters that mean something to LIKE")
	w.same(list(`\`, store.Page{Limit: 9}), []hook.ID(nil), "by a backslash")
}

func tenantDelete(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	w.stored(ten, e)
	remove := func() error { return w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(ten.ID, "tenant.delete")) }

	w.wantErr(remove(), hook.ErrTenantNotEmpty, "DeleteTenant with an endpoint")
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	k := w.newKey(hook.ScopeTenantWrite, ten.ID)
	w.check(w.db.CreateKey(w.ctx(), k, w.audit(ten.ID, "key.create")), "CreateKey")
	w.wantErr(remove(), hook.ErrTenantNotEmpty, "DeleteTenant with a key")
	w.check(w.db.RevokeKey(w.ctx(), k.ID, w.now, w.audit(ten.ID, "key.revoke")), "RevokeKey")
	w.check(remove(), "DeleteTenant")

	_, err = w.db.TenantByID(w.ctx(), ten.ID)
	w.wantErr(err, hook.ErrNotFound, "TenantByID after the deletion")
}
