// Package simplot draws what the simulator found: for a terminal, and as a picture.
//
// It runs nothing, and the server has no need of it: the dashboard draws its own.
package simplot

import (
	"fmt"
	"math"
	"time"

	"github.com/guptarohit/asciigraph"

	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

const (
	chartWidth  = 72
	chartHeight = 14
)

// Chart draws the first run of a report for a terminal: arrivals, deliveries
// and capacity per second on a logarithmic axis, without colours.
func Chart(r *sim.Report) string {
	t := r.Trace()
	columns, _ := t.Columns(chartWidth, len(t.Arrivals))
	if len(columns) < 2 {
		return ""
	}
	height := func(perSecond float64) float64 { return math.Log10(max(perSecond, least(t))) }
	series := make([][]float64, 3) // what is drawn last is on top
	for _, c := range columns {
		series[0] = append(series[0], height(t.Capacity))
		series[1] = append(series[1], height(c.Delivered))
		series[2] = append(series[2], height(float64(c.Arrivals)))
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

// least is what a logarithmic axis shows for nothing.
func least(t *sim.Trace) float64 { return min(0.5, t.Capacity/20) }
