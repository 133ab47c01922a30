package hook_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const maxID = hook.ID(1<<63 - 1)

var newYear2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSource(t *testing.T, slot int, after hook.ID) *hook.IDSource {
	t.Helper()
	s, err := hook.NewIDSource(slot, after)
	if err != nil {
		t.Fatalf("NewIDSource(%d, %d): %v", slot, after, err)
	}
	return s
}

func anyID() *rapid.Generator[hook.ID] {
	return rapid.Map(rapid.Int64Range(0, int64(maxID)), func(v int64) hook.ID { return hook.ID(v) })
}

// Shown ids are in the hands of users and in their databases.
func TestShownIDsArePinned(t *testing.T) {
	t.Parallel()
	for want, id := range map[string]hook.ID{
		"evt_0000000000000": 0,
		"evt_0000000000001": 1,
		"evt_000000000000z": 31,
		"evt_0000000000010": 32,
		"evt_07b925m000w00": newSource(t, 7, 0).Next(newYear2026),
		"evt_7zzzzzzzzzzzz": maxID,
	} {
		if got := hook.EventPrefix.Format(id); got != want {
			t.Errorf("Format(%d) = %q, want %q", id, got, want)
		}
	}
}

func TestShownIDsSortLikeNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyID().Draw(t, "a"), anyID().Draw(t, "b")
		shownA, shownB := hook.EventPrefix.Format(a), hook.EventPrefix.Format(b)
		if cmp.Compare(a, b) != cmp.Compare(shownA, shownB) {
			t.Fatalf("%d and %d compare differently as %q and %q", a, b, shownA, shownB)
		}
		if strings.Contains(shownA, ".") {
			t.Fatalf("%q holds a dot, which separates the parts of signed text", shownA)
		}
	})
}

func TestParseReadsWhatFormatWrote(t *testing.T) {
	t.Parallel()
	prefixes := []hook.Prefix{
		hook.TenantPrefix, hook.EndpointPrefix, hook.EventPrefix, hook.DeliveryPrefix, hook.AttemptPrefix,
		hook.ReplayPrefix, hook.KeyPrefix, hook.RequestPrefix, hook.NodePrefix, hook.AuditPrefix,
	}
	rapid.Check(t, func(t *rapid.T) {
		id, p := anyID().Draw(t, "id"), rapid.SampledFrom(prefixes).Draw(t, "prefix")
		shown := p.Format(id)
		if got, err := p.Parse(shown); err != nil || got != id {
			t.Fatalf("Parse(%q) = %d, %v, want %d", shown, got, err, id)
		}
		upper := string(p) + strings.ToUpper(shown[len(p):])
		if got, err := p.Parse(upper); err != nil || got != id {
			t.Fatalf("Parse(%q) = %d, %v, want %d", upper, got, err, id)
		}
		if got := string(p.Append([]byte("id="), id)); got != "id="+shown {
			t.Fatalf("Append = %q, want %q", got, "id="+shown)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]string{
		"empty":                "",
		"prefix only":          "evt_",
		"no prefix":            "07b925m000w00",
		"another prefix":       "dlv_07b925m000w00",
		"another, same length": "att_07b925m000w00",
		"one character short":  "evt_07b925m000w0",
		"one character long":   "evt_07b925m000w000",
		"letter i":             "evt_07b925m000wi0",
		"letter l":             "evt_07b925m000wl0",
		"letter o":             "evt_07b925m000wo0",
		"letter u":             "evt_07b925m000wu0",
		"space":                "evt_07b925m000w 0",
		"sign":                 "evt_-7b925m000w00",
		"not ASCII":            "evt_07b925m000w\u00e9",
		"64 bits":              "evt_8000000000000",
		"65 bits":              "evt_zzzzzzzzzzzzz",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if id, err := hook.EventPrefix.Parse(s); !errors.Is(err, hook.ErrBadID) {
				t.Errorf("Parse(%q) = %d, %v, want ErrBadID", s, id, err)
			}
		})
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("evt_07b925m000w00")
	f.Add("evt_7ZZZZZZZZZZZZ")
	f.Add("evt_")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := hook.EventPrefix.Parse(s)
		if err != nil {
			return
		}
		if id < 0 {
			t.Fatalf("Parse(%q) = %d, want no negative id", s, id)
		}
		if got := hook.EventPrefix.Format(id); !strings.EqualFold(got, s) {
			t.Fatalf("Parse(%q) is shown as %q", s, got)
		}
	})
}

func TestIDSourceRefusesSlots(t *testing.T) {
	t.Parallel()
	for _, slot := range []int{-1, hook.MaxSlot + 1} {
		if _, err := hook.NewIDSource(slot, 0); err == nil {
			t.Errorf("NewIDSource(%d, 0) succeeded, want an error", slot)
		}
	}
	for _, slot := range []int{0, hook.MaxSlot} {
		if _, err := hook.NewIDSource(slot, 0); err != nil {
			t.Errorf("NewIDSource(%d, 0): %v", slot, err)
		}
	}
}

func TestIDHoldsItsTime(t *testing.T) {
	t.Parallel()
	now := newYear2026.Add(123456789 * time.Microsecond)
	for _, slot := range []int{0, 1, hook.MaxSlot} {
		got := newSource(t, slot, 0).Next(now).Time()
		if want := now.Truncate(time.Millisecond); !got.Equal(want) {
			t.Errorf("slot %d: Time() = %v, want %v", slot, got, want)
		}
	}
}

func TestSlotsNeverDrawTheSameID(t *testing.T) {
	t.Parallel()
	seen := map[hook.ID]int{}
	for _, slot := range []int{0, 1, 2, 511, hook.MaxSlot} {
		source := newSource(t, slot, 0)
		for range 5000 { // more than one millisecond holds
			id := source.Next(newYear2026)
			if other, taken := seen[id]; taken {
				t.Fatalf("slots %d and %d both drew %d", other, slot, id)
			}
			seen[id] = slot
		}
	}
}

// The clock may stand still, jump, or be set back at any moment: ids only grow.
func TestIDsNeverGoBackwards(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.Map(rapid.Int64Range(0, 1<<61), func(v int64) hook.ID { return hook.ID(v) }).Draw(t, "after")
		source, err := hook.NewIDSource(rapid.IntRange(0, hook.MaxSlot).Draw(t, "slot"), after)
		if err != nil {
			t.Fatal(err)
		}
		last := after
		steps := rapid.SliceOfN(rapid.Int64Range(-100_000, 100_000), 1, 50).Draw(t, "steps (ms)")
		now := after.Time()
		for _, step := range steps {
			now = now.Add(time.Duration(step) * time.Millisecond)
			for range rapid.SampledFrom([]int{1, 2, 4097}).Draw(t, "draws") {
				id := source.Next(now)
				if id <= last {
					t.Fatalf("drew %d after %d", id, last)
				}
				last = id
			}
		}
	})
}

func TestIDsFollowTheStoredOnes(t *testing.T) {
	t.Parallel()
	stored := newSource(t, hook.MaxSlot, 0).Next(newYear2026)
	clockSetBack := newYear2026.Add(-time.Hour)
	id := newSource(t, 0, stored).Next(clockSetBack)
	if id <= stored || !id.Time().After(stored.Time()) {
		t.Errorf("drew %d at %v, want it later than the stored %d at %v", id, id.Time(), stored, stored.Time())
	}
}

func TestIDsBeforeTheEpochAreNotNegative(t *testing.T) {
	t.Parallel()
	if id := newSource(t, 0, 0).Next(time.Unix(0, 0)); id <= 0 {
		t.Errorf("Next in 1970 = %d, want a positive id", id)
	}
}

func TestIDSourceIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	const workers, draws = 8, 2000
	source := newSource(t, 3, 0)
	drawn := make([][]hook.ID, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range draws {
				// Every worker has its own idea of the time.
				now := newYear2026.Add(time.Duration((n*7+w*13)%50-25) * time.Millisecond)
				drawn[w] = append(drawn[w], source.Next(now))
			}
		})
	}
	wg.Wait()

	var all []hook.ID
	for w, ids := range drawn {
		if !slices.IsSorted(ids) {
			t.Errorf("worker %d saw ids go backwards", w)
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	if got := len(slices.Compact(all)); got != workers*draws {
		t.Errorf("drew %d distinct ids, want %d", got, workers*draws)
	}
}

func TestIDFloor(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		at   time.Time
		want hook.ID
	}{
		"epoch":              {epoch, 0},
		"before the epoch":   {epoch.Add(-time.Hour), 0},
		"zero time":          {time.Time{}, 0},
		"one millisecond":    {epoch.Add(time.Millisecond), 1 << 22},
		"cut, not rounded":   {epoch.Add(1999 * time.Microsecond), 1 << 22},
		"one day":            {epoch.Add(24 * time.Hour), hook.DayOfIDs},
		"after the last id":  {epoch.AddDate(500, 0, 0), (1<<41 - 1) << 22},
		"other zone, same t": {epoch.Add(time.Millisecond).In(time.FixedZone("", 3600)), 1 << 22},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := hook.IDFloor(tc.at); got != tc.want {
				t.Errorf("IDFloor(%v) = %d, want %d", tc.at, got, tc.want)
			}
		})
	}
}

// "Since t" is a key range: nothing drawn at t or later may be below the floor,
// and nothing drawn before may be above it.
func TestIDFloorSplitsAtTheTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1, 1<<40).Draw(t, "ms")
		at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
		slot := rapid.IntRange(0, hook.MaxSlot).Draw(t, "slot")
		source, err := hook.NewIDSource(slot, 0)
		if err != nil {
			t.Fatal(err)
		}
		floor := hook.IDFloor(at)
		if before := source.Next(at.Add(-time.Millisecond)); ms > 1 && before >= floor {
			t.Fatalf("drawn before: %d, want below the floor %d", before, floor)
		}
		if id := source.Next(at); id < floor {
			t.Fatalf("drawn at the time: %d, want at least the floor %d", id, floor)
		}
	})
}
