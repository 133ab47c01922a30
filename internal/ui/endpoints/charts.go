package endpoints

import (
	"encoding/json"
	"html/template"
	"math"
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

// charts are the figures of an endpoint on one time axis.
type charts struct {
	Title   string
	Window  string
	Windows []string
	Ribbon  template.HTML
	Gate    string // what the ribbon says at its right end
	Plots   []plot
	Data    template.HTML
	Nothing *words.Nothing

	most   int64 // that waited in the window
	probes int64 // in the window
}

type plot struct{ Picture, Side template.HTML }

// gateEvents are what the ribbon is drawn from.
var gateEvents = []string{
	"breaker.opened", "breaker.closed", "breaker.probe_failed", "endpoint.paused", "endpoint.resumed", "endpoint.disabled", "lane.throttled",
}

// readCharts reads the window that was chosen, or the one that shows how it began.
func (p *one) readCharts(v *site.Visit) (charts, error) {
	c := charts{Title: "Course", Windows: windows, Window: v.OneOf("window", append([]string{""}, windows...)...)}
	if c.Window == "" {
		c.Window = p.suits()
	}
	s := p.live
	if c.Window != "15m" {
		s = view.Stats{} // nothing of the other window is written over
		if err := v.Get(v.API("endpoints", p.Endpoint.ID, "stats"), url.Values{"window": {c.Window}}, &s); err != nil {
			return c, err
		}
	}
	length, err := quantity.ParseDuration(c.Window)
	if err != nil {
		return c, err
	}
	// The right edge moves by steps, so that an open page is not sent anew each time.
	edge := max(length/180, 5*time.Second)
	w := chart.Last(p.now.Truncate(edge), length)
	var events site.List[view.OperationalEvent]
	q := url.Values{"endpoint": {p.Endpoint.ID}, "type": gateEvents, "since": {w.From.UTC().Format(time.RFC3339)}, "limit": {"250"}}
	if err := v.Get(v.API("operational-events"), q, &events); err != nil {
		return c, err
	}
	p.events = events.Data
	if err := p.findPause(v); err != nil {
		return charts{}, err
	}
	p.lastProbe()
	g := p.gateCourse(w)
	c.Ribbon, c.Gate = g.draw(w)
	c.probes = int64(min(s.Totals.Probe, math.MaxInt64))
	if g.held() {
		c.Title = "Outage"
		if !p.stopped() {
			c.Title = "Outage and recovery"
		}
	}
	c.draw(&s, w, g, p.now)
	return c, nil
}

// suits returns the smallest window that shows the start of what goes on.
func (p *one) suits() string {
	began := time.Time(p.Lane.OpenedAt)
	if closed := time.Time(p.Lane.ClosedAt); began.IsZero() && !closed.IsZero() && p.now.Sub(closed) < time.Hour {
		began = closed.Add(-30 * time.Minute)
	}
	if began.IsZero() {
		return "1h"
	}
	for _, name := range windows {
		if d, err := quantity.ParseDuration(name); err == nil && p.now.Sub(began) < d*8/10 {
			return name
		}
	}
	return windows[len(windows)-1]
}

// lastProbe takes the latest probe for the last answer: what it carried is not among
// the deliveries that were read.
func (p *one) lastProbe() {
	for i := range p.events {
		e := &p.events[i]
		if e.Type != "breaker.probe_failed" || p.last != nil && !time.Time(e.At).After(time.Time(p.last.At)) {
			continue
		}
		var d struct {
			Reason string `json:"reason"`
		}
		if json.Unmarshal(e.Detail, &d) != nil || d.Reason == "" {
			return
		}
		last := &view.Last{Class: "down", Reason: d.Reason, At: e.At}
		if old := p.last; old != nil && old.Reason == d.Reason {
			last.Class, last.StatusCode, last.LatencyMS = old.Class, old.StatusCode, old.LatencyMS
		}
		p.last = last
		return
	}
}

// course is in which state a gate was, and when.
type course struct {
	spans  []chart.GateSpan
	bands  []chart.Band
	probes []time.Time
}

func (c *course) held() bool { return len(c.bands) > 0 }

// gateCourse puts the events of a window in order. What was before the first event is
// the opposite of what it tells; without any it is as it is now.
func (p *one) gateCourse(w chart.Window) *course {
	events := slices.Clone(p.events)
	slices.Reverse(events)
	open, halted := p.Lane.State == view.LaneOpen, p.Lane.Paused
	for _, event := range slices.Backward(events) {
		switch event.Type {
		case "breaker.opened":
			open = false
		case "breaker.closed":
			open = true
		case "endpoint.paused", "endpoint.disabled":
			halted = false
		case "endpoint.resumed":
			halted = true
		}
	}
	c := &course{}
	from := w.From
	if made := time.Time(p.Endpoint.CreatedAt); made.After(from) {
		from = made
	}
	state := func() chart.State {
		switch {
		case halted:
			return chart.Paused
		case open:
			return chart.Holding
		default:
			return chart.Delivering
		}
	}
	now := state()
	end := func(at time.Time) {
		if state() != now {
			c.add(chart.GateSpan{From: from, To: at, State: now})
			from, now = at, state()
		}
	}
	for i := range events {
		at := time.Time(events[i].At)
		switch events[i].Type {
		case "breaker.opened":
			open = true
		case "breaker.closed":
			open = false
		case "endpoint.paused", "endpoint.disabled":
			halted = true
		case "endpoint.resumed":
			halted = false
		case "breaker.probe_failed":
			c.probes = append(c.probes, at)
		case "lane.throttled":
			c.wait(at, events[i].Detail, w.To)
		}
		end(at)
	}
	c.add(chart.GateSpan{From: from, To: w.To, State: now})
	return c
}

// add adds a span, with its length where nothing passed.
func (c *course) add(s chart.GateSpan) {
	if !s.To.After(s.From) {
		return
	}
	lasted := words.Duration(s.To.Sub(s.From).Truncate(time.Second))
	switch s.State {
	case chart.Holding:
		s.Label = "holding, " + lasted
		c.bands = append(c.bands, chart.Band{From: s.From, To: s.To})
	case chart.Paused:
		s.Label = "paused, " + lasted
	default:
		s.Label = "delivering"
	}
	c.spans = append(c.spans, s)
}

// wait adds the quiet that the endpoint asked for, over what was before.
func (c *course) wait(at time.Time, detail json.RawMessage, most time.Time) {
	var d struct {
		Seconds float64 `json:"retry_after_seconds"`
	}
	if json.Unmarshal(detail, &d) != nil || d.Seconds <= 0 {
		return
	}
	to := at.Add(time.Duration(min(d.Seconds, 1e6) * float64(time.Second)))
	if to.After(most) {
		to = most
	}
	c.spans = append(c.spans, chart.GateSpan{From: at, To: to, State: chart.ToldToWait, Label: "told to wait"})
}

// draw draws the ribbon, those that lie on others last.
func (c *course) draw(w chart.Window) (ribbon template.HTML, now string) {
	slices.SortStableFunc(c.spans, func(a, b chart.GateSpan) int { return a.From.Compare(b.From) })
	sentence := ""
	var sentenceSb247 strings.Builder
	for _, s := range c.spans {
		sentenceSb247.WriteString(s.Label + " from " + words.Clock(s.From, w.To) + " to " + words.Clock(s.To, w.To) + ". ")
		now = s.Label
	}
	sentence += sentenceSb247.String()
	if len(c.spans) > 12 {
		sentence = words.Count(len(c.bands), "time", "times") + " the breaker was open. Now " + now + "."
	}
	return chart.Ribbon{Title: "State of the gate", Sentence: sentence, Window: w, Spans: c.spans}.HTML(), now
}

// figure reads one value of a point; NaN: there is none.
type figure func(*view.StatsPoint) float64

// draw draws the plots.
func (c *charts) draw(s *view.Stats, w chart.Window, g *course, now time.Time) {
	step := time.Duration(s.StepSeconds) * time.Second
	points := complete(s.Series, step, now)
	if len(points) == 0 || s.Totals.Attempts == 0 && s.Totals.Accepted == 0 && c.waited(points) == 0 {
		n := words.Empty(words.NoFigures)
		c.Nothing = &n
		return
	}
	c.most = c.waited(points)
	times := make([]time.Time, len(points))
	for i := range points {
		times[i] = time.Time(points[i].At)
	}
	series := func(name string, style chart.Style, write func(float64) string, f figure) chart.Series {
		out := chart.Series{Name: name, Style: style, Values: make([]float64, len(points)), Now: words.None}
		for i := range points {
			out.Values[i] = f(&points[i])
		}
		if last := out.Values[len(points)-1]; !math.IsNaN(last) {
			out.Now = write(last)
		}
		return out
	}
	rate := func(n func(*view.StatsPoint) uint64) figure {
		return func(p *view.StatsPoint) float64 { return float64(n(p)) / step.Seconds() }
	}
	count := func(v float64) string { return words.Number(int64(v)) }
	base := chart.Plot{Window: w, Times: times, Bucket: step, Bands: g.bands, NoTimes: true}

	requests := base
	requests.Title, requests.Sentence, requests.Height, requests.Probes = "Requests/s", "First attempts, retries and what was accepted, per second.", 104, probesOf(points, step, g.probes)
	requests.Areas = []chart.Series{
		series("first", chart.First, words.PerSecond, rate(func(p *view.StatsPoint) uint64 { return p.First })),
		series("replay", chart.Replay, words.PerSecond, rate(func(p *view.StatsPoint) uint64 { return p.Replay + p.Manual })),
		series("retry", chart.Retry, words.PerSecond, rate(func(p *view.StatsPoint) uint64 { return p.Retry })),
	}
	requests.Lines = []chart.Series{series("accepted", chart.Accepted, words.PerSecond, rate(func(p *view.StatsPoint) uint64 { return p.Accepted }))}

	limit := base
	limit.Title, limit.Sentence, limit.Height, limit.Y = "Limit", "How many requests may be in flight, and how many were at most.", 64, chart.Axis{Whole: true}
	limit.Areas = []chart.Series{series("in flight", chart.First, count, gauge(func(g *view.Gauges) *uint64 { return g.InFlight }))}
	limit.Lines = []chart.Series{series("limit", chart.Limit, count, gauge(func(g *view.Gauges) *uint64 { return g.Limit }))}
	limit.Lines[0].Step = true

	waiting := base
	waiting.Title, waiting.Sentence, waiting.Height, waiting.Y = "Waiting", "Deliveries that wait, by what they wait for.", 80, chart.Axis{Whole: true}
	waiting.Areas = []chart.Series{
		series("ready", chart.Ready, count, gauge(func(g *view.Gauges) *uint64 { return larger(g.Ready, g.Held) })),
		series("retry", chart.Retry, count, gauge(func(g *view.Gauges) *uint64 { return g.Retrying })),
		series("held", chart.Held, count, gauge(func(g *view.Gauges) *uint64 { return larger(g.Held, g.Ready) })),
	}

	latency := base
	latency.Title, latency.Sentence, latency.Height, latency.Y = "Latency, ms, log", "How long answers took.", 64, chart.Axis{Log: true, Unit: chart.Milliseconds}
	latency.Lines = []chart.Series{
		series("p50", chart.Median, words.Latency, quantile(func(l *view.Latency) *float64 { return l.P50 })),
		series("p99", chart.Tail, words.Latency, quantile(func(l *view.Latency) *float64 { return l.P99 })),
	}

	success := base
	success.Title, success.Sentence, success.Height, success.NoTimes = "Success", "Share of answers that were 2xx.", 40, false
	success.Y = chart.Axis{Unit: chart.Percent, Least: 100}
	success.Lines = []chart.Series{series("2xx", chart.Delivered, words.Percent, func(p *view.StatsPoint) float64 {
		all := p.First + p.Retry + p.Other
		if all == 0 {
			return math.NaN()
		}
		return 100 * float64(all-min(p.Failed, all)) / float64(all)
	})}

	for _, p := range []*chart.Plot{&requests, &limit, &waiting, &latency, &success} {
		entries := p.Entries()
		if p == &requests {
			entries = append(entries, chart.Entry{Style: chart.Probes, Name: "probe", Now: words.Number(c.probes)})
		}
		c.Plots = append(c.Plots, plot{p.Picture(), chart.Side(p.Title, entries)})
	}
	all := base
	all.Areas = slices.Concat(requests.Areas, waiting.Areas)
	all.Lines = slices.Concat(requests.Lines, latency.Lines, success.Lines)
	c.Data = all.Data()
}

// probesOf are the times of probes: the middle of each piece that had some, and what
// was told of since.
func probesOf(points []view.StatsPoint, step time.Duration, told []time.Time) []time.Time {
	var out []time.Time
	for i := range points {
		if points[i].Probe > 0 {
			out = append(out, time.Time(points[i].At).Add(step/2))
		}
	}
	for _, t := range told {
		if len(points) == 0 || !t.Before(time.Time(points[len(points)-1].At).Add(step)) {
			out = append(out, t)
		}
	}
	return out
}

// waited is the most that waited at a time.
func (c *charts) waited(points []view.StatsPoint) (most int64) {
	for i := range points {
		g := &points[i].Gauges
		most = max(most, whole(g.Ready), whole(g.Retrying), whole(g.Held))
	}
	return most
}

func gauge(of func(*view.Gauges) *uint64) figure {
	return func(p *view.StatsPoint) float64 {
		if n := of(&p.Gauges); n != nil {
			return float64(*n)
		}
		return math.NaN()
	}
}

// larger is n unless the other is more. Gauges are the most of a piece of time: where
// a lane opens or closes in it, what was held was ready before or after, and counts
// once.
func larger(n, other *uint64) *uint64 {
	if n != nil && other != nil && *other > *n {
		return new(uint64)
	}
	return n
}

func quantile(of func(*view.Latency) *float64) figure {
	return func(p *view.StatsPoint) float64 {
		if ms := of(&p.AttemptMS); ms != nil {
			return *ms
		}
		return math.NaN()
	}
}
