package chart

import (
	"html/template"
	"math"
	"time"
)

// Rung is the wait before one attempt: drawn between floor and ceiling.
type Rung struct {
	Floor, Mean, Ceiling time.Duration
}

// Ladder is the waits of a policy on a logarithmic axis from 1 s to 6 h, or as far as they go. Its rows are as
// high as those of the table beside it.
type Ladder struct {
	Sentence string
	Rungs    []Rung
}

const (
	maxRungs = 60
	rungHigh = 26.0
)

var ladderTicks = []struct {
	at    time.Duration
	label string
}{
	{time.Second, "1 s"},
	{10 * time.Second, "10 s"},
	{time.Minute, "1 m"},
	{10 * time.Minute, "10 m"},
	{time.Hour, "1 h"},
	{6 * time.Hour, "6 h"},
	{day, "1 d"},
	{7 * day, "7 d"},
	{30 * day, "30 d"},
	{365 * day, "1 y"},
}

// HTML is the plot.
func (l Ladder) HTML() template.HTML {
	rungs := l.Rungs[:min(len(l.Rungs), maxRungs)]
	end := 30000.0
	for _, r := range rungs {
		end = max(end, r.Ceiling.Seconds()*1.4)
	}
	x := func(d time.Duration) float64 { return share(math.Log(max(d.Seconds(), 1)), math.Log(end)) }
	high := max(float64(len(rungs)), 1) * rungHigh
	var m markup
	m.lit(`<div class="plot flush">`)
	m.picture(high+20, "Waits on a logarithmic axis", l.Sentence)
	last := -1.0
	for i, t := range ladderTicks {
		at := x(t.at)
		if at >= 1 && t.at > 6*time.Hour {
			break
		}
		m.vertical("grid", at, 0, high)
		if (at-last)*full.phone < 30 {
			continue
		}
		last = at
		class := literal("x")
		if i == 0 {
			class = "x first"
		}
		m.label(class, at, high+15, t.label)
	}
	for i, r := range rungs {
		y := float64(i)*rungHigh + rungHigh/2
		from, to := x(min(r.Floor, r.Ceiling)), x(r.Ceiling)
		m.lit(`<rect class="f-soft"`)
		m.span(from, to)
		m.num("y", y-7)
		m.lit(` height="14" rx="2"/>`)
		m.vertical("ln l-first thick", to, y-7, y+7)
		m.lit(`<circle class="f-first"`)
		m.pct("cx", x(r.Mean))
		m.num("cy", y)
		m.lit(` r="3.5"/>`)
	}
	m.lit("</svg></div>")
	return m.html()
}

// Simulation is a simulated outage: arrivals as bars, delivered as a line, the capacity dashed; logarithmic from 0.5,
// with the same axes for every policy that is compared.
type Simulation struct {
	Title, Sentence     string
	Bucket              time.Duration
	Arrivals, Delivered []float64 // per second; the highest second, and the mean of a bucket
	Capacity            float64
	CapacityLabel       string
	DownFrom, DownTo    time.Duration
	DownLabel           string
	Top                 float64 // of the axis, the same for all
	PeakAfter           time.Duration
	PeakValue           float64
	PeakLabel           string // empty: no note
	Rival               bool
	NoTimes             bool
}

// HTML is the plot.
func (s Simulation) HTML() template.HTML {
	start := time.Unix(0, 0).UTC()
	n := max(len(s.Arrivals), len(s.Delivered), 1)
	bucket := max(s.Bucket, time.Millisecond)
	p := Plot{
		Title: s.Title, Sentence: s.Sentence, Height: 128, Bucket: bucket, NoTimes: s.NoTimes, Half: true,
		Window: Window{From: start, To: start.Add(time.Duration(n) * bucket), Elapsed: true},
		Y:      Axis{Log: true, Low: .5, Least: positive(s.Top)},
		Bars:   []Series{{Name: "arrivals/s", Style: Arrivals, Values: s.Arrivals}},
		Lines:  []Series{{Name: "delivered/s", Style: Delivered, Values: s.Delivered}},
	}
	if s.Rival {
		p.Bars[0].Style = Rival
	}
	for i := range n {
		p.Times = append(p.Times, start.Add(time.Duration(i)*bucket))
	}
	if s.DownTo > s.DownFrom {
		p.Bands = []Band{{From: start.Add(s.DownFrom), To: start.Add(s.DownTo), Label: s.DownLabel}}
	}
	if s.Capacity > 0 {
		p.Limits = []Threshold{{Value: s.Capacity, Style: Capacity, Label: s.CapacityLabel}}
	}
	if s.PeakLabel != "" {
		p.Notes = []Note{{At: start.Add(s.PeakAfter), Value: s.PeakValue, Style: p.Bars[0].Style, Text: s.PeakLabel}}
	}
	return p.HTML()
}
