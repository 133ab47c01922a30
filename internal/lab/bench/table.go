package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteTable writes the report for a terminal of 110 columns.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Machine.text())
	fmt.Fprintf(&b, "%s\n", r.Settings.text())
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "NOT MEASURED: %s: %s\n", s.Subject, s.Reason)
	}
	r.writeRows(&b)
	r.writeFacts(&b)
	r.writeGoals(&b)
	for _, note := range r.notes() {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m *Machine) text() string {
	text := fmt.Sprintf("%s, %d cores, %s memory, Linux %s, %s, %s", m.CPU, m.Cores, bytesText(float64(m.Memory)), m.Kernel, m.Filesystem, m.Go)
	if m.Postgres != "" {
		text += ", " + m.Postgres
	}
	return text + fmt.Sprintf("\nfsync of 4 KiB: median %s ms, p99 %s ms", decimal(m.SyncP50), decimal(m.SyncP99))
}

func (s *Settings) text() string {
	text := fmt.Sprintf("%d rounds of %gs after %gs warm-up; %d endpoints; product: %s", s.Rounds, s.Duration, s.WarmUp, s.Endpoints, s.Product)
	if s.Rounds == 1 {
		text = strings.Replace(text, "1 rounds", "1 round", 1)
	}
	if s.Database != "" {
		text += "\nPostgres: " + s.Database
	}
	if s.Profiled {
		text += "\nCPU profiles were taken, which costs a few percent"
	}
	return text
}

// columns of the table: all but the first are aligned to the right.
var columns = []string{
	"SUBJECT", "DELIV/S", "MIN–MAX", "÷RELAY", "MIN–MAX", "CPU µs", "DB µs",
	"ACC p99", "ARR p50", "ARR p99", "MiB", "W KiB", "LOST", "DUP",
}

func (r *Report) writeRows(b *strings.Builder) {
	widths := make([]int, len(columns))
	grow := func(cells []string) {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	grow(columns)
	for i := range r.Rows {
		for j := range r.Rows[i].Results {
			grow(r.Rows[i].Results[j].cells())
		}
	}
	b.WriteByte('\n')
	writeCells(b, columns, widths)
	for i := range r.Rows {
		fmt.Fprintf(b, "%s: %s\n", r.Rows[i].Name, r.Rows[i].Text)
		for j := range r.Rows[i].Results {
			writeCells(b, r.Rows[i].Results[j].cells(), widths)
		}
	}
	b.WriteString(tableKey)
}

const tableKey = `
CPU and DB: µs of the server and of Postgres per delivered event. ACC, ARR: ms from sending to the answer, and to the
arrival. MiB: peak of the server. W: KiB written to disk per event. Medians of the rounds; LOST and DUP are sums.
`

func writeCells(b *strings.Builder, cells []string, widths []int) {
	for i, c := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
		switch i {
		case 0:
			b.WriteString(c + pad)
		default:
			b.WriteString(" " + pad + c)
		}
	}
	b.WriteByte('\n')
}

func (res *Result) cells() []string {
	f := &res.Figures
	database := "–"
	if res.Subject.store() == Postgres && len(res.Rounds) > 0 && res.Rounds[0].DatabaseKnown {
		database = decimal(f.DatabaseCPU.Median)
	}
	ratio, ratioSpread := "–", ""
	if f.Ratio.Median > 0 {
		ratio, ratioSpread = fmt.Sprintf("%.2f", f.Ratio.Median), res.spread(f.Ratio, func(v float64) string { return fmt.Sprintf("%.2f", v) })
	}
	return []string{
		"  " + string(res.Subject), thousands(f.Delivered.Median), res.spread(f.Delivered, thousands),
		ratio, ratioSpread, decimal(f.ServerCPU.Median), database,
		decimal(f.AcceptP99.Median), decimal(f.ArrivalP50.Median), decimal(f.ArrivalP99.Median),
		fmt.Sprintf("%.0f", f.PeakMemory.Median/(1<<20)), decimal(f.Written.Median / 1024),
		strconv.FormatInt(f.Lost, 10), strconv.FormatInt(f.Again, 10),
	}
}

// spread is empty where there is only one value.
func (res *Result) spread(f Figure, text func(float64) string) string {
	if len(res.Rounds) < 2 || f.Min == f.Max {
		return ""
	}
	return text(f.Min) + "–" + text(f.Max)
}

func (r *Report) writeFacts(b *strings.Builder) {
	if len(r.Facts) == 0 {
		return
	}
	b.WriteByte('\n')
	for _, f := range r.Facts {
		fmt.Fprintf(b, "%-9s %-58s %s %s\n", f.Subject, f.Name, decimal(f.Value), f.Unit)
	}
}

func (r *Report) writeGoals(b *strings.Builder) {
	if len(r.Goals) == 0 {
		return
	}
	b.WriteByte('\n')
	for _, g := range r.Goals {
		fmt.Fprintf(b, "%s  %-50s %10s, want %s\n", metText(g.Met), g.Name, g.Got, g.Want)
	}
}

func metText(met bool) string {
	if met {
		return "met   "
	}
	return "MISSED"
}

// busyShare of the machine that others may take before the report warns.
const busyShare = 0.05

// notes are warnings that a reader of the figures needs.
func (r *Report) notes() []string {
	var notes []string
	if r.Machine.inMemory() {
		notes = append(notes, "the data was on a file system in memory; nothing here is durable (choose another folder with --dir)")
	}
	others, refused, generator := 0.0, int64(0), 0.0
	for i := range r.Rows {
		for j := range r.Rows[i].Results {
			f := &r.Rows[i].Results[j].Figures
			others = max(others, f.OtherCPU.Max)
			refused += f.Refused
			if r.Rows[i].Name == Base {
				generator = max(generator, f.GeneratorCPU.Median)
			}
		}
	}
	if generator > 0 {
		notes = append(notes, fmt.Sprintf("publishers and receiver shared the machine and took %s µs per event in row base", decimal(generator)))
	}
	if others > busyShare {
		notes = append(notes, fmt.Sprintf("others took up to %.0f %% of the machine: trust ratios and CPU per event more than rates", 100*others))
	}
	if refused > 0 {
		notes = append(notes, thousands(float64(refused))+" events were refused by an overloaded subject (429 or 5xx)")
	}
	return notes
}

// thousands writes a whole number with separators.
func thousands(v float64) string {
	digits := strconv.FormatInt(int64(v+0.5), 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// decimal writes three digits, no more than matter.
func decimal(v float64) string {
	switch {
	case v >= 99.95:
		return thousands(v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func bytesText(v float64) string {
	switch {
	case v >= 1<<30:
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
}
