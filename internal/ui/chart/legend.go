package chart

import "html/template"

// MaxRows is how many rows a table of figures has at most.
const MaxRows = 13

// sample picks at most so many of n rows, evenly, the last among them.
func sample(n, most int) []int {
	if n <= 0 {
		return nil
	}
	if n <= most {
		most = n
	}
	out := make([]int, 0, most)
	for k := 1; k <= most; k++ {
		out = append(out, k*n/most-1)
	}
	return out
}

// Table is the folded table under a picture. It keeps at most MaxRows rows, spread evenly.
func Table(head []string, rows [][]string) template.HTML {
	var m markup
	m.lit(`<details class="data"><summary>Data</summary><table><thead><tr>`)
	for _, h := range head {
		m.lit(`<th scope="col">`)
		m.text(h)
		m.lit("</th>")
	}
	m.lit("</tr></thead><tbody>")
	for _, i := range sample(len(rows), MaxRows) {
		m.lit("<tr>")
		for _, c := range rows[i] {
			m.lit("<td>")
			m.text(c)
			m.lit("</td>")
		}
		m.lit("</tr>")
	}
	m.lit("</tbody></table></details>")
	return m.html()
}

// Entry is a line of a legend.
type Entry struct {
	Style     Style
	Name, Now string
}

// Entries are the series of a plot in the order of the stack, the top last, then lines, then probes.
func (p Plot) Entries() []Entry {
	var out []Entry
	for _, group := range [][]Series{p.Areas, p.Bars, p.Lines} {
		for _, s := range group {
			out = append(out, Entry{s.Style, s.Name, s.Now})
		}
	}
	return out
}

// Legend is a row of swatches, for the head of a panel.
func Legend(entries []Entry) template.HTML {
	var m markup
	m.lit(`<ul class="legend">`)
	m.entries(entries)
	m.lit("</ul>")
	return m.html()
}

// Side is the legend right of a plot, with its title and the values under the cursor.
func Side(title string, entries []Entry) template.HTML {
	var m markup
	m.lit(`<div class="side"><h3>`)
	m.text(title)
	m.lit("</h3><ul>")
	m.entries(entries)
	m.lit("</ul></div>")
	return m.html()
}

func (m *markup) entries(entries []Entry) {
	for _, e := range entries {
		_, _, _, swatch := e.Style.look()
		m.lit(`<li><i class="sw `, swatch, `"></i>`)
		m.text(e.Name)
		if e.Now != "" {
			m.lit(" <b>")
			m.text(e.Now)
			m.lit("</b>")
		}
		m.lit("</li>")
	}
}
