package jsonscan

import (
	"encoding/json"
	"unicode/utf8"
)

// Member is one member of a JSON object: its decoded name and raw value.
type Member struct {
	Name  string
	Value []byte
}

// AppendMembers appends the members of a JSON object to out, in order,
// duplicates included; ok is false when obj is anything but one valid object.
// Values are slices of obj. It stops when out has limit members, and has not
// looked at the rest then: how many there are is the sender's choice.
func AppendMembers(out []Member, obj []byte, limit int) (_ []Member, ok bool) {
	i := skipSpace(obj, 0)
	if i == len(obj) || obj[i] != '{' {
		return out, false
	}
	i = skipSpace(obj, i+1)
	if i < len(obj) && obj[i] == '}' {
		return out, skipSpace(obj, i+1) == len(obj)
	}
	for i < len(obj) && obj[i] == '"' {
		nameEnd := endOfText(obj, i)
		start := afterColon(obj, nameEnd)
		end := endOfValue(obj, start, 1)
		if end == broken {
			return out, false
		}
		name, ok := Text(obj[i:nameEnd])
		if !ok {
			return out, false
		}
		if out = append(out, Member{name, obj[start:end]}); len(out) == limit {
			return out, true
		}
		i = skipSpace(obj, end)
		if i < len(obj) && obj[i] == '}' {
			return out, skipSpace(obj, i+1) == len(obj)
		}
		if i == len(obj) || obj[i] != ',' {
			return out, false
		}
		i = skipSpace(obj, i+1)
	}
	return out, false
}

// Text returns the text of a valid JSON value; ok is false when that is not
// a string. Plain ASCII, which is nearly everything, needs no decoder.
func Text(value []byte) (text string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	for _, c := range value {
		if c == '\\' || c >= utf8.RuneSelf {
			return decodeText(value)
		}
	}
	return string(value[1 : len(value)-1]), true
}

func decodeText(value []byte) (text string, ok bool) {
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// Elements returns the elements of a valid JSON array, at most limit+1 of
// them; ok is false when the value is not an array.
func Elements(arr []byte, limit int) (out [][]byte, ok bool) {
	i := skipSpace(arr, 0)
	if i == len(arr) || arr[i] != '[' {
		return nil, false
	}
	i = skipSpace(arr, i+1)
	for arr[i] != ']' && len(out) <= limit {
		end := endOfValue(arr, i, 0)
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
