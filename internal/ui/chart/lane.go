package chart

import (
	"html/template"
	"math"
	"time"
)

// Part is a piece of a line. One with a time is that moment, which a page keeps
// counting: down to it (in), or how long ago it was (ago).
type Part struct {
	Text  string
	Bold  bool
	At    time.Time
	Count Count
}

// Count is how a page counts a moment.
type Count uint8

// The ways to count.
const (
	Still Count = iota
	Until
	Ago
)

// Line is a short sentence in a picture.
type Line []Part

// Say is a line without bold parts.
func Say(text string) Line { return Line{{Text: text}} }

func (m *markup) rich(line Line) {
	for _, part := range line {
		if part.Bold {
			m.lit("<b>")
		}
		m.moment(part)
		if part.Bold {
			m.lit("</b>")
		}
	}
}

func (m *markup) moment(part Part) {
	if part.At.IsZero() {
		m.text(part.Text)
		return
	}
	m.lit("<time")
	m.attr("datetime", part.At.UTC().Format(time.RFC3339Nano))
	switch part.Count {
	case Until:
		m.lit(` data-count="in"`)
	case Ago:
		m.lit(` data-count="ago"`)
	case Still:
	}
	m.lit(">")
	m.text(part.Text)
	m.lit("</time>")
}

// Queue is one of the queues of a lane.
type Queue struct {
	Name  string
	Style Style
	Count int64
}

// Slots are the places of a lane: how many there are, and how many new events and backlog take.
type Slots struct{ Limit, New, Backlog int }

// Lane is the picture of an endpoint: what is accepted, what waits, the gate and the destination.
type Lane struct {
	State        State // decides the wall: a gap, a slit, or none
	Badge        string
	BadgeTitle   string
	Accepted     string // per second
	AcceptedNote string
	Spark        Spark
	Waiting      string // all that waits
	Queues       []Queue
	Largest      int64 // the most that waited in the window; the bars are measured by it
	Slots        Slots // no slots: nothing is shown
	Gate         []Line
	Host         string
	Answer       string // the last answer, if any, and how long ago
	AnswerClass  Class
	AnswerNote   string
	AnswerAt     time.Time // when it came, if the note says how long ago
	Destination  []Line
}

const (
	maxQueues   = 8
	maxLines    = 6
	slotSquares = 28
	leastScale  = 1000
)

// HTML is the picture.
func (l Lane) HTML() template.HTML {
	var m markup
	passes := l.passes()
	m.lit(`<div class="lane" role="group" aria-label="Lane: accepted, waiting, gate, destination"><section><h3>Accepted</h3><p class="big">`)
	m.text(l.Accepted)
	m.lit(` <small>/s</small></p>`)
	m.b.WriteString(string(l.Spark.HTML()))
	if l.AcceptedNote != "" {
		m.lit(`<p class="small dim">`)
		m.text(l.AcceptedNote)
		m.lit("</p>")
	}
	m.lit("</section>")
	m.arrow(true)
	m.lit(`<section class="queue"><h3>Waiting</h3><p class="big">`)
	m.text(l.Waiting)
	m.lit(` <small>deliveries</small></p><dl>`)
	l.queues(&m)
	m.lit(`</dl></section><section class="gate">`)
	l.wall(&m)
	m.lit(`<div><h3>Gate</h3><p>`)
	m.badge(Badge{State: l.State, Text: l.Badge, Title: l.BadgeTitle, Big: true})
	m.lit("</p>")
	l.Slots.draw(&m)
	m.texts(l.Gate, true)
	m.lit("</div></section>")
	m.arrow(passes)
	m.lit(`<section class="dest`)
	if l.State == Holding || l.State == Probing {
		m.lit(" out")
	}
	m.lit(`"><h3>Destination</h3><p class="url">`)
	m.text(l.Host)
	m.lit("</p>")
	if l.Answer != "" {
		m.lit(`<p class="small">`)
		m.answer(l.AnswerClass, l.Answer)
		m.lit(` <span class="dim">`)
		m.moment(Part{Text: l.AnswerNote, At: l.AnswerAt, Count: Ago})
		m.lit("</span></p>")
	}
	m.texts(l.Destination, false)
	m.lit("</section></div>")
	return m.html()
}

// passes tells whether deliveries go through the wall.
func (l Lane) passes() bool {
	switch l.State {
	case Holding, ToldToWait, Paused, Disabled:
		return false
	default:
		return true
	}
}

// texts writes lines, the first in ink and the others paler.
func (m *markup) texts(lines []Line, first bool) {
	for i, line := range lines[:min(len(lines), maxLines)] {
		if first && i == 0 {
			m.lit(`<p class="small ink2">`)
		} else {
			m.lit(`<p class="small dim">`)
		}
		m.rich(line)
		m.lit("</p>")
	}
}

func (m *markup) arrow(flows bool) {
	if flows {
		m.lit(`<svg class="arrow flow" aria-hidden="true"><line x1="15%" x2="80%" y1="50%" y2="50%"/><svg x="80%" y="50%" overflow="visible"><path d="M-4 -4L0 0L-4 4"/></svg></svg>`)
		return
	}
	m.lit(`<svg class="arrow stop" aria-hidden="true"><line x1="15%" x2="80%" y1="50%" y2="50%"/><svg x="80%" y="50%" overflow="visible"><path d="M0 -6V6"/></svg></svg>`)
}

// queues grow from the wall to the left. The scale is the largest of the window, at least leastScale: an idle
// lane looks idle, and a draining one shows how far it is.
func (l Lane) queues(m *markup) {
	queues := l.Queues[:min(len(l.Queues), maxQueues)]
	whole := float64(max(l.Largest, leastScale))
	for _, q := range queues {
		whole = max(whole, float64(q.Count))
	}
	for _, q := range queues {
		m.lit("<dt>")
		m.text(q.Name)
		m.lit(`</dt><dd class="n`)
		if q.Count <= 0 {
			m.lit(" zero")
		}
		m.lit(`">`)
		m.text(figure(float64(max(q.Count, 0))))
		m.lit(`</dd><dd><svg class="qbar" aria-hidden="true"><line class="grid" x1="0" x2="100%" y1="13.5" y2="13.5"/>`)
		if size := atLeast(float64(q.Count)/whole, .012); size > 0 {
			fill, _, _, _ := q.Style.look()
			m.lit("<rect")
			m.class(fill)
			m.span(1-size, 1)
			m.lit(` height="14"/>`)
			if q.Style == Held {
				m.lit("<rect")
				m.span(1-size, 1)
				m.lit(` height="14" fill="url(#hatch-held)"/>`)
			}
		}
		m.lit("</svg></dd>")
	}
}

// wall is open, a slit, or solid.
func (l Lane) wall(m *markup) {
	tone := literal("")
	switch l.State {
	case Holding:
		tone = " hold"
	case Probing:
		tone = " probe"
	case ToldToWait:
		tone = " wait"
	case Paused, Disabled:
		tone = " idle"
	default:
	}
	m.lit(`<svg class="wall`, tone, `" viewBox="0 0 24 120" preserveAspectRatio="none" aria-hidden="true">`)
	switch {
	case l.State == Probing:
		m.lit(`<rect class="stone" x="6" y="0" width="12" height="52" rx="1"/><rect class="stone" x="6" y="64" width="12" height="56" rx="1"/>`)
	case l.passes():
		m.lit(`<rect class="stone" x="6" y="0" width="12" height="36" rx="1"/><rect class="stone" x="6" y="80" width="12" height="40" rx="1"/>`)
	default:
		m.lit(`<rect class="stone" x="6" y="0" width="12" height="120" rx="1"/>`)
	}
	m.lit("</svg>")
}

// draw shows one square per place up to slotSquares, above that a bar.
func (s Slots) draw(m *markup) {
	if s.Limit <= 0 {
		return
	}
	fresh := min(max(s.New, 0), s.Limit)
	old := min(max(s.Backlog, 0), s.Limit-fresh)
	m.lit(`<svg class="slots" viewBox="0 0 168 26" aria-hidden="true">`)
	defer m.lit("</svg>")
	if s.Limit > slotSquares {
		const width = 166.0
		a := math.Round(width * float64(fresh) / float64(s.Limit))
		b := math.Round(width * float64(fresh+old) / float64(s.Limit))
		for _, r := range []struct {
			class    literal
			from, to float64
		}{{"", 0, width}, {"on", 0, a}, {"old", a, b}} {
			if r.to <= r.from {
				continue
			}
			m.lit(`<rect y=".5" height="11" rx="1.5"`)
			if r.class != "" {
				m.class(r.class)
			}
			m.num("x", r.from+.5)
			m.num("width", r.to-r.from)
			m.lit("/>")
		}
		return
	}
	for i := range s.Limit {
		m.lit("<rect")
		m.num("x", float64(i%14*12)+.5)
		m.num("y", float64(i/14*13)+.5)
		m.lit(` width="10" height="10" rx="1.5"`)
		if i < fresh {
			m.class("on")
		} else if i < fresh+old {
			m.class("old")
		}
		m.lit("/>")
	}
}
