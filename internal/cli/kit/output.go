package kit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Printf writes a result.
func (s *Session) Printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.Stdout, format, args...); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Note tells something that is not a result. When even that fails there is
// nobody left to tell.
func (s *Session) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Stderr, format+"\n", args...)
}

// PrintJSON writes one document on one line.
func (s *Session) PrintJSON(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return s.Printf("%s\n", raw)
}

// Print writes a result in one of its three forms: document with --json, brief
// with --quiet, else the text.
func (s *Session) Print(document any, brief, format string, args ...any) error {
	switch {
	case s.JSON:
		return s.PrintJSON(document)
	case s.Quiet:
		return s.Printf("%s", brief)
	default:
		return s.Printf(format, args...)
	}
}

// PrintIndented writes a document of the server as readable lines.
func (s *Session) PrintIndented(raw json.RawMessage) error {
	pretty, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return s.Printf("%s\n", pretty)
}

// PrintPage writes a list: as one document with --json, only the ids with
// --quiet, else as a table whose cells row returns.
func PrintPage[T any](s *Session, p Page, header string, row func(T) []string) error {
	if s.JSON {
		return s.PrintJSON(map[string]any{"data": OrEmpty(p.Data), "next_cursor": p.Next})
	}
	var rows [][]string
	if !s.Quiet {
		rows = append(rows, strings.Fields(header))
	}
	for _, raw := range p.Data {
		item, err := Understand[T](raw)
		if err != nil {
			return err
		}
		cells := row(item)
		if s.Quiet {
			cells = cells[:1]
		}
		rows = append(rows, cells)
	}
	if err := s.PrintRows(rows); err != nil {
		return err
	}
	if p.Next != nil && *p.Next != "" && !s.Quiet {
		s.Note("there are more; raise --limit to see them")
	}
	return nil
}

// PrintRows writes rows of cells in columns.
func (s *Session) PrintRows(rows [][]string) error {
	w := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Understand reads an answer of the server.
func Understand[T any](raw json.RawMessage) (T, error) {
	var answer T
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("understand answer: %w", err)
	}
	return answer, nil
}

// OrEmpty makes an empty list of nil, for JSON.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// OrZero returns what p points at; the API shows what is not there as null.
func OrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Clock shows a moment, or a dash for none.
func Clock[T time.Time | view.Stamp](moment T) string {
	t := time.Time(moment)
	if t.IsZero() {
		return "–"
	}
	return t.Local().Format(time.DateTime)
}

// Dash shows no text as a dash.
func Dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// Plural counts things: "1 delivery", "2 deliveries".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// StatusText shows a status code, as nothing when there was no answer.
func StatusText(code *int) string {
	if OrZero(code) == 0 {
		return ""
	}
	return strconv.Itoa(*code)
}

// Decimal shows a number with the digits that matter to a person.
func Decimal(r float64) string {
	digits := 2
	switch {
	case r >= 100:
		digits = 0
	case r >= 10:
		digits = 1
	}
	text := strconv.FormatFloat(r, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}
