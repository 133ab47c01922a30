package bench_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/lab/bench"
)

// TestEvents: whatever the size, an event is valid JSON, its payload has
// exactly that size, and the numbers can be read from the payload alone and
// from the whole event.
func TestEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(bench.MinPayload, 5000).Draw(t, "size")
		group := rapid.IntRange(0, 499_999).Draw(t, "group")
		number := rapid.Int64Range(0, 1e15).Draw(t, "number")
		sent := time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "sent"))
		raw := bench.Event(size, group, number, sent)
		var event struct {
			Type    string
			Payload json.RawMessage
		}
		if err := json.Unmarshal(raw, &event); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
		if len(event.Payload) != size {
			t.Fatalf("a payload of %d bytes, want %d", len(event.Payload), size)
		}
		for _, body := range [][]byte{raw, event.Payload} {
			n, at, ok := bench.ReadStamp(body)
			if !ok || n != number || at != sent {
				t.Fatalf("read %d, %v, %v of %s", n, at, ok, body)
			}
		}
	})
}

func TestStampOfSomethingElse(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{}", `{"n":"12`, `{"n":"00000000000000x1","t":"0000000000000001"}`} {
		if n, _, ok := bench.ReadStamp([]byte(body)); ok {
			t.Errorf("read %d of %q", n, body)
		}
	}
}
