package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
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

// print writes a result in one of its three forms: document with --json, brief
// with --quiet, else the text.
func (s *session) print(document any, brief, format string, args ...any) error {
	switch {
	case s.json:
		return s.printJSON(document)
	case s.quiet:
		return s.printf("%s", brief)
	default:
		return s.printf(format, args...)
	}
}

// printIndented writes a document of the server as readable lines.
func (s *session) printIndented(raw json.RawMessage) error {
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
	var rows [][]string
	if !s.quiet {
		rows = append(rows, strings.Fields(header))
	}
	for _, raw := range p.Data {
		item, err := understand[T](raw)
		if err != nil {
			return err
		}
		cells := row(item)
		if s.quiet {
			cells = cells[:1]
		}
		rows = append(rows, cells)
	}
	if err := s.printRows(rows); err != nil {
		return err
	}
	if p.Next != nil && *p.Next != "" && !s.quiet {
		s.note("there are more; raise --limit to see them")
	}
	return nil
}

// printRows writes rows of cells in columns.
func (s *session) printRows(rows [][]string) error {
	w := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// understand reads an answer of the server.
func understand[T any](raw json.RawMessage) (T, error) {
	var answer T
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("understand answer: %w", err)
	}
	return answer, nil
}

// orEmpty makes an empty list of nil, for JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// orZero returns what p points at; the API shows what is not there as null.
func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// clock shows a moment, or a dash for none.
func clock[T time.Time | view.Stamp](moment T) string {
	t := time.Time(moment)
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
