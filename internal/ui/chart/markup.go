// Package chart draws the pictures of the dashboard from plain figures: plots, sparks, strips, ribbons, the lane, the
// timeline of a delivery, ladders and simulations. It is pure: no I/O, no clock, no log; every function gives the same
// markup for the same figures.
//
// A plot is an <svg> without a viewBox at full width. Text, marks and bands stand in it in percent; paths live in an
// inner <svg viewBox="0 0 1000 H" preserveAspectRatio="none">. So one drawing fits a phone and a wide screen and text is
// never squashed. The markup has classes only, no colours and no style attributes: both live in the style sheet, and the
// content security policy forbids the latter. A page that shows pictures has Defs once.
//
// Sizes: a plot of three areas, a line, bands and marks has about 10 kB and stays below 14 kB; the largest plot there can
// be has below 64 kB, other pictures below 8 kB as pages use them, a spark or a strip of health below 2 kB.
//
// A value that is NaN or infinite is missing. Missing values are gaps: never zero, never bridged.
package chart

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// literal is markup of this package. Constants convert to it by themselves and strings of callers do not, so that
// text can only reach the markup through the escaper.
type literal string

type markup struct{ b strings.Builder }

func (m *markup) lit(parts ...literal) {
	for _, part := range parts {
		m.b.WriteString(string(part))
	}
}

// text writes what somebody else wrote. What no document may contain becomes a replacement character.
func (m *markup) text(s string) {
	m.b.WriteString(template.HTMLEscapeString(strings.Map(printable, strings.ToValidUTF8(s, "\uFFFD"))))
}

func printable(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return ' '
	case unicode.IsControl(r) || r == '\uFFFE' || r == '\uFFFF':
		return '\uFFFD'
	}
	return r
}

func (m *markup) attr(name literal, value string) {
	m.lit(" ", name, `="`)
	m.text(value)
	m.lit(`"`)
}

func (m *markup) class(names ...literal) {
	m.lit(` class="`)
	for i, name := range names {
		if name = literal(strings.TrimSpace(string(name))); i > 0 && name != "" {
			m.lit(" ")
		}
		m.lit(name)
	}
	m.lit(`"`)
}

// num writes a coordinate in pixels.
func (m *markup) num(name literal, v float64) {
	m.lit(" ", name, `="`)
	m.b.WriteString(decimal(v))
	m.lit(`"`)
}

// pct writes a share of the width, 0 to 1, in percent.
func (m *markup) pct(name literal, share float64) {
	m.lit(" ", name, `="`)
	m.b.WriteString(decimal(share * 100))
	m.lit(`%"`)
}

// span writes a stretch of the width. Both ends are rounded, not the length: neighbours meet.
func (m *markup) span(from, to float64) {
	m.pct("x", from)
	m.lit(` width="`)
	m.b.WriteString(tenths(tenth(to*100) - tenth(from*100)))
	m.lit(`%"`)
}

func (m *markup) vertical(class literal, x, y1, y2 float64) {
	m.lit("<line")
	m.class(class)
	m.pct("x1", x)
	m.pct("x2", x)
	m.num("y1", y1)
	m.num("y2", y2)
	m.lit("/>")
}

func (m *markup) horizontal(class literal, y float64) {
	m.lit("<line")
	m.class(class)
	m.lit(` x1="0" x2="100%"`)
	m.num("y1", y)
	m.num("y2", y)
	m.lit("/>")
}

// label writes text at a share of the width.
func (m *markup) label(class literal, x, y float64, s string) {
	m.lit("<text")
	m.class(class)
	m.pct("x", x)
	m.num("y", y)
	m.lit(">")
	m.text(s)
	m.lit("</text>")
}

// place opens an inner svg whose origin is at a share of the width; what follows is in pixels around it.
func (m *markup) place(class literal, x, y float64) {
	m.lit("<svg")
	if class != "" {
		m.class(class)
	}
	m.pct("x", x)
	m.num("y", y)
	m.lit(` overflow="visible">`)
}

// picture opens an svg that a screen reader takes as one image.
func (m *markup) picture(height float64, title, sentence string) {
	m.lit("<svg")
	m.num("height", height)
	m.lit(` role="img"`)
	m.attr("aria-label", sentences(title, sentence))
	m.lit(">")
}

func (m *markup) append(other *markup) { m.b.WriteString(other.b.String()) }

func (m *markup) html() template.HTML {
	return template.HTML(m.b.String()) //nolint:gosec // everything in it was a constant of this package, a number, or escaped
}

func sentences(title, sentence string) string {
	title = strings.TrimRight(title, ". ")
	if title == "" || sentence == "" {
		return title + sentence
	}
	return title + ". " + sentence
}

// decimal has at most one digit after the point, and is a number whatever v is.
func decimal(v float64) string { return tenths(tenth(v)) }

func tenth(v float64) int {
	if math.IsNaN(v) {
		return 0
	}
	return int(math.Round(min(max(v, -1e6), 1e6) * 10))
}

func tenths(v int) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	s := strconv.Itoa(v / 10)
	if v%10 != 0 {
		s += "." + strconv.Itoa(v%10)
	}
	return sign + s
}

// Defs are the patterns and signs that the pictures refer to. A page has them once, at the start of its body.
func Defs() template.HTML {
	var m markup
	m.lit(`<svg width="0" height="0" aria-hidden="true" focusable="false"><defs>`)
	for _, p := range []struct{ id, size literal }{{"hatch", "6"}, {"hatch-warn", "6"}, {"hatch-held", "5"}, {"hatch-idle", "5"}} {
		m.lit(`<pattern id="`, p.id, `" width="`, p.size, `" height="`, p.size, `" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="`, p.id,
			`" x1="0" x2="0" y1="0" y2="`, p.size, `"/></pattern>`)
	}
	m.lit(`<path id="bw-probe" class="f-probe" d="M-3.5 0L0 -6.5L3.5 0z"/></defs></svg>`)
	return m.html()
}
