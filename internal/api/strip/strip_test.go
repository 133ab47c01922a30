package strip_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/api/strip"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// TestStripsAreTheSameWhenRemembered: over a day, and much less is read.
func TestStripsAreTheSameWhenRemembered(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 2, 10, 7, 0, 0, time.UTC)
	rows := 0
	figures := func(now time.Time) func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error) {
		return func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error) {
			out := make(map[hook.ID][]stats.Point)
			for _, id := range ids {
				for at := from; at.Before(now); at = at.Add(time.Minute) {
					p := stats.Point{At: at}
					p.Counts.Add(stats.Delivered(1), uint64(at.Unix()/60)%97+uint64(id))
					p.Counts.Tell(stats.Held, uint64(at.Unix()/60)%13)
					out[id] = append(out[id], p)
					rows++
				}
			}
			return out, nil
		}
	}
	var kept strip.Memory
	fresh, remembered := 0, 0
	for now := start; now.Before(start.Add(30 * time.Hour)); now = now.Add(19 * time.Minute) {
		ids := []hook.ID{1, 2}
		if now.Hour()%3 == 0 {
			ids = []hook.ID{2, 3}
		}
		rows = 0
		got, err := kept.Of(ids, now, figures(now))
		if err != nil {
			t.Fatal(err)
		}
		remembered += rows
		rows = 0
		want, err := new(strip.Memory).Of(ids, now, figures(now))
		if err != nil {
			t.Fatal(err)
		}
		fresh += rows
		for _, id := range ids {
			if diff := cmp.Diff(view.OfStrip(id, want[id]), view.OfStrip(id, got[id])); diff != "" {
				t.Fatalf("strip of %d at %v (-want +got):\n%s", id, now, diff)
			}
		}
	}
	if remembered*3 > fresh {
		t.Errorf("%d rows were read, %d without a memory", remembered, fresh)
	}
}
