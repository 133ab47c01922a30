// Package jsonscan takes JSON apart without decoding it: it finds where values
// end, and hands out the members of an object and the elements of an array as
// they were written.
//
// It checks the grammar on the way, in a fraction of the time that
// encoding/json.Valid takes: every byte of every event passes through here. It
// gives values no meaning.
package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// The functions of this file take the place where something should begin and
// return the place where it ends, or broken.

const (
	// maxNesting is how deep values may be nested: as deep as encoding/json
	// allows, which reads some of them later.
	maxNesting = 10_000

	broken = -1
)

// Valid reports whether b is one JSON value with nothing after it. It
// accepts exactly what encoding/json.Valid accepts.
func Valid(b []byte) bool {
	end := endOfValue(b, skipSpace(b, 0), 0)
	return end != broken && skipSpace(b, end) == len(b)
}

// endOfValue returns the end of a value that has depth arrays and objects around
// it. There is no recursion: how deep a value goes is its sender's choice, and
// must not become the depth of our stack.
func endOfValue(b []byte, i, depth int) int {
	var room [64]byte // enough for most, so that nothing is allocated
	open := room[:0]  // the brackets that will close what was opened
	for i != broken && i < len(b) {
		switch c := b[i]; c {
		case '{', '[':
			closing := c + 2 // in ASCII
			if open = append(open, closing); depth+len(open) > maxNesting {
				return broken
			}
			if i = skipSpace(b, i+1); i == len(b) || b[i] != closing {
				i = endOfName(b, i, closing)
				continue
			}
		case '"':
			i = endOfText(b, i)
		default:
			i = endOfScalar(b, i)
		}
		if i, open = afterValue(b, i, open); len(open) == 0 {
			return i
		}
	}
	return broken
}

// afterValue goes past what follows a value while something is open: brackets
// that close, then a comma with, in an object, the name of the next member.
func afterValue(b []byte, i int, open []byte) (next int, still []byte) {
	for i != broken && len(open) > 0 {
		if i = skipSpace(b, i); i == len(b) {
			return broken, open
		}
		closing := open[len(open)-1]
		switch b[i] {
		case ',':
			return endOfName(b, skipSpace(b, i+1), closing), open
		case closing:
			open = open[:len(open)-1]
			i++
		default:
			return broken, open
		}
	}
	return i, open
}

// endOfName goes to the value of an object's next member. The elements of an
// array have no names.
func endOfName(b []byte, i int, closing byte) int {
	if closing == ']' {
		return i
	}
	if i == len(b) || b[i] != '"' {
		return broken
	}
	return afterColon(b, endOfText(b, i))
}

// afterColon goes from the end of a name to its value.
func afterColon(b []byte, i int) int {
	if i == broken {
		return broken
	}
	if i = skipSpace(b, i); i == len(b) || b[i] != ':' {
		return broken
	}
	return skipSpace(b, i+1)
}

// endOfText returns the end of a string whose quote is at i. Like encoding/json
// it lets pass every byte beyond ASCII.
func endOfText(b []byte, i int) int {
	for i = skipPlain(b, i+1); i < len(b); i = skipPlain(b, i) {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			if i = endOfEscape(b, i); i == broken {
				return broken
			}
		default:
			return broken
		}
	}
	return broken
}

// skipPlain goes past bytes that stand for themselves in a string. It looks at
// eight at a time: texts are most of what events are made of.
func skipPlain(b []byte, i int) int {
	const (
		each = 0x0101010101010101 // times c: c in each of the eight bytes
		high = 0x80 * each
	)
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, escape := w^'"'*each, w^'\\'*each // zero where there is one
		// A byte below n borrows from its high bit when n is taken away. Bytes
		// above it may then look alike, so that only the lowest one counts.
		found := ((w-' '*each)&^w | (quote-each)&^quote | (escape-each)&^escape) & high
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// endOfEscape returns the end of an escape whose backslash is at i.
func endOfEscape(b []byte, i int) int {
	i++
	if i == len(b) {
		return broken
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		const digits = 4
		if i+digits >= len(b) {
			return broken
		}
		for _, c := range b[i+1 : i+1+digits] {
			if !isHex(c) {
				return broken
			}
		}
		return i + 1 + digits
	}
	return broken
}

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// endOfScalar returns the end of a number or of one of the three words.
func endOfScalar(b []byte, i int) int {
	switch b[i] {
	case 't':
		return endOfWord(b, i, "true")
	case 'f':
		return endOfWord(b, i, "false")
	case 'n':
		return endOfWord(b, i, "null")
	default:
		return endOfNumber(b, i)
	}
}

func endOfWord(b []byte, i int, word string) int {
	end := i + len(word)
	if end > len(b) || string(b[i:end]) != word {
		return broken
	}
	return end
}

// endOfNumber returns the end of a number: JSON has no leading zeros, and wants
// digits on both sides of a point.
func endOfNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = endOfDigits(b, i); i == broken {
		return broken
	}
	if i < len(b) && b[i] == '.' {
		if i = endOfDigits(b, i+1); i == broken {
			return broken
		}
	}
	if i == len(b) || b[i] != 'e' && b[i] != 'E' {
		return i
	}
	i++
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		i++
	}
	return endOfDigits(b, i)
}

// endOfDigits returns the end of one or more digits.
func endOfDigits(b []byte, i int) int {
	from := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == from {
		return broken
	}
	return i
}

// skipSpace is small enough to be inlined: there mostly is no space.
func skipSpace(b []byte, i int) int {
	if i < len(b) && b[i] <= ' ' {
		return skipSpaces(b, i)
	}
	return i
}

func skipSpaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}
