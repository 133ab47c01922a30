package hook

import (
	"errors"
	"strings"
)

// HeaderType tells the receiver the type of an event, whatever form its body has.
const HeaderType = "Breakwater-Type"

// MaxTypeLength bounds event types and patterns.
const MaxTypeLength = 128

// ErrBadType is returned for a malformed event type or pattern.
var (
	ErrBadType    = errors.New(`must be segments of letters, digits, "_" or "-" joined by dots, at most 128 characters`)
	ErrBadPattern = errors.New(`must be "*", an event type, or an event type followed by ".*", at most 128 characters`)
)

// CheckType validates an event type such as "order.paid".
func CheckType(s string) error {
	if s == "" || len(s) > MaxTypeLength {
		return ErrBadType
	}
	segment := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			segment++
		case c == '.' && segment > 0:
			segment = 0
		default:
			return ErrBadType
		}
	}
	if segment == 0 {
		return ErrBadType
	}
	return nil
}

// CheckPattern validates a type pattern: "*", an exact type, or a type
// followed by ".*".
func CheckPattern(s string) error {
	if s == "*" {
		return nil
	}
	if len(s) > MaxTypeLength || CheckType(strings.TrimSuffix(s, ".*")) != nil {
		return ErrBadPattern
	}
	return nil
}

// MatchType reports whether pattern selects the event type. "order.*" selects
// "order." plus one or more segments, not "order" itself.
func MatchType(pattern, eventType string) bool {
	if pattern == "*" {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(eventType) > len(prefix) && strings.HasPrefix(eventType, prefix)
	}
	return pattern == eventType
}
