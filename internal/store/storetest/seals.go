package storetest

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var sealTests = []test{
	{"all that is sealed is found, in pages", sealedValuesFound},
	{"a value is sealed anew unless somebody has changed it", sealedAnew},
	{"a setting is replaced by whoever knows what it was", settingReplaced},
	{"nodes note their keys, and those of nodes that are gone are forgotten", keysNoted},
}

// sealed fills the store with values of every kind, two each, of which one belongs
// to an endpoint that is deleted.
func (w *world) sealed() map[store.SealedKind][]store.SealedValue {
	w.t.Helper()
	ten := w.tenant()
	all := map[store.SealedKind][]store.SealedValue{}
	add := func(kind store.SealedKind, id, owner hook.ID, value []byte) {
		all[kind] = append(all[kind], store.SealedValue{Kind: kind, ID: id, Tenant: ten.ID, Owner: owner, Sealed: value})
	}
	for i := range byte(2) {
		e := w.newEndpoint(ten)
		e.HeadersSealed = []byte{'h', i}
		s := hook.Secret{ID: w.id(), TenantID: ten.ID, EndpointID: e.ID, Scheme: hook.SchemeStandard, KeyID: "old", Sealed: []byte{'s', i}, CreatedAt: w.now}
		w.check(w.db.CreateEndpoint(w.ctx(), e, []hook.Secret{s}, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
		add(store.SealedHeaders, e.ID, e.ID, e.HeadersSealed)
		add(store.SealedSecret, s.ID, e.ID, s.Sealed)
		if i == 1 {
			_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
			w.check(err, "DeleteEndpoint")
		}
		c := w.channel(ten.ID)
		add(store.SealedChannel, c.ID, c.ID, c.Sealed)
		a := w.claim(ten.ID, string('k'+rune(i)))
		w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
		w.check(w.db.KeepAnswer(w.ctx(), *a.Claim, []byte{'a', i}), "KeepAnswer")
		add(store.SealedAnswer, a.Claim.Token, a.Claim.Token, []byte{'a', i})
	}
	w.check(w.db.WriteAudit(w.ctx(), w.claim(ten.ID, "not answered yet")), "WriteAudit")
	w.endpoint(ten) // without headers
	return all
}

func (w *world) sealedAfter(kind store.SealedKind, after hook.ID, limit int) []store.SealedValue {
	w.t.Helper()
	got, err := w.db.SealedAfter(w.ctx(), kind, after, limit)
	w.check(err, "SealedAfter")
	return got
}

func sealedValuesFound(w *world) {
	want := w.sealed()
	for _, kind := range store.SealedKinds() {
		w.same(w.sealedAfter(kind, 0, 10), want[kind], "all values")
		w.same(w.sealedAfter(kind, 0, 1), want[kind][:1], "the first page")
		w.same(w.sealedAfter(kind, want[kind][0].ID, 1), want[kind][1:], "the second page")
		w.same(w.sealedAfter(kind, want[kind][1].ID, 1), []store.SealedValue{}, "the page behind the last one")
	}
}

func sealedAnew(w *world) {
	before := w.sealed()
	for _, kind := range store.SealedKinds() {
		known, stale := before[kind][0], before[kind][1]
		stale.Sealed = []byte("what it was long ago")
		n, err := w.db.Reseal(w.ctx(), kind, []store.Resealed{
			{SealedValue: known, KeyID: "new", Anew: []byte("anew")}, {SealedValue: stale, KeyID: "new", Anew: []byte("lost")},
		})
		w.check(err, "Reseal")
		w.same(n, int64(1), "values stored")
		want := append([]store.SealedValue{}, before[kind]...)
		want[0].Sealed = []byte("anew")
		w.same(w.sealedAfter(kind, 0, 10), want, "values")
	}
	secrets, err := w.db.SecretsOf(w.ctx(), before[store.SealedSecret][0].Owner)
	w.check(err, "SecretsOf")
	w.same(secrets[0].KeyID, "new", "key of a secret")
}

func settingReplaced(w *world) {
	a := func() hook.Audit { return w.audit(0, "encryption.rekey") }
	w.check(w.db.ReplaceSetting(w.ctx(), "key", "", "one", a()), "ReplaceSetting of nothing")
	w.wantErr(w.db.ReplaceSetting(w.ctx(), "key", "", "other", a()), hook.ErrVersionMismatch, "ReplaceSetting of nothing where there is something")
	w.wantErr(w.db.ReplaceSetting(w.ctx(), "key", "other", "two", a()), hook.ErrVersionMismatch, "ReplaceSetting of something else")
	w.check(w.db.ReplaceSetting(w.ctx(), "key", "one", "two", a()), "ReplaceSetting")
	for name, want := range map[string]string{"key": "two", "lock": ""} {
		got, err := w.db.Setting(w.ctx(), name)
		w.check(err, "Setting")
		w.same(got, want, "setting "+name)
	}
	w.same(len(w.audits()), 2, "audit records")
}

func keysNoted(w *world) {
	w.check(w.db.NoteKeys(w.ctx(), w.node.ID, "a"), "NoteKeys")
	w.check(w.db.NoteKeys(w.ctx(), w.node.ID, "b,a"), "NoteKeys")
	w.check(w.db.NoteKeys(w.ctx(), 42, "of a node that nobody knows"), "NoteKeys")
	other := w.join("node-b")
	w.check(w.db.NoteKeys(w.ctx(), other.ID, "c"), "NoteKeys")
	for id, want := range map[hook.ID]string{w.node.ID: "b,a", other.ID: "c", 42: ""} {
		got, err := w.db.KeysOf(w.ctx(), id)
		w.check(err, "KeysOf")
		w.same(got, want, "keys")
	}
}
