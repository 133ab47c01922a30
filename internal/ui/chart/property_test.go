package chart_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/ui/chart"
)

// The bytes a plot may have, whatever it is given: six areas, six lines and everything else at its bound. A
// plot of three areas and a line has 10 kB.
const worstPlot = 64 * kilobyte

func drawValue(t *rapid.T) float64 {
	return rapid.OneOf(
		rapid.Float64Range(0, 1000),
		rapid.SampledFrom([]float64{0, 0, 1, nan, nan, math.Inf(1), math.Inf(-1), -5, 1e300, 1e-300, 12772, 1e15}),
	).Draw(t, "value")
}

func drawValues(t *rapid.T, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = drawValue(t)
	}
	return out
}

func drawSeries(t *rapid.T, n, most int) []chart.Series {
	var out []chart.Series
	for range rapid.IntRange(0, most).Draw(t, "series") {
		out = append(out, chart.Series{
			Name: drawText(t), Style: chart.Style(rapid.IntRange(0, 40).Draw(t, "style")), Step: rapid.Bool().Draw(t, "step"),
			Values: drawValues(t, rapid.IntRange(0, n).Draw(t, "values")), Now: drawText(t),
		})
	}
	return out
}

func drawText(t *rapid.T) string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<script>", `"`, "holding, 22 m 05 s"})).Draw(t, "text")
}

func drawTime(t *rapid.T, w chart.Window) time.Time {
	share := rapid.Float64Range(-.2, 1.2).Draw(t, "when")
	return w.From.Add(time.Duration(share * float64(w.To.Sub(w.From))))
}

func drawWindow(t *rapid.T) chart.Window {
	length := rapid.OneOf(
		rapid.Int64Range(0, int64(time.Minute)),
		rapid.SampledFrom([]int64{int64(15 * time.Minute), int64(time.Hour), int64(24 * time.Hour), int64(168 * time.Hour)}),
		rapid.Int64Range(int64(time.Second), int64(20*365*24*time.Hour)),
	).Draw(t, "length")
	end := now.Add(time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "end")))
	return chart.Window{From: end.Add(-time.Duration(length)), To: end, Elapsed: rapid.Bool().Draw(t, "elapsed")}
}

func drawPlot(t *rapid.T) chart.Plot {
	w := drawWindow(t)
	n := rapid.IntRange(0, 400).Draw(t, "buckets")
	p := chart.Plot{
		Title: drawText(t), Sentence: drawText(t), Window: w, Height: rapid.IntRange(-5, 500).Draw(t, "height"),
		Y: chart.Axis{
			Log: rapid.Bool().Draw(t, "log"), Whole: rapid.Bool().Draw(t, "whole"), Unit: chart.Unit(rapid.IntRange(0, 2).Draw(t, "unit")),
			Least: drawValue(t), Low: rapid.SampledFrom([]float64{0, .5, nan, -1, 50}).Draw(t, "low"),
		},
		Half: rapid.Bool().Draw(t, "half"), NoTimes: rapid.Bool().Draw(t, "no times"), Now: drawTime(t, w), Cursor: drawTime(t, w),
	}
	if rapid.Bool().Draw(t, "bucketed") {
		p.Bucket = w.To.Sub(w.From) / time.Duration(max(n, 1))
		p.Times = buckets(w.From, n, p.Bucket)
	} else {
		for range n {
			p.Times = append(p.Times, drawTime(t, w))
		}
	}
	p.Areas, p.Bars, p.Lines = drawSeries(t, n, 3), drawSeries(t, n, 1), drawSeries(t, n, 3)
	for range rapid.IntRange(0, 4).Draw(t, "others") {
		p.Limits = append(p.Limits, chart.Threshold{Value: drawValue(t), Style: chart.Ceiling, Label: drawText(t)})
		p.Bands = append(p.Bands, chart.Band{From: drawTime(t, w), To: drawTime(t, w), Label: drawText(t), Detail: drawText(t)})
		p.Marks = append(p.Marks, chart.Mark{At: drawTime(t, w), Letter: drawText(t)})
		p.Probes = append(p.Probes, drawTime(t, w))
		p.Notes = append(p.Notes, chart.Note{At: drawTime(t, w), Value: drawValue(t), Style: chart.Held, Text: drawText(t)})
	}
	return p
}

func TestAnyPlotKeepsTheRules(t *testing.T) {
	t.Parallel()
	classes := styled(t)
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlot(t)
		html := string(p.HTML()) + string(chart.Legend(p.Entries()))
		doc, err := read(html, classes)
		if err != nil {
			t.Fatal(err)
		}
		if doc.rows > chart.MaxRows {
			t.Errorf("%d rows", doc.rows)
		}
		if len(p.Picture()) > worstPlot {
			t.Errorf("%d bytes", len(p.Picture()))
		}
		for _, number := range []string{`"NaN`, `"+Inf`, `"-Inf`, ">NaN<", ">+Inf<", ">-Inf<"} {
			if strings.Contains(html, number) {
				t.Errorf("the plot shows %s", number)
			}
		}
	})
}

// TestTheLargestPlotStaysInItsBudget fills everything that is bounded to the bound and beyond.
func TestTheLargestPlotStaysInItsBudget(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	w := chart.Last(now, time.Hour)
	p := chart.Plot{Window: w, Times: buckets(w.From, 720, 5*time.Second), Bucket: 5 * time.Second, Height: 400}
	for i := range 40 {
		noise := chart.Series{Name: "a series", Style: chart.Held, Step: i%2 == 0, Values: curve(720, func(int) float64 { return 1000 * r.Float64() })}
		p.Areas, p.Bars, p.Lines = append(p.Areas, noise), append(p.Bars, noise), append(p.Lines, noise)
		at := w.From.Add(time.Duration(i) * 80 * time.Second)
		p.Bands = append(p.Bands, chart.Band{From: at, To: at.Add(40 * time.Second), Label: "x"})
		p.Marks = append(p.Marks, chart.Mark{At: at, Letter: "M"})
		p.Notes = append(p.Notes, chart.Note{At: at, Value: 5, Text: "a note"})
		p.Limits = append(p.Limits, chart.Threshold{Value: float64(i), Style: chart.Ceiling, Label: "a limit"})
	}
	for i := range 3600 {
		p.Probes = append(p.Probes, w.From.Add(time.Duration(i)*time.Second))
	}
	if _, err := read(string(p.HTML()), styled(t)); err != nil {
		t.Fatal(err)
	}
	if n := len(p.Picture()); n > worstPlot {
		t.Errorf("%d bytes", n)
	} else {
		t.Logf("%d bytes", n)
	}
}

func TestAnyOtherPictureKeepsTheRules(t *testing.T) {
	t.Parallel()
	classes := styled(t)
	rapid.Check(t, func(t *rapid.T) {
		w := drawWindow(t)
		n := rapid.OneOf(rapid.IntRange(0, 12), rapid.IntRange(0, 130)).Draw(t, "n")
		span := func() (time.Time, time.Time) { return drawTime(t, w), drawTime(t, w) }
		ribbon := chart.Ribbon{Title: drawText(t), Sentence: drawText(t), Window: w}
		alerts := chart.AlertLanes{Title: drawText(t), Sentence: drawText(t), Window: w}
		line := chart.Timeline{Accepted: drawTime(t, w), Now: drawTime(t, w), AcceptedLabel: drawText(t), NowLabel: drawText(t), Past: drawText(t), Ahead: drawText(t)}
		strip := make([]chart.HealthCell, n)
		pace := chart.ReplayPace{Title: drawText(t), End: time.Duration(rapid.Int64Range(0, int64(9*time.Hour)).Draw(t, "end")), Done: drawText(t), Condition: drawText(t)}
		ladder := chart.Ladder{Sentence: drawText(t)}
		for i := range n {
			from, to := span()
			ribbon.Spans = append(ribbon.Spans, chart.GateSpan{From: from, To: to, State: chart.State(i % 14), Label: drawText(t)})
			alerts.Lanes = append(alerts.Lanes, chart.AlertLane{Rule: drawText(t), Severity: chart.Severity(i % 4), Firings: []chart.Firing{{From: from, To: to}, {From: to}}})
			line.Attempts = append(line.Attempts, chart.Attempt{Number: i + 1, At: from, Class: chart.Class(i % 9), Code: drawText(t), Selected: i == 3})
			line.Holds = append(line.Holds, chart.Pause{From: from, To: to, Label: drawText(t), Reason: drawText(t)})
			line.Due = append(line.Due, chart.Due{Number: i, From: from, To: to, Label: drawText(t), Note: drawText(t)})
			strip[i] = chart.HealthCell{Failed: drawValue(t), Held: i%3 == 0}
			pace.Steps = append(pace.Steps, chart.PaceStep{After: pace.End * time.Duration(i) / time.Duration(n), PerMinute: drawValue(t), Sent: drawValue(t)})
			ladder.Rungs = append(ladder.Rungs, chart.Rung{Floor: from.Sub(to), Mean: to.Sub(from), Ceiling: w.To.Sub(from)})
		}
		line.Waits = line.Holds
		lane := chart.Lane{
			State: chart.State(rapid.IntRange(0, 20).Draw(t, "state")), Badge: drawText(t), Spark: chart.Spark{Values: drawValues(t, n), Floor: drawValue(t), Top: drawValue(t)},
			Queues: []chart.Queue{{drawText(t), chart.Held, rapid.Int64().Draw(t, "held")}}, Largest: rapid.Int64().Draw(t, "largest"),
			Slots:  chart.Slots{Limit: rapid.IntRange(-5, 500).Draw(t, "limit"), New: rapid.IntRange(-5, 500).Draw(t, "new"), Backlog: rapid.IntRange(-5, 500).Draw(t, "old")},
			Answer: drawText(t), AnswerClass: chart.Class(rapid.IntRange(0, 20).Draw(t, "class")),
		}
		course := chart.Course{
			Window: w, Now: drawTime(t, w), Times: buckets(w.From, n, time.Minute), PerMinute: drawValues(t, n), Next: drawValue(t), NextLabel: drawText(t), NowLabel: drawText(t),
			ErrorTimes: buckets(w.From, n, time.Minute), ErrorBucket: time.Minute, ErrorPercent: drawValues(t, n), LimitPercent: drawValue(t), LimitLabel: drawText(t),
		}
		sim := chart.Simulation{
			Title: drawText(t), Bucket: time.Duration(rapid.Int64Range(-5, int64(time.Hour)).Draw(t, "bucket")), Arrivals: drawValues(t, n), Delivered: drawValues(t, n/2),
			Capacity: drawValue(t), CapacityLabel: drawText(t), DownTo: time.Minute, Top: drawValue(t), PeakValue: drawValue(t), PeakLabel: drawText(t),
		}
		for name, html := range map[string]string{
			"ribbon": string(ribbon.HTML()), "alerts": string(alerts.HTML()), "timeline": string(line.HTML()), "health": string(chart.Health(strip, drawText(t))),
			"pace": string(pace.HTML()), "ladder": string(ladder.HTML()), "lane": string(lane.HTML()), "course": string(course.HTML()), "simulation": string(sim.HTML()),
			"bar": string(chart.Bar(drawValue(t), chart.Held)), "bullet": string(chart.Bullet(drawValue(t), drawValue(t), chart.Warn)),
			"wait":     string(chart.WaitBar(drawValue(t), drawValue(t), drawValue(t))),
			"progress": string(chart.Progress{Total: drawValue(t), Delivered: drawValue(t), Failed: drawValue(t), Underway: drawValue(t)}.HTML()),
			"defs":     string(chart.Defs()),
		} {
			doc, err := read(html, classes)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if doc.rows > chart.MaxRows {
				t.Errorf("%s: %d rows", name, doc.rows)
			}
			if len(html) > worstPlot {
				t.Errorf("%s: %d bytes", name, len(html))
			}
		}
	})
}

// TestGapsStayGaps compares what is drawn with what was given: the line covers every bucket with a value and
// no bucket without one.
func TestGapsStayGaps(t *testing.T) {
	t.Parallel()
	classes := styled(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		w := chart.Last(now, time.Duration(n)*20*time.Second)
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i%7) + 1
			if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
				values[i] = nan
			}
		}
		times := buckets(w.From, n, 20*time.Second)
		if missing := rapid.IntRange(-1, n-1).Draw(t, "missing row"); missing >= 0 {
			times, values = slices.Delete(times, missing, missing+1), slices.Delete(values, missing, missing+1)
		}
		series := chart.Series{Name: "v", Style: chart.Style(rapid.SampledFrom([]int{int(chart.Median), int(chart.Limit)}).Draw(t, "style")), Values: values, Step: rapid.Bool().Draw(t, "step")}
		p := chart.Plot{Window: w, Times: times, Bucket: 20 * time.Second, Lines: []chart.Series{series}}
		doc, err := read(string(p.Picture()), classes)
		if err != nil {
			t.Fatal(err)
		}
		covered := func(x float64) bool {
			for _, path := range doc.paths {
				for _, s := range path.subpaths {
					if s[0][0] <= x && x <= s[len(s)-1][0] {
						return true
					}
				}
			}
			return false
		}
		for i := range n {
			at := w.From.Add(time.Duration(i) * 20 * time.Second)
			k := slices.IndexFunc(times, at.Equal)
			want := k >= 0 && !math.IsNaN(values[k])
			if middle := (float64(i) + .5) / float64(n) * 1000; covered(middle) != want {
				t.Fatalf("bucket %d of %d: drawn %v, has a value %v", i, n, !want, want)
			}
		}
	})
}

func TestAMeasuredZeroIsDrawnAndALoneValueToo(t *testing.T) {
	t.Parallel()
	w := chart.Last(now, time.Hour)
	p := chart.Plot{Window: w, Times: buckets(w.From, 180, 20*time.Second), Bucket: 20 * time.Second}
	values := curve(180, func(int) float64 { return nan })
	values[90] = 0
	values[100] = 5
	p.Areas = []chart.Series{{Style: chart.First, Values: values}}
	html := string(p.Picture())
	if !strings.Contains(html, `class="ln l-first" d="M500 148l5.6 0M555.6 `) {
		t.Errorf("no line for the zero: %s", html)
	}
	if !strings.Contains(html, `class="f-soft" d="M555.6 `) {
		t.Errorf("no bar for the lone value: %s", html)
	}
}

func TestARunningBucketIsNotDrawn(t *testing.T) {
	t.Parallel()
	w := chart.Last(now, time.Hour)
	p := chart.Plot{Window: w, Times: []time.Time{now.Add(-40 * time.Second), now.Add(-10 * time.Second)}, Bucket: 30 * time.Second, Lines: []chart.Series{{Style: chart.Limit, Values: []float64{4, 99}}}}
	if html := string(p.HTML()); strings.Contains(html, "99") {
		t.Errorf("the running bucket is shown: %s", html)
	}
}

func TestValueTicksAreRoundAndInside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := chart.Axis{Log: rapid.Bool().Draw(t, "log"), Whole: rapid.Bool().Draw(t, "whole")}
		high := math.Pow(10, rapid.Float64Range(-5, 14).Draw(t, "high"))
		low := high * rapid.Float64Range(1e-6, 1).Draw(t, "low")
		height := rapid.Float64Range(54, 300).Draw(t, "height")
		values, at, labels := chart.Ticks(a, low, high, height)
		if len(values) < 2 || len(values) > 5 || !a.Log && len(values) < 3 {
			t.Fatalf("%v has %d ticks: %v", high, len(values), values)
		}
		if top := values[len(values)-1]; !a.Log && top < 1.1*high*(1-1e-9) {
			t.Errorf("the top %v is below 1.1 times %v", top, high)
		}
		for i, v := range values {
			step := v
			if !a.Log {
				step = values[1]
			}
			if v > 0 && !round(step) {
				t.Errorf("%v is not round", step)
			}
			if at[i] < 0 || at[i] > 1 || i > 0 && (at[i]-at[i-1])*height < 10 {
				t.Errorf("ticks %v stand at %v of %v px", values, at, height)
			}
			if i > 0 && labels[i] == labels[i-1] {
				t.Errorf("two ticks are called %q", labels[i])
			}
			if chart.TextWidth(labels[i]) > 44-8 {
				t.Errorf("%q is wider than its gutter", labels[i])
			}
		}
	})
}

func round(v float64) bool {
	m := v / math.Pow(10, math.Floor(math.Log10(v)+1e-9))
	return slices.ContainsFunc([]float64{1, 2, 5}, func(r float64) bool { return math.Abs(m-r) < 1e-6 })
}

func TestTimeTicksOfTheWindows(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration]string{
		15 * time.Minute:   "03:00 03:03 03:06 03:09 03:12",
		time.Hour:          "02:20 02:30 02:40 02:50 03:00 03:10",
		24 * time.Hour:     "04:00 08:00 12:00 16:00 20:00 00:00",
		7 * 24 * time.Hour: "10 Nov, 11 Nov, 12 Nov, 13 Nov, 14 Nov, 15 Nov, 16 Nov",
	} {
		_, labels := chart.TimeTicks(chart.Last(now, length), 7)
		if got := strings.Join(labels, " "); got != want && strings.Join(labels, ", ") != want {
			t.Errorf("%v: %s, want %s", length, got, want)
		}
	}
}

func TestTimeLabelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	narrow, phone := chart.Widths()
	for length := 10 * time.Millisecond; length < 20*365*24*time.Hour; length += length/6 + 1 {
		for shift := range 5 {
			end := now.Add(length / 7 * time.Duration(shift))
			for _, w := range []chart.Window{chart.Last(end, length), {From: end.Add(-length), To: end, Elapsed: true}} {
				at, labels := chart.TimeTicks(w, 7)
				if len(at) < 2 {
					t.Fatalf("ticks of %v: %v", length, labels)
				}
				apart := func(i, j int, width float64) bool {
					return (at[j]-at[i])*width >= (chart.TextWidth(labels[i])+chart.TextWidth(labels[j]))/2
				}
				for i := range at {
					if at[i] < 0 || at[i] > 1 {
						t.Errorf("%v: tick at %v", length, at[i])
					}
					if i >= 1 && !apart(i-1, i, narrow) {
						t.Errorf("%v: %q and %q overlap at %v px", length, labels[i-1], labels[i], narrow)
					}
					if i >= 2 && i%2 == 0 && !apart(i-2, i, phone) {
						t.Errorf("%v: %q and %q overlap on a phone", length, labels[i-2], labels[i])
					}
				}
			}
		}
	}
}

func TestWhatIsOutsideOfTheWindowIsNotDrawn(t *testing.T) {
	t.Parallel()
	w := chart.Last(now, time.Hour)
	for _, at := range []time.Time{now.Add(time.Second), w.From.Add(-10 * time.Second)} {
		empty := chart.Plot{Window: w}
		p := chart.Plot{
			Window: w, Times: []time.Time{at}, Bucket: 5 * time.Second, Lines: []chart.Series{{Style: chart.Limit, Values: []float64{0}}}, Now: at, Cursor: at,
			Bands: []chart.Band{{From: at, To: at.Add(5 * time.Second)}}, Marks: []chart.Mark{{At: at, Letter: "A"}}, Probes: []time.Time{at}, Notes: []chart.Note{{At: at, Text: "note"}},
		}
		if got, want := p.Picture(), empty.Picture(); got != want {
			t.Errorf("something is drawn: %s", got)
		}
		line := chart.Timeline{Accepted: w.From, Now: now, Attempts: []chart.Attempt{{Number: 1, At: at.Add(-2 * time.Hour), Code: "503"}}}
		if html := string(line.HTML()); strings.Contains(html, "503") {
			t.Errorf("the attempt is drawn: %s", html)
		}
		strip := chart.Ribbon{Window: w, Spans: []chart.GateSpan{{From: at, To: at.Add(5 * time.Second), State: chart.Holding}}}
		if html := string(strip.HTML()); strings.Contains(html, "<rect") {
			t.Errorf("the span is drawn: %s", html)
		}
	}
}

func TestNumbersOfAttemptsDoNotOverlap(t *testing.T) {
	t.Parallel()
	width := chart.PastWidth()
	rapid.Check(t, func(t *rapid.T) {
		w := chart.Last(now, time.Hour)
		var attempts []chart.Attempt
		var when []int
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			when = append(when, rapid.IntRange(0, 3600).Draw(t, "at"))
		}
		slices.Sort(when)
		for i, s := range when {
			attempts = append(attempts, chart.Attempt{Number: i + 1, At: w.From.Add(time.Duration(s) * time.Second), Code: strconv.Itoa(rapid.SampledFrom([]int{200, 503}).Draw(t, "code"))})
		}
		labels, widths, anchors, at := chart.NumberLabels(w, attempts, width)
		for i := range at {
			if at[i]-widths[i]/2 < -.01 || at[i]+widths[i]/2 > width+.01 {
				t.Errorf("%s stands at %v, outside", labels[i], at[i])
			}
			if i > 0 && at[i]-at[i-1] < (widths[i]+widths[i-1])/2-.01 {
				t.Errorf("%s and %s overlap", labels[i-1], labels[i])
			}
			if len(at) > 1 && math.Abs(at[i]-anchors[i]) > 22.01 {
				t.Errorf("%s stands %v px from its place", labels[i], at[i]-anchors[i])
			}
		}
		if !strings.HasPrefix(labels[0], "1") || !strings.HasSuffix(labels[len(labels)-1], strconv.Itoa(len(when))) {
			t.Errorf("labels %v of %d attempts", labels, len(when))
		}
	})
}
