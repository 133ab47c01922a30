package words

import (
	"strings"
	"time"
)

// Style is how a part of a text is set.
type Style string

// The styles of parts.
const (
	Plain  Style = ""
	Strong Style = "strong"
	Code   Style = "code" // a word of the API
	Moved  Style = "time" // At is the moment it tells
	Counts Style = "in"   // the same, and it counts down
	Grows  Style = "for"  // the same, and it counts up
)

// Part is a piece of a sentence.
type Part struct {
	Text  string
	Style Style
	At    time.Time
}

// Text is a sentence or several, in parts so that a page can set them.
type Text []Part

// String is the text without its styles.
func (t Text) String() string {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Sentence says what happens, and what to do or that there is nothing to do.
type Sentence struct {
	Say Text
	Do  Text
}

// String is both, one after the other.
func (s Sentence) String() string {
	if len(s.Do) == 0 {
		return s.Say.String()
	}
	return s.Say.String() + " " + s.Do.String()
}

// say puts a text together: strings, parts and texts. Plain neighbours become one.
func say(parts ...any) Text {
	var out Text
	add := func(p Part) {
		switch last := len(out) - 1; {
		case p.Text == "":
		case p.Style == Plain && last >= 0 && out[last].Style == Plain:
			out[last].Text += p.Text
		default:
			out = append(out, p)
		}
	}
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			add(Part{Text: p})
		case Part:
			add(p)
		case Text:
			for _, q := range p {
				add(q)
			}
		}
	}
	return out
}

func strong(s string) Part { return Part{Text: s, Style: Strong} }
func code(s string) Part   { return Part{Text: s, Style: Code} }

// at is a moment, until one to come, lasting the time since one.
func at(t, now time.Time) Part      { return Part{Clock(t, now), Moved, t} }
func about(t, now time.Time) Part   { return Part{About(t, now), Moved, t} }
func until(t, now time.Time) Part   { return Part{In(t, now), Counts, t} }
func lasting(t, now time.Time) Part { return Part{Duration(Since(t, now)), Grows, t} }

// list joins names as people do: a, b and c; with more than most, "a, b and 5 more".
func list(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + Number(more) + " more"
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// start makes the first letter of a sentence a capital.
func start(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
