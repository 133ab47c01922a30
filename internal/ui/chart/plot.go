package chart

import (
	"html/template"
	"math"
	"time"
)

// Bounds of a plot. What is above them could not be read, and keeps the markup small.
const (
	MaxAreas  = 6
	MaxLines  = 6
	MaxBands  = 24
	MaxMarks  = 26
	MaxNotes  = 8
	maxProbes = 90
)

// Plot is a chart on a time axis.
type Plot struct {
	Title, Sentence string // what it is, and what it shows
	Window          Window
	Height          int // of the axis; 16 to 400, 148 if 0
	Y               Axis
	Times           []time.Time   // starts of the buckets, ascending
	Bucket          time.Duration // 0: values at moments
	Areas           []Series      // stacked, the lowest first
	Bars            []Series      // at most one series: the highest value of each bucket
	Lines           []Series
	Limits          []Threshold
	Bands           []Band
	Marks           []Mark
	Probes          []time.Time // ▲ on the axis
	Notes           []Note
	Now             time.Time // a line where the present is, if it is not the right edge
	Cursor          time.Time
	Half            bool // stands beside another plot
	NoTimes         bool // another plot below has the labels of the time axis
}

// Threshold is a horizontal line with a label at its right end.
type Threshold struct {
	Value float64
	Style Style
	Label string
}

// Band is time in which the breaker was open, or something like it.
type Band struct {
	From, To      time.Time
	Label, Detail string
}

// Mark is a moment with a letter, which a list beside the plot explains.
type Mark struct {
	At     time.Time
	Letter string
}

// Note is a dot with a text.
type Note struct {
	At    time.Time
	Value float64
	Style Style
	Text  string
}

// frame is a plot being drawn: what is behind the paths, the paths, and what is before them.
type frame struct {
	w                  Window
	h                  float64
	y                  scale
	room               room
	above, below       float64 // room over and under the axis
	back, inner, front markup
}

func newFrame(w Window, height, least float64, narrow bool) *frame {
	f := &frame{w: w, h: min(max(height, least), 400), room: full}
	if narrow {
		f.room = half
	}
	return f
}

// level is where a value stands, in tenths from the top.
func (f *frame) level(v float64) int { return tenth(f.h - f.y.pos(v)*f.h) }

func (f *frame) ypx(v float64) float64 { return float64(f.level(v)) / 10 }

func (f *frame) yAxis() {
	last := math.Inf(1)
	for _, v := range f.y.ticks {
		class := literal("grid")
		if v == 0 && !f.y.log {
			class = "axis"
		}
		y := f.ypx(v)
		f.back.horizontal(class, y)
		if last-y < 10 {
			continue // the plot is too low for this label
		}
		last = y
		f.front.lit(`<text class="y" x="-8"`)
		f.front.num("y", y+3.5)
		f.front.lit(">")
		f.front.text(f.y.label(v))
		f.front.lit("</text>")
	}
}

func (f *frame) xAxis(labels bool) {
	count := 7
	if f.w.Elapsed {
		count = 8
	}
	for i, t := range f.w.ticks(count) {
		f.back.vertical("grid", t.at, 0, f.h)
		if !labels {
			continue
		}
		class := literal("x")
		if i%2 == 1 {
			class += " xl"
		}
		switch {
		case t.at < .015:
			class += " first"
		case t.at > .985:
			class += " last"
		}
		f.front.label(class, t.at, f.h+15, t.label)
	}
	if labels {
		f.below = 20
	}
}

func (f *frame) html(title, sentence string) template.HTML {
	var m markup
	m.lit(`<div class="plot">`)
	m.picture(f.h+f.above+f.below, title, sentence)
	m.lit("<svg")
	m.num("y", f.above)
	m.lit(` width="100%"`)
	m.num("height", f.h+f.below)
	m.lit(` overflow="visible">`)
	m.append(&f.back)
	if f.inner.b.Len() > 0 {
		m.lit(`<svg width="100%"`)
		m.num("height", f.h)
		m.lit(` viewBox="0 0 1000 `)
		m.b.WriteString(decimal(f.h))
		m.lit(`" preserveAspectRatio="none">`)
		m.append(&f.inner)
		m.lit("</svg>")
	}
	m.append(&f.front)
	m.lit("</svg></svg></div>")
	return m.html()
}

// HTML is the picture with the table of its figures.
func (p Plot) HTML() template.HTML { return p.Picture() + p.Data() }

// Picture is the plot alone.
func (p Plot) Picture() template.HTML {
	p = p.bounded()
	f := newFrame(p.Window, float64(p.Height), 16, p.Half)
	grid := cells(p.Window, p.Times, p.Bucket, maxPoints-1)
	sums := p.stack(grid)
	low, high := p.extent(grid, sums)
	f.y = newScale(p.Y, low, high, f.h)
	f.yAxis()
	f.xAxis(!p.NoTimes)
	f.bands(p.Bands)
	f.areas(p.Areas, grid, sums)
	f.bars(p)
	for _, s := range p.Lines {
		f.line(s, grid)
	}
	f.thresholds(p.Limits)
	f.probes(p.Probes)
	f.marks(p.Marks)
	for _, n := range p.Notes {
		f.note(n)
	}
	if !p.Now.IsZero() && p.Window.holds(p.Now) {
		f.front.vertical("nowline", p.Window.at(p.Now), 0, f.h)
	}
	if !p.Cursor.IsZero() && p.Window.holds(p.Cursor) {
		f.front.vertical("cross", p.Window.at(p.Cursor), 0, f.h)
	}
	return f.html(p.Title, p.Sentence)
}

func (p Plot) bounded() Plot {
	if p.Height <= 0 {
		p.Height = 148
	}
	p.Areas = p.Areas[:min(len(p.Areas), MaxAreas)]
	p.Bars = p.Bars[:min(len(p.Bars), 1)]
	p.Lines = p.Lines[:min(len(p.Lines), MaxLines)]
	p.Limits = p.Limits[:min(len(p.Limits), MaxLines)]
	p.Bands = p.Bands[:min(len(p.Bands), MaxBands)]
	p.Marks = p.Marks[:min(len(p.Marks), MaxMarks)]
	p.Notes = p.Notes[:min(len(p.Notes), MaxNotes)]
	return p
}

// stack sums the areas: sums[k][i] is the top of area k in cell i. An area without a value adds nothing to those above.
func (p Plot) stack(grid []cell) [][]float64 {
	below := make([]float64, len(grid))
	sums := make([][]float64, len(p.Areas))
	for k, s := range p.Areas {
		sums[k] = make([]float64, len(grid))
		for i, c := range grid {
			v := max(c.mean(s), 0)
			sums[k][i] = below[i] + v
			if !math.IsNaN(v) {
				below[i] += v
			}
		}
	}
	return sums
}

// extent is the lowest and the highest value that will be drawn.
func (p Plot) extent(grid []cell, sums [][]float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	see := func(v float64) {
		if v = number(v); !math.IsNaN(v) && (v > 0 || !p.Y.Log) {
			low, high = min(low, v), max(high, v)
		}
	}
	for _, layer := range sums {
		for _, v := range layer {
			see(v)
		}
	}
	for _, c := range grid {
		for _, s := range p.Lines {
			see(c.mean(s))
		}
		for _, s := range p.Bars {
			see(c.peak(s))
		}
	}
	for _, l := range p.Limits {
		see(l.Value)
	}
	for _, n := range p.Notes {
		see(n.Value)
	}
	return low, high
}

// Data is the table of the figures, folded.
func (p Plot) Data() template.HTML {
	p = p.bounded()
	head := []string{"UTC"}
	if p.Window.Elapsed {
		head[0] = "after"
	}
	var all []Series
	all = append(append(append(all, p.Areas...), p.Bars...), p.Lines...)
	for _, s := range all {
		head = append(head, s.Name)
	}
	grid := cells(p.Window, p.Times, p.Bucket, maxPoints-1)
	var rows [][]string
	for _, i := range sample(len(grid), MaxRows) {
		row := []string{p.Window.stamp(p.Times[grid[i].first])}
		for _, s := range all {
			row = append(row, figure(s.value(grid[i].first)))
		}
		rows = append(rows, row)
	}
	return Table(head, rows)
}
