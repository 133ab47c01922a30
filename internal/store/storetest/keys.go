package storetest

import (
	"encoding/binary"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var keyTests = []test{
	{"a key comes back as it went in", keyRoundTrip},
	{"keys are listed in pages", keyList},
	{"the last admin key stays", keyRevoke},
	{"only usable keys count", keyCount},
	{"the last use is recorded", keyTouch},
}

func (w *world) newKey(scope hook.Scope, tenant hook.ID) hook.APIKey {
	k := hook.APIKey{ID: w.id(), TenantID: tenant, Name: "ci", Prefix: "bw_12345678", Scope: scope, CreatedAt: w.now}
	binary.BigEndian.PutUint64(k.Hash[:], uint64(k.ID))
	return k
}

func (w *world) key(scope hook.Scope, tenant hook.ID, expires time.Time) hook.APIKey {
	w.t.Helper()
	k := w.newKey(scope, tenant)
	k.ExpiresAt = expires
	w.check(w.db.CreateKey(w.ctx(), k, w.audit(tenant, "key.create")), "CreateKey")
	return k
}

func (w *world) revoke(id hook.ID) error {
	return w.db.RevokeKey(w.ctx(), id, w.now, w.audit(0, "key.revoke"))
}

func keyRoundTrip(w *world) {
	ten := w.tenant()
	k := w.key(hook.ScopeTenantSend, ten.ID, w.now.Add(time.Hour))
	admin := w.key(hook.ScopeAdmin, 0, time.Time{})
	for _, want := range []hook.APIKey{k, admin} {
		got, err := w.db.KeyByHash(w.ctx(), want.Hash)
		w.check(err, "KeyByHash")
		w.same(got, want, "key")
	}
	w.check(w.revoke(k.ID), "RevokeKey")
	k.RevokedAt = w.now
	got, err := w.db.KeyByHash(w.ctx(), k.Hash)
	w.check(err, "KeyByHash of a revoked key")
	w.same(got, k, "revoked key")
	_, err = w.db.KeyByHash(w.ctx(), [32]byte{1})
	w.wantErr(err, hook.ErrNotFound, "KeyByHash")
	w.wantErr(w.db.CreateKey(w.ctx(), w.newKey(hook.ScopeTenantRead, w.id()), w.audit(0, "key.create")),
		hook.ErrNotFound, "CreateKey without its tenant")
}

func keyList(w *world) {
	var ids []hook.ID
	for range 3 {
		ids = append(ids, w.key(hook.ScopeAdmin, 0, time.Time{}).ID)
	}
	tenant := w.tenant()
	own := w.key(hook.ScopeTenantRead, tenant.ID, time.Time{}).ID
	ids = append(ids, own)
	of := hook.ID(0)
	list := func(p store.Page) (out []hook.ID) {
		w.t.Helper()
		got, err := w.db.ListKeys(w.ctx(), of, p)
		w.check(err, "ListKeys")
		for _, k := range got {
			out = append(out, k.ID)
		}
		return out
	}
	w.same(list(store.Page{Limit: 2}), []hook.ID{ids[3], ids[2]}, "first page")
	w.same(list(store.Page{Limit: 2, After: ids[1]}), []hook.ID{ids[0]}, "second page")
	w.same(list(store.Page{Limit: 9, Asc: true}), ids, "oldest first")
	of = tenant.ID
	w.same(list(store.Page{Limit: 9}), []hook.ID{own}, "of a tenant")
	of = w.id()
	w.same(list(store.Page{Limit: 9}), []hook.ID(nil), "of a tenant that is not there")
}

func keyRevoke(w *world) {
	ten := w.tenant()
	a, b := w.key(hook.ScopeAdmin, 0, time.Time{}), w.key(hook.ScopeAdmin, 0, time.Time{})
	w.key(hook.ScopeAdmin, 0, w.now) // expired: no help
	w.key(hook.ScopeAdminRead, 0, time.Time{})
	send := w.key(hook.ScopeTenantSend, ten.ID, time.Time{})

	w.check(w.revoke(a.ID), "RevokeKey")
	w.wantErr(w.revoke(b.ID), hook.ErrLastAdminKey, "RevokeKey of the last admin key")
	got, err := w.db.KeyByHash(w.ctx(), b.Hash)
	w.check(err, "KeyByHash")
	w.same(got, b, "last admin key")
	w.check(w.revoke(send.ID), "RevokeKey of a tenant's key")
	w.wantErr(w.revoke(w.id()), hook.ErrNotFound, "RevokeKey of nothing")

	revoked := w.now
	w.pass(time.Hour)
	w.check(w.revoke(a.ID), "RevokeKey again")
	got, err = w.db.KeyByHash(w.ctx(), a.Hash)
	w.check(err, "KeyByHash")
	w.same(got.RevokedAt, revoked, "revoked at")
}

func keyCount(w *world) {
	w.key(hook.ScopeAdmin, 0, time.Time{})
	w.key(hook.ScopeAdmin, 0, w.now.Add(time.Microsecond))
	w.key(hook.ScopeAdmin, 0, w.now)
	w.key(hook.ScopeAdminRead, 0, time.Time{})
	w.check(w.revoke(w.key(hook.ScopeAdmin, 0, time.Time{}).ID), "RevokeKey")
	n, err := w.db.CountAdminKeys(w.ctx(), w.now)
	w.check(err, "CountAdminKeys")
	w.same(n, 2, "usable admin keys")
}

func keyTouch(w *world) {
	a, b := w.key(hook.ScopeAdmin, 0, time.Time{}), w.key(hook.ScopeAdmin, 0, time.Time{})
	a.LastUsedAt = w.now.Add(time.Minute)
	w.check(w.db.TouchKeys(w.ctx(), map[hook.ID]time.Time{a.ID: a.LastUsedAt, w.id(): w.now}), "TouchKeys")
	w.check(w.db.TouchKeys(w.ctx(), nil), "TouchKeys of nothing")
	for _, want := range []hook.APIKey{a, b} {
		got, err := w.db.KeyByHash(w.ctx(), want.Hash)
		w.check(err, "KeyByHash")
		w.same(got, want, "key")
	}
}
