package deadletters

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// begin is what the page of a new replay shows: what it would do.
type begin struct {
	Count     string
	Noun      string
	None      bool
	Say       words.Text
	Tags      []string
	Warnings  []string
	Endpoints []touched
	More      int // endpoints that are not listed
	Course    template.HTML
	Done      string // after how long
	Action    string
	Back      string
	Never     *never
}

// never is the form that asks for events that an endpoint never got.
type never struct {
	Hidden []site.Chip // what else is chosen
	Since  string
	Wanted bool
}

// neverOf is for a replay of one endpoint.
func neverOf(s *selection) *never {
	if s.filter.Value("endpoint") == "" || len(s.filter.Values("delivery_ids")) > 0 {
		return nil
	}
	n := &never{Since: s.filter.Value("since"), Wanted: s.missing()}
	for _, c := range s.filter.Chips() {
		if c.Name != "since" && c.Name != "include_missing" {
			n.Hidden = append(n.Hidden, c)
		}
	}
	return n
}

// touched is an endpoint that a replay would send to.
type touched struct {
	ID       string
	Endpoint *view.Endpoint
	Badge    words.Word
	Count    int64
	Will     string
	Only     string // address of a replay of it alone; empty: it is the only one
}

const maxTouched = 20

// paceFields are the fields of the form, as the API calls them.
var paceFields = []string{"per_minute", "max_multiple", "pause_error_percent"}

func loadNew(v *site.Visit) (any, error) {
	s, err := selectionOf(v)
	if err != nil {
		return nil, err
	}
	pace, err := paceOf(v.Request.URL.Query())
	if err != nil {
		pace = nil // the form says what is wrong; the rest of the page holds without
	}
	p, err := s.preview(v, pace)
	if err != nil {
		return nil, err
	}
	v.Fill(url.Values{
		"per_minute": {strconv.Itoa(p.PerMinute)}, "max_multiple": {number(p.MaxMultiple)}, "pause_error_percent": {number(p.PauseErrorPercent)},
	})
	c := &begin{
		Count: words.AtLeast(p.Count, !p.Exact), Noun: noun(s, p.Count), None: p.Count == 0, Say: words.PreviewSentence(p), Tags: s.tags(),
		Warnings: p.Warnings, Action: s.address(v, newPath, nil), Back: v.Frame.Link(deadPath),
		Never: neverOf(s),
	}
	if n := len(s.filter.Values("delivery_ids")); n > 0 {
		c.Tags = append(c.Tags, words.Count(n, "chosen delivery", "chosen deliveries"))
	}
	v.Frame.Title = "Replay " + c.Count + " " + c.Noun
	if err := c.touch(v, s, p); err != nil {
		return nil, err
	}
	c.draw(p)
	return c, nil
}

// noun is what is replayed.
func noun(s *selection, n int64) string {
	if len(s.filter.Values("status"))+len(s.filter.Values("delivery_ids")) > 0 || s.missing() {
		if n == 1 {
			return "delivery"
		}
		return "deliveries"
	}
	if n == 1 {
		return "dead letter"
	}
	return "dead letters"
}

// number writes a number of a form.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// touch lists the endpoints, those with most deliveries first.
func (c *begin) touch(v *site.Visit, s *selection, p *view.ReplayPreview) error {
	list := p.PerEndpoint[:min(len(p.PerEndpoint), maxTouched)]
	c.More = len(p.PerEndpoint) - len(list)
	for i := range list {
		t := touched{ID: list[i].Endpoint, Count: list[i].Count, Badge: words.BreakerOf(list[i].State), Will: words.PreviewEndpoint(&list[i])}
		var err error
		if t.Endpoint, err = v.Endpoint(t.ID); err != nil {
			return err
		}
		if len(p.PerEndpoint) > 1 && len(s.filter.Values("delivery_ids")) == 0 {
			t.Only = s.address(v, newPath, url.Values{"endpoint": {t.ID}})
		}
		c.Endpoints = append(c.Endpoints, t)
	}
	return nil
}

// draw draws the expected course.
func (c *begin) draw(p *view.ReplayPreview) {
	if len(p.Course) == 0 {
		return
	}
	end := time.Duration(p.EstimatedSeconds) * time.Second
	c.Done = words.Duration(end)
	plan := chart.ReplayPace{Title: "Expected pace, deliveries per minute", End: end, Done: "done after " + c.Done, Condition: "if every minute is clean"}
	for _, s := range p.Course {
		plan.Steps = append(plan.Steps, chart.PaceStep{After: time.Duration(s.AfterSeconds) * time.Second, PerMinute: float64(s.PerMinute), Sent: float64(s.Sent)})
	}
	first, last := p.Course[0], p.Course[len(p.Course)-1]
	plan.Sentence = words.Number(first.PerMinute) + " per minute at first"
	if last.PerMinute > first.PerMinute {
		plan.Sentence += ", more after every clean minute, up to " + words.Number(last.PerMinute)
	}
	plan.Sentence += "; done after " + c.Done + "."
	c.Course = plan.HTML()
}

// paceOf reads the fields of the pace, those that are there.
func paceOf(values url.Values) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range paceFields {
		text := strings.ReplaceAll(strings.TrimSpace(values.Get(name)), ",", "")
		if text == "" {
			continue
		}
		if name == "per_minute" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, site.Wrong(name, "must be a whole number")
			}
			out[name] = n
			continue
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f != f || f > 1e9 || f < -1e9 {
			return nil, site.Wrong(name, "must be a number")
		}
		out[name] = f
	}
	return out, nil
}

func doStart(v *site.Visit) (site.Done, error) {
	s, err := selectionOf(v)
	if err != nil {
		return site.Done{}, err
	}
	pace, err := paceOf(v.Request.PostForm)
	if err != nil {
		return site.Done{}, err
	}
	if v.Posted("do") == "preview" {
		if _, err := s.preview(v, pace); err != nil {
			return site.Done{}, err
		}
		more := url.Values{}
		for _, name := range paceFields {
			more.Set(name, v.Posted(name))
		}
		return site.Done{To: s.address(v, newPath, more)}, nil
	}
	in := s.request()
	maps.Copy(in, pace)
	var r view.Replay
	if err := v.Do(http.MethodPost, v.API("replays"), in, &r); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(replaysPath + "/" + r.ID), Say: "The replay is created. It starts when no other one feeds the same endpoint."}, nil
}
