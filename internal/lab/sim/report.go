package sim

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Report is what a strategy did in a scenario, in the form that --json prints.
type Report struct {
	Scenario Scenario `json:"scenario"`
	Strategy string   `json:"strategy"`
	About    string   `json:"about"`
	Summary  Summary  `json:"summary"`
	Missed   []string `json:"missed_goals,omitempty"`
	Results  []Result `json:"results"`
}

// NewReport puts the results of a strategy together.
func NewReport(s Scenario, st Strategy, results []Result) Report {
	return Report{Scenario: s, Strategy: st.Name, About: st.About, Summary: Summarise(results), Results: results}
}

// trace is that of the first run; an empty one when there is none.
func (r *Report) trace() *Trace {
	if len(r.Results) == 0 || r.Results[0].Trace == nil {
		return &Trace{Capacity: 1}
	}
	return r.Results[0].Trace
}

// Cut leaves only the beginning of the first run to be shown.
func (r *Report) Cut(length time.Duration) {
	if len(r.Results) == 0 || r.Results[0].Trace == nil {
		return
	}
	t := r.Results[0].Trace
	n := min(int(length.Seconds()), len(t.Arrivals))
	t.Arrivals, t.Delivered, t.Limit = t.Arrivals[:n], t.Delivered[:n], t.Limit[:n]
	t.Outages = slices.DeleteFunc(t.Outages, func(o Outage) bool { return o.end() > float64(n) })
}

// WriteCSV writes the first run of each report, a line per second.
func WriteCSV(w io.Writer, reports []Report) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"strategy", "second", "arrivals", "delivered", "limit"}) // Flush tells
	for i := range reports {
		t := reports[i].trace()
		for second := range t.Arrivals {
			limit := "" // not known, or nothing is sent
			if t.Limit[second] > 0 {
				limit = strconv.FormatFloat(t.Limit[second], 'f', 1, 64)
			}
			_ = out.Write([]string{
				reports[i].Strategy, strconv.Itoa(second),
				strconv.Itoa(t.Arrivals[second]), strconv.Itoa(t.Delivered[second]), limit,
			})
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// column is a stretch of a trace, as a chart shows it.
type column struct {
	at        float64 // seconds from the beginning
	arrivals  float64 // the most of one second: a peak must not be averaged away
	delivered float64 // per second on average
}

// columns cuts the first seconds of a trace into at most so many columns.
func (t *Trace) columns(most, length int) []column {
	width := max(1, (length+most-1)/most)
	var list []column
	for from := 0; from < min(length, len(t.Arrivals)); from += width {
		c := column{at: float64(from) + float64(width)/2}
		to := min(from+width, len(t.Arrivals))
		for i := from; i < to; i++ {
			c.arrivals = max(c.arrivals, float64(t.Arrivals[i]))
			c.delivered += float64(t.Delivered[i]) / float64(to-from)
		}
		list = append(list, c)
	}
	return list
}

// least is what a logarithmic axis shows for nothing.
func (t *Trace) least() float64 { return min(0.5, t.Capacity/20) }
