package chart

import "html/template"

// State is what a lane does. Every state has a shape of its own; the caller has the words.
type State uint8

// The states of a lane, and the severities of alerts that have an icon.
const (
	Delivering State = iota
	Draining
	SlowStart
	Holding
	Probing
	ToldToWait
	Paused
	Disabled
	QueueGrowing
	RetryStorm
	Warning
	Info
	states
)

var stateLooks = [states]struct{ tone, icon literal }{
	Delivering:   {"ok", `<circle cx="6" cy="6" r="4.3" fill="currentColor"/><path class="l-surface" d="M4 6.1l1.4 1.4L8.1 4.7" fill="none" stroke-width="1.3"/>`},
	Draining:     {"sea", `<path d="M2 2.2h8M3.2 5.2h5.6M4.4 8.2h3.2" stroke="currentColor" stroke-width="1.7"/>`},
	SlowStart:    {"sea", `<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M6 1.6a4.4 4.4 0 0 1 0 8.8z" fill="currentColor"/>`},
	Holding:      {"bad", `<rect x="1.5" y="1.5" width="9" height="9" fill="currentColor"/><path class="l-surface" d="M1.5 4.5h9M1.5 7.5h9M6 1.5v3M3.6 4.5v3M8.4 4.5v3M6 7.5v3" stroke-width=".9"/>`},
	Probing:      {"warn", `<path d="M6 1.2L10.8 6 6 10.8 1.2 6z" fill="none" stroke="currentColor" stroke-width="1.5"/><circle cx="6" cy="6" r="1.4" fill="currentColor"/>`},
	ToldToWait:   {"warn", `<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M6 3.4V6l1.9 1.2" fill="none" stroke="currentColor" stroke-width="1.3"/>`},
	Paused:       {"", `<path d="M3.8 2v8M8.2 2v8" stroke="currentColor" stroke-width="2.2"/>`},
	Disabled:     {"", `<circle cx="6" cy="6" r="4.4" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M3 9l6-6" stroke="currentColor" stroke-width="1.4"/>`},
	QueueGrowing: {"warn", `<path d="M1.5 9.5l3-3 2 1.6 4-5M7.6 3h3v3" fill="none" stroke="currentColor" stroke-width="1.5"/>`},
	RetryStorm:   {"bad", `<path d="M6 1l5.2 9.6H.8z" fill="currentColor"/><path class="l-surface" d="M6 4.4v3M6 8.2v1.1" stroke-width="1.3"/>`},
	Warning:      {"warn", `<path d="M6 1.8l4.5 8.2h-9z" fill="none" stroke="currentColor" stroke-width="1.4"/><path d="M6 4.8v2.4M6 8v1" stroke="currentColor" stroke-width="1.2"/>`},
	Info:         {"", `<circle cx="6" cy="6" r="4.6" fill="none" stroke="currentColor" stroke-width="1.3"/><path d="M6 5.3v3.2M6 3.3v1.2" stroke="currentColor" stroke-width="1.3"/>`},
}

func (s State) look() (tone, icon literal) {
	if s >= states {
		s = Info
	}
	return stateLooks[s].tone, stateLooks[s].icon
}

// Class is what an answer means. Every class has a shape of its own, the same in lists and on timelines.
type Class uint8

// The classes of answers.
const (
	Success Class = iota
	Down
	Retryable
	Throttle
	Permanent
	Limited
	Local
	classes
)

var classLooks = [classes]struct{ tone, icon, shape literal }{
	Success:   {"ok", `<circle cx="6" cy="6" r="4.2" fill="currentColor"/>`, `<circle r="6" class="f-ok"/>`},
	Down:      {"bad", `<rect x="2" y="2" width="8" height="8" fill="currentColor"/>`, `<rect x="-5.5" y="-5.5" width="11" height="11" class="f-bad"/>`},
	Retryable: {"warn", `<path d="M6 1.4l4.9 8.8H1.1z" fill="currentColor"/>`, `<path d="M0 -6.5L6.5 5.5L-6.5 5.5z" class="f-warn"/>`},
	Throttle:  {"warn", `<path d="M6 1L11 6 6 11 1 6z" fill="currentColor"/>`, `<path d="M0 -7L7 0L0 7L-7 0z" class="f-warn"/>`},
	Permanent: {"bad", `<path d="M2.4 2.4l7.2 7.2M9.6 2.4L2.4 9.6" stroke="currentColor" stroke-width="2.2"/>`, `<path d="M-5 -5L5 5M5 -5L-5 5" class="ln l-bad" stroke-width="3"/>`},
	Limited:   {"bad", `<path d="M2 2h8v8H2z" fill="none" stroke="currentColor" stroke-width="1.8"/>`, `<rect x="-5" y="-5" width="10" height="10" class="f-surface l-bad" stroke-width="2"/>`},
	Local:     {"", `<circle cx="6" cy="6" r="3.9" fill="none" stroke="currentColor" stroke-width="1.8"/>`, `<circle r="5" class="f-surface l-ink3" stroke-width="2"/>`},
}

func (c Class) look() (tone, icon, shape literal) {
	if c >= classes {
		c = Local
	}
	return classLooks[c].tone, classLooks[c].icon, classLooks[c].shape
}

func (m *markup) icon(shape literal, size int) {
	m.lit("<svg")
	m.num("width", float64(size))
	m.num("height", float64(size))
	m.lit(` viewBox="0 0 12 12" aria-hidden="true">`, shape, "</svg>")
}

// Icon is the sign of a state.
func Icon(s State, size int) template.HTML {
	var m markup
	_, shape := s.look()
	m.icon(shape, min(max(size, 8), 64))
	return m.html()
}

// Badge is the icon and the word of a state; the title has the word of the API.
type Badge struct {
	State       State
	Text, Title string
	Big         bool
}

// HTML is the badge.
func (b Badge) HTML() template.HTML {
	var m markup
	m.badge(b)
	return m.html()
}

func (m *markup) badge(b Badge) {
	tone, shape := b.State.look()
	big := literal("")
	if b.Big {
		big = "big"
	}
	m.lit("<span")
	m.class("badge", tone, big)
	if b.Title != "" {
		m.attr("title", b.Title)
	}
	m.lit(">")
	m.icon(shape, 12)
	m.text(b.Text)
	m.lit("</span>")
}

// Answer is the result of an attempt: shape and code.
func Answer(c Class, text string) template.HTML {
	var m markup
	m.answer(c, text)
	return m.html()
}

func (m *markup) answer(c Class, text string) {
	tone, shape, _ := c.look()
	m.lit("<span")
	m.class("badge", tone, "plain")
	m.lit(">")
	m.icon(shape, 12)
	m.lit(`<span class="code">`)
	m.text(text)
	m.lit("</span></span>")
}
