package chart

import (
	"html/template"
	"math"
)

// Tone is the state a small picture is in; Calm has no colour of a state.
type Tone uint8

// The tones.
const (
	Calm Tone = iota
	Warn
	Bad
)

// Spark is a line without axes, from 0 or from a given floor.
type Spark struct {
	Values     []float64 // the newest last; gaps as everywhere
	Floor, Top float64   // Top 0: a little above the highest
	Tone       Tone
}

const (
	sparkPoints           = 40
	sparkWidth, sparkHigh = 100.0, 26.0
)

// HTML is the spark. It is hidden from screen readers: the number stands beside it.
func (s Spark) HTML() template.HTML {
	var m markup
	m.lit(`<svg class="spark`)
	switch s.Tone {
	case Warn:
		m.lit(" warn")
	case Bad:
		m.lit(" bad")
	case Calm:
	}
	m.lit(`" viewBox="0 0 100 26" preserveAspectRatio="none" aria-hidden="true">`)
	grid, values := s.points()
	high := 0.0
	for _, v := range values {
		if v > high {
			high = v
		}
	}
	floor := positive(s.Floor)
	top := max(high*1.08, floor)
	if positive(s.Top) > floor {
		top = s.Top
	}
	if !(top > floor) {
		top = floor + 1
	}
	level := func(i int) int { return tenth(sparkHigh - 1 - share(values[i]-floor, top-floor)*(sparkHigh-3)) }
	ground := func(int) int { return tenth(sparkHigh) }
	body, pen := path{m: &m, class: "area", wide: sparkWidth * 10}, path{m: &m, class: "ln", wide: sparkWidth * 10}
	for _, run := range runs(grid, values) {
		body.area(edge(grid, run, false, level), edge(grid, run, false, ground))
	}
	body.end()
	for _, run := range runs(grid, values) {
		pen.line(edge(grid, run, false, level))
	}
	pen.end()
	m.lit("</svg>")
	return m.html()
}

// points spreads the values over the width, at most sparkPoints of them.
func (s Spark) points() ([]cell, []float64) {
	n := len(s.Values)
	if n == 0 {
		return nil, nil
	}
	group := (n + sparkPoints - 1) / sparkPoints
	var grid []cell
	var values []float64
	for from := 0; from < n; from += group {
		c := cell{first: from, last: min(from+group, n) - 1}
		grid = append(grid, c)
		values = append(values, c.mean(Series{Values: s.Values}))
	}
	for i := range grid {
		at := share(float64(i), float64(len(grid)-1)) * sparkWidth / 1000
		grid[i].at, grid[i].end = at, at
	}
	return grid, values
}

// Bar is a share of a track: of the largest group, of a limit.
func Bar(part float64, style Style) template.HTML {
	var m markup
	fill, _, _, _ := style.look()
	if style == Held {
		fill = "f-held"
	}
	m.lit(`<svg class="bar" aria-hidden="true"><rect class="bg" width="100%" height="100%" rx="1.5"/><rect`)
	m.class(fill)
	m.span(0, atLeast(part, .012))
	m.lit(` height="100%" rx="1.5"/></svg>`)
	return m.html()
}

// atLeast makes what is more than nothing visible.
func atLeast(part, least float64) float64 {
	if part = share(part, 1); part > 0 {
		return max(part, least)
	}
	return 0
}

// Bullet is a value against its limit.
func Bullet(value, limit float64, tone Tone) template.HTML {
	var m markup
	value, limit = positive(value), positive(limit)
	end := max(value, limit) * 1.05
	m.lit(`<svg class="bar bullet" aria-hidden="true"><rect class="bg" width="100%" height="8"/><rect`)
	switch tone {
	case Bad:
		m.class("f-bad")
	case Warn:
		m.class("f-warn")
	case Calm:
		m.class("f-held")
	}
	m.span(0, share(value, end))
	m.lit(` height="8"/>`)
	m.vertical("nowline", share(limit, end), -3, 11)
	m.lit("</svg>")
	return m.html()
}

// Progress is how far a replay is: delivered, failed and under way, of all.
type Progress struct {
	Total, Delivered, Failed, Underway float64
	Label                              string // what a screen reader says
	Thin                               bool
}

// HTML is the bar.
func (p Progress) HTML() template.HTML {
	var m markup
	m.lit(`<svg class="progress`)
	if p.Thin {
		m.lit(" thin")
	}
	m.lit(`" role="img"`)
	m.attr("aria-label", p.Label)
	m.lit(`><rect class="bg" width="100%" height="12" rx="2"/>`)
	at := 0.0
	for _, part := range []struct {
		v    float64
		look literal
	}{{p.Delivered, ` class="f-replay"`}, {p.Failed, ` class="f-bad"`}, {p.Underway, ` fill="url(#hatch-held)"`}} {
		size := share(positive(part.v), positive(p.Total))
		if size <= 0 {
			continue
		}
		end := min(at+max(size, .002), 1)
		m.lit("<rect", part.look)
		m.span(at, end)
		m.lit(` height="12"/>`)
		at = end
	}
	m.lit("</svg>")
	return m.html()
}

// WaitBar is one wait of a delivery, in seconds: the track is the longest ceiling so far, the bar the range this
// wait was drawn from, the dot what was drawn.
func WaitBar(drawn, ceiling, longest float64) template.HTML {
	drawn, ceiling = positive(drawn), positive(ceiling)
	longest = max(positive(longest), ceiling, drawn)
	var m markup
	m.lit(`<svg class="waitbar" aria-hidden="true"><line class="rng2" x1="0" x2="100%" y1="6" y2="6" stroke-dasharray="1 3"/><rect class="rng"`)
	m.span(0, max(share(ceiling, longest), .015))
	m.lit(` y="2" height="8" rx="2"/><circle class="pt"`)
	m.pct("cx", share(drawn, longest))
	m.lit(` cy="6" r="3.5"/></svg>`)
	return m.html()
}

// HealthCell is half an hour of an endpoint.
type HealthCell struct {
	Failed float64 // share of the answers that were failures, 0 to 1; NaN: no traffic
	Held   bool
}

// HealthCells is a day of half hours.
const HealthCells = 48

// Health is the strip of the last 24 hours, the newest cell last. What is older than the first cell had no traffic.
func Health(strip []HealthCell, label string) template.HTML {
	if len(strip) > HealthCells {
		strip = strip[len(strip)-HealthCells:]
	}
	// One path per look, not one node per cell: a page shows many strips.
	kinds := [...]literal{"h5", "h3", "h2", "h1", "f-held f-wash", "f-held", "f-line"}
	const good, some, more, most, washed, lid, none = 0, 1, 2, 3, 4, 5, 6
	var paths [len(kinds)]markup
	block := func(kind, i int, y, height float64) {
		p := &paths[kind].b
		p.WriteString("M" + decimal(float64(i)*4.5) + " " + decimal(y) + "h3.5v" + decimal(height) + "h-3.5z")
	}
	for i := range HealthCells {
		c := HealthCell{Failed: math.NaN()}
		if k := i - (HealthCells - len(strip)); k >= 0 {
			c = strip[k]
		}
		c.Failed = number(c.Failed)
		if c.Held {
			block(washed, i, 1, 16)
			block(lid, i, 1, 2)
		}
		switch {
		case math.IsNaN(c.Failed):
			if !c.Held {
				block(none, i, 15, 1.5)
			}
			continue
		case !c.Held:
			block(good, i, 1, 16)
		}
		if c.Failed > 0 {
			kind := some
			if c.Failed > .3 {
				kind = most
			} else if c.Failed > .05 {
				kind = more
			}
			high := max(2.5, min(c.Failed, 1)*16)
			if c.Held {
				high = min(high, 14) // the lid stays in sight
			}
			block(kind, i, 17-high, high)
		}
	}
	var m markup
	m.lit(`<svg class="heat" viewBox="0 0 216 18" preserveAspectRatio="none" role="img"`)
	m.attr("aria-label", label)
	m.lit(">")
	for k := range paths {
		if paths[k].b.Len() > 0 {
			m.lit("<path")
			m.class(kinds[k])
			m.lit(` d="`)
			m.append(&paths[k])
			m.lit(`"/>`)
		}
	}
	m.lit("</svg>")
	return m.html()
}
