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
		c.Add(stats.Counter(rapid.Uint16Range(1, 2100).Draw(t, "counter")), rapid.Uint64Range(1, 1<<40).Draw(t, "n"))
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

// TestLogsAddUp: whatever entries logs hold, and whatever of them was written and
// ended, the sums of endpoints, tenants and the system are what counts.
func TestLogsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sums, want := make(stats.Sums), make(map[stats.Subject]uint64)
		for range rapid.IntRange(1, 5).Draw(t, "logs") {
			addLog(t, sums, want)
		}
		got := make(map[stats.Subject]uint64)
		for _, r := range sums.Rows() {
			got[r.Subject] += r.Counts.Get(stats.Events) + r.Counts.Get(stats.DeliveryTook(time.Hour))
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

// addLog adds a log to sums, and what counts of it to want.
func addLog(t *rapid.T, sums stats.Sums, want map[stats.Subject]uint64) {
	subset := func(name string) map[hook.ID]bool {
		if rapid.Bool().Draw(t, "all "+name) {
			return nil
		}
		set := make(map[hook.ID]bool)
		for _, id := range rapid.SliceOf(rapid.IntRange(1, 9)).Draw(t, name) {
			set[hook.ID(id)<<40] = true
		}
		return set
	}
	r := stats.Record{At: noon.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "at")) * time.Second), Written: subset("written"), Ended: subset("ended")}
	count := func(o stats.Owner, n uint64) {
		want[stats.Subject{Level: stats.OfTenant, ID: o.Tenant}] += n
		want[stats.Subject{}] += n
		if o.Endpoint != 0 {
			want[stats.Subject{Level: stats.OfEndpoint, ID: o.Endpoint}] += n
		}
	}
	var l stats.Log
	for range rapid.IntRange(0, 8).Draw(t, "entries") {
		id := hook.ID(rapid.IntRange(1, 9).Draw(t, "id")) << 40
		o := stats.Owner{Tenant: hook.ID(rapid.IntRange(1, 2).Draw(t, "tenant"))}
		o.Endpoint = hook.ID(rapid.IntRange(0, 2).Draw(t, "endpoint"))
		if o.Endpoint != 0 {
			o.Endpoint += 10 * o.Tenant
		}
		n, ends := rapid.Uint64Range(1, 1<<40).Draw(t, "n"), rapid.Uint64Range(0, 300).Draw(t, "ends")
		l.Begin(id, o)
		l.Count(stats.Events, n)
		if ends > 0 {
			l.IfEnded()
			l.Count(stats.DeliveryTook(time.Hour), ends)
		}
		l.End()
		if r.Written == nil || r.Written[id] {
			count(o, n)
			if ends > 0 && (r.Ended == nil || r.Ended[id]) {
				count(o, ends)
			}
		}
	}
	r.Packed = l.Packed()
	if err := sums.Add(&r); err != nil {
		t.Fatalf("Add: %v", err)
	}
}

func FuzzLog(f *testing.F) {
	var l stats.Log
	l.Begin(1<<60, stats.Owner{Tenant: 1 << 50, Endpoint: 1 << 51})
	l.Count(stats.Events, 3)
	l.IfEnded()
	l.Count(stats.Delivered(1), 1)
	l.End()
	f.Add(l.Packed())
	f.Add(l.Packed()[:5])
	f.Add([]byte{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		sums := make(stats.Sums)
		_ = sums.Add(&stats.Record{At: noon, Packed: b}) // must end, whatever it says
		sums.Rows()
		if err := sums.Add(&stats.Record{At: noon, Packed: append(b, 0x80)}); err == nil && len(b) > 0 && b[len(b)-1] < 0x80 {
			t.Errorf("a log that ends in the middle of a number passed")
		}
	})
}

// TestGaugesKeepTheGreatest: and tell nothing of a tenant.
func TestGaugesKeepTheGreatest(t *testing.T) {
	t.Parallel()
	sums := make(stats.Sums)
	for i, limit := range []uint64{7, 20, 3} {
		var gauge stats.Log // of somebody who does not know the tenant
		gauge.Begin(0, stats.Owner{Endpoint: 2})
		gauge.Tell(stats.Held, limit)
		gauge.End()
		if err := sums.Add(&stats.Record{At: noon, Packed: gauge.Packed()}); err != nil {
			t.Fatal(err)
		}
		var l stats.Log
		l.Begin(hook.ID(i), stats.Owner{Tenant: 1, Endpoint: 2})
		l.Tell(stats.Limit, limit)
		l.Tell(stats.LimitLow, limit)
		l.Tell(stats.Breaker, 0)
		l.Count(stats.Events, 1)
		l.End()
		if err := sums.Add(&stats.Record{At: noon, Packed: l.Packed()}); err != nil {
			t.Fatal(err)
		}
	}
	rows := sums.Rows()
	if len(rows) != 3 {
		t.Errorf("%d rows, want those of endpoint, tenant and system", len(rows))
	}
	for _, r := range rows {
		ofEndpoint := r.Subject.Level == stats.OfEndpoint
		for g, want := range map[stats.Counter]uint64{stats.Limit: 20, stats.LimitLow: 3, stats.Breaker: 0, stats.Held: 20} {
			if v, told := r.Counts.Gauge(g); told != ofEndpoint || told && v != want {
				t.Errorf("%v: gauge %d is %d, %v; want %d", r.Subject, g, v, told, want)
			}
		}
		if n := r.Counts.Get(stats.Events); n != 3 {
			t.Errorf("%v: %d events, want 3", r.Subject, n)
		}
	}
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
