package rest

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of texts, in characters.
const (
	maxUID           = 64
	MaxName          = 200
	MaxDescription   = 1000
	maxMetadata      = 50
	maxMetadataKey   = 64
	maxMetadataValue = 1024
)

// ValidUID checks the form of a name that an operator chose.
func ValidUID(s string) bool {
	bad := func(r rune) bool { return notIDChar(r) && r != '.' }
	return s != "" && len(s) <= maxUID && !strings.ContainsFunc(s, bad)
}

// CheckUID checks a uid for storing: it must not look like an id, nor like the
// word for every tenant.
func (e *Invalid) CheckUID(path, uid, reserved string) {
	switch {
	case uid == "":
	case !ValidUID(uid):
		e.Add(path, "invalid_format", fmt.Sprintf("must have 1 to %d letters, digits, _ . or -", maxUID))
	case strings.HasPrefix(uid, reserved):
		e.Add(path, "not_allowed", "must not start with "+reserved)
	case uid == "-" || strings.Trim(uid, ".") == "":
		e.Add(path, "not_allowed", "has a meaning of its own in paths")
	}
}

// CheckText checks a text that people read. Line breaks are fine, other control
// characters are not: Postgres cannot store NUL, terminals obey the rest.
func (e *Invalid) CheckText(path, s string, limit int) {
	if utf8.RuneCountInString(s) > limit {
		e.Add(path, "out_of_range", fmt.Sprintf("must have at most %d characters", limit))
	}
	if strings.ContainsFunc(s, notText) {
		e.Add(path, "invalid_format", "must not hold control characters")
	}
}

func notText(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f
}

// CheckMetadata checks the client's own notes on an object.
func (e *Invalid) CheckMetadata(m map[string]string) {
	if len(m) > maxMetadata {
		e.Add("metadata", "out_of_range", fmt.Sprintf("must have at most %d entries", maxMetadata))
	}
	for k, v := range m {
		if k == "" || len(k) > maxMetadataKey || strings.ContainsFunc(k, notText) {
			e.Add("metadata", "invalid", fmt.Sprintf("keys must have 1 to %d bytes and no control characters", maxMetadataKey))
			continue
		}
		e.CheckText("metadata."+k, v, maxMetadataValue)
	}
}
