package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// into decodes an answer.
func (r reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		t.Fatalf("%v\n%s", err, r.body)
	}
}

// die makes n dead letters of an endpoint.
func (w *world) die(s side, n int, reason hook.EndReason) {
	w.t.Helper()
	for range n {
		w.event(s, "order.paid")
		rows := w.deliveries(s)
		w.settle(rows[len(rows)-1], hook.Dead, reason)
	}
}

func TestDeadLettersAreGrouped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.endpoint(w.a, nil), w.endpoint(w.b, nil)
	w.die(w.a, 3, hook.DeadExhausted)
	first := w.clock.now()
	w.clock.pass(time.Hour)
	w.die(w.a, 2, hook.DeadPermanent)
	w.die(w.b, 4, hook.DeadExhausted)
	w.event(w.a, "order.paid")
	read := func(path, key string) (g view.DeadGroups) {
		t.Helper()
		w.must(http.StatusOK, http.MethodGet, path, key, nil).into(t, &g)
		return g
	}
	got := read("/v1/tenants/acme/dead-letters/groups", w.a.read)
	if len(got.Data) != 2 || got.Count != 5 || !got.Exact || got.Truncated {
		t.Fatalf("groups %+v", got)
	}
	g := got.Data[0]
	if g.Endpoint != mine || g.Tenant != w.a.id || g.Reason != "exhausted" || g.StatusCode == nil || *g.StatusCode != 500 || g.Count != 3 ||
		time.Time(g.Oldest).Sub(first).Abs() > time.Millisecond || !time.Time(g.Newest).Equal(time.Time(g.Oldest)) {
		t.Errorf("group %+v", g)
	}
	w.must(http.StatusOK, http.MethodGet, "/v1/tenants/acme/deliveries/"+g.Sample, w.a.read, nil)
	if all := read("/v1/tenants/-/dead-letters/groups", w.adminRead); len(all.Data) != 3 || all.Count != 9 || all.Data[0].Endpoint != theirs {
		t.Errorf("of all tenants: %+v", all)
	}
	if own := read("/v1/tenants/-/dead-letters/groups", w.a.read); diffGroups(got, own) != "" {
		t.Errorf("of the key's own tenant: %s", diffGroups(got, own))
	}
	if one := read("/v1/tenants/acme/dead-letters/groups?reason=permanent", w.a.read); len(one.Data) != 1 || one.Data[0].Count != 2 {
		t.Errorf("of one reason: %+v", one)
	}
	if none := read("/v1/tenants/acme/dead-letters/groups?endpoint="+theirs, w.a.read); len(none.Data) != 0 || none.Count != 0 {
		t.Errorf("of a foreign endpoint: %+v", none)
	}
	w.look = 4
	if some := read("/v1/tenants/acme/dead-letters/groups", w.a.read); some.Exact || some.Count != 4 {
		t.Errorf("of more than are looked at: %+v, want 4 at least", some)
	}
}

func diffGroups(a, b view.DeadGroups) string {
	text := func(g view.DeadGroups) string {
		return fmt.Sprintf("%+v", g.Count) + g.Data[0].Sample + g.Data[1].Sample
	}
	return cmp.Diff(text(a), text(b))
}

func TestDeadLettersAreDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.endpoint(w.a, map[string]any{"uid": "main"})
	w.endpoint(w.b, nil)
	w.die(w.a, 40, hook.DeadExhausted)
	w.die(w.b, 2, hook.DeadExhausted)
	w.clock.pass(time.Minute)
	w.die(w.a, 2, hook.DeadPermanent)
	w.event(w.a, "order.paid")
	const path = "/v1/tenants/acme/dead-letters/discard"
	changed := w.watch()
	for _, expect := range []int{0, 37, 43} { // 40 are 5 % of 42 away, 39 and 43 are more
		p := w.must(http.StatusConflict, http.MethodPost, path, w.a.write, fmt.Sprintf(`{"reasons":["exhausted"],"expect_count":%d}`, expect)).problem(t)
		if p.Code != "state_conflict" || p.Current != "40" {
			t.Errorf("expected %d: %+v", expect, p)
		}
	}
	if changed() {
		t.Error("a refused discard changed something")
	}
	discard := func(body string) (d view.Discarded) {
		t.Helper()
		w.must(http.StatusOK, http.MethodPost, path, w.a.write, body).into(t, &d)
		return d
	}
	if got := discard(`{"endpoint":"main","reasons":["exhausted"],"expect_count":42,"note":"gone for good"}`); got.Discarded != 40 || !got.Complete {
		t.Errorf("discarded %+v, want 40", got)
	}
	states := map[string]int{}
	for _, row := range w.deliveries(w.a) {
		states[row.State.String()+" "+row.Reason.String()]++
	}
	if want := map[string]int{"cancelled user": 40, "dead permanent": 2, "pending ": 1}; cmp.Diff(want, states) != "" {
		t.Errorf("deliveries (-want +got):\n%s", cmp.Diff(want, states))
	}
	if n := len(w.deliveries(w.b)); n != 2 || w.deliveries(w.b)[0].State != hook.Dead {
		t.Error("another tenant's dead letters changed")
	}
	rec := w.lastAudit()
	if rec.Action != "dead_letters.discard" || rec.TenantID != w.a.tenant || rec.Subject != w.a.id {
		t.Errorf("record %+v", rec)
	}
	var diff struct {
		Count  int
		Note   string
		Filter struct{ Endpoint string }
	}
	w.ok(json.Unmarshal(rec.Diff, &diff))
	if diff.Count != 40 || diff.Note != "gone for good" || diff.Filter.Endpoint != e {
		t.Errorf("record tells %s", rec.Diff)
	}
	sample := hook.DeliveryPrefix.Format(w.deliveries(w.a)[40].ID)
	if got := discard(`{"delivery_ids":["` + sample + `"],"expect_count":1}`); got.Discarded != 1 {
		t.Errorf("discarded %+v of one by id", got)
	}
	if got := discard(`{"all":true,"expect_count":1}`); got.Discarded != 1 {
		t.Errorf("discarded %+v of all", got)
	}
	if got := discard(`{"all":true,"expect_count":0}`); got.Discarded != 0 || !got.Complete {
		t.Errorf("discarded %+v of nothing", got)
	}
}
