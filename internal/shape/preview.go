package shape

import (
	"fmt"
	"mime"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// maxPreview bounds the part of a payload that is laid out, in bytes: no message shows
// more, and the publisher chooses how deep and how long a payload is.
const maxPreview = 32 << 10

// preview is the beginning of a payload for people: JSON laid out, other texts as they
// are, and of the rest what it is.
func preview(e *hook.Event) string {
	kind := contentType(e)
	if hook.IsJSON(kind) {
		return readable(indent(e.Payload, maxPreview))
	}
	if media, _, err := mime.ParseMediaType(kind); err == nil && strings.HasPrefix(media, "text/") && utf8.Valid(e.Payload) {
		return readable(string(e.Payload[:min(len(e.Payload), maxPreview)]))
	}
	return fmt.Sprintf("%d bytes of %s", len(e.Payload), readable(kind))
}

// joiner makes one picture of several.
const joiner = '\u200d'

// readable takes out what would not be seen, or would change how the rest is seen:
// control characters, marks that turn the direction of a text, invalid UTF-8.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == joiner:
			return r
		case unicode.In(r, unicode.Zl, unicode.Zp):
			return '\n'
		case r == '\r':
			return -1
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r):
			return utf8.RuneError
		default:
			return r
		}
	}, s)
}

// maxIndent bounds the columns that depth takes.
const maxIndent = 20

// indent lays out a JSON value, as far as it goes within most bytes and a little more.
// It leaves strings and numbers as they are written.
func indent(value []byte, most int) string {
	var b strings.Builder
	depth := 0
	line := func() {
		b.WriteByte('\n')
		b.WriteString(strings.Repeat("  ", min(depth, maxIndent)))
	}
	for i := 0; i < len(value) && b.Len() < most; i++ {
		switch c := value[i]; c {
		case ' ', '\t', '\n', '\r':
		case '{', '[':
			b.WriteByte(c)
			if next := skipSpace(value, i+1); next < len(value) && (value[next] == '}' || value[next] == ']') {
				b.WriteByte(value[next])
				i = next
				continue
			}
			depth++
			line()
		case '}', ']':
			depth = max(0, depth-1)
			line()
			b.WriteByte(c)
		case ',':
			b.WriteByte(c)
			line()
		case ':':
			b.WriteString(": ")
		case '"':
			end := endOfText(value, i)
			b.Write(value[i:min(end, i+most)])
			i = end - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \t\r\n", b[i]) >= 0 {
		i++
	}
	return i
}

// endOfText returns where a string ends whose quote is at i.
func endOfText(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// fit escapes a text and ends it where room is used up, counted as the services count:
// in units of UTF-16.
func fit(s string, room int, escape func(rune) string) string {
	const more = "\n…"
	var b strings.Builder
	used, fits := 0, 0 // fits: the length of b that leaves room for more
	for _, r := range s {
		part := escape(r)
		used += units(part)
		if used > room {
			return b.String()[:fits] + more
		}
		b.WriteString(part)
		if used <= room-units(more) {
			fits = b.Len()
		}
	}
	return b.String()
}

func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}
