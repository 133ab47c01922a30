package demo

import (
	"fmt"
	"io"
	"strings"
)

// Terminal shows scenes on a terminal, each over the one before.
type Terminal struct {
	w      io.Writer
	colour bool
	drawn  int // lines that the next scene replaces
}

// NewTerminal returns one that writes to w.
func NewTerminal(w io.Writer, colour bool) *Terminal { return &Terminal{w: w, colour: colour} }

// codes are how terminals name the moods.
var codes = map[Mood]string{Dim: "2", Strong: "1", Good: "32", Fair: "33", Bad: "31"}

// Show replaces what was shown before.
func (t *Terminal) Show(lines []Line) error {
	var b strings.Builder
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.drawn)
	}
	for _, l := range lines {
		b.WriteString(t.text(l))
		b.WriteString("\x1b[K\n")
	}
	t.drawn = len(lines)
	_, err := io.WriteString(t.w, b.String())
	return err
}

// Keep leaves what was shown where it is, and writes below it.
func (t *Terminal) Keep(lines []Line) error {
	t.drawn = 0
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(t.text(l))
		b.WriteString("\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *Terminal) text(l Line) string {
	var b strings.Builder
	for _, s := range l {
		if code := codes[s.Mood]; code != "" && t.colour {
			b.WriteString("\x1b[" + code + "m" + s.Text + "\x1b[0m")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}
