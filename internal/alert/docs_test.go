package alert_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

var update = flag.Bool("update", false, "rewrite the facts in docs/alerts.md")

var runbook = filepath.Join("..", "..", "docs", "alerts.md")

// TestRunbook: every rule has a section in the order of the table, every section
// is about a rule, its facts are those of the table, and it says how to check and
// what to do.
func TestRunbook(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	intro, sections := cut(string(raw))
	if *update {
		var b strings.Builder
		b.WriteString(intro)
		for _, s := range sections {
			b.WriteString("\n### " + s.name + "\n\n" + facts(alert.Lookup(s.name)) + "\n**Check.**" + s.body)
		}
		if err := os.WriteFile(runbook, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		_, sections = cut(b.String())
	}
	var want, got []string
	for _, r := range alert.Rules() {
		want = append(want, r.Name)
	}
	for _, s := range sections {
		got = append(got, s.name)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("sections\n%v\nwant\n%v", got, want)
	}
	for _, s := range sections {
		if s.head != facts(alert.Lookup(s.name)) {
			t.Errorf("%s: the facts are out of date; run this test with -update", s.name)
		}
		check, do, ok := strings.Cut(s.body, "\n\n**Do.** ")
		if !ok || len(strings.TrimSpace(check)) < 40 || len(strings.TrimSpace(do)) < 40 {
			t.Errorf("%s: does not say how to check and what to do", s.name)
		}
	}
}

// section is what the runbook says about a rule.
type section struct{ name, head, body string }

func cut(page string) (intro string, sections []section) {
	parts := strings.Split(page, "\n### ")
	for _, p := range parts[1:] {
		name, rest, _ := strings.Cut(p, "\n\n")
		head, body, found := strings.Cut(rest, "\n**Check.**")
		if !found {
			head, body, _ = strings.Cut("\n"+rest, "\n**Check.**")
		}
		sections = append(sections, section{name, head, body})
	}
	return parts[0], sections
}

// facts are what the table says of a rule.
func facts(r *alert.Rule) string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	row := func(what, text string) { fmt.Fprintf(&b, "| %s | %s |\n", what, text) }
	b.WriteString(r.Meaning + "\n\n| | |\n|---|---|\n")
	var levels []string
	for _, at := range r.At {
		steps := make([]string, len(at.Steps))
		for i, s := range at.Steps {
			steps[i] = s.String()
		}
		levels = append(levels, at.Level.String()+": "+strings.Join(steps, ", then "))
	}
	row("Level and severity", strings.Join(levels, "; "))
	metric := r.Metric
	if r.Window > 0 {
		metric += ", over " + quantity.FormatDuration(r.Window)
	}
	row("Looks at", metric)
	row("Healthy", r.Healthy)
	if r.Least > 0 {
		row("Lasts at least", quantity.FormatDuration(r.Least))
	}
	for _, f := range r.Fields {
		value := f.Format(f.Default)
		if f.Unit == alert.Percent {
			value += " %"
		}
		row(fmt.Sprintf("`alerts.%s.%s`", r.Name, f.Name), fmt.Sprintf("%s (%s): %s", value, f.Bounds(), f.Doc))
	}
	return b.String()
}
