package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var answerTests = []test{
	{"a claim is stored with its change, and its answer after it", answerKept},
	{"a key that is claimed undoes the change of another request", answerRepeated},
	{"of many requests under one key at once, one is carried out", answerRace},
	{"expired answers are forgotten, and those of a tenant leave with it", answerForgotten},
}

func (w *world) claim(tenant hook.ID, key string) hook.Audit {
	a := w.audit(tenant, "tenant.create")
	a.Claim = &hook.Claim{TenantID: tenant, Route: "POST /x", Key: key, Hash: [32]byte{1, 255}, Token: w.id(), ExpiresAt: w.now.Add(24 * time.Hour)}
	return a
}

func (w *world) answer(tenant hook.ID, key string) (store.KeptAnswer, error) {
	return w.db.AnswerOf(w.ctx(), tenant, "POST /x", key, w.now)
}

func answerKept(w *world) {
	ten := w.tenant()
	a := w.claim(ten.ID, "k")
	w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
	got, err := w.answer(ten.ID, "k")
	w.check(err, "AnswerOf")
	w.same(got, store.KeptAnswer{Claim: *a.Claim, Subject: a.Subject}, "claim")
	w.check(w.db.KeepAnswer(w.ctx(), *a.Claim, []byte{9, 0}), "KeepAnswer")
	got, err = w.answer(ten.ID, "k")
	w.check(err, "AnswerOf")
	w.same(got, store.KeptAnswer{Claim: *a.Claim, Subject: a.Subject, Sealed: []byte{9, 0}}, "claim with its answer")
	for _, other := range []struct {
		tenant hook.ID
		key    string
	}{{0, "k"}, {ten.ID, "K"}} {
		_, err := w.answer(other.tenant, other.key)
		w.wantErr(err, hook.ErrNotFound, "AnswerOf another key")
	}
	stranger := *a.Claim
	stranger.Token = w.id()
	w.check(w.db.KeepAnswer(w.ctx(), stranger, []byte{7}), "KeepAnswer of another request")
	got, err = w.answer(ten.ID, "k")
	w.check(err, "AnswerOf")
	w.same(got.Sealed, []byte{9, 0}, "answer")
}

func answerRepeated(w *world) {
	a := w.claim(0, "k")
	w.check(w.db.WriteAudit(w.ctx(), a), "WriteAudit")
	again := w.audit(0, "tenant.create")
	again.Claim = a.Claim
	w.check(w.db.WriteAudit(w.ctx(), again), "a second change of the same request")
	ten := hook.Tenant{ID: w.id(), UID: "second", Name: "second", Policy: []byte(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: w.now, UpdatedAt: w.now}
	w.wantErr(w.db.CreateTenant(w.ctx(), ten, w.claim(0, "k")), hook.ErrRepeated, "CreateTenant under a claimed key")
	_, err := w.db.TenantByID(w.ctx(), ten.ID)
	w.wantErr(err, hook.ErrNotFound, "the tenant of the refused request")
	w.pass(24 * time.Hour)
	w.check(w.db.CreateTenant(w.ctx(), ten, w.claim(0, "k")), "CreateTenant under an expired key")
}

func answerRace(w *world) {
	const n = 8
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		ten := hook.Tenant{ID: w.id(), Name: "racer", Policy: []byte(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: w.now, UpdatedAt: w.now}
		a := w.claim(0, "k")
		all.Go(func() { errs[i] = w.db.CreateTenant(w.ctx(), ten, a) })
	}
	all.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else if !errors.Is(err, hook.ErrRepeated) {
			w.t.Errorf("CreateTenant = %v", err)
		}
	}
	list, err := w.db.ListTenants(w.ctx(), "racer", store.Page{Limit: n})
	w.check(err, "ListTenants")
	if done != 1 || len(list) != 1 {
		w.t.Errorf("%d carried out, %d stored, want one", done, len(list))
	}
}

func answerForgotten(w *world) {
	ten := w.tenant()
	for tenant, key := range map[hook.ID]string{0: "old", ten.ID: "old"} {
		w.check(w.db.WriteAudit(w.ctx(), w.claim(tenant, key)), "WriteAudit")
	}
	w.pass(time.Hour)
	w.check(w.db.WriteAudit(w.ctx(), w.claim(0, "young")), "WriteAudit")
	w.check(w.db.WriteAudit(w.ctx(), w.claim(ten.ID, "young")), "WriteAudit")
	now := w.now.Add(23 * time.Hour)
	_, err := w.db.Prune(w.ctx(), store.PruneStep{Now: now, Before: w.now.Add(-time.Hour), Limit: 100})
	w.check(err, "Prune")
	for _, tenant := range []hook.ID{0, ten.ID} {
		_, err := w.answer(tenant, "old")
		w.wantErr(err, hook.ErrNotFound, "AnswerOf what has expired")
		_, err = w.answer(tenant, "young")
		w.check(err, "AnswerOf what has not")
	}
	w.check(w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(ten.ID, "tenant.delete")), "DeleteTenant")
	_, err = w.answer(ten.ID, "young")
	w.wantErr(err, hook.ErrNotFound, "AnswerOf a tenant that is gone")
}
