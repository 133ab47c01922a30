package stats_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// anyCounts draws figures.
func anyCounts(t *rapid.T) stats.Counts {
	var c stats.Counts
	for range rapid.IntRange(0, 12).Draw(t, "figures") {
		c.Add(stats.Counter(rapid.Uint16Range(1, 1100).Draw(t, "counter")), rapid.Uint64Range(1, 1<<40).Draw(t, "n"))
	}
	return c
}

func packed(c stats.Counts) string { return string(c.Append(nil)) }

// TestPackedFiguresComeBack: what is packed is unpacked as it was, and as one
// form only.
func TestPackedFiguresComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := anyCounts(t)
		got, err := stats.Unpack(c.Append(nil))
		if err != nil || packed(got) != packed(c) {
			t.Fatalf("Unpack: %v, %v; want %v", got, err, c)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	var c stats.Counts
	c.Add(stats.Events, 3)
	c.Add(stats.DeliveryTook(time.Second), 300)
	f.Add(c.Append(nil))
	f.Add([]byte{0, 1})
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := stats.Unpack(b)
		if err != nil {
			return
		}
		again, err := stats.Unpack(c.Append(nil))
		if err != nil || packed(again) != packed(c) {
			t.Fatalf("%v came back as %v, %v", c, again, err)
		}
	})
}

// TestMergeKnowsNoOrder: figures of several writers add up to the same in any
// order, in one go or in parts.
func TestMergeKnowsNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(anyCounts), 1, 6).Draw(t, "parts")
		var one, other, left, right stats.Counts
		cut := rapid.IntRange(0, len(parts)).Draw(t, "cut")
		for i, p := range parts {
			one.Merge(p)
			if i < cut {
				left.Merge(p)
			} else {
				right.Merge(p)
			}
		}
		for _, p := range slices.Backward(parts) {
			other.Merge(p)
		}
		right.Merge(left)
		if packed(one) != packed(other) || packed(one) != packed(right) {
			t.Fatalf("%v, %v and %v", one, other, right)
		}
	})
}

// TestQuantileIsNear: a quantile is off by no more than a bucket is wide.
func TestQuantileIsNear(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(int64(100*time.Microsecond), int64(200*24*time.Hour)), 1, 60).Draw(t, "times")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var c stats.Counts
		for _, d := range times {
			c.Add(stats.DeliveryTook(time.Duration(d)), 1)
		}
		slices.Sort(times)
		want := float64(times[max(int(math.Ceil(q*float64(len(times))))-1, 0)])
		got := float64(c.DeliveryTimes().Quantile(q))
		if got < want/1.2 || got > want*1.2 {
			t.Fatalf("quantile %v is %v, want about %v", q, time.Duration(got), time.Duration(want))
		}
		if c.AttemptTimes().Count() != 0 || c.DeliveryTimes().Count() != uint64(len(times)) {
			t.Fatal("times of deliveries and attempts are mixed up")
		}
	})
}

func TestSumsDoNotMixCounters(t *testing.T) {
	t.Parallel()
	var c stats.Counts
	for _, k := range []hook.AttemptKind{hook.First, hook.Manual} {
		c.Add(stats.Attempts(k), 1)
	}
	for tries := range 6 {
		c.Add(stats.Delivered(tries), 10)
	}
	for r := hook.DeadExhausted; r <= hook.DeadBreakerOpen; r++ {
		c.Add(stats.Dead(r), 100)
	}
	for r := hook.Redirect; r <= hook.LocalError; r++ {
		c.Add(stats.Failed(r), 1000)
	}
	c.Add(stats.AttemptTook(0), 7)
	c.Add(stats.AttemptTook(1<<62), 7)
	if a, d, x, f := c.AllAttempts(), c.AllDelivered(), c.AllDead(), c.AllFailed(); a != 2 || d != 60 || x != 600 || f != 22000 {
		t.Errorf("attempts %d, delivered %d, dead %d, failed %d; want 2, 60, 600, 22000", a, d, x, f)
	}
	if n := c.Get(stats.Delivered(3)); n != 30 {
		t.Errorf("three and more attempts: %d, want 30", n)
	}
	if n := c.AttemptTimes().Count(); n != 14 {
		t.Errorf("%d times of attempts, want 14", n)
	}
	reasons := 0
	c.ByReason(func(hook.EndReason, uint64) { reasons++ })
	c.ByFailure(func(hook.Reason, uint64) { reasons++ })
	if reasons != 6+22 {
		t.Errorf("%d reasons, want 28", reasons)
	}
}

// disk is what is stored: the last row of a subject's minute, by writer.
type disk map[diskKey]stats.Counts

type diskKey struct {
	writer  int
	subject stats.Subject
	minute  time.Time
}

func (d disk) write(writer int, rows []stats.Row) {
	for _, r := range rows {
		d[diskKey{writer, r.Subject, r.Minute}] = r.Counts.Clone()
	}
}

// TestLedgerCountsEveryCommitOnce: whatever happens to commits (they fail, their
// outcome is unknown and they run again, the process dies, the clock goes back),
// what is stored is what was committed.
func TestLedgerCountsEveryCommitOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stored, want := disk{}, make(map[stats.Subject]uint64)
		writer, l, now := 0, stats.NewLedger(), noon
		for range rapid.IntRange(1, 40).Draw(t, "commits") {
			now = now.Add(time.Duration(rapid.IntRange(-30, 60).Draw(t, "passed")) * time.Second)
			d := l.Draft(now)
			counted := make(map[stats.Subject]uint64)
			for range rapid.IntRange(0, 5).Draw(t, "counts") {
				tenant, endpoint := hook.ID(rapid.IntRange(1, 2).Draw(t, "tenant")), hook.ID(rapid.IntRange(0, 3).Draw(t, "endpoint"))
				d.Of(tenant, endpoint).Add(stats.Events, 1)
				counted[stats.Subject{Level: stats.OfTenant, ID: tenant}]++
				counted[stats.Subject{}]++
				if endpoint != 0 {
					counted[stats.Subject{Level: stats.OfEndpoint, ID: endpoint}]++
				}
			}
			rows := l.Rows(d)
			switch rapid.SampledFrom([]string{"done", "failed", "unknown", "killed"}).Draw(t, "outcome") {
			case "failed":
				continue
			case "unknown": // it had succeeded, and runs again
				stored.write(writer, rows)
				rows = l.Rows(d)
				fallthrough
			case "done":
				stored.write(writer, rows)
				l.Committed(rows)
			case "killed":
				stored.write(writer, rows)
				writer, l = writer+1, stats.NewLedger()
			}
			for s, n := range counted {
				want[s] += n
			}
		}
		got := make(map[stats.Subject]uint64)
		for k, c := range stored {
			got[k.subject] += c.Get(stats.Events)
		}
		for s, n := range want {
			if got[s] != n {
				t.Fatalf("%v has %d, want %d", s, got[s], n)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("figures of %d subjects, want %d", len(got), len(want))
		}
	})
}

func TestSeriesHasNoGaps(t *testing.T) {
	t.Parallel()
	at := func(minutes int, n uint64) stats.Point {
		var c stats.Counts
		c.Add(stats.Events, n)
		return stats.Point{At: noon.Add(time.Duration(minutes) * time.Minute), Counts: c}
	}
	points := []stats.Point{at(-1, 100), at(0, 1), at(4, 2), at(4, 3), at(14, 4), at(15, 100)}
	got := stats.Series(points, noon.Add(30*time.Second), noon.Add(15*time.Minute), 5*time.Minute)
	var n []uint64
	for i, p := range got {
		if want := noon.Add(time.Duration(i) * 5 * time.Minute); !p.At.Equal(want) {
			t.Errorf("piece %d begins at %v, want %v", i, p.At, want)
		}
		n = append(n, p.Counts.Get(stats.Events))
	}
	if !slices.Equal(n, []uint64{6, 0, 4}) {
		t.Errorf("pieces have %v, want 6, 0 and 4", n)
	}
	if total := stats.Total(got); total.Get(stats.Events) != 10 {
		t.Errorf("total %d, want 10", total.Get(stats.Events))
	}
	if stats.Series(points, noon, noon, time.Minute) != nil {
		t.Error("no time has pieces")
	}
}
