package hook_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestReplayEnumsArePinned guards what is stored and shown.
func TestReplayEnumsArePinned(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"queued", "running", "paused", "done", "cancelled"} {
		s := hook.ReplayState(i)
		back, err := hook.ParseReplayState(name)
		if s.String() != name || back != s || err != nil {
			t.Errorf("state %d = %q, %q parses to %d, %v", i, s, name, back, err)
		}
		if s.Ended() != (i >= 3) {
			t.Errorf("%s: ended = %v", name, s.Ended())
		}
	}
	if _, err := hook.ParseReplayState("stuck"); err == nil {
		t.Error("an unknown state was parsed")
	}
	for r, person := range map[hook.PauseReason]bool{
		"user": true, "stuck": true, "error_rate": false, "breaker": false, "endpoint_held": false,
	} {
		if r.NeedsPerson() != person {
			t.Errorf("%s: needs a person = %v", r, r.NeedsPerson())
		}
	}
}

func TestReplayFilterText(t *testing.T) {
	t.Parallel()
	full := hook.ReplayFilter{
		Endpoint: 7, States: []hook.DeliveryState{hook.Dead, hook.Delivered},
		Reasons: []hook.EndReason{hook.DeadExpired}, Types: []string{"order.*"},
		Since: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC),
		Deliveries: []hook.ID{8, 9}, All: true,
	}
	for want, f := range map[string]hook.ReplayFilter{
		`{}`: {},
		`{"endpoint":"ep_0000000000007","statuses":["dead","delivered"],"reasons":["expired"],"types":["order.*"],` +
			`"since":"2026-03-02T00:00:00Z","until":"2026-03-03T00:00:00Z","delivery_ids":["dlv_0000000000008","dlv_0000000000009"],"all":true}`: full,
		`{"endpoint":"ep_0000000000007","include_missing":true,"endpoint_types":["a.*","b"],"endpoint_filter":"payload.n \u003e 1"}`: {
			Endpoint: 7, Missing: &hook.MissingFilter{Types: []string{"a.*", "b"}, Filter: "payload.n > 1"},
		},
		`{"include_missing":true}`: {Missing: &hook.MissingFilter{}},
	} {
		text, err := json.Marshal(f)
		if err != nil || string(text) != want {
			t.Errorf("Marshal = %s, %v; want %s", text, err, want)
		}
		var back hook.ReplayFilter
		if err := json.Unmarshal(text, &back); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(f, back); diff != "" {
			t.Errorf("round trip (-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{
		`{"endpoint":"x"}`, `{"statuses":["undead"]}`, `{"reasons":["bored"]}`, `{"delivery_ids":["evt_0000000000008"]}`, `{"since":1}`,
	} {
		if err := json.Unmarshal([]byte(text), new(hook.ReplayFilter)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
