package simplot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/simplot"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// shortReports are two quick runs.
func shortReports(t *testing.T) []sim.Report {
	t.Helper()
	s := sim.Base()
	s.Outages[0].For = sim.Duration(30 * time.Second)
	s.Horizon = sim.Duration(2 * time.Minute)
	var reports []sim.Report
	for _, name := range []string{"law", "full-5+hold"} {
		st, err := sim.ParseStrategy(name)
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, sim.NewReport(s, st, []sim.Result{sim.Run(s, st, 1)}))
	}
	return reports
}

func TestPictures(t *testing.T) {
	t.Parallel()
	reports := shortReports(t)
	var svg, picture bytes.Buffer
	if err := simplot.WriteSVG(&svg, reports); err != nil {
		t.Fatalf("WriteSVG: %v", err)
	}
	for _, want := range []string{"law (base, seed 1)", "full-5+hold (base, seed 1)", "capacity", "1000", "2m30s"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("no %q in the SVG", want)
		}
	}
	decoder := xml.NewDecoder(&svg)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the SVG is not XML: %v", err)
		}
	}
	if err := simplot.WritePNG(&picture, reports); err != nil {
		t.Fatalf("WritePNG: %v", err)
	}
	image, err := png.Decode(&picture)
	if err != nil || image.Bounds().Dx() < 400 || image.Bounds().Dy() < 300 {
		t.Errorf("PNG: %v, %v", image.Bounds(), err)
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	reports := shortReports(t)
	chart := simplot.Chart(&reports[0])
	lines := strings.Split(chart, "\n")
	if len(lines) < 15 || !strings.Contains(chart, "law in base, seed 1") || !strings.Contains(chart, "====") || !strings.Contains(chart, "····") {
		t.Errorf("chart:\n%s", chart)
	}
	if empty := simplot.Chart(&sim.Report{}); empty != "" {
		t.Errorf("chart of nothing:\n%s", empty)
	}
}
