package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var attempted = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

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
			StartedAt: attempted.Add(time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "started")) * time.Microsecond),
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
