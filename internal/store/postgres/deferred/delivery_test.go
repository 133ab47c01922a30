package deferred_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
)

var accepted = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// TestOnlyNewDeliveriesAreDeferred: anything that its name cannot tell of needs its
// row at once.
func TestOnlyNewDeliveriesAreDeferred(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*hook.Delivery){
		"due later":      func(d *hook.Delivery) { d.DueAt = accepted.Add(time.Second); d.Progress.RunDueAt = d.DueAt },
		"run due later":  func(d *hook.Delivery) { d.Progress.RunDueAt = accepted.Add(time.Second) },
		"second run":     func(d *hook.Delivery) { d.Progress.Run = 2 },
		"tried":          func(d *hook.Delivery) { d.Attempts = 1 },
		"cancelled":      func(d *hook.Delivery) { d.State = hook.Cancelled },
		"asked for":      func(d *hook.Delivery) { d.Restore = &hook.Restore{} },
		"of a replay":    func(d *hook.Delivery) { d.ReplayID = 1 },
		"with a failure": func(d *hook.Delivery) { d.Progress.BackoffSteps = 1 },
	} {
		d := hook.Delivery{ID: 2, EventID: 1, DueAt: accepted, Progress: hook.Progress{Run: 1, RunDueAt: accepted}}
		if _, ok := deferred.Of(&d, accepted); !ok {
			t.Errorf("a new delivery cannot be deferred")
		}
		change(&d)
		if _, ok := deferred.Of(&d, accepted); ok {
			t.Errorf("%s: is deferred", name)
		}
	}
}

func TestNamesSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := hook.Event{ID: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "event")), TenantID: 7, CreatedAt: accepted}
		want := make([]deferred.Delivery, rapid.IntRange(0, 20).Draw(t, "deliveries"))
		for i := range want {
			want[i] = deferred.Delivery{
				ID: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "id")), Tenant: 7, Event: e.ID,
				Endpoint: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "endpoint")),
				Due:      accepted.Add(-time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "due")) * time.Microsecond),
				Size:     rapid.IntRange(0, 1<<30).Draw(t, "size"),
			}
		}
		got, err := deferred.ParseNames(deferred.AppendNames(nil, &e, want), &e)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(deferred.Delivery{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

// TestNameOf: bytes tell whether an endpoint is named, for ids and numbers as they come.
func TestNameOf(t *testing.T) {
	t.Parallel()
	ids := rapid.Int64Range(int64(hook.IDFloor(accepted)), int64(hook.IDFloor(accepted.AddDate(30, 0, 0))))
	rapid.Check(t, func(t *rapid.T) {
		e := hook.Event{ID: hook.ID(ids.Draw(t, "event")), TenantID: 7, CreatedAt: accepted}
		endpoints := rapid.SliceOfN(ids, 1, 20).Draw(t, "endpoints")
		var named []deferred.Delivery
		for _, endpoint := range endpoints[1:] {
			named = append(named, deferred.Delivery{
				ID: e.ID + hook.ID(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "id")), Endpoint: hook.ID(endpoint),
				Due:  accepted.Add(time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "due")) * time.Microsecond),
				Size: rapid.IntRange(0, 1<<30).Draw(t, "size"),
			})
		}
		names := deferred.AppendNames(nil, &e, named)
		for _, endpoint := range endpoints {
			want := slices.Contains(endpoints[1:], endpoint)
			if got := bytes.Contains(names, deferred.NameOf(hook.ID(endpoint))); got != want {
				t.Fatalf("endpoint %d is named: %v, want %v", endpoint, got, want)
			}
		}
	})
}

func FuzzParseNames(f *testing.F) {
	e := hook.Event{ID: 100, TenantID: 7, CreatedAt: accepted}
	f.Add(deferred.AppendNames(nil, &e, []deferred.Delivery{{ID: 101, Endpoint: 5, Due: accepted, Size: 1024}}))
	f.Add([]byte{0x80})
	f.Add([]byte("\x7f\xf7\xff\xff\x15\xbd\xbd\xbd\xbd\xbd\xbd\xbd\xbd\xf9\x01!")) // due centuries ago
	f.Fuzz(func(t *testing.T, b []byte) {
		named, err := deferred.ParseNames(b, &e)
		if err != nil {
			return
		}
		again, err := deferred.ParseNames(deferred.AppendNames(nil, &e, named), &e)
		if diff := cmp.Diff(named, again, cmpopts.IgnoreUnexported(deferred.Delivery{})); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

// TestScopeHolds: a read of some deliveries makes those visible and no others.
func TestScopeHolds(t *testing.T) {
	t.Parallel()
	all := []deferred.Delivery{
		{ID: 11, Event: 10, Endpoint: 1, Tenant: 7}, {ID: 12, Event: 10, Endpoint: 2, Tenant: 7}, {ID: 21, Event: 20, Endpoint: 1, Tenant: 7},
	}
	for _, c := range []struct {
		scope deferred.Scope
		want  []hook.ID
	}{
		{deferred.Scope{}, []hook.ID{11, 12, 21}},
		{deferred.Scope{Tenant: 7}, []hook.ID{11, 12, 21}},
		{deferred.Scope{Tenant: 8}, nil},
		{deferred.Scope{Endpoint: 1}, []hook.ID{11, 21}},
		{deferred.Scope{Tenant: 7, Endpoint: 2}, []hook.ID{12}},
		{deferred.Scope{Endpoint: 3}, nil},
		{deferred.Scope{Event: 10}, []hook.ID{11, 12}},
		{deferred.Scope{Event: 10, Endpoint: 1}, []hook.ID{11}},
		{deferred.Scope{Event: 30}, nil},
		{deferred.Scope{Delivery: 12}, []hook.ID{12}},
		{deferred.Scope{Tenant: 8, Delivery: 12}, nil},
		{deferred.Scope{Delivery: 13}, nil},
	} {
		var got []hook.ID
		for i := range all {
			if c.scope.Holds(&all[i]) {
				got = append(got, all[i].ID)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v: %s", c.scope, diff)
		}
	}
}

// TestScopeOfFilter: a filter makes new deliveries visible if it may match them,
// and no others.
func TestScopeOfFilter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter store.DeliveryFilter
		want   deferred.Scope
		ok     bool
	}{
		"all":             {store.DeliveryFilter{}, deferred.Scope{}, true},
		"tenant":          {store.DeliveryFilter{Tenant: 7}, deferred.Scope{Tenant: 7}, true},
		"endpoint":        {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1}}, deferred.Scope{Tenant: 7, Endpoint: 1}, true},
		"endpoints":       {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1, 2}}, deferred.Scope{Tenant: 7}, true},
		"delivery":        {store.DeliveryFilter{IDs: []hook.ID{11}}, deferred.Scope{Delivery: 11}, true},
		"event":           {store.DeliveryFilter{Event: 10}, deferred.Scope{Event: 10}, true},
		"pending or dead": {store.DeliveryFilter{States: []hook.DeliveryState{hook.Dead, hook.Pending}}, deferred.Scope{}, true},
		"dead":            {store.DeliveryFilter{States: []hook.DeliveryState{hook.Dead}}, deferred.Scope{}, false},
		"retrying":        {store.DeliveryFilter{Retrying: true}, deferred.Scope{}, false},
		"reasons":         {store.DeliveryFilter{Reasons: []hook.EndReason{1}}, deferred.Scope{}, false},
	} {
		if got, ok := deferred.ScopeOf(&c.filter); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, ok, c.want, c.ok)
		}
	}
}
