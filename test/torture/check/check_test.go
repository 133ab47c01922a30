package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// clean is a small run in which every promise was kept: one event for two
// endpoints, one that failed once, one whose answer was lost on the way.
func clean() check.History {
	return check.History{
		Submitted: []check.Submitted{
			{Key: "k1", Body: "b1", Endpoints: []string{"a", "b"}},
			{Key: "k2", Body: "b2", Endpoints: []string{"a"}},
			{Key: "k3", Body: "b3", Endpoints: []string{"b"}},
		},
		Accepted: []check.Accepted{
			{Key: "k1", Event: "e1", Deliveries: 2},
			{Key: "k2", Event: "e2", Deliveries: 1},
			{Key: "k2", Event: "e2", Deliveries: 1}, // asked again, same answer
		},
		Seen: []check.Seen{
			{Endpoint: "a", Event: "e1", Body: "b1", Status: 200, Signed: true},
			{Endpoint: "b", Event: "e1", Body: "b1", Status: 204, Signed: true},
			{Endpoint: "a", Event: "e2", Body: "b2", Status: 503, Signed: true},
			{Endpoint: "a", Event: "e2", Body: "b2", Status: 200, Signed: true},
			{Endpoint: "b", Event: "e3", Body: "b3", Status: 200, Signed: true},
		},
		Events: []string{"e1", "e2", "e3"},
		Claims: []check.Claim{
			{Event: "e1", Endpoint: "a", Status: "delivered"},
			{Event: "e1", Endpoint: "b", Status: "delivered"},
			{Event: "e2", Endpoint: "a", Status: "delivered"},
			{Event: "e3", Endpoint: "b", Status: "delivered"},
		},
	}
}

func TestKeptPromisesAreClean(t *testing.T) {
	t.Parallel()
	v := check.Judge(clean())
	if !v.Clean() {
		t.Errorf("findings in a clean history: %v", v.Findings())
	}
	if v.Accepted != 2 || v.Expected != 3 || v.Arrived != 4 || v.Again != 0 {
		t.Errorf("counted %+v", v)
	}
}

func TestRepeatsAreCountedNotBlamed(t *testing.T) {
	t.Parallel()
	h := clean()
	h.Seen = append(h.Seen, h.Seen[0], h.Seen[0])
	v := check.Judge(h)
	if !v.Clean() || v.Again != 2 {
		t.Errorf("again = %d, findings %v; want 2 and none", v.Again, v.Findings())
	}
}

// TestPlantedDefectsAreFound doctors a clean history in every way that matters
// and expects exactly the finding that belongs to it.
func TestPlantedDefectsAreFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		doctor func(h *check.History)
		want   []string // begin of each finding
	}{
		"an event vanishes after the answer": {func(h *check.History) {
			h.Events = []string{"e1", "e3"}
			h.Claims = slices.Delete(h.Claims, 2, 3)
			h.Seen = slices.Delete(h.Seen, 2, 4)
		}, []string{"1 lost: e2", "1 missing: e2"}},
		"an event vanishes after it was sent": {func(h *check.History) {
			h.Events = []string{"e1", "e3"}
			h.Claims = slices.Delete(h.Claims, 2, 3)
		}, []string{"1 missing: e2"}},
		"one delivery of two vanishes": {func(h *check.History) {
			h.Claims = slices.Delete(h.Claims, 1, 2)
			h.Seen = slices.Delete(h.Seen, 1, 2)
		}, []string{"1 lost: e1", "1 missing: e1"}},
		"delivered is claimed and nothing was sent": {func(h *check.History) {
			h.Seen = slices.Delete(h.Seen, 2, 4)
		}, []string{"1 lost: e2", "1 falsely claimed: e2"}},
		"delivered is claimed after a failure": {func(h *check.History) {
			h.Seen = slices.Delete(h.Seen, 3, 4)
		}, []string{"1 lost: e2", "1 falsely claimed: e2"}},
		"delivered is claimed for another endpoint": {func(h *check.History) {
			h.Claims = append(h.Claims, check.Claim{Event: "e2", Endpoint: "b", Status: "delivered"})
		}, []string{"1 falsely claimed: e2"}},
		"delivered is claimed of what was never answered": {func(h *check.History) {
			h.Seen = slices.Delete(h.Seen, 4, 5)
		}, []string{"1 falsely claimed: e3"}},
		"a delivery waits for ever": {func(h *check.History) {
			h.Claims[2].Status = "pending"
			h.Seen = slices.Delete(h.Seen, 2, 4)
		}, []string{"1 still waiting: e2"}},
		"a delivery is given up": {func(h *check.History) {
			h.Claims[2].Status = "dead"
			h.Seen = slices.Delete(h.Seen, 3, 4)
		}, []string{"1 lost: e2", "1 given up: e2"}},
		"an event is invented": {func(h *check.History) {
			h.Seen = append(h.Seen, check.Seen{Endpoint: "a", Event: "e9", Body: "b9", Status: 200, Signed: true})
		}, []string{"1 phantom: e9"}},
		"an event reaches a stranger": {func(h *check.History) {
			h.Seen = append(h.Seen, check.Seen{Endpoint: "b", Event: "e2", Body: "b2", Status: 200, Signed: true})
		}, []string{"1 phantom: e2"}},
		"bytes are changed":    {func(h *check.History) { h.Seen[3].Body = "bX" }, []string{"1 altered: e2"}},
		"a signature is wrong": {func(h *check.History) { h.Seen[4].Signed = false }, []string{"1 altered: e3"}},
		"a key makes two events": {func(h *check.History) {
			h.Accepted[2].Event = "e4"
			h.Events = append(h.Events, "e4")
			h.Claims = append(h.Claims, check.Claim{Event: "e4", Endpoint: "a", Status: "delivered"})
			h.Seen = append(h.Seen, check.Seen{Endpoint: "a", Event: "e4", Body: "b2", Status: 200, Signed: true})
		}, []string{"1 split key: e2=e4"}},
		"an answer counts wrong": {func(h *check.History) { h.Accepted[0].Deliveries = 1 }, []string{"1 miscounted: e1"}},
	} {
		h := clean()
		tc.doctor(&h)
		got := check.Judge(h).Findings()
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: found\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(tc.want, "\n\t"))
		}
	}
}
