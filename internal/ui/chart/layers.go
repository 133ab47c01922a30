package chart

import (
	"math"
	"strings"
	"time"
)

// maxBars is how many bars a plot has at most: a second of three in a quarter of an hour.
const maxBars = 300

func (f *frame) areas(areas []Series, grid []cell, sums [][]float64) {
	zero := make([]float64, len(grid))
	base := zero
	for k, s := range areas {
		fill, outline, _, _ := s.Style.look()
		body := path{m: &f.inner, class: fill}
		for _, run := range runs(grid, sums[k]) {
			top := edge(grid, run, s.Step, func(i int) int { return f.level(sums[k][i]) })
			bottom := edge(grid, run, s.Step, func(i int) int { return f.level(max(base[i], f.y.lo)) })
			if flat(top, bottom) {
				continue // nothing to fill, and the outline shows that it is zero
			}
			tops, bottoms := pieces(top), pieces(bottom)
			if len(tops) != 1 || len(bottoms) != 1 {
				body.slices(grid, run, f, sums[k], base)
				continue
			}
			body.area(top, bottom)
		}
		body.end()
		if outline != "" {
			f.outline(outline, s.Step, grid, sums[k])
		}
		next := make([]float64, len(grid))
		for i := range grid {
			next[i] = sums[k][i]
			if math.IsNaN(next[i]) {
				next[i] = base[i]
			}
		}
		base = next
	}
}

// slices fills a long run of steps in parts.
func (p *path) slices(grid []cell, run [2]int, f *frame, top, base []float64) {
	const part = maxPoints/2 - 1
	for from := run[0]; from < run[1]; from += part {
		r := [2]int{from, min(from+part, run[1])}
		upper := edge(grid, r, true, func(i int) int { return f.level(top[i]) })
		lower := edge(grid, r, true, func(i int) int { return f.level(max(base[i], f.y.lo)) })
		p.area(upper, lower)
	}
}

func flat(a, b []point) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (f *frame) outline(class literal, step bool, grid []cell, values []float64) {
	pen := path{m: &f.inner, class: "ln " + class}
	for _, run := range runs(grid, values) {
		pen.line(edge(grid, run, step, func(i int) int { return f.level(values[i]) }))
	}
	pen.end()
}

func (f *frame) line(s Series, grid []cell) {
	values := make([]float64, len(grid))
	for i, c := range grid {
		values[i] = c.mean(s)
		if f.y.log && values[i] <= 0 {
			values[i] = math.NaN() // there is no zero on a logarithmic axis
		}
	}
	_, _, class, _ := s.Style.look()
	f.outline(class, s.Step, grid, values)
}

func (f *frame) bars(p Plot) {
	for _, s := range p.Bars {
		grid := cells(p.Window, p.Times, p.Bucket, maxBars)
		values, base := make([]float64, len(grid)), make([]float64, len(grid))
		for i, c := range grid {
			if values[i] = c.peak(s); values[i] <= 0 {
				values[i] = math.NaN() // no bar
			}
		}
		fill, _, _, _ := s.Style.look()
		body := path{m: &f.inner, class: fill}
		for _, run := range runs(grid, values) {
			body.slices(grid, run, f, values, base)
		}
		body.end()
	}
}

func (f *frame) thresholds(limits []Threshold) {
	for _, l := range limits {
		if math.IsNaN(number(l.Value)) {
			continue
		}
		_, _, class, _ := l.Style.look()
		y := f.ypx(l.Value)
		f.back.horizontal("ln "+class, y)
		if l.Label != "" {
			f.front.label("note fin halo", 1, max(y-5, 9), l.Label)
		}
	}
}

func (f *frame) bands(bands []Band) {
	for _, b := range bands {
		if !b.To.After(f.w.From) || !b.From.Before(f.w.To) || b.To.Before(b.From) {
			continue
		}
		from, to := f.w.at(b.From), f.w.at(b.To)
		f.back.lit(`<rect class="band"`)
		f.back.span(from, to)
		f.back.lit(` y="0"`)
		f.back.num("height", f.h)
		f.back.lit("/>")
		if f.w.holds(b.From) {
			f.back.vertical("band-edge", from, 0, f.h)
		}
		if f.w.holds(b.To) {
			f.back.vertical("band-edge", to, 0, f.h)
		}
		first := literal("note mid")
		if b.Detail != "" {
			first += " strong"
		}
		if f.inside(first, b.Label, from, to, 14) {
			f.inside("note mid", b.Detail, from, to, 28)
		}
	}
}

// inside writes a text into the middle of a stretch if there is room, and tells whether there was.
func (f *frame) inside(class literal, s string, from, to, y float64) bool {
	if s == "" {
		return false
	}
	extra, ok := f.room.fit(textWidth(s)+8, to-from)
	if ok {
		f.front.label(class+extra, (from+to)/2, y, s)
	}
	return ok
}

// probes are the triangles. Where they would touch, one stands for several.
func (f *frame) probes(at []time.Time) {
	last, count := -1.0, 0
	for _, t := range at {
		if !f.w.holds(t) || f.w.at(t)-last < 1./maxProbes || count > maxProbes {
			continue
		}
		last = f.w.at(t)
		count++
		f.front.lit(`<use href="#bw-probe"`)
		f.front.pct("x", last)
		f.front.num("y", f.h)
		f.front.lit("/>")
	}
}

const flagWidth = 14.0

// marks are flags with letters. Those that would cover each other share a flag; each keeps its drop line.
func (f *frame) marks(marks []Mark) {
	type flag struct {
		at      float64
		letters []string
	}
	var flags []flag
	for _, mark := range marks {
		if !f.w.holds(mark.At) {
			continue
		}
		at := f.w.at(mark.At)
		f.back.vertical("cross", at, -4, f.h)
		if n := len(flags); n > 0 && (at-flags[n-1].at)*f.room.narrow < (flagSize(flags[n-1].letters)+flagWidth)/2 {
			flags[n-1].letters = append(flags[n-1].letters, mark.Letter)
			continue
		}
		flags = append(flags, flag{at, []string{mark.Letter}})
	}
	for i, fl := range flags {
		class := literal("")
		if i > 0 && (fl.at-flags[i-1].at)*f.room.phone < (flagSize(flags[i-1].letters)+flagSize(fl.letters))/2 {
			class = "xl"
		}
		width := flagSize(fl.letters)
		f.front.place(class, fl.at, -17)
		f.front.lit(`<rect y="0" height="14" rx="3" class="f-surface l-ink3"`)
		f.front.num("x", -width/2)
		f.front.num("width", width)
		f.front.lit(`/><text class="note mid strong" x="0" y="10.5">`)
		f.front.text(flagText(fl.letters))
		f.front.lit("</text></svg>")
	}
	if len(flags) > 0 {
		f.above = 22
	}
}

// flagText is A, AB or A–D.
func flagText(letters []string) string {
	if len(letters) > 2 {
		return clip(letters[0], 2) + "–" + clip(letters[len(letters)-1], 2)
	}
	var b strings.Builder
	for _, l := range letters {
		b.WriteString(clip(l, 2))
	}
	return b.String()
}

func flagSize(letters []string) float64 { return max(flagWidth, textWidth(flagText(letters))+5) }

func clip(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes])
	}
	return s
}

func (f *frame) note(n Note) {
	if math.IsNaN(number(n.Value)) || !f.w.holds(n.At) {
		return
	}
	at, y := f.w.at(n.At), f.ypx(n.Value)
	fill, _, _, _ := n.Style.look()
	if n.Style == Held {
		fill = "f-held"
	}
	f.front.place("", at, y)
	f.front.lit("<circle")
	f.front.class(fill)
	f.front.lit(` r="3"/>`)
	// The text stands where there is more room, and below the top of the plot.
	class, x := literal("note halo"), 8.0
	space := 1 - at
	if at > .6 {
		class, x, space = "note fin halo", -8.0, at
	}
	if extra, ok := f.room.fit(textWidth(n.Text)+10, space); ok {
		f.front.lit("<text")
		f.front.class(class + extra)
		f.front.num("x", x)
		f.front.num("y", max(-4, 10-y))
		f.front.lit(">")
		f.front.text(n.Text)
		f.front.lit("</text>")
	}
	f.front.lit("</svg>")
}
