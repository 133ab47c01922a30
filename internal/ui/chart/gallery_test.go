package chart_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/chart"
)

var update = flag.Bool("update", false, "rewrite the golden files and the gallery")

func same(s string) string { return s }

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at it and run with -update\n got %s\nwant %s", file, got, want)
	}
}

// lines puts every element on a line of its own, so that a difference can be read.
func lines(html string) string { return strings.ReplaceAll(html, "><", ">\n<") + "\n" }

func TestTypicalPicturesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	kept := map[string]bool{"attempts": true, "latency": true, "ribbon": true, "health": true, "lane-holding": true, "timeline": true, "course": true, "ladder": true, "alerts": true, "spark": true}
	for _, s := range samples(same) {
		if kept[s.name] {
			golden(t, s.name+".html", lines(string(s.html)))
		}
	}
}

// TestGalleryShowsEveryPicture writes a page that a person can open.
func TestGalleryShowsEveryPicture(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Pictures</title><link rel=\"stylesheet\" href=\"style.css\"></head>\n<body>\n")
	b.WriteString(string(chart.Defs()) + "\n<main>\n")
	for _, s := range samples(same) {
		class := "pad chart"
		if s.wrap {
			class += " swim"
		}
		b.WriteString("<section class=\"panel\"><header><h2>" + s.name + "</h2></header><div class=\"" + class + "\">\n" + lines(string(s.html)) + "</div></section>\n")
	}
	b.WriteString("</main>\n</body>\n</html>\n")
	golden(t, "gallery.html", b.String())
}
