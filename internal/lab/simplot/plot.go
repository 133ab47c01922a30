package simplot

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

const (
	plotWidth   = 18 * vg.Centimeter
	panelHeight = 6 * vg.Centimeter
	plotColumns = 300
)

var (
	arrivalsColour  = color.RGBA{R: 0xc0, G: 0x39, B: 0x2b, A: 0xff}
	deliveredColour = color.RGBA{R: 0x1f, G: 0x6f, B: 0xb5, A: 0xff}
	capacityColour  = color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
	outageColour    = color.RGBA{R: 0xee, G: 0xe8, B: 0xdd, A: 0xff}
)

// WriteSVG draws the first run of each report, one panel below the other with
// the same axes: arrivals, deliveries and capacity on a logarithmic axis.
func WriteSVG(w io.Writer, reports []sim.Report) error {
	canvas := vgsvg.New(plotWidth, panelHeight*vg.Length(len(reports)))
	if err := drawPanels(draw.New(canvas), reports); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write SVG: %w", err)
	}
	return nil
}

// WritePNG draws the same picture as WriteSVG.
func WritePNG(w io.Writer, reports []sim.Report) error {
	canvas := vgimg.PngCanvas{Canvas: vgimg.New(plotWidth, panelHeight*vg.Length(len(reports)))}
	if err := drawPanels(draw.New(canvas), reports); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write PNG: %w", err)
	}
	return nil
}

// axes are what the panels share.
type axes struct {
	length      int // seconds
	least, most float64
}

func drawPanels(c draw.Canvas, reports []sim.Report) error {
	shared := axes{least: math.Inf(1)}
	for i := range reports {
		t := reports[i].Trace()
		shared.length = max(shared.length, len(t.Arrivals))
		shared.least = min(shared.least, least(t))
		shared.most = max(shared.most, 2*t.Capacity)
		for _, n := range t.Arrivals {
			shared.most = max(shared.most, 1.5*float64(n))
		}
	}
	panels := make([][]*plot.Plot, len(reports))
	for i := range reports {
		p, err := panel(&reports[i], shared)
		if err != nil {
			return fmt.Errorf("draw %s: %w", reports[i].Strategy, err)
		}
		if i > 0 {
			p.Legend = plot.NewLegend() // the first panel speaks for all
		}
		panels[i] = []*plot.Plot{p}
	}
	tiles := draw.Tiles{
		Rows: len(reports), Cols: 1, PadY: 3 * vg.Millimeter,
		PadTop: vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter,
	}
	for i, row := range plot.Align(panels, tiles, c) {
		panels[i][0].Draw(row[0])
	}
	return nil
}

func panel(r *sim.Report, shared axes) (*plot.Plot, error) {
	t := r.Trace()
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s (%s, seed %d)", r.Strategy, r.Scenario.Name, r.Results[0].Seed)
	p.Y.Label.Text = "requests per second"
	p.X.Min, p.X.Max = 0, float64(max(shared.length, 1))
	p.Y.Min, p.Y.Max = shared.least, shared.most
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Tick.Marker = timeTicks{}
	setFont(p)
	p.Legend.Top = true
	if err := addOutages(p, t.Outages, shared); err != nil {
		return nil, err
	}
	capacity := plotter.XYs{{X: 0, Y: t.Capacity}, {X: p.X.Max, Y: t.Capacity}}
	var arrivals, delivered plotter.XYs
	columns, _ := t.Columns(plotColumns, shared.length)
	for _, c := range columns {
		arrivals = append(arrivals, plotter.XY{X: c.At, Y: max(float64(c.Arrivals), shared.least)})
		delivered = append(delivered, plotter.XY{X: c.At, Y: max(c.Delivered, shared.least)})
	}
	for _, l := range []struct {
		name   string
		points plotter.XYs
		style  draw.LineStyle
	}{
		{"arrivals", arrivals, draw.LineStyle{Color: arrivalsColour, Width: vg.Points(0.8)}},
		{"delivered", delivered, draw.LineStyle{Color: deliveredColour, Width: vg.Points(1.2)}},
		{"capacity", capacity, draw.LineStyle{Color: capacityColour, Width: vg.Points(0.8), Dashes: []vg.Length{vg.Points(4), vg.Points(3)}}},
	} {
		line, err := plotter.NewLine(l.points)
		if err != nil {
			return nil, err
		}
		line.LineStyle = l.style
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	return p, nil
}

// addOutages shades the times in which the endpoint is down by the script.
func addOutages(p *plot.Plot, outages []sim.Outage, shared axes) error {
	for i, o := range outages {
		from, to := time.Duration(o.At).Seconds(), time.Duration(o.At+o.For).Seconds()
		area, err := plotter.NewPolygon(plotter.XYs{
			{X: from, Y: shared.least}, {X: to, Y: shared.least}, {X: to, Y: shared.most}, {X: from, Y: shared.most},
		})
		if err != nil {
			return err
		}
		area.Color = outageColour
		area.LineStyle.Width = 0
		p.Add(area)
		if i == 0 {
			p.Legend.Add("outage", area)
		}
	}
	return nil
}

func setFont(p *plot.Plot) {
	for _, f := range []*vg.Length{
		&p.X.Tick.Label.Font.Size, &p.Y.Tick.Label.Font.Size, &p.Y.Label.TextStyle.Font.Size, &p.Legend.TextStyle.Font.Size,
	} {
		*f = vg.Points(8)
	}
	p.Title.TextStyle.Font.Size = vg.Points(10)
	p.Title.TextStyle.Font.Variant = "Sans"
	p.X.Tick.Label.Font.Variant = "Sans"
	p.Y.Tick.Label.Font.Variant = "Sans"
	p.Y.Label.TextStyle.Font.Variant = "Sans"
	p.Legend.TextStyle.Font.Variant = "Sans"
}

// timeTicks marks whole minutes or hours.
type timeTicks struct{}

// Ticks implements plot.Ticker.
func (timeTicks) Ticks(low, high float64) []plot.Tick {
	const wanted = 10
	steps := []time.Duration{
		10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 5 * 24 * time.Hour,
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if (high-low)/s.Seconds() <= wanted {
			step = s
			break
		}
	}
	var ticks []plot.Tick
	for at := step * time.Duration(math.Ceil(low/step.Seconds())); at.Seconds() <= high; at += step {
		ticks = append(ticks, plot.Tick{Value: at.Seconds(), Label: quantity.FormatDuration(at)})
	}
	return ticks
}
