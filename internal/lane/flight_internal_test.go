package lane

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFlight: every request is counted once, and stuck are those that are old enough and
// have been overtaken; only for so long as it takes to tell is it another one.
func TestFlight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var f flight
		var flying []time.Time
		var answered time.Time
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * time.Millisecond)
			if len(flying) == 0 || rapid.Bool().Draw(rt, "start") {
				f.start(now)
				flying = append(flying, now)
			} else {
				i := rapid.IntRange(0, len(flying)-1).Draw(rt, "which")
				ok := rapid.Bool().Draw(rt, "ok")
				f.end(flying[i], ok)
				if ok && flying[i].After(answered) {
					answered = flying[i]
				}
				flying = slices.Delete(flying, i, i+1)
			}
			f.age(now, 0)
			surely, perhaps := 0, 0
			for _, began := range flying {
				if age := now.Sub(began); age < stuckLeast || !began.Before(answered) {
					surely++
				} else if age < stuckLeast+flightSlot || answered.Sub(began) < flightSlot {
					perhaps++
				}
			}
			if f.n != len(flying) || f.young < surely || f.young > surely+perhaps {
				rt.Fatalf("%d in flight, %d not stuck; want %d, and %d to %d", f.n, f.young, len(flying), surely, surely+perhaps)
			}
		}
	})
}
