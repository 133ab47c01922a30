package playground

import (
	"encoding/json"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// outageFields are the fields of the outage. Their values are the defaults.
var outageFields = []field{
	{Name: "outage", Label: "Down for", Value: "5m"},
	{Name: "latency", Label: "Answers in", Value: "200ms"},
	{Name: "capacity", Label: "Capacity, per second", Value: "50"},
	{Name: "rate", Label: "New events, per second", Value: "25"},
	{Name: "destination", Label: "Destination", Value: "queue", Words: []string{"queue", "cold", "black_hole", "cliff", "refuse", "throttle"}, Wide: true},
	{Name: seedField, Label: "Seed", Value: "1", Hint: "the same seed, the same run", Whole: true},
}

const (
	seedField      = "seed"
	compareField   = "compare"
	defaultCompare = "full-5+hold"
	noRival        = "none"

	// runField asks for the outage with the page; else it comes when the page is there.
	runField = "run"
	// mostRuns is how many seeds are played, if time allows.
	mostRuns = 20
)

// outageOf takes what was asked for of the outage, without what is as usual.
func outageOf(q url.Values) url.Values {
	out := url.Values{}
	for _, f := range outageFields {
		if text := strings.TrimSpace(q.Get(f.Name)); text != "" && text != f.Value {
			out.Set(f.Name, text)
		}
	}
	if text := q.Get(compareField); text != "" && text != defaultCompare {
		out.Set(compareField, text)
	}
	return out
}

// rivals are ways to send that the policy can be compared with.
type rivals struct {
	Title  string
	Names  []string
	Chosen string
}

// rival is one of them: a policy, and who sends under it.
func rival(name string) (level json.RawMessage, strategy string) {
	if preset, law := strings.CutPrefix(name, "law:"); law {
		return values{}.level(preset), "law"
	}
	preset, modifiers, _ := strings.Cut(name, "+")
	strategy = strings.TrimSuffix("retries+"+modifiers, "+")
	switch preset {
	case "exp-nojitter":
		return values{
			"retry.max_attempts": "10", "retry.jitter.kind": "none", "retry.backoff.kind": "exponential",
			"retry.backoff.base": "30s", "retry.backoff.multiplier": "2", "retry.backoff.cap": "1h",
		}.level("default"), strategy
	case "every-minute":
		return values{
			"retry.max_attempts": "50", "retry.jitter.kind": "none", "retry.backoff.kind": "schedule", "retry.backoff.delays": "1m",
		}.level("default"), strategy
	}
	return values{}.level(preset), strategy
}

// compared lists what there is to compare with.
func compared(presets []view.Preset, chosen string) []rivals {
	law := rivals{Title: "This server, with the preset", Chosen: chosen}
	loop := rivals{Title: "Plain retries, without this server", Chosen: chosen}
	for _, p := range presets {
		law.Names = append(law.Names, "law:"+p.Name)
	}
	for _, schedule := range []string{"full-5", "default", "exp-nojitter", "every-minute"} {
		for _, modifiers := range []string{"", "+hold", "+burn", "+cap10", "+cap10+hold"} {
			loop.Names = append(loop.Names, schedule+modifiers)
		}
	}
	return []rivals{{Title: "", Names: []string{noRival}, Chosen: chosen}, loop, law}
}

// play simulates the outage with the policy and with its rival. Fields that the API
// refuses have their defaults instead.
func (c *content) play(v *site.Visit, t *tried) {
	chosen := t.outage.Get(compareField)
	if chosen == "" {
		chosen = defaultCompare
	}
	c.Compare = compared(c.Presets, chosen)
	if !slices.ContainsFunc(c.Compare, func(r rivals) bool { return slices.Contains(r.Names, chosen) }) {
		chosen = noRival
	}
	asked, wrong := url.Values{}, map[string]wrongValue{}
	for name := range t.outage {
		asked.Set(name, t.outage.Get(name))
	}
	var own view.PolicyPreview
	ask := func() map[string]any {
		in := simulate(asked, wrong)
		if in["runs"] = 0; v.Again() || v.Query(runField) != "" {
			in["runs"] = mostRuns
		}
		return in
	}
	err := preview(v, t.level, ask(), &own)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Status == http.StatusUnprocessableEntity {
		c.SimError = refused(p, asked, wrong)
		if c.SimError == "" {
			err = preview(v, t.level, ask(), &own)
		}
	}
	c.Outage = filled(t.outage, asked, wrong)
	switch {
	case c.SimError != "":
		return
	case err != nil:
		c.SimError = sentence(err)
		return
	}
	if own.Simulation == nil {
		c.Later = v.Frame.With(runField, "1")
		return
	}
	c.Simulation = newOutcome(own.Simulation)
	if chosen == noRival {
		c.Simulation.draw()
		return
	}
	level, strategy := rival(chosen)
	again := ask()
	again["strategy"], again["until"] = strategy, strconv.Itoa(own.Simulation.Seconds)+"s"
	var other view.PolicyPreview
	if err := preview(v, level, again, &other); err != nil {
		c.Simulation.RivalError = chosen + ": " + sentence(err)
	} else {
		c.Simulation.Rival, c.Simulation.RivalName = other.Simulation, chosen
	}
	c.Simulation.draw()
}

// sentence is why something could not be done.
func sentence(err error) string {
	if p, ok := errors.AsType[*site.Problem](err); ok {
		return p.Detail
	}
	return "Something went wrong on our side."
}

// simulate is the outage as the API takes it. What is no number is noted.
func simulate(asked url.Values, wrong map[string]wrongValue) map[string]any {
	out := map[string]any{}
	for _, f := range outageFields {
		text := asked.Get(f.Name)
		if text == "" {
			text = f.Value
		}
		if f.Name != "capacity" && f.Name != "rate" && f.Name != seedField {
			out[f.Name] = text
			continue
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || !json.Valid([]byte(text)) || f.Whole && strings.ContainsAny(text, ".eE-") {
			wrong[f.Name] = wrongValue{text, "must be a number"}
			asked.Del(f.Name)
			number, _ = strconv.ParseFloat(f.Value, 64) // a default is one
		}
		out[f.Name] = number
	}
	return out
}

// refused notes what the API finds wrong with the outage, and takes it out. What is
// wrong with no single field is returned.
func refused(p *site.Problem, asked url.Values, wrong map[string]wrongValue) string {
	for _, e := range p.Errors {
		name := strings.TrimPrefix(e.Path, "simulate.")
		if !slices.ContainsFunc(outageFields, func(f field) bool { return f.Name == name }) {
			return "This outage " + e.Message + "."
		}
		if asked.Get(name) == "" { // the default does not go with something else
			return "This outage cannot be played: " + name + " " + e.Message + "."
		}
		wrong[name] = wrongValue{asked.Get(name), e.Message}
		asked.Del(name)
	}
	return ""
}

// filled is the form of the outage.
func filled(typed, used url.Values, wrong map[string]wrongValue) []field {
	out := slices.Clone(outageFields)
	for i := range out {
		f := &out[i]
		usual := f.Value
		if text := typed.Get(f.Name); text != "" {
			f.Value = text
		}
		if w, bad := wrong[f.Name]; bad {
			f.Error = w.message
			if used.Get(f.Name) == "" {
				f.Error += "; " + usual + " is used"
			}
		}
		if f.Name == "destination" {
			f.Hint = words.Destination(f.Value)
		}
	}
	return out
}

// waits are the ladder of a policy: a table and a picture.
type waits struct {
	Steps  []step
	Chart  template.HTML
	Span   words.Text
	Single bool // there is no retry
}

type step struct{ Attempt, Ceiling, Range, Mean, InAll string }

func waitsOf(p *view.Policy) waits {
	w := waits{Span: words.SpanSentence(p), Single: len(p.Ladder) == 0}
	ladder := chart.Ladder{Sentence: words.LadderSentence(p)}
	for _, s := range p.Ladder {
		low, mean, high := span(s.Min), span(s.Mean), span(s.Max)
		w.Steps = append(w.Steps, step{
			Attempt: strconv.Itoa(s.Attempt), Ceiling: words.Duration(span(s.Ceiling)), Range: words.Duration(low) + " – " + words.Duration(high),
			Mean: words.Duration(mean), InAll: words.Duration(span(s.CumulativeMean)),
		})
		ladder.Rungs = append(ladder.Rungs, chart.Rung{Floor: low, Mean: mean, Ceiling: high})
	}
	w.Chart = ladder.HTML()
	return w
}

// span reads a duration of the API.
func span(text string) time.Duration {
	d, err := quantity.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// outcome is what the page shows of a simulation, and of the one that it is compared
// with.
type outcome struct {
	Own        *view.Simulation // the run with the seed, and the median of all
	Rival      *view.Simulation // nil: there is none
	RivalName  string
	RivalError string

	Say        words.Text
	RivalSay   words.Text
	Chart      template.HTML
	RivalChart template.HTML
	Legend     template.HTML
	Rows       []words.SimulationRow
}

func newOutcome(s *view.Simulation) *outcome { return &outcome{Own: s} }

func (o *outcome) draw() {
	top := highest(o.Own)
	entries := []chart.Entry{{Style: chart.Arrivals, Name: "arrivals, this policy"}}
	if o.Rival != nil {
		top = max(top, highest(o.Rival))
		o.RivalSay = words.SimulationSentence(o.Rival)
		o.RivalChart = picture(o.Rival, o.RivalName, top, true)
		entries = append(entries, chart.Entry{Style: chart.Rival, Name: "arrivals, " + o.RivalName})
	}
	o.Say = words.SimulationSentence(o.Own)
	o.Chart = picture(o.Own, "This policy", top, false)
	o.Legend = chart.Legend(append(entries, chart.Entry{Style: chart.Delivered, Name: "delivered"}))
	o.Rows = words.SimulationRows(o.Own, o.Rival)
}

func highest(s *view.Simulation) float64 {
	top := s.Capacity
	for _, n := range s.Arrivals {
		top = max(top, float64(n))
	}
	return top
}

// picture is the chart of one simulation.
func picture(s *view.Simulation, name string, top float64, rival bool) template.HTML {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	p := chart.Simulation{
		Title: name, Sentence: words.RunSentence(s).String(), Bucket: time.Duration(s.StepSeconds) * time.Second,
		Capacity: s.Capacity, CapacityLabel: "capacity " + words.Rate(s.Capacity),
		DownFrom: seconds(s.DownFrom), DownTo: seconds(s.DownTo), DownLabel: "endpoint down", Top: top,
		Rival: rival, PeakLabel: words.PeakNote(s), PeakValue: s.PeakOverCapacity * s.Capacity, PeakAfter: time.Duration(s.PeakAt) * time.Second,
	}
	for i, n := range s.Arrivals {
		p.Arrivals = append(p.Arrivals, float64(n))
		delivered := s.Delivered[i]
		if delivered == 0 {
			delivered = math.NaN() // a logarithmic axis has no place for it
		}
		p.Delivered = append(p.Delivered, delivered)
	}
	return p.HTML()
}
