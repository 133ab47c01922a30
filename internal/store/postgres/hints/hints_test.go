package hints_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/hints"
)

func TestHintCodec(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Int64Min(0)).Draw(t, "ids")
		sent := store.Hint{Kind: store.HintKind(rapid.IntRange(1, 4).Draw(t, "kind"))}
		for range rapid.IntRange(1, 100).Draw(t, "times") {
			for _, id := range ids {
				sent.IDs = append(sent.IDs, hook.ID(id))
			}
		}
		if rapid.Bool().Draw(t, "new") {
			sent.Kind, sent.Announced, sent.IDs = store.HintAnnounced, announcedOf(sent.IDs), nil
		}
		got := store.Hint{Kind: sent.Kind}
		for _, text := range hints.Encode("me", sent) {
			if len(text) >= 8000 {
				t.Fatalf("a notification of %d bytes", len(text))
			}
			sender, h, ok := hints.Decode(text)
			if !ok || sender != "me" || h.Kind != sent.Kind {
				t.Fatalf("decoded %q as %q, %+v, %v", text, sender, h, ok)
			}
			got.IDs, got.Announced = append(got.IDs, h.IDs...), append(got.Announced, h.Announced...)
		}
		if diff := cmp.Diff(sent, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-sent +got):\n%s", diff)
		}
	})
}

// announcedOf makes deliveries of ids.
func announcedOf(ids []hook.ID) (news []store.Announced) {
	for i := 0; i+3 <= len(ids); i += 3 {
		news = append(news, store.Announced{Endpoint: ids[i], Event: ids[i+1], Delivery: ids[i+2]})
	}
	return news
}

func TestHintCodecRefusesOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", "x y", "x 300", "x 1 !", "x 1 zzzzzzzzzzzzzzz", "x 5 1 2 3 4"} {
		if _, h, ok := hints.Decode(text); ok {
			t.Errorf("decoded %q as %+v", text, h)
		}
	}
}
