package watch_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/watch"
)

func TestStormRule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, retries int64
		want           bool
	}{
		{0, 101, true},
		{0, 100, false},
		{20, 101, true},
		{21, 105, false},
		{1000, 4999, false},
		{1000, 5001, true},
		{0, 0, false},
	} {
		c := watch.Counts{First: tc.first, Retries: tc.retries}
		if got := c.Storm(); got != tc.want {
			t.Errorf("Storm of %d first attempts and %d retries = %v, want %v", tc.first, tc.retries, got, tc.want)
		}
	}
}

// TestWindowHoldsFifteenMinutes compares a window with a plain list of
// attempts: at every boundary it holds those of the last 15 minutes, no older
// one and no fewer.
func TestWindowHoldsFifteenMinutes(t *testing.T) {
	t.Parallel()
	const span = watch.Buckets * watch.BucketWidth
	if span != 15*time.Minute {
		t.Fatalf("a window is %v", span)
	}
	rapid.Check(t, func(t *rapid.T) {
		type attempt struct {
			at    time.Duration
			retry bool
		}
		var w watch.Window
		var all []attempt
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			// Mostly close together, now and then a gap longer than the window.
			now += time.Duration(rapid.OneOf(
				rapid.Int64Range(0, int64(20*time.Second)), rapid.Int64Range(0, int64(40*time.Minute)),
			).Draw(t, "gap"))
			a := attempt{now, rapid.Bool().Draw(t, "retry")}
			all = append(all, a)
			w.Add(int64(now/watch.BucketWidth), a.retry)

			b := int64(now/watch.BucketWidth) + rapid.Int64Range(1, 70).Draw(t, "look")
			boundary := time.Duration(b) * watch.BucketWidth
			var want watch.Counts
			for _, a := range all {
				switch in := a.at >= boundary-span && a.at < boundary; {
				case in && a.retry:
					want.Retries++
				case in:
					want.First++
				}
			}
			look := w // looking at a copy: the window itself goes on from now
			if got := look.Counts(b); got != want {
				t.Fatalf("at %v: %+v, want %+v", boundary, got, want)
			}
			if empty := look.Empty(b); empty != (want == watch.Counts{}) {
				t.Fatalf("at %v: Empty = %v with %+v", boundary, empty, want)
			}
		}
	})
}

// TestBucketCountsWhenItIsFull keeps half a bucket out of the window.
func TestBucketCountsWhenItIsFull(t *testing.T) {
	t.Parallel()
	var w watch.Window
	w.Add(7, true)
	w.Add(7, false)
	if got := w.Counts(7); got != (watch.Counts{}) || w.Empty(7) {
		t.Errorf("while it is being filled: %+v, empty %v", got, w.Empty(7))
	}
	if got := w.Counts(8); got != (watch.Counts{First: 1, Retries: 1}) {
		t.Errorf("when it is full: %+v", got)
	}
	w.Add(3, true) // late: it counts where it can still be counted
	if got := w.Counts(9); got.Retries != 2 {
		t.Errorf("with a late one: %+v", got)
	}
}

// TestAlarmDoesNotFlap drives an alarm with any sequence of conditions.
func TestAlarmDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var a watch.Alarm
		now := time.Unix(1_800_000_000, 0)
		var raised, lastTrue time.Time
		for range rapid.IntRange(1, 400).Draw(t, "rounds") {
			now = now.Add(watch.BucketWidth)
			// Runs of the same answer, so that alarms do end.
			is := rapid.IntRange(0, 9).Draw(t, "condition") == 0
			if is {
				lastTrue = now
			}
			switch a.Judge(now, is, 5*time.Minute) {
			case watch.Raised:
				if !is || a.Since != now {
					t.Fatalf("raised with condition %v, since %v at %v", is, a.Since, now)
				}
				if !raised.IsZero() && now.Sub(raised) < 5*time.Minute {
					t.Fatalf("raised %v after it was raised before", now.Sub(raised))
				}
				raised = now
			case watch.Ended:
				if calm := now.Sub(lastTrue); calm < 5*time.Minute || calm > 5*time.Minute+watch.BucketWidth {
					t.Fatalf("ended %v after the condition was last true", calm)
				}
			case watch.Same:
				if is && !a.Active() {
					t.Fatal("a true condition raised nothing")
				}
				if a.Active() && now.Sub(lastTrue) > 5*time.Minute+watch.BucketWidth {
					t.Fatal("the alarm does not end")
				}
			}
		}
	})
}

func TestResumedAlarmEndsOrGoesOn(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	since := start.Add(-time.Hour)
	for name, stillTrueAt := range map[string]time.Duration{"over": 0, "still on": 4 * time.Minute} {
		var a watch.Alarm
		a.Resume(start, since)
		if !a.Active() || a.Since != since {
			t.Fatalf("%s: resumed as %+v", name, a)
		}
		var ended time.Duration
		for at := watch.BucketWidth; at <= 20*time.Minute && ended == 0; at += watch.BucketWidth {
			switch a.Judge(start.Add(at), stillTrueAt != 0 && at == stillTrueAt, 5*time.Minute) {
			case watch.Ended:
				ended = at
			case watch.Raised:
				t.Fatalf("%s: raised again", name)
			case watch.Same:
			}
		}
		want := 5 * time.Minute
		if stillTrueAt != 0 {
			want += stillTrueAt + watch.BucketWidth
		}
		if ended != want {
			t.Errorf("%s: ended after %v, want %v", name, ended, want)
		}
	}
}

// judgeDepths feeds one measurement every 15 s and returns at which ones the
// warning was raised and ended, counted from 0.
func judgeDepths(q *watch.Queue, depths []watch.Depth) (raised, ended []int) {
	now := time.Unix(1_800_000_000, 0)
	for i, d := range depths {
		switch q.Judge(now.Add(time.Duration(i)*watch.BucketWidth), d) {
		case watch.Raised:
			raised = append(raised, i)
		case watch.Ended:
			ended = append(ended, i)
		case watch.Same:
		}
	}
	return raised, ended
}

// levels repeats depths; it takes pairs of how often and which.
func levels(pairs ...int) (out []watch.Depth) {
	for i := 0; i < len(pairs); i += 2 {
		for range pairs[i] {
			out = append(out, watch.Depth{N: int64(pairs[i+1])})
		}
	}
	return out
}

func TestEarlyWarning(t *testing.T) {
	t.Parallel()
	capped := levels(1, 0, 60, 10_000)
	for i := 1; i < 41; i++ {
		capped[i].AtLeast = true
	}
	for name, tc := range map[string]struct {
		depths        []watch.Depth
		raised, ended int // -1: never
	}{
		"flat":                           {levels(50, 5000), -1, -1},
		"deep when measuring began":      {levels(1, 0, 1, 9999, 2, 0), -1, -1},
		"grown by 100":                   {levels(1, 0, 40, 100), -1, -1},
		"grown by 101, for three rounds": {levels(1, 0, 40, 101), 3, 23},
		"only twice":                     {levels(1, 0, 2, 200, 40, 50), -1, -1},
		"half more is not enough":        {levels(20, 1000, 40, 1500), -1, -1},
		"more than half more":            {levels(20, 1000, 40, 1501), 22, 42},
		"slower than five minutes":       {levels(21, 1000, 21, 1450, 21, 2100), -1, -1},
		"goes on growing, then shrinks":  {append(levels(1, 0, 3, 500, 10, 600, 10, 700), levels(40, 650)...), 3, 34},
		"too deep to be counted":         {capped, 3, 60},
		"a dip does not end it":          {levels(1, 0, 3, 500, 5, 0, 5, 501, 30, 0), 3, 29},
		"flat after it has grown":        {levels(1, 0, 30, 500), 3, 23},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q watch.Queue
			raised, ended := judgeDepths(&q, tc.depths)
			if got := firstOf(raised); got != tc.raised {
				t.Errorf("raised at %v, want %d", raised, tc.raised)
			}
			if got := firstOf(ended); got != tc.ended {
				t.Errorf("ended at %v, want %d", ended, tc.ended)
			}
			if q.Growing() != (len(raised) > len(ended)) {
				t.Errorf("Growing = %v after %v and %v", q.Growing(), raised, ended)
			}
		})
	}
}

func firstOf(list []int) int {
	if len(list) == 0 {
		return -1
	}
	return list[0]
}

// TestEarlyWarningDoesNotFlap drives a queue with any depths.
func TestEarlyWarningDoesNotFlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var depths []watch.Depth
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 2000), 1, 300).Draw(t, "depths") {
			depths = append(depths, watch.Depth{N: n})
		}
		var q watch.Queue
		raised, ended := judgeDepths(&q, depths)
		for i, e := range ended {
			if e-raised[i] < 20 {
				t.Fatalf("raised at %v, ended at %v: less than 5 minutes", raised, ended)
			}
		}
	})
}

func TestForecast(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		depths []watch.Depth
		want   float64
	}{
		"nothing measured":      {nil, 0},
		"measured once":         {levels(1, 500), 0},
		"drains":                {levels(1, 500, 1, 475, 1, 450, 1, 425, 1, 400), 100},
		"grows":                 {levels(4, 100, 1, 160), -60},
		"only the last minute":  {levels(30, 9000, 5, 300), 0},
		"less than a minute":    {levels(1, 500, 1, 450), 200},
		"flat":                  {levels(10, 500), 0},
		"more than the ring":    {levels(100, 500, 1, 400), 100},
		"minute across the rim": {levels(48, 1000, 1, 900, 3, 800), 200},
	} {
		var q watch.Queue
		judgeDepths(&q, tc.depths)
		now := time.Unix(1_800_000_000, 0).Add(time.Duration(max(len(tc.depths)-1, 0)) * watch.BucketWidth)
		if got := q.DrainPerMinute(now); got != tc.want {
			t.Errorf("%s: drains %v a minute, want %v", name, got, tc.want)
		}
	}
}

func TestTrend(t *testing.T) {
	t.Parallel()
	grow := func(from, minutes int) (out []int64) {
		for i := range minutes {
			out = append(out, int64(from+i))
		}
		return out
	}
	for name, tc := range map[string]struct {
		sums          []int64 // one a minute
		raised, ended int
	}{
		"nine minutes":        {append(grow(0, 10), 9, 9), -1, -1},
		"ten minutes":         {grow(0, 12), 10, -1},
		"a pause in between":  {append(grow(0, 8), grow(7, 9)...), -1, -1},
		"shrinks":             {[]int64{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0}, -1, -1},
		"ends after five":     {append(grow(0, 12), 5, 4, 3, 2, 1, 0, 0), 10, 16},
		"grows on, then ends": {append(grow(0, 12), 5, 4, 3, 4, 3, 3, 3, 3, 3), 10, 20},
	} {
		var tr watch.Trend
		raised, ended := -1, -1
		start := time.Unix(1_800_000_000, 0)
		for m, sum := range tc.sums {
			for quarter := range 4 { // the rounds within the minute do not count
				at := start.Add(time.Duration(m)*time.Minute + time.Duration(quarter)*watch.BucketWidth)
				noise := int64(quarter * 1000)
				switch tr.Judge(at, sum+noise) {
				case watch.Raised:
					raised = m
				case watch.Ended:
					ended = m
				case watch.Same:
				}
			}
		}
		if raised != tc.raised || ended != tc.ended {
			t.Errorf("%s: raised at %d, ended at %d, want %d and %d", name, raised, ended, tc.raised, tc.ended)
		}
	}
}

func TestManyOpened(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		opened, lanes int64
		want          bool
	}{
		{4, 4, false}, {5, 5, true}, {5, 50, true}, {5, 51, false}, {0, 0, false}, {99, 1000, false}, {100, 1000, true},
	} {
		if got := watch.ManyOpened(tc.opened, tc.lanes); got != tc.want {
			t.Errorf("ManyOpened(%d of %d) = %v, want %v", tc.opened, tc.lanes, got, tc.want)
		}
	}
}
