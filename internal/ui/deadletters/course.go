package deadletters

import (
	"encoding/json"
	"html/template"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// windows are those that the API has figures of.
var windows = []struct {
	name   string
	length time.Duration
}{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}

// courseOf draws what a replay did minute by minute, as it was measured: empty for one
// that has not begun, or ended so long ago that figures are too coarse.
func courseOf(v *site.Visit, r *view.Replay, endpoint string) (template.HTML, error) {
	from, to := time.Time(r.StartedAt), time.Time(r.FinishedAt)
	if from.IsZero() {
		return "", nil
	}
	if to.IsZero() {
		to = v.Now
	}
	window := ""
	for _, w := range windows {
		if v.Now.Sub(from) < w.length-2*time.Minute && window == "" {
			window = w.name
		}
	}
	if window == "" {
		return "", nil
	}
	path := v.API("stats")
	if endpoint != "" {
		path = v.API("endpoints", endpoint, "stats")
	} else if v.Me.Operator() && v.Tenant() == "" {
		path = "/v1/tenants/" + url.PathEscape(r.Tenant) + "/stats"
	}
	var stats view.Stats
	if err := v.Get(path, url.Values{"window": {window}}, &stats); err != nil {
		if badFilter(err) != "" || isGone(err) {
			return "", nil
		}
		return "", err
	}
	pauses, err := pausesOf(v, r, to)
	if err != nil {
		return "", err
	}
	return draw(r, &stats, pauses, from, to, v.Now), nil
}

// draw is the chart: attempts of replays per minute, and the share of errors.
func draw(r *view.Replay, stats *view.Stats, pauses []chart.Band, from, to, now time.Time) template.HTML {
	step := time.Duration(stats.StepSeconds) * time.Second
	edge := max(to.Sub(from)/8, 2*time.Minute)
	c := chart.Course{
		Window: chart.Window{From: from.Add(-edge / 4), To: to.Add(edge)}, Now: to, NowLabel: "now", Next: math.NaN(), Pauses: pauses,
		ErrorBucket: step, LimitPercent: r.PauseErrorPercent, LimitLabel: "pauses above " + number(r.PauseErrorPercent) + " %",
		PaceSentence:  "Attempts per minute that the replay made, measured.",
		ErrorSentence: "Share of all answers of the endpoint that were errors, with the limit that pauses the replay.",
	}
	switch {
	case to.Before(now):
		c.NowLabel = "end"
	case r.Status == "running":
		c.Next, c.NextLabel = float64(r.CurrentPerMinute), "the pace is "+words.Number(r.CurrentPerMinute)+" per minute"
	}
	for i := range stats.Series {
		p := &stats.Series[i]
		at := time.Time(p.At)
		if !at.Add(step).After(from) || at.Add(step).After(to.Add(step-time.Second)) || at.Add(step).After(now) {
			continue // before it, after it, or not full yet
		}
		c.Times = append(c.Times, latest(at, from))
		c.PerMinute = append(c.PerMinute, float64(p.Other)/step.Minutes())
		c.ErrorTimes = append(c.ErrorTimes, at)
		share := math.NaN()
		if all := p.First + p.Retry + p.Other; all > 0 {
			share = 100 * float64(p.Failed) / float64(all)
		}
		c.ErrorPercent = append(c.ErrorPercent, share)
	}
	return c.HTML()
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pausesOf are the times in which a replay was paused.
func pausesOf(v *site.Visit, r *view.Replay, end time.Time) ([]chart.Band, error) {
	q := url.Values{"type": {"replay.paused", "replay.resumed"}, "since": {time.Time(r.CreatedAt).UTC().Format(time.RFC3339Nano)}, "limit": {"100"}}
	path := "/v1/tenants/-/operational-events"
	if v.Me.Operator() {
		path = "/v1/tenants/" + url.PathEscape(r.Tenant) + "/operational-events"
	}
	var page site.List[view.OperationalEvent]
	if err := v.Get(path, q, &page); err != nil {
		return nil, err
	}
	slices.Reverse(page.Data) // oldest first
	var out []chart.Band
	open := -1
	for _, e := range page.Data {
		var detail struct {
			Replay string `json:"replay"`
			Reason string `json:"reason"`
		}
		if json.Unmarshal(e.Detail, &detail) != nil || detail.Replay != r.ID {
			continue
		}
		if e.Type == "replay.resumed" && open >= 0 {
			out[open].To = time.Time(e.At)
			out[open].Detail = words.Duration(out[open].To.Sub(out[open].From))
			open = -1
		}
		if e.Type == "replay.paused" && open < 0 {
			label := "paused itself"
			if detail.Reason == "user" {
				label = "paused by hand"
			}
			out = append(out, chart.Band{From: time.Time(e.At), To: end, Label: label})
			open = len(out) - 1
		}
	}
	return out, nil
}
