package metric

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// WriteReference writes the documentation of all metrics as Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	for _, section := range Sections() {
		fmt.Fprintf(&b, "\n## %s\n\n| Metric | Type | Labels | Several nodes | Meaning |\n|---|---|---|---|---|\n", section)
		for _, d := range table {
			if d.Section != section {
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Type, labelText(d), d.Over, meaning(d))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func meaning(d *Desc) string {
	text := d.Help
	if len(d.Buckets) > 0 {
		bounds := make([]string, len(d.Buckets))
		for i, v := range d.Buckets {
			bounds[i] = strconv.FormatFloat(v, 'f', -1, 64)
		}
		text += " Bounds: " + strings.Join(bounds, ", ") + "."
	}
	if d.Only != "" {
		text += " Only with " + d.Only + "."
	}
	return text
}

// fewValues is how many values of a label are listed; longer lists are documented
// elsewhere.
const fewValues = 12

func labelText(d *Desc) string {
	var out []string
	for _, l := range d.Labels {
		switch {
		case len(l.Values) == 0:
			out = append(out, "`"+l.Name+"`")
		case len(l.Values) > fewValues:
			out = append(out, fmt.Sprintf("%#q: one of %d", l.Name, len(l.Values)))
		default:
			out = append(out, "`"+l.Name+"`: "+strings.Join(l.Values, ", "))
		}
	}
	return strings.Join(out, "<br>")
}
