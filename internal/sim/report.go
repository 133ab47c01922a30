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

// Trace is that of the first run; an empty one when there is none.
func (r *Report) Trace() *Trace {
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
		t := reports[i].Trace()
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
