package demo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Scene is a moment as it is drawn.
type Scene struct {
	At          time.Duration
	Phase       string
	Capacity    float64
	Plain, Ours Side
	// Of the healthy endpoint: how many events it has, of how many.
	Beside, BesideOf int64
	First            []string // the first event as it arrived
	Moments          []Moment
}

// Side is how one of the two endpoints stands.
type Side struct {
	Bars      []int // requests by second
	Given     int64
	Waiting   int64
	Delivered int64
	Twice     int64
	Crashes   int64
	WhileDown int64
	Peak      int64
	Lane      string
}

// Mood is the colour of a text.
type Mood int

// Moods.
const (
	Plain Mood = iota
	Dim
	Strong
	Good
	Fair
	Bad
)

// Span is a text in one colour.
type Span struct {
	Mood Mood
	Text string
}

// Line is what stands beside each other.
type Line []Span

// Width is how many characters a line has at most.
const Width = 100

const (
	shownBars    = 72
	barRows      = 3
	shownMoments = 5
)

// Draw draws a scene: always the same number of lines.
func Draw(s Scene) []Line {
	lines := []Line{
		{{Strong, fmt.Sprintf("t+%-4s ", clock(s.At))}, {Plain, s.Phase}},
		{},
	}
	lines = append(lines, drawSide("A plain retry loop", "waits 1 s, 2 s, 4 s, 8 s, 8 s …", &s.Plain, s.Capacity)...)
	lines = append(lines, Line{})
	lines = append(lines, drawSide("Breakwater", s.Ours.Lane, &s.Ours, s.Capacity)...)
	lines = append(lines, Line{}, Line{
		{Dim, "  a healthy endpoint beside it has "}, {Plain, quantity.FormatCount(s.Beside)}, {Dim, " of " + quantity.FormatCount(s.BesideOf) + " events"},
	}, Line{})
	lines = append(lines, drawMoments(&s)...)
	return append(lines, make([]Line, Height-len(lines))...)
}

// Height is how many lines a scene has, ChartHeight how many of them are above what
// happened.
const (
	Height      = ChartHeight + shownMoments
	ChartHeight = 2 + 2*(barRows+2) + 1 + 3
)

// drawMoments draws what happened lately; before anything has, an event as it arrives.
func drawMoments(s *Scene) (lines []Line) {
	if len(s.Moments) == 0 && len(s.First) > 0 {
		lines = append(lines, Line{{Dim, "  The first event, as it arrived there:"}})
		for _, l := range s.First {
			lines = append(lines, Line{{Plain, "  " + shorten(l, Width-2)}})
		}
	}
	for _, m := range s.Moments[max(len(s.Moments)-shownMoments, 0):] {
		lines = append(lines, Line{{Dim, fmt.Sprintf("  t+%-4s ", clock(m.At))}, {m.Mood, shorten(m.Words, Width-9)}})
	}
	return lines
}

func shorten(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return text
}

func clock(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }

func drawSide(name, does string, s *Side, capacity float64) []Line {
	crashed := Span{Good, "0"}
	if s.Crashes > 0 {
		crashed = Span{Bad, quantity.FormatCount(s.Crashes)}
	}
	waiting := Span{Plain, quantity.FormatCount(s.Waiting)}
	if float64(s.Waiting) > capacity {
		waiting.Mood = Fair
	}
	now := 0
	if len(s.Bars) > 0 {
		now = s.Bars[len(s.Bars)-1]
	}
	lines := []Line{{{Strong, fmt.Sprintf("%-20s", name)}, {Dim, shorten(does, Width-20)}}}
	beside := [barRows]Line{
		{{Plain, fmt.Sprintf(" %d requests/s", now)}},
		{{Dim, fmt.Sprintf(" ─ it bears %.0f", capacity)}},
	}
	for row := range barRows {
		lines = append(lines, slices.Concat(Line{{Plain, "  "}}, bars(s.Bars, capacity, row), beside[row]))
	}
	return append(lines, Line{
		{Dim, "  crashed again "},
		crashed,
		{Dim, "   waiting "},
		waiting,
		{Dim, "   delivered "},
		{Plain, quantity.FormatCount(s.Delivered)},
		{Dim, "   sent while it was down "},
		{Plain, quantity.FormatCount(s.WhileDown)},
	})
}

// bars draws a row of the latest seconds, 0 the uppermost. What the endpoint bears is half
// of the height; more than that is red.
func bars(counts []int, capacity float64, row int) Line {
	counts = counts[max(len(counts)-shownBars, 0):]
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	eighths := len(blocks) - 1
	below := (barRows - 1 - row) * eighths
	var line Line
	var b strings.Builder
	mood := Good
	flush := func() {
		if b.Len() > 0 {
			line = append(line, Span{mood, b.String()})
			b.Reset()
		}
	}
	for _, n := range counts {
		of := Good
		if float64(n) > capacity {
			of = Bad
		}
		if of != mood {
			flush()
			mood = of
		}
		level := int(math.Ceil(float64(n) / capacity * float64(barRows*eighths) / 2))
		b.WriteRune(blocks[min(max(level-below, 0), eighths)])
	}
	b.WriteString(strings.Repeat(" ", shownBars-len(counts)))
	flush()
	return line
}

// DrawSummary draws how it ended.
func DrawSummary(s *Summary) []Line {
	row := func(what, plain, ours string, bad bool) Line {
		l := Line{{Dim, fmt.Sprintf("  %-42s", what)}, {Plain, fmt.Sprintf("%18s", plain)}, {Good, fmt.Sprintf("%18s", ours)}}
		if bad {
			l[1].Mood = Bad
		}
		return l
	}
	n := quantity.FormatCount
	gone := func(e *Ending) string {
		if e.DrainedSec == nil {
			return "not yet"
		}
		return fmt.Sprintf("after %.0f s", *e.DrainedSec)
	}
	p, o := &s.Plain, &s.Ours
	return []Line{
		{{Strong, fmt.Sprintf("  %-42s%18s%18s", "The same events, the same endpoint", "a retry loop", "Breakwater")}},
		row("crashed the endpoint again", n(p.Crashes)+" times", n(o.Crashes)+" times", p.Crashes > 0),
		row("requests while it was down", n(p.WhileDown), n(o.WhileDown), false),
		row(fmt.Sprintf("most requests in a second (it bears %.0f)", s.Capacity), n(p.Peak), n(o.Peak), float64(p.Peak) > s.Capacity),
		row("the backlog was gone", gone(p), gone(o), p.DrainedSec == nil),
		row("events delivered", n(p.Delivered)+" of "+n(p.Events), n(o.Delivered)+" of "+n(o.Events), false),
		row("delivered twice", n(p.Twice), n(o.Twice), false),
	}
}
