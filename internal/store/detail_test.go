package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// TestDetailIsJSON compares the hand-written encoder with encoding/json.
func TestDetailIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just(""), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		headers := rapid.MapOf(rapid.String(), rapid.SliceOf(text)) // names that are no text could become equal
		span := rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })
		d := hook.AttemptDetail{
			URL: text.Draw(t, "url"), RequestHeaders: headers.Draw(t, "request"), ResponseHeaders: headers.Draw(t, "response"),
			Truncated: rapid.Bool().Draw(t, "truncated"), RemoteAddr: text.Draw(t, "remote"), RetryAfter: text.Draw(t, "retry after"),
			RetryAfterCapped: rapid.Bool().Draw(t, "capped"), LaneState: text.Draw(t, "state"),
			LaneLimit: rapid.Float64().Draw(t, "limit"), LaneInFlight: rapid.Int().Draw(t, "in flight"),
			Phases: hook.Phases{DNS: span.Draw(t, "dns"), Connect: span.Draw(t, "connect"), TLS: span.Draw(t, "tls"), FirstByte: span.Draw(t, "first")},
		}
		var got, want hook.AttemptDetail
		if err := json.Unmarshal(store.AppendDetail(nil, &d), &got); err != nil {
			t.Fatal(err)
		}
		reference, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(reference, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
