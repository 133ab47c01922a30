package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the configuration.
type Problem struct {
	Key     string // YAML key, variable or flag as the user wrote it
	Origin  string // where it was written
	Value   string // as given, hidden for secrets; empty when it adds nothing
	Message string // the rule that was broken
	Hint    string // nearest known name, or empty
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Key)
	if p.Origin != "" {
		fmt.Fprintf(&b, " (%s)", p.Origin)
	}
	b.WriteString(": ")
	if p.Value != "" {
		fmt.Fprintf(&b, "%q ", p.Value)
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		fmt.Fprintf(&b, "; did you mean %s?", p.Hint)
	}
	return b.String()
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems)+1)
	if n := len(e.Problems); n == 1 {
		lines = append(lines, "configuration has 1 problem:")
	} else {
		lines = append(lines, fmt.Sprintf("configuration has %d problems:", n))
	}
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}
