package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var accepted = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// newTarget returns the target of a new delivery, accepted at now.
func newTarget(t testing.TB, id, event, endpoint hook.ID, now time.Time) store.Target {
	t.Helper()
	target, ok := store.TargetOf(&hook.Delivery{
		ID: id, TenantID: 7, EventID: event, EndpointID: endpoint, DueAt: now, Size: 3, Progress: hook.Progress{Run: 1, RunDueAt: now},
	}, now)
	if !ok {
		t.Fatalf("a new delivery is no target")
	}
	return target
}

// TestOnlyNewDeliveriesAreTargets: anything that a target cannot tell of needs
// its row at once.
func TestOnlyNewDeliveriesAreTargets(t *testing.T) {
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
		if _, ok := store.TargetOf(&d, accepted); !ok {
			t.Errorf("a new delivery is no target")
		}
		change(&d)
		if _, ok := store.TargetOf(&d, accepted); ok {
			t.Errorf("%s: is a target", name)
		}
	}
}

func TestTargetsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := hook.Event{ID: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "event")), TenantID: 7, CreatedAt: accepted}
		want := make([]store.Target, rapid.IntRange(0, 20).Draw(t, "targets"))
		for i := range want {
			want[i] = store.Target{
				ID: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "id")), Tenant: 7, Event: e.ID,
				Endpoint: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "endpoint")),
				Due:      accepted.Add(-time.Duration(rapid.Int64Range(-1e9, 1e9).Draw(t, "due")) * time.Microsecond),
				Size:     rapid.IntRange(0, 1<<30).Draw(t, "size"),
			}
		}
		got, err := store.ParseTargets(store.AppendTargets(nil, &e, want), &e)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(store.Target{}), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func FuzzParseTargets(f *testing.F) {
	e := hook.Event{ID: 100, TenantID: 7, CreatedAt: accepted}
	f.Add(store.AppendTargets(nil, &e, []store.Target{{ID: 101, Endpoint: 5, Due: accepted, Size: 1024}}))
	f.Add([]byte{0x80})
	f.Add([]byte("\x7f\xf7\xff\xff\x15\xbd\xbd\xbd\xbd\xbd\xbd\xbd\xbd\xf9\x01!")) // due centuries ago
	f.Fuzz(func(t *testing.T, b []byte) {
		targets, err := store.ParseTargets(b, &e)
		if err != nil {
			return
		}
		again, err := store.ParseTargets(store.AppendTargets(nil, &e, targets), &e)
		if diff := cmp.Diff(targets, again, cmpopts.IgnoreUnexported(store.Target{})); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
}

func ids(targets []store.Target) (out []hook.ID) {
	for i := range targets {
		out = append(out, targets[i].ID)
	}
	return out
}

func TestUnwrittenLeaveWhenWritten(t *testing.T) {
	t.Parallel()
	u := store.NewUnwritten()
	u.Committed([]store.Target{newTarget(t, 11, 10, 1, accepted), newTarget(t, 12, 10, 2, accepted), newTarget(t, 21, 20, 1, accepted)}, nil)
	for _, c := range []struct {
		scope store.Scope
		want  []hook.ID
	}{
		{store.Scope{}, []hook.ID{11, 12, 21}},
		{store.Scope{Tenant: 7}, []hook.ID{11, 12, 21}},
		{store.Scope{Tenant: 8}, nil},
		{store.Scope{Endpoint: 1}, []hook.ID{11, 21}},
		{store.Scope{Tenant: 7, Endpoint: 2}, []hook.ID{12}},
		{store.Scope{Endpoint: 3}, nil},
		{store.Scope{Event: 10}, []hook.ID{11, 12}},
		{store.Scope{Event: 10, Endpoint: 1}, []hook.ID{11}},
		{store.Scope{Event: 30}, nil},
		{store.Scope{Delivery: 12}, []hook.ID{12}},
		{store.Scope{Tenant: 8, Delivery: 12}, nil},
		{store.Scope{Delivery: 13}, nil},
	} {
		if diff := cmp.Diff(c.want, ids(u.Matching(c.scope))); diff != "" {
			t.Errorf("%+v: %s", c.scope, diff)
		}
	}
	u.Committed(nil, []hook.ID{11, 12, 99})
	if got := ids(u.Matching(store.Scope{})); !cmp.Equal(got, []hook.ID{21}) {
		t.Errorf("left: %v, want 21", got)
	}
	if _, ok := u.Get(11); ok || u.Oldest(30) != 20 || u.Oldest(15) != 15 {
		t.Errorf("11 known: %v, oldest %d", ok, u.Oldest(30))
	}
}

// TestScopeOfFilter: a filter has new deliveries written if it may match them,
// and no others.
func TestScopeOfFilter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter store.DeliveryFilter
		want   store.Scope
		ok     bool
	}{
		"all":             {store.DeliveryFilter{}, store.Scope{}, true},
		"tenant":          {store.DeliveryFilter{Tenant: 7}, store.Scope{Tenant: 7}, true},
		"endpoint":        {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1}}, store.Scope{Tenant: 7, Endpoint: 1}, true},
		"endpoints":       {store.DeliveryFilter{Tenant: 7, Endpoints: []hook.ID{1, 2}}, store.Scope{Tenant: 7}, true},
		"event":           {store.DeliveryFilter{Event: 10}, store.Scope{Event: 10}, true},
		"pending or dead": {store.DeliveryFilter{States: []hook.DeliveryState{hook.Dead, hook.Pending}}, store.Scope{}, true},
		"dead":            {store.DeliveryFilter{States: []hook.DeliveryState{hook.Dead}}, store.Scope{}, false},
		"retrying":        {store.DeliveryFilter{Retrying: true}, store.Scope{}, false},
		"reasons":         {store.DeliveryFilter{Reasons: []hook.EndReason{1}}, store.Scope{}, false},
	} {
		if got, ok := c.filter.Scope(); got != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, ok, c.want, c.ok)
		}
	}
}

func TestUnwrittenAreOverdue(t *testing.T) {
	t.Parallel()
	u := store.NewUnwritten()
	later := accepted.Add(900 * time.Millisecond)
	u.Committed([]store.Target{newTarget(t, 1, 1, 1, accepted)}, nil)
	u.Committed([]store.Target{newTarget(t, 2, 2, 1, later)}, nil)
	for _, c := range []struct {
		after time.Duration
		want  []hook.ID
	}{{999 * time.Millisecond, nil}, {time.Second, []hook.ID{1}}, {1900 * time.Millisecond, []hook.ID{1, 2}}} {
		if diff := cmp.Diff(c.want, ids(u.Overdue(accepted.Add(c.after)))); diff != "" {
			t.Errorf("after %v: %s", c.after, diff)
		}
	}
	var many []store.Target
	for i := range 9000 {
		many = append(many, newTarget(t, hook.ID(10+i), 2, 1, later))
	}
	u.Committed(many, nil)
	if n := len(u.Overdue(later)); n != 9002-8192 {
		t.Errorf("%d are overdue of 9002, want all but 8192", n)
	}
	if n := len(u.Overdue(later.Add(time.Second))); n != 2048 {
		t.Errorf("%d are written at once when 9002 are overdue, want 2048", n)
	}
	for i := range 9000 {
		many[i] = newTarget(t, hook.ID(10_000+i), 3, 1, later)
	}
	u.Committed(many, nil)
	if n := len(u.Overdue(later)); n != (18_002-8192)/2 {
		t.Errorf("%d are overdue of 18002, want half of what is too much", n)
	}
}

// TestAttemptDocumentSurvives: what is kept in the document of an attempt comes
// back as it was.
func TestAttemptDocumentSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := hook.Attempt{
			ID: hook.ID(rapid.Int64Range(1, 1<<62).Draw(t, "id")), NodeID: hook.ID(rapid.Int64Range(0, 1<<62).Draw(t, "node")),
			Number: rapid.IntRange(1, 9).Draw(t, "n"), Run: rapid.IntRange(1, 9).Draw(t, "run"),
			Kind:  hook.AttemptKind(rapid.IntRange(0, 4).Draw(t, "kind")),
			Class: hook.Class(rapid.IntRange(0, 9).Draw(t, "class")), Reason: hook.Reason(rapid.IntRange(0, 30).Draw(t, "reason")),
			Charged: rapid.Bool().Draw(t, "charged"), Status: rapid.IntRange(0, 599).Draw(t, "status"),
			Latency:   time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "latency")) * time.Microsecond,
			StartedAt: accepted.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "started")) * time.Microsecond),
			Detail:    hook.AttemptDetail{URL: rapid.String().Draw(t, "url"), LaneLimit: 4.5},
		}
		copy(want.PolicyHash[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "policy"))
		var got hook.Attempt
		err := store.ParseAttempt(store.AppendAttempt(nil, &want), &got)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
	})
	for _, bad := range []string{"", "{}", `{"policy":"00"}`, `{"policy":"xx00000000000000"}`, `[]`} {
		if err := store.ParseAttempt([]byte(bad), &hook.Attempt{}); err == nil {
			t.Errorf("%q is read as an attempt", bad)
		}
	}
}

// TestUnknownLeavesOutWhatIsKnown: lanes read what they do not hold.
func TestUnknownLeavesOutWhatIsKnown(t *testing.T) {
	t.Parallel()
	u := store.NewUnwritten()
	var all []store.Target
	for i := range hook.ID(6) {
		all = append(all, newTarget(t, 10+i, 1+i, 100+i%3, accepted))
	}
	u.Committed(all, nil)
	u.Committed(nil, []hook.ID{all[3].ID})
	for name, tc := range map[string]struct {
		endpoints, known []hook.ID
		want             []store.Target
	}{
		"all":               {nil, nil, []store.Target{all[0], all[1], all[2], all[4], all[5]}},
		"of two endpoints":  {[]hook.ID{100, 102}, nil, []store.Target{all[0], all[2], all[5]}},
		"not what is known": {[]hook.ID{100, 102}, []hook.ID{all[2].ID, all[1].ID}, []store.Target{all[0], all[5]}},
		"of nobody":         {[]hook.ID{7}, nil, nil},
	} {
		if diff := cmp.Diff(tc.want, u.Unknown(tc.endpoints, tc.known), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(store.Target{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
