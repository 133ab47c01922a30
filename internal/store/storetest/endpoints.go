package storetest

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var endpointTests = []test{
	{"an endpoint comes back as it went in", endpointRoundTrip},
	{"a uid is taken once in its tenant", endpointUID},
	{"another tenant's endpoint is not found", endpointForeign},
	{"an update needs the current version", endpointUpdate},
	{"every change moves the tenant's configuration on", endpointConfigRev},
	{"lists are paged and leave deleted ones out", endpointList},
	{"deleting cancels what is pending", endpointDelete},
	{"a deleted endpoint gives its uid back", endpointDeleteUID},
	{"errors of a filter are counted until it changes", endpointFilterErrors},
	{"a tenant has no more endpoints than it may, created one by one", endpointLimit},
	{"a tenant has no more endpoints than it may, created at once", endpointLimitAtOnce},
}

var secretTests = []test{
	{"rotation ends the older secrets of its scheme", secretRotation},
	{"rotation does not lengthen a life", secretRotationKeepsExpiry},
	{"too many active secrets are refused", secretTooMany},
	{"a secret needs its endpoint", secretUnknown},
}

func endpointRoundTrip(w *world) {
	ten := w.tenant()
	e := hook.Endpoint{
		ID: w.id(), TenantID: ten.ID, UID: "orders", URL: "https://example.test/a?b=c", Description: "d “x”",
		Types: []string{"order.*", "refund.made"}, HeadersSealed: []byte{0, 1, 2},
		Policy:     json.RawMessage(`{"preset":"quick"}`),
		Signatures: []hook.Signature{{Scheme: hook.SchemeStandardEd25519}, {Scheme: hook.SchemeStripe, Header: "X-Sig"}},
		Filter:     `payload.total > 100 && type != "ä"`,
		Body:       hook.BodyEnvelope, TraceContext: hook.TraceForward, Metadata: map[string]string{"team": "a"},
		State: hook.Paused, StateReason: "manual", Rev: 1,
		ProbeWantedAt: w.now.Add(1 * time.Second), ResetWantedAt: w.now.Add(2 * time.Second),
		CreatedAt: w.now, UpdatedAt: w.now.Add(time.Microsecond),
	}
	s := w.secret(e)
	s.ExpiresAt = w.now.Add(time.Hour)
	w.check(w.db.CreateEndpoint(w.ctx(), e, []hook.Secret{s}, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
	got, err := w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
	w.check(err, "EndpointByID")
	w.same(got, e, "endpoint")
	got, err = w.db.EndpointByUID(w.ctx(), ten.ID, "orders")
	w.check(err, "EndpointByUID")
	w.same(got, e, "endpoint by uid")
	secrets, err := w.db.SecretsOf(w.ctx(), e.ID)
	w.check(err, "SecretsOf")
	w.same(secrets, []hook.Secret{s}, "secrets")

	bare := w.endpoint(ten)
	got, err = w.db.EndpointByID(w.ctx(), 0, bare.ID)
	w.check(err, "EndpointByID of any tenant")
	w.same(got, bare, "endpoint with empty fields")
}

func endpointUID(w *world) {
	a, b := w.tenant(), w.tenant()
	create := func(ten hook.Tenant, uid string) error {
		e := w.newEndpoint(ten)
		e.UID = uid
		return w.db.CreateEndpoint(w.ctx(), e, nil, 0, w.audit(ten.ID, "endpoint.create"))
	}
	w.check(create(a, "x"), "CreateEndpoint")
	w.wantErr(create(a, "x"), hook.ErrUIDTaken, "CreateEndpoint under a taken uid")
	w.check(create(b, "x"), "CreateEndpoint of another tenant")
	other := w.endpoint(a)
	other.UID = "x"
	_, err := w.db.UpdateEndpoint(w.ctx(), other, w.audit(a.ID, "endpoint.update"))
	w.wantErr(err, hook.ErrUIDTaken, "UpdateEndpoint to a taken uid")
	_, err = w.db.EndpointByUID(w.ctx(), a.ID, "")
	w.wantErr(err, hook.ErrNotFound, "EndpointByUID of the empty uid")
}

func endpointForeign(w *world) {
	ten, other := w.tenant(), w.tenant()
	e := w.endpoint(ten)
	_, err := w.db.EndpointByID(w.ctx(), other.ID, e.ID)
	w.wantErr(err, hook.ErrNotFound, "EndpointByID")
	stolen := e
	stolen.TenantID = other.ID
	_, err = w.db.UpdateEndpoint(w.ctx(), stolen, w.audit(other.ID, "endpoint.update"))
	w.wantErr(err, hook.ErrNotFound, "UpdateEndpoint")
	_, err = w.db.DeleteEndpoint(w.ctx(), other.ID, e.ID, w.now, w.audit(other.ID, "endpoint.delete"))
	w.wantErr(err, hook.ErrNotFound, "DeleteEndpoint")
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, w.id(), w.now, w.audit(ten.ID, "endpoint.delete"))
	w.wantErr(err, hook.ErrNotFound, "DeleteEndpoint of nothing")
	lost := w.newEndpoint(hook.Tenant{ID: w.id()})
	w.wantErr(w.db.CreateEndpoint(w.ctx(), lost, nil, 0, w.audit(0, "endpoint.create")), hook.ErrNotFound, "CreateEndpoint without a tenant")
}

func endpointUpdate(w *world) {
	ten := w.tenant()
	e := w.endpoint(ten)
	change := e
	change.UID, change.URL, change.Description = "u", "https://example.test/new", "new"
	change.Types, change.HeadersSealed = []string{"a.b"}, []byte{9}
	change.Policy = json.RawMessage(`{"a":[1]}`)
	change.Signatures = []hook.Signature{{Scheme: hook.SchemeStripe, Header: "X"}}
	change.Body, change.Metadata = hook.BodyEnvelope, map[string]string{"k": "v"}
	change.TraceContext, change.Filter = hook.TraceForward, "payload.total > 1"
	change.State, change.StateReason = hook.Disabled, "gone"
	change.ProbeWantedAt, change.ResetWantedAt = w.now, w.now.Add(time.Second)
	change.UpdatedAt = w.now.Add(time.Hour)
	got, err := w.db.UpdateEndpoint(w.ctx(), change, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	want := change
	want.Rev++
	w.same(got, want, "answer of the update")
	read, err := w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
	w.check(err, "EndpointByID")
	w.same(read, want, "endpoint after the update")
	_, err = w.db.UpdateEndpoint(w.ctx(), change, w.audit(ten.ID, "endpoint.update"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateEndpoint with the old version")
}

func endpointFilterErrors(w *world) {
	ten := w.tenant()
	e, other := w.newEndpoint(ten), w.endpoint(ten)
	e.Filter = "payload.a > 1"
	w.check(w.db.CreateEndpoint(w.ctx(), e, nil, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
	rev := w.configRev(ten.ID)
	failure := func(filter string, n int64, last string) store.FilterFailure {
		return store.FilterFailure{Filter: filter, FilterErrors: hook.FilterErrors{Count: n, Last: last, At: w.now}}
	}
	add := func(f store.FilterFailure) hook.Endpoint {
		w.t.Helper()
		w.check(w.db.AddFilterErrors(w.ctx(), map[hook.ID]store.FilterFailure{e.ID: f, w.id(): f}), "AddFilterErrors")
		got, err := w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
		w.check(err, "EndpointByID")
		return got
	}
	w.check(w.db.AddFilterErrors(w.ctx(), nil), "AddFilterErrors of none")
	add(failure(e.Filter, 2, "first"))
	w.pass(time.Minute)
	want := e
	want.FilterErrors = hook.FilterErrors{Count: 5, Last: "second", At: w.now}
	w.same(add(failure(e.Filter, 3, "second")), want, "endpoint after five errors")
	w.same(add(failure("another filter", 3, "third")), want, "endpoint after errors of another filter")
	w.same(w.configRev(ten.ID), rev, "revision of the configuration")

	change := want
	change.Description, change.FilterErrors = "other", hook.FilterErrors{}
	got, err := w.db.UpdateEndpoint(w.ctx(), change, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	w.same(got.FilterErrors, want.FilterErrors, "errors after another change")
	got.Filter = "payload.a > 2"
	got, err = w.db.UpdateEndpoint(w.ctx(), got, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	w.same(got.FilterErrors, hook.FilterErrors{}, "errors of a new filter")
	got, err = w.db.EndpointByID(w.ctx(), ten.ID, other.ID)
	w.check(err, "EndpointByID")
	w.same(got, other, "another endpoint")
}

func endpointConfigRev(w *world) {
	ten := w.tenant()
	rev := w.configRev(ten.ID)
	moved := func(what string) {
		w.t.Helper()
		now := w.configRev(ten.ID)
		if now <= rev {
			w.t.Errorf("%s: ConfigRev stayed at %d", what, now)
		}
		rev = now
	}
	e := w.endpoint(ten)
	moved("create")
	e, err := w.db.UpdateEndpoint(w.ctx(), e, w.audit(ten.ID, "endpoint.update"))
	w.check(err, "UpdateEndpoint")
	moved("update")
	w.check(w.db.RotateSecret(w.ctx(), w.secret(e), w.now, w.now, w.audit(ten.ID, "endpoint.rotate")), "RotateSecret")
	moved("rotate")
	read, err := w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
	w.check(err, "EndpointByID")
	if read.Rev <= e.Rev {
		w.t.Errorf("rotate: Rev stayed at %d", read.Rev)
	}
	_, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	moved("delete")
}

func endpointList(w *world) {
	ten, other := w.tenant(), w.tenant()
	all := w.endpoints(ten, 4)
	w.endpoint(other)
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, all[1].ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	list := func(p store.Page) (out []hook.ID) {
		w.t.Helper()
		got, err := w.db.ListEndpoints(w.ctx(), ten.ID, p)
		w.check(err, "ListEndpoints")
		for _, e := range got {
			out = append(out, e.ID)
		}
		return out
	}
	w.same(list(store.Page{Limit: 2}), []hook.ID{all[3].ID, all[2].ID}, "first page")
	w.same(list(store.Page{Limit: 2, After: all[2].ID}), []hook.ID{all[0].ID}, "second page")
	w.same(list(store.Page{Limit: 9, Asc: true}), []hook.ID{all[0].ID, all[2].ID, all[3].ID}, "oldest first")

	got, rev, err := w.db.EndpointsOf(w.ctx(), ten.ID)
	w.check(err, "EndpointsOf")
	w.same(rev, w.configRev(ten.ID), "ConfigRev of the endpoints")
	if len(got) != 3 {
		w.t.Errorf("EndpointsOf returned %d, want 3", len(got))
	}
	everybody, err := w.db.ListEndpoints(w.ctx(), 0, store.Page{Limit: 9})
	w.check(err, "ListEndpoints of any tenant")
	if len(everybody) != 4 {
		w.t.Errorf("ListEndpoints of any tenant returned %d, want 4", len(everybody))
	}
	_, _, err = w.db.EndpointsOf(w.ctx(), w.id())
	w.wantErr(err, hook.ErrNotFound, "EndpointsOf an unknown tenant")
}

func endpointLimit(w *world) {
	ten, other := w.tenant(), w.tenant()
	create := func(ten hook.Tenant, most int64) error {
		return w.db.CreateEndpoint(w.ctx(), w.newEndpoint(ten), nil, most, w.audit(ten.ID, "endpoint.create"))
	}
	first := w.endpoint(ten)
	w.endpoint(other)
	w.check(create(ten, 2), "CreateEndpoint below the limit")
	w.wantErr(create(ten, 2), hook.ErrTooManyEndpoints, "CreateEndpoint at the limit")
	w.check(create(other, 2), "CreateEndpoint of another tenant")
	_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, first.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
	w.check(err, "DeleteEndpoint")
	w.check(create(ten, 2), "CreateEndpoint in the place of a deleted one")
	w.wantErr(create(ten, 1), hook.ErrTooManyEndpoints, "CreateEndpoint above a limit that was lowered")
	w.check(create(ten, 0), "CreateEndpoint without a limit")
}

func endpointLimitAtOnce(w *world) {
	const most, tries = 3, 12
	ten := w.tenant()
	w.endpoint(ten)
	begin, results := make(chan struct{}), make(chan error, tries)
	for range tries {
		e, record := w.newEndpoint(ten), w.audit(ten.ID, "endpoint.create")
		go func() {
			<-begin
			results <- w.db.CreateEndpoint(w.ctx(), e, nil, most, record)
		}()
	}
	close(begin)
	created := 0
	for range tries {
		if err := <-results; err == nil {
			created++
		} else {
			w.wantErr(err, hook.ErrTooManyEndpoints, "CreateEndpoint at the same moment as others")
		}
	}
	all, _, err := w.db.EndpointsOf(w.ctx(), ten.ID)
	w.check(err, "EndpointsOf")
	if created != most-1 || len(all) != most {
		w.t.Errorf("%d of %d were created, the tenant has %d endpoints, want %d", created, tries, len(all), most)
	}
}

func endpointDelete(w *world) {
	ten := w.tenant()
	e, other := w.endpoint(ten), w.endpoint(ten)
	const pending = 1203 // more than a chunk or two
	for batch := range slices.Chunk(w.accepts(pending, ten, e), 256) {
		w.store(batch...)
	}
	done := w.stored(ten, e, other)
	w.written(w.success(done.Deliveries[0]))

	a := w.audit(ten.ID, "endpoint.delete")
	n, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, a)
	w.check(err, "DeleteEndpoint")
	w.same(n, int64(pending), "cancelled")
	n, err = w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, a)
	w.check(err, "DeleteEndpoint again")
	w.same(n, int64(0), "cancelled again")

	_, err = w.db.EndpointByID(w.ctx(), ten.ID, e.ID)
	w.wantErr(err, hook.ErrNotFound, "EndpointByID after the deletion")
	_, err = w.db.UpdateEndpoint(w.ctx(), e, w.audit(ten.ID, "endpoint.update"))
	w.wantErr(err, hook.ErrNotFound, "UpdateEndpoint after the deletion")
	rows, _, err := w.db.ListDeliveries(w.ctx(), store.DeliveryFilter{Endpoints: []hook.ID{e.ID}}, store.Page{Limit: 2})
	w.check(err, "ListDeliveries")
	w.same(rows[0].State, hook.Delivered, "state of the delivered one")
	w.same(rows[1].State, hook.Cancelled, "state of a cancelled one")
	w.same(rows[1].Reason, hook.CancelledEndpointDeleted, "reason")
	w.same(rows[1].SettledAt, w.now, "settled at")
	w.same(w.delivery(done.Deliveries[1].ID).State, hook.Pending, "state at the other endpoint")
	w.wantUsage(ten.ID, 1, 7, "after the deletion")
}

func endpointDeleteUID(w *world) {
	ten := w.tenant()
	for range 2 {
		e := w.newEndpoint(ten)
		e.UID = "same"
		w.check(w.db.CreateEndpoint(w.ctx(), e, nil, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
		_, err := w.db.DeleteEndpoint(w.ctx(), ten.ID, e.ID, w.now, w.audit(ten.ID, "endpoint.delete"))
		w.check(err, "DeleteEndpoint")
	}
}

func (w *world) secret(e hook.Endpoint) hook.Secret {
	return hook.Secret{
		ID: w.id(), TenantID: e.TenantID, EndpointID: e.ID, Scheme: hook.SchemeStandard,
		KeyID: "vault-1", Sealed: []byte{1, 0, 255}, CreatedAt: w.now,
	}
}

// rotate adds a secret and ends the older ones after overlap.
func (w *world) rotate(s hook.Secret, overlap time.Duration) error {
	return w.db.RotateSecret(w.ctx(), s, w.now.Add(overlap), w.now, w.audit(s.TenantID, "endpoint.rotate"))
}

func (w *world) expiries(e hook.Endpoint) (out []time.Time) {
	w.t.Helper()
	secrets, err := w.db.SecretsOf(w.ctx(), e.ID)
	w.check(err, "SecretsOf")
	for _, s := range secrets {
		out = append(out, s.ExpiresAt)
	}
	return out
}

func secretRotation(w *world) {
	ten := w.tenant()
	e := w.newEndpoint(ten)
	first, asymmetric := w.secret(e), w.secret(e)
	asymmetric.Scheme = hook.SchemeStandardEd25519
	w.check(w.db.CreateEndpoint(w.ctx(), e, []hook.Secret{first, asymmetric}, 0, w.audit(ten.ID, "endpoint.create")), "CreateEndpoint")
	second := w.secret(e)
	w.check(w.rotate(second, time.Hour), "RotateSecret")

	first.ExpiresAt = w.now.Add(time.Hour)
	got, err := w.db.SecretsOf(w.ctx(), e.ID)
	w.check(err, "SecretsOf")
	w.same(got, []hook.Secret{second, asymmetric, first}, "secrets, newest first")
}

func secretRotationKeepsExpiry(w *world) {
	e := w.endpoint(w.tenant())
	w.check(w.rotate(w.secret(e), 0), "RotateSecret")
	w.check(w.rotate(w.secret(e), time.Minute), "RotateSecret")
	w.check(w.rotate(w.secret(e), time.Hour), "RotateSecret")
	w.same(w.expiries(e), []time.Time{{}, w.now.Add(time.Hour), w.now.Add(time.Minute)}, "expiries, newest first")
}

func secretTooMany(w *world) {
	e := w.endpoint(w.tenant())
	for range hook.MaxActiveSecrets {
		w.check(w.rotate(w.secret(e), time.Hour), "RotateSecret")
	}
	before := w.expiries(e)
	w.wantErr(w.rotate(w.secret(e), time.Minute), hook.ErrTooManySecrets, "RotateSecret above the limit")
	w.same(w.expiries(e), before, "secrets after a refused rotation")
	w.check(w.rotate(w.secret(e), 0), "RotateSecret that ends all others at once")
	w.pass(time.Hour)
	w.check(w.rotate(w.secret(e), time.Hour), "RotateSecret once the others have expired")
}

func secretUnknown(w *world) {
	ten := w.tenant()
	w.wantErr(w.rotate(w.secret(hook.Endpoint{ID: w.id(), TenantID: ten.ID}), 0), hook.ErrNotFound, "RotateSecret")
}
