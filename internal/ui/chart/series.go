package chart

import (
	"math"
	"slices"
	"time"
)

// Style says what a series is, and with that how it is drawn; the style sheet has the colours.
type Style uint8

// The series of the dashboard.
const (
	First     Style = iota // first attempts, and what is in flight: soft with an edge
	Retry                  // retries, on top of the usual
	Replay                 // replayed
	Ready                  // waiting and free to go
	Held                   // held behind the wall: washed with an edge
	Accepted               // demand: dashed line
	Limit                  // the limit of a lane: line
	Median                 // p50: line
	Tail                   // p99: dashed line
	Delivered              // line over bars
	Capacity               // dashed, thin
	Ceiling                // a limit that must not be crossed: dashed
	Errors                 // share of errors: washed with an edge
	Pace                   // pace of a replay: washed with an edge
	Ahead                  // what comes next: dashed
	Plan                   // expected course: soft with a thick edge
	Arrivals               // bars
	Rival                  // bars of the policy compared with
	Probes                 // ▲ on the axis
	styles                 // how many there are
)

var looks = [styles]struct{ fill, edge, line, swatch literal }{
	First:     {"f-soft", "l-first", "l-first", "first"},
	Retry:     {"f-retry", "", "l-retry", "retry"},
	Replay:    {"f-replay", "", "l-replay", "replay"},
	Ready:     {"f-ready", "", "l-ready", "ready"},
	Held:      {"f-held f-wash", "l-held", "l-held", "held"},
	Accepted:  {"f-soft", "", "l-ink dash", "dash ink"},
	Limit:     {"f-soft", "", "l-ink", "line probe"},
	Median:    {"f-soft", "", "l-first thick", "line first"},
	Tail:      {"f-soft", "", "l-first dash", "p99"},
	Delivered: {"f-soft", "", "l-ink", "line probe"},
	Capacity:  {"f-soft", "", "l-ink3 dash", "dash"},
	Ceiling:   {"f-soft", "", "l-bad dash", "dash"},
	Errors:    {"f-retry f-wash", "l-retry", "l-retry", "retry"},
	Pace:      {"f-replay f-wash", "l-replay thick", "l-replay thick", "replay"},
	Ahead:     {"f-soft", "", "l-replay dash", "dash"},
	Plan:      {"f-soft", "l-first thick", "l-first thick", "first"},
	Arrivals:  {"f-first f-half", "", "l-first", "first2"},
	Rival:     {"f-rival f-half", "", "l-rival", "rival"},
	Probes:    {"f-probe", "", "l-probe", "tri"},
}

func (s Style) look() (fill, edge, line, swatch literal) {
	if s >= styles {
		s = First
	}
	l := looks[s]
	return l.fill, l.edge, l.line, l.swatch
}

// Series is one figure over time. Values stand beside the times of their plot; NaN, and what is missing at the end, is a gap.
type Series struct {
	Name   string
	Style  Style
	Values []float64
	Step   bool   // holds its value until the next
	Now    string // what the legend says beside the name
}

func (s Series) value(i int) float64 {
	if i >= len(s.Values) {
		return math.NaN()
	}
	return number(s.Values[i])
}

// maxPoints is what an edge of a path has at most: more cannot be seen.
const maxPoints = 240

// cell is one bucket of a plot: its two ends as shares of the width, and the values that fell into it.
type cell struct {
	at, end     float64
	first, last int  // the values, by index
	apart       bool // something is missing between this bucket and the one before
}

// cells arranges buckets on the window. Those outside of it and the one that is not yet full are left out; if
// there are more than can be drawn, neighbours become one.
func cells(w Window, times []time.Time, bucket time.Duration, most int) []cell {
	var out []cell
	var kept []int
	full := w.From.Add(w.length())
	for i, t := range times {
		after := len(kept) == 0 || t.After(times[kept[len(kept)-1]])
		if after && t.Add(bucket).After(w.From) && !t.Add(bucket).After(full) || after && bucket <= 0 && w.holds(t) {
			kept = append(kept, i)
		}
	}
	group := (len(kept) + most - 1) / most
	for g := 0; g < len(kept); g += group {
		members := kept[g:min(g+group, len(kept))]
		first, last := members[0], members[len(members)-1]
		c := cell{at: w.at(times[first]), end: w.at(times[last].Add(max(bucket, 0))), first: first, last: last}
		if g > 0 && bucket > 0 {
			c.apart = times[first].Sub(times[kept[g-1]]) > bucket+bucket/2
		}
		out = append(out, c)
	}
	return out
}

// mean is the value of a cell. A gap in it stays a gap.
func (c cell) mean(s Series) float64 {
	sum := 0.0
	for i := c.first; i <= c.last; i++ {
		sum += min(max(s.value(i), -most), most)
	}
	return sum / float64(c.last-c.first+1)
}

// peak is the highest value of a cell, for bars: none is no bar.
func (c cell) peak(s Series) float64 {
	high := math.NaN()
	for i := c.first; i <= c.last; i++ {
		if v := s.value(i); math.IsNaN(high) || v > high {
			high = v
		}
	}
	return high
}

// point is a place in the inner svg in tenths of its units. Whole numbers make exact relative paths.
type point struct{ x, y int }

// runs are the stretches of cells that have a value, as first and one past the last.
func runs(cells []cell, values []float64) [][2]int {
	var out [][2]int
	open := false
	for i, v := range values {
		if math.IsNaN(v) {
			open = false
			continue
		}
		if !open || cells[i].apart {
			out = append(out, [2]int{i, i})
			open = true
		}
		out[len(out)-1][1] = i + 1
	}
	return out
}

// edge is the line over a run. Its last value lasts until the end of its bucket, so a lone value is a short bar.
func edge(cells []cell, run [2]int, step bool, y func(i int) int) []point {
	var out []point
	add := func(p point) {
		if n := len(out); n > 0 && out[n-1] == p {
			return
		}
		if n := len(out); n > 1 && (out[n-1].y == p.y && out[n-2].y == p.y || out[n-1].x == p.x && out[n-2].x == p.x) {
			out[n-1] = p // the point between is on the line
			return
		}
		out = append(out, p)
	}
	for i := run[0]; i < run[1]; i++ {
		p := point{tenth(cells[i].at * 1000), y(i)}
		if step && i > run[0] {
			add(point{p.x, y(i - 1)})
		}
		add(p)
	}
	add(point{tenth(cells[run[1]-1].end * 1000), y(run[1] - 1)})
	return out
}

// pieces cuts an edge into parts of at most maxPoints that share their ends.
func pieces(edge []point) [][]point {
	var out [][]point
	for len(edge) > maxPoints {
		out = append(out, edge[:maxPoints])
		edge = edge[maxPoints-1:]
	}
	return append(out, edge)
}

// path collects subpaths of one class and starts a new element before one has too many points.
type path struct {
	m      *markup
	class  literal
	points int
	wide   int // of the box in tenths; 0: 10000
}

// after is the other end of a value at one moment: it gets the width of a pen.
func (p *path) after(at point) []point {
	wide := p.wide
	if wide == 0 {
		wide = 10000
	}
	if at.x+10 > wide {
		return []point{{at.x - 10, at.y}, at}
	}
	return []point{at, {at.x + 10, at.y}}
}

func (p *path) begin(points int) {
	if p.points > 0 && p.points+points > maxPoints {
		p.end()
	}
	if p.points == 0 {
		p.m.lit("<path")
		p.m.class(p.class)
		p.m.lit(` d="`)
	}
	p.points += points
}

func (p *path) end() {
	if p.points > 0 {
		p.m.lit(`"/>`)
		p.points = 0
	}
}

func (p *path) move(at point) {
	p.m.lit("M")
	p.m.b.WriteString(tenths(at.x))
	p.m.lit(" ")
	p.m.b.WriteString(tenths(at.y))
}

// lines goes on from a point to the others.
func (p *path) lines(from point, to []point) {
	for i, at := range to {
		if i == 0 {
			p.m.lit("l")
		}
		dx, dy := at.x-from.x, at.y-from.y
		if i > 0 && dx >= 0 {
			p.m.lit(" ")
		}
		p.m.b.WriteString(compact(dx))
		if dy >= 0 {
			p.m.lit(" ")
		}
		p.m.b.WriteString(compact(dy))
		from = at
	}
}

// compact leaves out the zero before the point: .5 is shorter than 0.5.
func compact(v int) string {
	s := tenths(v)
	switch {
	case v > 0 && v < 10:
		return s[1:]
	case v < 0 && v > -10:
		return "-" + s[2:]
	}
	return s
}

// line draws an edge; one point alone is a dot as wide as the pen.
func (p *path) line(edge []point) {
	for _, piece := range pieces(edge) {
		if len(piece) == 1 {
			piece = p.after(piece[0])
		}
		p.begin(len(piece))
		p.move(piece[0])
		p.lines(piece[0], piece[1:])
	}
}

// area fills between two edges that have the same ends. An area counts as its longer edge.
func (p *path) area(top, bottom []point) {
	if len(top) == 1 {
		top, bottom = p.after(top[0]), p.after(bottom[0])
	}
	p.begin(max(len(top), len(bottom)))
	p.move(top[0])
	p.lines(top[0], top[1:])
	back := make([]point, 0, len(bottom))
	for _, at := range slices.Backward(bottom) {
		back = append(back, at)
	}
	p.lines(top[len(top)-1], back)
	p.m.lit("z")
}
