package deliveries

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxShown bounds what a page shows of a text that others wrote; the whole of it
	// can be downloaded.
	maxShown = 12 << 10
	// maxPretty and maxDepth bound what is set line by line: with every level, each
	// line gets longer.
	maxPretty = 64 << 10
	maxDepth  = 32
)

// body is a payload or an answer as a page shows it.
type body struct {
	Lines    []line // all of it, or its beginning
	Pretty   bool   // it is set line by line
	CanBe    bool   // it could be
	Binary   bool   // it is no text, and not shown
	Empty    bool
	Cut      bool // the page has its beginning only
	Partial  bool // so has the server
	Size     int
	Download string
}

// line is a line of a text. Key is the name of a member of an object.
type line struct{ Indent, Key, Rest string }

// bodyOf prepares a text. Whatever is in it, a template escapes it.
func bodyOf(text []byte, raw bool) body {
	b := body{Size: len(text), Empty: len(text) == 0}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		b.Binary = true
		return b
	}
	shown := text
	if pretty, ok := prettyJSON(text); ok {
		if b.CanBe = true; !raw {
			b.Pretty, shown = true, pretty
		}
	}
	if len(shown) > maxShown {
		shown, b.Cut = cut(shown, maxShown), true
	}
	if !b.Pretty {
		b.Lines = []line{{Rest: string(shown)}}
		return b
	}
	for l := range strings.Lines(string(shown)) {
		b.Lines = append(b.Lines, lineOf(l))
	}
	return b
}

// cut shortens a text to so many bytes at most, and breaks no character.
func cut(text []byte, most int) []byte {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// prettyJSON sets JSON line by line, if it is some and can be read then.
func prettyJSON(text []byte) ([]byte, bool) {
	if len(text) > maxPretty || depth(text) > maxDepth || !json.Valid(text) {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, false
	}
	return bytes.TrimSpace(out.Bytes()), true
}

// depth returns how deep JSON is nested, or would be.
func depth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

var member = regexp.MustCompile(`^( *)("(?:[^"\\]|\\.)*")(:.*\n?)$`)

func lineOf(text string) line {
	if m := member.FindStringSubmatch(text); m != nil {
		return line{m[1], m[2], m[3]}
	}
	return line{Rest: text}
}
