package view_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var now = time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)

// object returns what a client sees of v.
func object(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLaneSaysWhatPacesIt(t *testing.T) {
	t.Parallel()
	broke := &lane.Checkpoint{Breakage: lane.Breakage{Ceiling: 100, CeilingLearnt: 100, CeilingAt: now}}
	for name, tc := range map[string]struct {
		cp    *lane.Checkpoint
		limit float64
		by    any
		rate  any
	}{
		"nothing is known":      {nil, 0, nil, nil},
		"nothing paces it":      {&lane.Checkpoint{Usual: 5, Proven: 9}, 0, nil, nil},
		"it refused":            {&lane.Checkpoint{Pace: 2, ThrottledAt: now, RetryAfter: time.Second}, 0, "throttle", 2.0},
		"it broke":              {broke, 0, "ceiling", broke.Pacing(now, 0).Rate},
		"it came back":          {&lane.Checkpoint{Recovery: 25, Held: time.Minute}, 0, "recovery", 25.0},
		"its host came back":    {&lane.Checkpoint{Host: 1.5}, 0, "host", 1.5},
		"the policy":            {&lane.Checkpoint{}, 3, "rate_limit", 3.0},
		"the policy, no lane":   {nil, 3, "rate_limit", 3.0},
		"the strictest counts":  {&lane.Checkpoint{Recovery: 25, Host: 40, Breakage: lane.Breakage{Ceiling: 100}}, 0, "recovery", 25.0},
		"stricter than policy":  {&lane.Checkpoint{Host: 2}, 3, "host", 2.0},
		"policy is stricter":    {&lane.Checkpoint{Recovery: 4}, 3, "rate_limit", 3.0},
		"open, with a recovery": {&lane.Checkpoint{Open: true, OpenedAt: now, Recovery: 4}, 0, "recovery", 4.0},
		"beyond all numbers":    {&lane.Checkpoint{Recovery: math.Inf(1)}, 0, nil, nil},
	} {
		p := &policy.Policy{RateLimit: policy.RateLimit{PerSecond: tc.limit}}
		m := object(t, view.OfLane(store.Destination{Lane: tc.cp}, p, now))
		perSecond, _ := m["rate_per_second"].(float64)
		want, _ := tc.rate.(float64)
		by, known := m["paced_by"]
		if !known || by != tc.by || (m["rate_per_second"] == nil) != (tc.rate == nil) || math.Abs(perSecond-want) > 1e-9 {
			t.Errorf("%s: paced by %v at %v, want %v at %v", name, by, m["rate_per_second"], tc.by, tc.rate)
		}
	}
}

func TestLaneSaysWhatItLearnt(t *testing.T) {
	t.Parallel()
	learnt := func(cp *lane.Checkpoint) map[string]any {
		t.Helper()
		return object(t, view.OfLane(store.Destination{Lane: cp}, &policy.Policy{}, now).Learnt)
	}
	nothing := map[string]any{"usual": nil, "proven": nil, "ceiling": nil, "throttle": nil, "recovery": nil, "host_rate": nil}
	if diff := cmp.Diff(nothing, learnt(nil)); diff != "" {
		t.Errorf("a lane that nothing is known of (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(nothing, learnt(&lane.Checkpoint{Limit: 1})); diff != "" {
		t.Errorf("a lane that learnt nothing (-want +got):\n%s", diff)
	}
	cp := lane.Checkpoint{
		Usual: 48, Proven: 90, Host: 12, Recovery: 60, Held: 10 * time.Minute,
		Pace: 20, ThrottledAt: now, RetryAfter: 5 * time.Second,
		Breakage: lane.Breakage{Ceiling: 110, CeilingLearnt: 100, CeilingAt: now.Add(-time.Hour), CeilingWait: 6 * time.Hour},
	}
	want := map[string]any{
		"usual": 48.0, "proven": 90.0, "host_rate": 12.0,
		"recovery": map[string]any{"rate": 60.0, "held": "10m"},
		"throttle": map[string]any{"rate": 20.0, "at": "2026-03-02T10:30:15.123Z", "retry_after": "5s"},
		"ceiling": map[string]any{
			"rate": 110.0, "learnt": 100.0, "at": "2026-03-02T09:30:15.123Z", "sure": true, "test_after": "2026-03-02T15:30:15.123Z",
		},
	}
	if diff := cmp.Diff(want, learnt(&cp), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("a lane that learnt everything (-want +got):\n%s", diff)
	}
	cp.CeilingWait, cp.CeilingAt = 0, now
	if c := learnt(&cp)["ceiling"].(map[string]any); c["sure"] != false || c["test_after"] != c["at"] {
		t.Errorf("a suspicion is shown as %v", c)
	}
}

func TestQueueThatDoesNotDrainIsNeverEmpty(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]hook.RetryQueue{
		"flat":              {Depth: 300},
		"grows":             {Depth: 300, DrainPerMinute: -5},
		"hardly drains":     {Depth: 10_000, DrainPerMinute: 1e-9},
		"too deep to count": {Depth: 10_000, AtLeast: true, DrainPerMinute: 5},
	} {
		got := object(t, view.OfRetryQueue(&hook.LaneWatch{Queue: q, UpdatedAt: now}))
		if got["empty_at"] != nil || got["depth"] != float64(q.Depth) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
