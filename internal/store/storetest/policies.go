package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var policyTests = []test{
	{"a named policy comes back as it went in", policyRoundTrip},
	{"a name is taken once, and there is a bound", policyNames},
	{"tenants and endpoints carry what their named policy says", policyCarried},
	{"a change needs the current version and reaches all who use it", policyUpdate},
	{"only a policy that nobody uses is deleted", policyDelete},
	{"users are told apart by what they say", policyUsers},
	{"deleting a policy and beginning to use it exclude each other", policyRace},
}

func (w *world) policy(name, body string) hook.NamedPolicy {
	w.t.Helper()
	p := hook.NamedPolicy{
		ID: w.id(), Name: name, Description: "of " + name, Policy: json.RawMessage(body), Version: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}
	w.check(w.db.CreatePolicy(w.ctx(), p, 100, w.audit(0, "policy.create")), "CreatePolicy")
	return p
}

// useGold makes a tenant refer to the policy gold.
func (w *world) useGold(ten *hook.Tenant) {
	w.t.Helper()
	ten.PolicyName, ten.Policy = "gold", json.RawMessage(`{"preset":"gold"}`)
	stored, err := w.db.UpdateTenant(w.ctx(), *ten, w.audit(ten.ID, "tenant.update"))
	w.check(err, "UpdateTenant")
	*ten = stored
}

func (w *world) endpointUsing(ten hook.Tenant, name, doc string) hook.Endpoint {
	w.t.Helper()
	e := w.newEndpoint(ten)
	e.PolicyName, e.Policy = name, json.RawMessage(doc)
	w.check(w.db.CreateEndpoint(w.ctx(), e, nil, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
	return e
}

func policyRoundTrip(w *world) {
	gold, silver := w.policy("gold", `{"preset":"full-5"}`), w.policy("silver-2", `{}`)
	got, err := w.db.PolicyByName(w.ctx(), "gold")
	w.check(err, "PolicyByName")
	w.same(got, gold, "policy")
	_, err = w.db.PolicyByName(w.ctx(), "bronze")
	w.wantErr(err, hook.ErrNotFound, "PolicyByName")
	list, err := w.db.ListPolicies(w.ctx(), store.Page{Limit: 1})
	w.check(err, "ListPolicies")
	w.same(list, []hook.NamedPolicy{silver}, "newest policy")
	list, err = w.db.ListPolicies(w.ctx(), store.Page{Limit: 5, After: silver.ID})
	w.check(err, "ListPolicies")
	w.same(list, []hook.NamedPolicy{gold}, "second page")
}

func policyNames(w *world) {
	p := w.policy("gold", `{}`)
	p.ID = w.id()
	w.wantErr(w.db.CreatePolicy(w.ctx(), p, 100, w.audit(0, "policy.create")), hook.ErrUIDTaken, "CreatePolicy under a taken name")
	p.Name = "silver"
	w.wantErr(w.db.CreatePolicy(w.ctx(), p, 1, w.audit(0, "policy.create")), hook.ErrTooManyPolicies, "CreatePolicy above the bound")
}

func policyCarried(w *world) {
	gold, silver := w.policy("gold", `{"preset":"full-5"}`), w.policy("silver", `{"concurrency":3}`)
	ten := w.tenant()
	w.useGold(&ten)
	e := w.endpointUsing(ten, "silver", `{"preset":"silver"}`)
	plain := w.endpoint(ten)

	w.same(compact(ten.NamedPolicy), compact(gold.Policy), "answer of the update")
	read, err := w.db.TenantByID(w.ctx(), ten.ID)
	w.check(err, "TenantByID")
	w.same(read.Level(), ten.Level(), "level of the tenant")
	want := e
	want.NamedPolicy = silver.Policy
	all, _, err := w.db.EndpointsOf(w.ctx(), ten.ID)
	w.check(err, "EndpointsOf")
	w.same(all, []hook.Endpoint{want, plain}, "endpoints of the tenant")
	dest, err := w.db.Destinations(w.ctx(), []hook.ID{e.ID})
	w.check(err, "Destinations")
	if len(dest) != 1 {
		w.t.Fatalf("%d destinations", len(dest))
	}
	w.same(dest[0].Endpoint, want, "endpoint of the destination")
	w.same(dest[0].TenantLevel, ten.Level(), "level of its tenant")

	want.Policy, want.PolicyName = json.RawMessage(`{}`), ""
	stored, err := w.db.UpdateEndpoint(w.ctx(), want, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	if stored.PolicyName != "" || stored.NamedPolicy != nil {
		w.t.Errorf("an endpoint that lets its policy go = %q %s", stored.PolicyName, stored.NamedPolicy)
	}
	for _, err := range []error{
		w.db.CreateEndpoint(w.ctx(), named(w.newEndpoint(ten), "bronze"), nil, 0, w.audit(ten.ID, "endpoint.create")),
		second(w.db.UpdateEndpoint(w.ctx(), named(stored, "bronze"), w.audit(ten.ID, "endpoint.update"))),
	} {
		w.wantErr(err, hook.ErrPolicyUnknown, "an endpoint with a policy that does not exist")
	}
	ten.PolicyName = "bronze"
	_, err = w.db.UpdateTenant(w.ctx(), ten, w.audit(ten.ID, "tenant.update"))
	w.wantErr(err, hook.ErrPolicyUnknown, "a tenant with a policy that does not exist")
}

func named(e hook.Endpoint, policy string) hook.Endpoint {
	e.PolicyName = policy
	return e
}

func second[T any](_ T, err error) error { return err }

func policyUpdate(w *world) {
	gold := w.policy("gold", `{"preset":"full-5"}`)
	direct, through, none := w.tenant(), w.tenant(), w.tenant()
	w.useGold(&direct)
	w.endpointUsing(through, "gold", `{"preset":"gold"}`)
	w.endpointUsing(through, "gold", `{"preset":"gold"}`)
	gone := w.endpointUsing(none, "gold", `{"preset":"gold"}`)
	_, err := w.db.DeleteEndpoint(w.ctx(), none.ID, gone.ID, w.now, w.audit(none.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	before := map[hook.ID]int64{}
	for _, t := range []hook.Tenant{direct, through, none} {
		before[t.ID] = w.configRev(t.ID)
	}

	w.pass(time.Minute)
	change := gold
	change.Description, change.Policy, change.UpdatedAt = "", json.RawMessage(`{"concurrency":7}`), w.now
	stored, tenants, err := w.db.UpdatePolicy(w.ctx(), change, w.audit(0, "policy.change"))
	w.check(err, "UpdatePolicy")
	want := change
	want.Version, want.Tenants, want.Endpoints = 2, 1, 2
	w.same(stored, want, "changed policy")
	told := map[hook.ID]bool{}
	for _, id := range tenants {
		told[id] = true
	}
	w.same(told, map[hook.ID]bool{direct.ID: true, through.ID: true}, "tenants that are told")
	for id, rev := range before {
		if told[id] {
			rev++
		}
		w.same(w.configRev(id), rev, "ConfigRev of "+hook.TenantPrefix.Format(id))
	}
	read, err := w.db.TenantByID(w.ctx(), direct.ID)
	w.check(err, "TenantByID")
	w.same(compact(read.NamedPolicy), compact(change.Policy), "what the tenant's policy says")

	_, _, err = w.db.UpdatePolicy(w.ctx(), change, w.audit(0, "policy.change"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdatePolicy of an old version")
	change.Name = "bronze"
	_, _, err = w.db.UpdatePolicy(w.ctx(), change, w.audit(0, "policy.change"))
	w.wantErr(err, hook.ErrNotFound, "UpdatePolicy of none")
}

func policyDelete(w *world) {
	w.policy("gold", `{}`)
	ten := w.tenant()
	w.useGold(&ten)
	e := w.endpointUsing(ten, "gold", `{"preset":"gold"}`)
	p, err := w.db.DeletePolicy(w.ctx(), "gold", w.audit(0, "policy.delete"))
	w.wantErr(err, hook.ErrStateConflict, "DeletePolicy in use")
	w.same([]int64{p.Tenants, p.Endpoints}, []int64{1, 1}, "users")
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	ten, err = w.db.TenantByID(w.ctx(), ten.ID)
	w.check(err, "TenantByID")
	ten.SetLevel(hook.PolicyLevel{JSON: json.RawMessage(`{}`)})
	_, err = w.db.UpdateTenant(w.ctx(), ten, w.audit(ten.ID, "tenant.update"))
	w.check(err, "UpdateTenant")
	_, err = w.db.DeletePolicy(w.ctx(), "gold", w.audit(0, "policy.delete"))
	w.check(err, "DeletePolicy")
	_, err = w.db.DeletePolicy(w.ctx(), "gold", w.audit(0, "policy.delete"))
	w.wantErr(err, hook.ErrNotFound, "DeletePolicy again")
}

func policyUsers(w *world) {
	gold, silver := w.policy("gold", `{"preset":"full-5"}`), w.policy("silver", `{"concurrency":3}`)
	one, two := w.tenant(), w.tenant()
	w.useGold(&one)
	through := w.endpointUsing(one, "silver", `{"preset":"silver"}`)
	w.endpointUsing(one, "silver", `{"preset":"silver"}`) // says the same
	direct := w.endpointUsing(two, "gold", `{"preset":"gold"}`)
	w.endpoint(two)
	tenants, endpoints, err := w.db.PolicyUsers(w.ctx(), "gold")
	w.check(err, "PolicyUsers")
	empty := json.RawMessage(`{}`)
	start := func(p hook.NamedPolicy) hook.PolicyLevel {
		return hook.PolicyLevel{JSON: json.RawMessage(`{"preset":"` + p.Name + `"}`), Name: p.Name, Named: p.Policy}
	}
	w.same(tenants, []store.PolicyUser{{ID: one.ID, Tenant: start(gold), Endpoint: hook.PolicyLevel{JSON: empty}}}, "tenants")
	w.same(endpoints, []store.PolicyUser{
		{ID: through.ID, Tenant: start(gold), Endpoint: start(silver)},
		{ID: direct.ID, Tenant: hook.PolicyLevel{JSON: two.Policy}, Endpoint: start(gold)},
	}, "endpoints")
}

func policyRace(w *world) {
	ten := w.tenant()
	for i := range 10 {
		name := fmt.Sprintf("p-%d", i)
		w.policy(name, `{}`)
		e := named(w.newEndpoint(ten), name)
		var used, deleted error
		var both sync.WaitGroup
		created, removed := w.audit(ten.ID, "endpoint.create"), w.audit(0, "policy.delete")
		both.Go(func() { used = w.db.CreateEndpoint(w.ctx(), e, nil, 0, created) })
		both.Go(func() { _, deleted = w.db.DeletePolicy(w.ctx(), name, removed) })
		both.Wait()
		switch {
		case used == nil && errors.Is(deleted, hook.ErrStateConflict):
		case deleted == nil && errors.Is(used, hook.ErrPolicyUnknown):
		default:
			w.t.Errorf("round %d: beginning to use it = %v, deleting it = %v", i, used, deleted)
		}
	}
}
