package settings

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// presets is the page of the named policies.
type presets struct {
	Tabs    []Tab
	Presets []preset
	Named   []view.NamedPolicy
}

// preset is one of them. A page with the waits of all would be large: those of one
// are shown.
type preset struct {
	view.Preset
	Open    bool
	Span    string
	Picture any
	Waits   []wait // with the picture
	Text    string // of the policy
}

// wait is that before one attempt.
type wait struct {
	Attempt               int
	Min, Max, Mean, InAll string
}

func loadPresets(v *site.Visit) (any, error) {
	var list site.List[view.Preset]
	if err := v.Get(v.Server("presets"), nil, &list); err != nil {
		return nil, err
	}
	var named site.List[view.NamedPolicy]
	if err := v.Get(v.Server("policies"), url.Values{"limit": {"250"}, "order": {"asc"}}, &named); err != nil {
		return nil, err
	}
	c, open := &presets{Tabs: tabs(v), Named: named.Data}, v.Query("preset")
	if open == "" && len(list.Data) > 0 {
		open = list.Data[0].Name
	}
	for _, p := range list.Data {
		shown := preset{Preset: p, Open: p.Name == open, Text: indent(p.Policy), Span: "one attempt"}
		ladder := chart.Ladder{}
		for _, s := range p.Ladder {
			ladder.Rungs = append(ladder.Rungs, chart.Rung{Floor: span(s.Min), Mean: span(s.Mean), Ceiling: span(s.Max)})
		}
		if n := len(p.Ladder); n > 0 {
			shown.Span = words.Count(n+1, "attempt", "attempts") + " over " + words.Duration(span(p.Ladder[n-1].CumulativeMean)) + " on average"
			ladder.Sentence = p.Name + ": " + shown.Span + "."
			if shown.Open {
				shown.Picture, shown.Waits = ladder.HTML(), waitsOf(p.Ladder)
			}
		}
		c.Presets = append(c.Presets, shown)
	}
	return c, nil
}

func waitsOf(ladder []view.Step) []wait {
	say := func(text string) string { return words.Duration(span(text)) }
	out := make([]wait, len(ladder))
	for i, s := range ladder {
		out[i] = wait{s.Attempt, say(s.Min), say(s.Max), say(s.Mean), say(s.CumulativeMean)}
	}
	return out
}

// span reads a duration that the API wrote; 0 for what it did not.
func span(text string) time.Duration {
	d, err := quantity.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// indent writes JSON for people: in lines, and without escapes that only HTML needs.
func indent(raw json.RawMessage) string {
	var value any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if numbers.Decode(&value) != nil {
		return string(raw)
	}
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if out.Encode(value) != nil {
		return string(raw)
	}
	return strings.TrimSpace(b.String())
}

// diff writes what changed; empty: nothing to tell.
func diff(raw json.RawMessage) string {
	if text := strings.TrimSpace(string(raw)); text == "" || text == "{}" || text == "null" {
		return ""
	}
	return indent(raw)
}

// reference is the list of all routes of the API.
type reference struct {
	Tabs   []Tab
	Groups []routes
}

type routes struct {
	Name   string
	Routes []route
}

type route struct{ Method, Path, Summary, About string }

// document is what is read of the description of the API.
type document struct {
	Paths map[string]map[string]struct {
		Tags        []string `json:"tags"`
		Summary     string   `json:"summary"`
		Description string   `json:"description"`
	} `json:"paths"`
}

func loadAPI(v *site.Visit) (any, error) {
	var doc document
	if err := v.Get("/openapi.json", nil, &doc); err != nil {
		return nil, err
	}
	groups := map[string][]route{}
	for path, methods := range doc.Paths {
		for method, r := range methods {
			tag := "other"
			if len(r.Tags) > 0 {
				tag = r.Tags[0]
			}
			groups[tag] = append(groups[tag], route{strings.ToUpper(method), path, r.Summary, r.Description})
		}
	}
	c := &reference{Tabs: tabs(v)}
	for name, list := range groups {
		slices.SortFunc(list, func(a, b route) int {
			if n := strings.Compare(a.Path, b.Path); n != 0 {
				return n
			}
			return strings.Compare(a.Method, b.Method)
		})
		c.Groups = append(c.Groups, routes{name, list})
	}
	slices.SortFunc(c.Groups, func(a, b routes) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}
