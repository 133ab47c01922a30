package hook

import "strings"

// HeaderTraceParent and HeaderTraceState carry a W3C trace context.
const (
	HeaderTraceParent = "Traceparent"
	HeaderTraceState  = "Tracestate"
)

// Trace is a W3C trace context: where in whose trace something happened. The
// zero value is none.
type Trace struct {
	Parent string // version 00, 55 characters
	State  string // empty: none; at most MaxTraceState bytes
}

// Bounds of a trace state. What is longer loses whole members from its end.
const (
	MaxTraceState        = 512
	maxTraceStateMembers = 32
	maxTraceStateKey     = 256
	maxTraceStateValue   = 256
)

// traceParentSize is the length of a traceparent of version 00.
const traceParentSize = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// ReadTrace reads the trace context of a request from the values of its two
// headers. One that is malformed counts as absent, as the standard demands: a
// request must not fail for the sake of a trace.
func ReadTrace(parents, states []string) Trace {
	if len(parents) != 1 {
		return Trace{}
	}
	parent, ok := readTraceParent(parents[0])
	if !ok {
		return Trace{}
	}
	t := Trace{Parent: parent}
	if len(states) > 0 {
		t.State = readTraceState(strings.Join(states, ","))
	}
	return t
}

// readTraceParent checks a traceparent and returns it as of version 00. Later
// versions begin alike and may say more, which nobody here would understand.
func readTraceParent(s string) (string, bool) {
	if len(s) < traceParentSize || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	switch {
	case !isLowerHex(version) || version == "ff":
		return "", false
	case !isLowerHex(trace) || isZeros(trace) || !isLowerHex(span) || isZeros(span) || !isLowerHex(flags):
		return "", false
	case version == "00":
		return s, len(s) == traceParentSize
	case len(s) > traceParentSize && s[traceParentSize] != '-':
		return "", false
	}
	return "00" + s[2:traceParentSize], true
}

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZeros(s string) bool { return strings.Trim(s, "0") == "" }

// readTraceState returns a trace state without empty members and white space
// around its members, or "" when one of them is malformed.
func readTraceState(s string) string {
	var members []string
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue
		}
		if len(members) == maxTraceStateMembers || !isTraceStateMember(member) {
			return ""
		}
		members = append(members, member)
	}
	size := max(len(members)-1, 0) // the commas
	for _, m := range members {
		size += len(m)
	}
	for size > MaxTraceState {
		last := len(members) - 1
		size -= len(members[last]) + 1
		members = members[:last]
	}
	return strings.Join(members, ",")
}

func isTraceStateMember(s string) bool {
	key, value, ok := strings.Cut(s, "=")
	if !ok || key == "" || len(key) > maxTraceStateKey || value == "" || len(value) > maxTraceStateValue {
		return false
	}
	for i := range len(key) {
		c := key[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_-*/@", rune(c))) {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}

// traceMark is the parameter of a stored content type that holds the trace
// context of an event, behind everything else. Most events have none, so that it
// needs no column. No member of a trace state can look like a mark: its only "="
// follows a key, which has no space.
const traceMark = "; breakwater-trace="

// WithTrace notes a trace context in the content type of an event, after its
// hops. The zero Trace leaves it as it is.
func WithTrace(contentType string, t Trace) string {
	switch {
	case t.Parent == "":
		return contentType
	case t.State == "":
		return contentType + traceMark + t.Parent
	}
	return contentType + traceMark + t.Parent + "," + t.State
}

// CutTrace returns a content type without the trace context that is noted in it,
// and that trace context.
func CutTrace(contentType string) (rest string, t Trace) {
	rest, text, ok := strings.Cut(contentType, traceMark)
	if !ok {
		return contentType, Trace{}
	}
	t.Parent, t.State, _ = strings.Cut(text, ",")
	if _, ok := readTraceParent(t.Parent); !ok {
		return contentType, Trace{}
	}
	return rest, t
}

// IsMarked reports whether a content type holds something that looks like one
// of our notes. Publishers may not write them.
func IsMarked(contentType string) bool {
	return strings.Contains(strings.ToLower(contentType), "breakwater-")
}
