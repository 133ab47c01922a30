package bench

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth   = 18 * vg.Centimeter
	panelHeight = 7 * vg.Centimeter
	barWidth    = 5 * vg.Millimeter
	legendRoom  = 1.3 // the legend stands above the bars
)

var (
	subjectColours = map[Subject]color.Color{
		Relay:    color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
		Plain:    color.RGBA{R: 0xcc, G: 0xcc, B: 0xcc, A: 0xff},
		SQLite:   color.RGBA{R: 0x1f, G: 0x6f, B: 0xb5, A: 0xff},
		Postgres: color.RGBA{R: 0x2e, G: 0x8b, B: 0x57, A: 0xff},
	}
	databaseColour = color.RGBA{R: 0xd9, G: 0xa4, B: 0x41, A: 0xff}
)

// WriteSVG draws two panels: what each subject delivers in relation to the
// relay, and the CPU time that an event costs it.
func (r *Report) WriteSVG(w io.Writer) error {
	canvas := vgsvg.New(plotWidth, 2*panelHeight)
	if err := r.draw(draw.New(canvas)); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write SVG: %w", err)
	}
	return nil
}

// WritePNG draws the same picture as WriteSVG.
func (r *Report) WritePNG(w io.Writer) error {
	canvas := vgimg.PngCanvas{Canvas: vgimg.New(plotWidth, 2*panelHeight)}
	if err := r.draw(draw.New(canvas)); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write PNG: %w", err)
	}
	return nil
}

func (r *Report) draw(c draw.Canvas) error {
	rate, err := r.ratePanel()
	if err != nil {
		return fmt.Errorf("draw rates: %w", err)
	}
	cpu, err := r.cpuPanel()
	if err != nil {
		return fmt.Errorf("draw CPU: %w", err)
	}
	panels := [][]*plot.Plot{{rate}, {cpu}}
	tiles := draw.Tiles{
		Rows: 2, Cols: 1, PadY: 4 * vg.Millimeter,
		PadTop: 2 * vg.Millimeter, PadBottom: vg.Millimeter, PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter,
	}
	for i, row := range plot.Align(panels, tiles, c) {
		panels[i][0].Draw(row[0])
	}
	return nil
}

// ratePanel shows ratios where there is a relay, else rates.
func (r *Report) ratePanel() (*plot.Plot, error) {
	p := r.newPanel("delivered ÷ bare relay", "ratio")
	value := func(f *Figures) float64 { return f.Ratio.Median }
	subjects := []Subject{SQLite, Postgres}
	if len(r.subjects()) == 0 || r.subjects()[0] != Relay {
		p = r.newPanel("delivered per second", "events per second")
		value = func(f *Figures) float64 { return f.Delivered.Median }
		subjects = r.subjects()
	} else {
		line := plotter.NewFunction(func(float64) float64 { return 1 })
		line.Color, line.Dashes = subjectColours[Relay], []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		p.Y.Max = 1
		p.Legend.Add("bare relay", line)
	}
	for i, s := range subjects {
		bars, err := r.bars(s, value, i, len(subjects))
		if err != nil {
			return nil, err
		}
		p.Add(bars)
		p.Legend.Add(string(s), bars)
	}
	p.Y.Max *= legendRoom
	return p, nil
}

// cpuPanel stacks the database's share on the server's.
func (r *Report) cpuPanel() (*plot.Plot, error) {
	p := r.newPanel("CPU time per delivered event", "µs")
	subjects := r.subjects()
	for i, s := range subjects {
		server, err := r.bars(s, func(f *Figures) float64 { return f.ServerCPU.Median }, i, len(subjects))
		if err != nil {
			return nil, err
		}
		p.Add(server)
		p.Legend.Add(string(s), server)
		if s != Postgres {
			continue
		}
		database, err := r.bars(s, func(f *Figures) float64 { return f.DatabaseCPU.Median }, i, len(subjects))
		if err != nil {
			return nil, err
		}
		database.Color = databaseColour
		database.StackOn(server)
		p.Add(database)
		p.Legend.Add("the database itself", database)
	}
	p.Y.Max *= legendRoom
	return p, nil
}

// subjects are those of the report, in their order.
func (r *Report) subjects() []Subject {
	var out []Subject
	for _, s := range Subjects() {
		for i := range r.Rows {
			if r.Rows[i].result(s) != nil {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// bars of one subject over all rows; at is its place in a group of several.
func (r *Report) bars(s Subject, value func(*Figures) float64, at, of int) (*plotter.BarChart, error) {
	values := make(plotter.Values, len(r.Rows))
	for i := range r.Rows {
		if f := r.figures(r.Rows[i].Name, s); f != nil {
			values[i] = value(f)
		}
	}
	bars, err := plotter.NewBarChart(values, barWidth)
	if err != nil {
		return nil, err
	}
	bars.Color = subjectColours[s]
	bars.LineStyle.Width = 0
	bars.Offset = barWidth * vg.Length(2*at-of+1) / 2
	return bars, nil
}

func (r *Report) newPanel(title, axis string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, axis
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Padding = true, vg.Millimeter
	names, letters := make([]string, len(r.Rows)), 0
	for i := range r.Rows {
		names[i] = r.Rows[i].Name
		letters += len(names[i])
	}
	p.NominalX(names...)
	if letters > 80 { // side by side they would overlap
		p.X.Tick.Label.Rotation = -math.Pi / 8
		p.X.Tick.Label.XAlign = draw.XLeft
	}
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	for _, style := range []*draw.TextStyle{&p.X.Tick.Label, &p.Y.Tick.Label, &p.Y.Label.TextStyle, &p.Legend.TextStyle} {
		style.Font.Size, style.Font.Variant = vg.Points(8), "Sans"
	}
	p.Title.TextStyle.Font.Size, p.Title.TextStyle.Font.Variant = vg.Points(10), "Sans"
	return p
}
