// Package curl writes a request down as a command that people paste into a shell.
//
// What comes from outside, the payload above all, can do nothing there: no quote ends
// early, no file is read, and no character reaches the terminal that it would obey.
// The package is pure and sends nothing.
package curl

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Field is one header.
type Field struct{ Name, Value string }

// Request is what the command sends.
type Request struct {
	URL    string
	Header []Field
	Body   []byte
}

// maxArgument is how long a body is shown as it is: the argument of a command may
// have 128 KiB on Linux, and that of nothing else.
const maxArgument = 64 << 10

// Command returns the command, for sh, bash and zsh. A body of more than plain lines
// of text is given in base64, which printf, a part of the shell, passes on in any
// length.
func Command(r *Request) string {
	var b strings.Builder
	encoded := !plain(r.Body) || len(r.Body) > maxArgument
	if encoded {
		b.WriteString("printf %s " + quote(base64.StdEncoding.EncodeToString(r.Body)) + " | base64 -d | ")
	}
	// Without globoff, brackets in the URL would be a pattern of several.
	b.WriteString("curl -sS -i -X POST --globoff " + quote(visible(r.URL)))
	for _, h := range r.Header {
		b.WriteString(" \\\n  -H " + quote(visible(h.Name+": "+h.Value)))
	}
	if encoded {
		b.WriteString(" \\\n  --data-binary @-\n")
		return b.String()
	}
	// Not --data: it takes a body that begins with @ for the name of a file.
	b.WriteString(" \\\n  --data-raw " + quote(string(r.Body)) + "\n")
	return b.String()
}

// quote makes one word of a text. Between single quotes nothing has a meaning but the
// quote itself.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// plain reports whether a body may be pasted as it is: a terminal obeys control
// characters, and the end of a paste is one of its sequences.
func plain(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	for _, r := range string(body) {
		if r != '\n' && hidden(r) {
			return false
		}
	}
	return true
}

// hidden reports whether a character shows nothing, or changes how others are shown.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// visible drops what cannot be in a URL or a header anyway.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
}
