package chart_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	elements   = words("div span section dl dt dd p h3 ul li b i small details summary table thead tbody tr th td svg g defs pattern line rect path circle text tspan use")
	attributes = words("class id role title scope aria-label aria-hidden focusable viewBox preserveAspectRatio overflow width height x y x1 x2 y1 y2 cx cy r rx d fill stroke stroke-width stroke-dasharray patternUnits patternTransform href")
	places     = words("x y x1 x2 y1 y2 cx cy r rx width height")
	coordinate = regexp.MustCompile(`^-?\d*(\.\d)?%?$`)
	paint      = regexp.MustCompile(`^(none|currentColor|url\(#hatch(-\w+)?\))$`)
	className  = regexp.MustCompile(`\.([a-zA-Z][\w-]*)`)
)

func words(s string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(s) {
		out[w] = true
	}
	return out
}

// styled are the classes that the style sheet knows.
func styled(t interface{ Fatal(args ...any) }) map[string]bool {
	css, err := os.ReadFile("testdata/style.css")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, m := range className.FindAllStringSubmatch(string(css), -1) {
		out[m[1]] = true
	}
	return out
}

// path is a path of the markup: its class and its points, by subpath.
type path struct {
	class    string
	high     float64 // of the box it lies in; the width is wide
	wide     float64
	subpaths [][][2]float64
}

// document is what the tests ask about a piece of markup.
type document struct {
	paths []path
	texts []string
	rows  int
}

// read parses markup and reports everything that must not be in any: unknown elements and attributes, colours,
// styles, numbers that are none, places outside of the frame, classes without a rule.
func read(markup string, classes map[string]bool) (*document, error) {
	doc := &document{}
	dec := xml.NewDecoder(strings.NewReader("<div>" + markup + "</div>"))
	var boxes [][2]float64 // viewBoxes around
	body := false
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return doc, nil
		}
		if err != nil {
			return nil, fmt.Errorf("not well formed: %w", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			box := [2]float64{}
			for _, a := range e.Attr {
				if err := allowed(e.Name.Local, a, classes); err != nil {
					return nil, err
				}
				if a.Name.Local == "viewBox" {
					if _, err := fmt.Sscanf(a.Value, "0 0 %f %f", &box[0], &box[1]); err != nil {
						return nil, err
					}
				}
			}
			if !elements[e.Name.Local] {
				return nil, fmt.Errorf("element %s", e.Name.Local)
			}
			if e.Name.Local == "svg" {
				boxes = append(boxes, box)
			}
			body = body || e.Name.Local == "tbody"
			if e.Name.Local == "tr" && body {
				doc.rows++
			}
			if e.Name.Local == "path" && boxes[len(boxes)-1][0] >= 100 {
				p, err := parse(e, boxes[len(boxes)-1])
				if err != nil {
					return nil, err
				}
				doc.paths = append(doc.paths, p)
			}
		case xml.EndElement:
			if e.Name.Local == "svg" {
				boxes = boxes[:len(boxes)-1]
			}
			body = body && e.Name.Local != "tbody"
		case xml.CharData:
			doc.texts = append(doc.texts, string(e))
		}
	}
}

func allowed(element string, a xml.Attr, classes map[string]bool) error {
	name, value := a.Name.Local, a.Value
	switch {
	case !attributes[name]:
		return fmt.Errorf("attribute %s of %s", name, element)
	case name == "class":
		for c := range strings.FieldsSeq(value) {
			if !classes[c] {
				return fmt.Errorf("class %q of %s has no rule in the style sheet", c, element)
			}
		}
	case name == "fill" || name == "stroke":
		if !paint.MatchString(value) {
			return fmt.Errorf("%s=%q of %s", name, value, element)
		}
	case name == "href" && value != "#bw-probe":
		return fmt.Errorf("href %q", value)
	case places[name]:
		if !coordinate.MatchString(value) {
			return fmt.Errorf("%s=%q of %s is no coordinate with one decimal", name, value, element)
		}
		if share, ok := strings.CutSuffix(value, "%"); ok {
			if v, err := strconv.ParseFloat(share, 64); err != nil || v < 0 || v > 100 {
				return fmt.Errorf("%s=%q of %s is outside of the frame", name, value, element)
			}
		} else if v, err := strconv.ParseFloat(value, 64); err != nil || math.Abs(v) > 2000 {
			return fmt.Errorf("%s=%q of %s", name, value, element)
		}
	}
	return nil
}

var pathToken = regexp.MustCompile(`[A-Za-z]|-?(?:\d+(?:\.\d+)?|\.\d+)`)

// parse follows a path made of M, l, h, v and z, and checks that it stays inside its box.
func parse(e xml.StartElement, box [2]float64) (path, error) {
	p := path{wide: box[0], high: box[1]}
	d := ""
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "class":
			p.class = a.Value
		case "d":
			d = a.Value
		}
	}
	tokens := pathToken.FindAllString(d, -1)
	if strings.Join(tokens, "") != strings.ReplaceAll(d, " ", "") {
		return p, fmt.Errorf("path %q has more than commands and numbers", d)
	}
	command := ""
	var at, start [2]float64
	for i := 0; i < len(tokens); {
		if tokens[i][0] >= 'A' && tokens[i][0] != '-' && tokens[i][0] != '.' {
			command = tokens[i]
			i++
			if command == "z" {
				at = start
				continue
			}
		}
		next := func() float64 {
			v, err := strconv.ParseFloat(tokens[i], 64)
			if err != nil || math.Abs(v*10-math.Round(v*10)) > 1e-6 {
				v = math.NaN()
			}
			i++
			return v
		}
		switch command {
		case "M":
			at = [2]float64{next(), next()}
			start = at
			p.subpaths = append(p.subpaths, nil)
		case "l":
			at = [2]float64{at[0] + next(), at[1] + next()}
		case "h":
			at[0] += next()
		case "v":
			at[1] += next()
		default:
			return p, fmt.Errorf("command %q in %q", command, d)
		}
		const dust = 1e-6
		if !(at[0] >= -dust && at[0] <= p.wide+dust && at[1] >= -dust && at[1] <= p.high+dust) {
			return p, fmt.Errorf("point %v of %q is outside of %v", at, d, box)
		}
		last := len(p.subpaths) - 1
		p.subpaths[last] = append(p.subpaths[last], at)
	}
	points := 0
	for _, s := range p.subpaths {
		points += len(s)
	}
	limit := 240
	if !slices.Contains(strings.Fields(p.class), "ln") {
		limit *= 2 // an area has two edges
	}
	if points > limit {
		return p, fmt.Errorf("%d points in a path of class %q", points, p.class)
	}
	return p, nil
}

func TestPicturesKeepTheRules(t *testing.T) {
	t.Parallel()
	classes := styled(t)
	for _, s := range samples(same) {
		doc, err := read(string(s.html), classes)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if doc.rows > 13 {
			t.Errorf("%s: %d rows", s.name, doc.rows)
		}
		if len(s.html) > s.room {
			t.Errorf("%s: %d bytes, may have %d", s.name, len(s.html), s.room)
		}
		if strings.Contains(string(s.html), "NaN") || strings.Contains(string(s.html), "Inf") {
			t.Errorf("%s shows a number that is none", s.name)
		}
	}
}

func TestTextIsEscapedEverywhere(t *testing.T) {
	t.Parallel()
	classes := styled(t)
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `" style="color:red`, `</text></svg><script>alert(1)</script>`,
		"\x00<b>\xff\xfe", "]]>", "<!--", "&lt;script&gt;", "javascript:alert(1)",
	} {
		seen := 0
		for _, s := range samples(func(text string) string { seen++; return evil + text }) {
			if _, err := read(string(s.html), classes); err != nil {
				t.Errorf("%s with %q: %v", s.name, evil, err)
			}
			for _, tag := range []string{"<script", "<img", "<!--", "<b>\xff", "\x00"} {
				if strings.Contains(string(s.html), tag) {
					t.Errorf("%s has %q", s.name, tag)
				}
			}
		}
		if seen < 100 {
			t.Errorf("only %d texts were tried", seen)
		}
	}
}
