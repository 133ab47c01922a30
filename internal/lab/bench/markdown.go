package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteMarkdown writes the report as a page: everything the table has, with
// the quantiles and spreads that a terminal has no room for.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmark: %s\n\n", r.Kind)
	fmt.Fprintf(&b, "Breakwater %s, %s, %s.\n\n", r.Version, r.Started.Format(time.RFC3339), time.Duration(r.Seconds*float64(time.Second)))
	for line := range strings.SplitSeq(r.Machine.text()+"\n"+r.Settings.text(), "\n") {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "- **not measured:** %s: %s\n", s.Subject, s.Reason)
	}
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "- note: %s\n", note)
	}
	r.markGoals(&b)
	r.markFacts(&b)
	for i := range r.Rows {
		r.Rows[i].mark(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markGoals(b *strings.Builder) {
	if len(r.Goals) == 0 {
		return
	}
	b.WriteString("\n| Goal | Want | Got | |\n|---|--:|--:|---|\n")
	for _, g := range r.Goals {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", g.Name, g.Want, g.Got, strings.TrimSpace(metText(g.Met)))
	}
}

func (r *Report) markFacts(b *strings.Builder) {
	if len(r.Facts) == 0 {
		return
	}
	b.WriteString("\n| Subject | What | Value |\n|---|---|--:|\n")
	for _, f := range r.Facts {
		fmt.Fprintf(b, "| %s | %s | %s %s |\n", f.Subject, f.Name, decimal(f.Value), f.Unit)
	}
}

// markLine is one quantity of a row's table, with a column per subject.
type markLine struct {
	name string
	text func(*Result) string
}

// with shows a figure and its spread.
func with(name string, pick func(*Figures) Figure, text func(float64) string) markLine {
	return markLine{name, func(res *Result) string {
		f := pick(&res.Figures)
		if spread := res.spread(f, text); spread != "" {
			return text(f.Median) + " (" + spread + ")"
		}
		return text(f.Median)
	}}
}

func ratioText(v float64) string { return fmt.Sprintf("%.2f", v) }

// known shows a dash where there is nothing to measure.
func known(text func(float64) string) func(float64) string {
	return func(v float64) string {
		if v == 0 {
			return "–"
		}
		return text(v)
	}
}

func percentText(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

var markLines = []markLine{
	with("delivered per second", func(f *Figures) Figure { return f.Delivered }, thousands),
	with("accepted per second", func(f *Figures) Figure { return f.Accepted }, thousands),
	with("delivered ÷ relay", func(f *Figures) Figure { return f.Ratio }, known(ratioText)),
	with("server CPU ÷ relay's", func(f *Figures) Figure { return f.CPURatio }, known(ratioText)),
	with("server CPU, µs per event", func(f *Figures) Figure { return f.ServerCPU }, decimal),
	with("database CPU, µs per event", func(f *Figures) Figure { return f.DatabaseCPU }, known(decimal)),
	with("generator CPU, µs per event", func(f *Figures) Figure { return f.GeneratorCPU }, decimal),
	with("accept p50, ms", func(f *Figures) Figure { return f.AcceptP50 }, decimal),
	with("accept p99, ms", func(f *Figures) Figure { return f.AcceptP99 }, decimal),
	with("accept p99.9, ms", func(f *Figures) Figure { return f.AcceptP999 }, decimal),
	with("arrival p50, ms", func(f *Figures) Figure { return f.ArrivalP50 }, decimal),
	with("arrival p99, ms", func(f *Figures) Figure { return f.ArrivalP99 }, decimal),
	with("arrival p99.9, ms", func(f *Figures) Figure { return f.ArrivalP999 }, decimal),
	with("peak memory of the server", func(f *Figures) Figure { return f.PeakMemory }, bytesText),
	with("memory of the database", func(f *Figures) Figure { return f.DatabaseMemory }, known(bytesText)),
	with("written per event", func(f *Figures) Figure { return f.Written }, bytesText),
	with("machine taken by others", func(f *Figures) Figure { return f.OtherCPU }, percentText),
	{"lost, duplicates, refused", func(res *Result) string {
		return fmt.Sprintf("%d, %d, %d", res.Figures.Lost, res.Figures.Again, res.Figures.Refused)
	}},
}

func (row *RowReport) mark(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s: %s\n\n|", row.Name, row.Text)
	for i := range row.Results {
		fmt.Fprintf(b, " | %s", row.Results[i].Subject)
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("--:|", len(row.Results)))
	for _, line := range markLines {
		fmt.Fprintf(b, "| %s |", line.name)
		for i := range row.Results {
			fmt.Fprintf(b, " %s |", line.text(&row.Results[i]))
		}
		b.WriteByte('\n')
	}
}
