package demo_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/lab/demo"
)

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	good := demo.Config{URL: "http://127.0.0.1:1", Key: "k", Show: func(demo.Scene) {}, Tell: func(demo.Moment) {}}
	if _, err := demo.New(good); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	for name, change := range map[string]func(*demo.Config){
		"URL":                  func(c *demo.Config) { c.URL = "" },
		"Key":                  func(c *demo.Config) { c.Key = "" },
		"rate: from 5 to 100":  func(c *demo.Config) { c.Rate = 4.9 },
		"rate: from":           func(c *demo.Config) { c.Rate = 101 },
		"outage: from 5s to":   func(c *demo.Config) { c.Outage = time.Second },
		"outage: from 5s to 4": func(c *demo.Config) { c.Outage = time.Hour },
	} {
		c := good
		change(&c)
		if _, err := demo.New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func anySide(t *rapid.T, label string) demo.Side {
	n := rapid.Int64Range(0, 1<<40)
	return demo.Side{
		Bars: rapid.SliceOfN(rapid.IntRange(0, 100_000), 0, 200).Draw(t, label), Given: n.Draw(t, label), Waiting: n.Draw(t, label),
		Delivered: n.Draw(t, label), Crashes: n.Draw(t, label), WhileDown: n.Draw(t, label), Lane: rapid.String().Draw(t, label),
	}
}

// TestScenesHaveOneHeight: a scene that were higher than the one before it would scroll the
// terminal, and one that were wider would break its lines.
func TestScenesHaveOneHeight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := demo.Scene{
			At: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "at")), Capacity: rapid.Float64Range(1, 250).Draw(t, "capacity"),
			Plain: anySide(t, "plain"), Ours: anySide(t, "ours"), First: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "first"),
		}
		for _, words := range rapid.SliceOfN(rapid.String(), 0, 20).Draw(t, "moments") {
			s.Moments = append(s.Moments, demo.Moment{Words: words})
		}
		lines := demo.Draw(s)
		if len(lines) != demo.Height {
			t.Fatalf("%d lines, want %d", len(lines), demo.Height)
		}
		var shown strings.Builder
		if err := demo.NewTerminal(&shown, true).Show(lines); err != nil || strings.Count(shown.String(), "\n") < demo.Height {
			t.Fatalf("shown are %d lines, %v", strings.Count(shown.String(), "\n"), err)
		}
	})
}

// TestBarsAreRedAboveWhatTheEndpointBears and nowhere else.
func TestBarsAreRedAboveWhatTheEndpointBears(t *testing.T) {
	t.Parallel()
	red := func(counts ...int) bool {
		scene := demo.Scene{Capacity: 50, Plain: demo.Side{Bars: counts}}
		return slices.ContainsFunc(demo.Draw(scene), func(l demo.Line) bool {
			return slices.ContainsFunc(l, func(s demo.Span) bool {
				return s.Mood == demo.Bad && strings.ContainsAny(s.Text, "▁▂▃▄▅▆▇█")
			})
		})
	}
	if red(0, 1, 50) || !red(0, 51) || !red(1_000_000) {
		t.Error("what is red is not what was too much")
	}
}

func TestRecordingIsAPicture(t *testing.T) {
	t.Parallel()
	var r demo.Recording
	if err := r.WriteSVG(io.Discard); err == nil {
		t.Error("an empty recording became a picture")
	}
	for i := range 20 {
		scene := demo.Scene{At: time.Duration(i) * time.Second, Capacity: 50, Phase: `<&"`, Plain: demo.Side{Bars: make([]int, i)}}
		r.Add(scene.At, demo.Draw(scene))
	}
	took := 5.0
	r.End(21*time.Second, demo.DrawSummary(&demo.Summary{Capacity: 50, Ours: demo.Ending{DrainedSec: &took}}))
	var b strings.Builder
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
	}
	for _, want := range []string{"t+19s", "after 5 s", "not yet", "&lt;&amp;&#34;", `begin="play.begin+0.00s"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	if strings.Contains(b.String(), "<script") {
		t.Error("a script is in the picture")
	}
}
