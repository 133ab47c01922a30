package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

const (
	chartWidth  = 72
	chartHeight = 14
)

// Chart draws the first run of a report for a terminal: arrivals, deliveries
// and capacity per second on a logarithmic axis, without colours.
func Chart(r *Report) string {
	t := r.trace()
	columns := t.columns(chartWidth, len(t.Arrivals))
	if len(columns) < 2 {
		return ""
	}
	height := func(perSecond float64) float64 { return math.Log10(max(perSecond, t.least())) }
	series := make([][]float64, 3) // what is drawn last is on top
	for _, c := range columns {
		series[0] = append(series[0], height(t.Capacity))
		series[1] = append(series[1], height(c.delivered))
		series[2] = append(series[2], height(c.arrivals))
	}
	caption := fmt.Sprintf("%s in %s, seed %d: requests per second   ─╮ arrivals   · delivered   = capacity",
		r.Strategy, r.Scenario.Name, r.Results[0].Seed)
	return asciigraph.PlotMany(series,
		asciigraph.Height(chartHeight), asciigraph.Width(chartWidth),
		asciigraph.SeriesChars(asciigraph.CreateCharSet("="), asciigraph.CreateCharSet("·"), asciigraph.DefaultCharSet),
		asciigraph.YAxisValueFormatter(func(v float64) string { return perSecond(math.Pow(10, v)) }),
		asciigraph.XAxisRange(0, float64(len(t.Arrivals))),
		asciigraph.XAxisValueFormatter(shortTime),
		asciigraph.Caption(caption),
	)
}

// perSecond writes a rate of any size in a few characters.
func perSecond(v float64) string {
	switch {
	case v >= 99.5:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.95:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func shortTime(s float64) string {
	d := time.Duration(s) * time.Second
	if d >= time.Hour {
		return quantity.FormatDuration(d.Round(time.Minute))
	}
	return quantity.FormatDuration(d)
}
