package chart

import (
	"html/template"
	"strconv"
	"time"
)

// Attempt is one attempt of a delivery.
type Attempt struct {
	Number   int
	At       time.Time
	Class    Class
	Code     string // such as 503; short
	Selected bool
}

// Pause is a stretch between attempts: a wait of the schedule, or a hold.
type Pause struct {
	From, To time.Time
	Label    string // "held 21 m 53 s"
	Reason   string // "breaker open, nothing charged"
}

// Due is an attempt ahead: at a moment, or any time in a window.
type Due struct {
	Number   int
	From, To time.Time // the same, or zero To: a moment
	Label    string    // "03:30:00"
	Note     string    // "any moment in here, equally likely"
}

// Timeline is a delivery to scale: what was, and what will be. Two linear scales meet at now.
type Timeline struct {
	Accepted      time.Time
	AcceptedLabel string
	Now           time.Time
	NowLabel      string
	Attempts      []Attempt
	Holds, Waits  []Pause
	Due           []Due // the next two are drawn; nothing ahead: one scale only
	Past, Ahead   string
	PastSentence  string
	AheadSentence string
}

const (
	maxAttempts = 100
	maxPauses   = 40
	maxDue      = 2

	rail          = 74.0 // height of the line
	timelineHigh  = 132.0
	farNudge      = 22.0 // how far a number may stand from its place
	acceptedClear = 110.0
)

// The narrowest the two parts get.
var (
	pastRoom  = room{300, 380, 570}
	aheadRoom = room{300, 230, 350}
)

// HTML is both parts.
func (t Timeline) HTML() template.HTML {
	t.Attempts = t.Attempts[max(len(t.Attempts)-maxAttempts, 0):]
	t.Holds = t.Holds[max(len(t.Holds)-maxPauses, 0):]
	t.Waits = t.Waits[max(len(t.Waits)-maxPauses, 0):]
	t.Due = t.Due[:min(len(t.Due), maxDue)]
	var m markup
	if len(t.Due) == 0 {
		m.lit(`<div class="tl one">`)
	} else {
		m.lit(`<div class="tl">`)
	}
	t.past(&m)
	if len(t.Due) > 0 {
		t.ahead(&m)
	}
	m.lit("</div>")
	return m.html()
}

func (m *markup) timelinePart(title, sentence string) {
	m.lit("<div><h3>")
	m.text(title)
	m.lit("</h3>")
	m.picture(timelineHigh, title, sentence)
}

func (m *markup) timelineTicks(w Window, most int) {
	for i, t := range w.ticks(most) {
		class := literal("mid")
		if i%2 == 1 {
			class += " xl"
		}
		switch {
		case t.at < .05:
			class = "" // begins at its line
		case t.at > .95:
			class = "fin"
		}
		m.vertical("grid", t.at, 20, rail+34)
		m.label(class, t.at, rail+50, t.label)
	}
}

func (t Timeline) past(m *markup) {
	m.timelinePart(t.Past, t.PastSentence)
	length := max(t.Now.Sub(t.Accepted), time.Second)
	w := Window{From: t.Accepted.Add(-length / 50), To: t.Now}
	m.timelineTicks(w, 5)
	m.lit(`<line class="rail"`)
	m.pct("x1", w.at(t.Accepted))
	m.lit(` x2="100%"`)
	m.num("y1", rail)
	m.num("y2", rail)
	m.lit("/>")
	for _, h := range t.Holds {
		m.hold(w, h)
	}
	for _, p := range t.Waits {
		from, to := w.at(p.From), w.at(p.To)
		if extra, ok := pastRoom.fit(textWidth(p.Label), to-from); ok && ((from+to)/2-w.at(t.Accepted))*pastRoom.phone > acceptedClear+textWidth(p.Label)/2 {
			m.label("note mid"+extra, (from+to)/2, rail+28, p.Label)
		}
	}
	for _, a := range t.Attempts {
		if !w.holds(a.At) {
			continue
		}
		_, _, shape := a.Class.look()
		m.place("", w.at(a.At), rail)
		if a.Selected {
			m.lit(`<rect x="-11" y="-11" width="22" height="22" rx="4" fill="none" class="l-ink" stroke-width="1.5"/>`)
		}
		m.lit(shape, "</svg>")
	}
	m.numbers(w, t.Attempts)
	if t.AcceptedLabel != "" {
		m.label("note", w.at(t.Accepted), rail+30, t.AcceptedLabel)
	}
	m.lit("</svg></div>")
}

func (m *markup) hold(w Window, h Pause) {
	from, to := w.at(h.From), w.at(h.To)
	if to <= from {
		return
	}
	for _, look := range []literal{` class="f-surface"`, ` class="f-held f-wash"`, ` fill="url(#hatch-held)"`} {
		m.lit("<rect", look)
		m.span(from, to)
		m.num("y", rail-12)
		m.lit(` height="24"/>`)
	}
	const ends = 44 // numbers of the attempts around it
	extra, ok := pastRoom.fit(textWidth(h.Label)+ends, to-from)
	if h.Label == "" || !ok {
		return
	}
	m.lit("<text")
	m.class("note mid halo" + extra)
	m.pct("x", (from+to)/2)
	m.num("y", rail-20)
	m.lit(`><tspan class="strong">`)
	m.text(h.Label)
	m.lit("</tspan>")
	if extra, ok := pastRoom.fit(textWidth(h.Label+" · "+h.Reason)+ends, to-from); ok && h.Reason != "" {
		m.lit("<tspan")
		m.class(extra)
		m.lit("> · ")
		m.text(h.Reason)
		m.lit("</tspan>")
	}
	m.lit("</text>")
}

// cluster is one or more attempts with one label.
type cluster struct {
	first, last int // numbers
	at          float64
	code        string
}

func (c cluster) number() string {
	if c.first == c.last {
		return strconv.Itoa(c.first)
	}
	return strconv.Itoa(c.first) + "–" + strconv.Itoa(c.last)
}

func (c cluster) width() float64 { return max(textWidth(c.number()), textWidth(c.code)) + 4 }

// clusters are the labels of attempts and where they come to stand, in pixels beside their places. Attempts that
// are too close for a label each share one.
func clusters(w Window, attempts []Attempt, width float64) (labels []cluster, shifts []float64) {
	for _, a := range attempts {
		if w.holds(a.At) {
			labels = append(labels, cluster{a.Number, a.Number, w.at(a.At), clip(a.Code, 8)})
		}
	}
	for {
		anchors, widths := make([]float64, len(labels)), make([]float64, len(labels))
		for i, l := range labels {
			anchors[i], widths[i] = l.at*width, l.width()
		}
		places := nudge(anchors, widths, width)
		total := 0.0
		for _, wide := range widths {
			total += wide
		}
		if len(labels) < 2 || farthest(anchors, places) <= farNudge && total <= width {
			for i := range places {
				shifts = append(shifts, places[i]-anchors[i])
			}
			return labels, shifts
		}
		labels = joinClosest(labels)
	}
}

func joinClosest(labels []cluster) []cluster {
	near := 1
	for i := 2; i < len(labels); i++ {
		if labels[i].at-labels[i-1].at < labels[near].at-labels[near-1].at {
			near = i
		}
	}
	a, b := labels[near-1], labels[near]
	joined := cluster{first: a.first, last: b.last, at: (a.at + b.at) / 2, code: a.code}
	if a.code != b.code {
		joined.code = "…"
	}
	out := append([]cluster{}, labels[:near-1]...)
	return append(append(out, joined), labels[near+1:]...)
}

// numbers stand over the attempts, nudged apart; a stem leads to the exact place.
func (m *markup) numbers(w Window, attempts []Attempt) {
	labels, shifts := clusters(w, attempts, pastRoom.phone)
	for i, l := range labels {
		m.place("", l.at, rail)
		m.stem(shifts[i])
		m.stemLabel(shifts[i], l.number(), l.code)
		m.lit("</svg>")
	}
}

func (m *markup) stem(shift float64) {
	m.lit(`<line class="lead" x1="0" y1="-13" y2="-24"`)
	m.num("x2", shift)
	m.lit("/>")
}

func (m *markup) stemLabel(shift float64, number, below string) {
	m.lit(`<text class="mid strong" y="-40"`)
	m.num("x", shift)
	m.lit(">")
	m.text(number)
	m.lit("</text>")
	if below != "" {
		m.lit(`<text class="mid" y="-27"`)
		m.num("x", shift)
		m.lit(">")
		m.text(below)
		m.lit("</text>")
	}
}

func (t Timeline) ahead(m *markup) {
	m.timelinePart(t.Ahead, t.AheadSentence)
	end := t.Now
	for _, d := range t.Due {
		for _, at := range []time.Time{d.From, d.To} {
			if at.After(end) {
				end = at
			}
		}
	}
	length := max(end.Sub(t.Now), time.Second)
	w := Window{From: t.Now, To: t.Now.Add(length + length/20)}
	m.timelineTicks(w, 5)
	anchors, widths := make([]float64, 0, maxDue), make([]float64, 0, maxDue)
	for _, d := range t.Due {
		from, to := d.place(w)
		if to > from {
			m.lit(`<rect class="window"`)
			m.span(from, to)
			m.num("y", rail-12)
			m.lit(` height="24" rx="2"/>`)
		}
		anchors = append(anchors, (from+to)/2*aheadRoom.narrow)
		widths = append(widths, max(textWidth(d.Label), 10)+6)
	}
	m.lit(`<line class="rail ahead" x1="0" x2="100%"`)
	m.num("y1", rail)
	m.num("y2", rail)
	m.lit("/>")
	m.vertical("nowline", 0, 8, rail+34)
	m.lit(`<text class="strong" x="6" y="17">`)
	m.text(t.NowLabel)
	m.lit("</text>")
	places := nudge(anchors, widths, aheadRoom.narrow)
	for i, d := range t.Due {
		from, to := d.place(w)
		m.place("", (from+to)/2, rail)
		if to == from {
			m.lit(`<circle class="hollow" r="6"/>`)
			m.stem(places[i] - anchors[i])
		}
		m.stemLabel(places[i]-anchors[i], strconv.Itoa(d.Number), d.Label)
		m.lit("</svg>")
		if extra, ok := aheadRoom.fit(textWidth(d.Note), to-from); ok && d.Note != "" {
			m.label("note mid"+extra, (from+to)/2, rail+28, d.Note)
		}
	}
	m.lit("</svg></div>")
}

func (d Due) place(w Window) (from, to float64) {
	from = w.at(d.From)
	if !d.To.After(d.From) {
		return from, from
	}
	return from, w.at(d.To)
}
