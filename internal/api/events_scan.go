package api

import (
	"encoding/json"
	"unicode/utf8"
)

// This file walks JSON that is known to be valid, without decoding it: the
// value of a payload must reach its receivers byte for byte.

// member is one member of a JSON object: its decoded name and raw value.
type member struct {
	name  string
	value []byte
}

// membersOf returns the members of a valid JSON object in order, duplicates
// included; ok is false when the value is not an object. Values are slices of
// obj.
func membersOf(obj []byte) (out []member, ok bool) {
	i := skipSpace(obj, 0)
	if i == len(obj) || obj[i] != '{' {
		return nil, false
	}
	i = skipSpace(obj, i+1)
	out = make([]member, 0, 4)
	for obj[i] != '}' {
		nameEnd := skipValue(obj, i)
		name, ok := unquote(obj[i:nameEnd])
		if !ok {
			return nil, false
		}
		i = skipSpace(obj, skipSpace(obj, nameEnd)+1) // over the colon
		end := skipValue(obj, i)
		out = append(out, member{name, obj[i:end]})
		i = nextItem(obj, end)
	}
	return out, true
}

// unquote returns the text of a valid JSON value; ok is false when that is not
// a string. Plain ASCII, which is nearly everything, needs no decoder.
func unquote(value []byte) (text string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	for _, c := range value {
		if c == '\\' || c >= utf8.RuneSelf {
			err := json.Unmarshal(value, &text)
			return text, err == nil
		}
	}
	return string(value[1 : len(value)-1]), true
}

// elementsOf returns the elements of a valid JSON array, at most limit+1 of
// them; ok is false when the value is not an array.
func elementsOf(arr []byte, limit int) (out [][]byte, ok bool) {
	i := skipSpace(arr, 0)
	if i == len(arr) || arr[i] != '[' {
		return nil, false
	}
	i = skipSpace(arr, i+1)
	for arr[i] != ']' && len(out) <= limit {
		end := skipValue(arr, i)
		out = append(out, arr[i:end])
		i = nextItem(arr, end)
	}
	return out, true
}

// nextItem moves from the end of an item to the next one, or to the bracket.
func nextItem(b []byte, i int) int {
	i = skipSpace(b, i)
	if b[i] == ',' {
		i = skipSpace(b, i+1)
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipNested counts brackets; since the JSON is valid, their kinds match.
func skipNested(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
}
