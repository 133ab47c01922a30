package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// printf writes a result.
func (s *session) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.Stdout, format, args...); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// note tells something that is not a result. When even that fails there is
// nobody left to tell.
func (s *session) note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Stderr, format+"\n", args...)
}

// printJSON writes one document on one line.
func (s *session) printJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return s.printf("%s\n", raw)
}

// printRaw writes a document of the server: as it came with --json, else as
// readable lines.
func (s *session) printRaw(raw json.RawMessage) error {
	if s.json {
		return s.printJSON(raw)
	}
	pretty, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return s.printf("%s\n", pretty)
}

// printPage writes a list: as one document with --json, only the ids with
// --quiet, else as a table whose cells row returns.
func printPage[T any](s *session, p page, header string, row func(T) []string) error {
	if s.json {
		return s.printJSON(map[string]any{"data": orEmpty(p.Data), "next_cursor": p.Next})
	}
	w := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	if !s.quiet {
		fmt.Fprintln(w, strings.ReplaceAll(header, " ", "\t"))
	}
	for _, raw := range p.Data {
		var item T
		if err := json.Unmarshal(raw, &item); err != nil {
			return fmt.Errorf("understand answer: %w", err)
		}
		cells := row(item)
		if s.quiet {
			cells = cells[:1]
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if p.Next != nil && *p.Next != "" && !s.quiet {
		s.note("there are more; raise --limit to see them")
	}
	return nil
}

// orEmpty makes an empty list of nil, for JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// clock shows a moment that is given as RFC 3339, or a dash.
func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.Local().Format(time.DateTime)
}

func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// plural counts things: "1 delivery", "2 deliveries".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
