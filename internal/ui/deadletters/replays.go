package deadletters

import (
	"encoding/json"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

const pageSize = 30

// replayList is what the page of replays shows.
type replayList struct {
	Views   []seg
	Rows    []replayRow
	Next    string
	First   string
	Nothing words.Nothing
}

// seg is one of several lists of the same things.
type seg struct {
	Name, Link string
	Current    bool
}

// replayRow is a replay in a list.
type replayRow struct {
	view.Replay
	Badge    words.Word
	Why      string // it is paused
	Tags     []string
	Progress template.HTML
	Link     string
}

var replayViews = []struct {
	name     string
	statuses []string
}{
	{"", nil}, {"active", []string{"queued", "running", "paused"}}, {"ended", []string{"done", "cancelled"}},
}

func loadReplays(v *site.Visit) (any, error) {
	c := &replayList{Nothing: words.Empty(words.NoReplays)}
	chosen := v.OneOf("view", "", "active", "ended")
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for i, name := range []string{"All", "Under way", "Ended"} {
		s := replayViews[i]
		c.Views = append(c.Views, seg{Name: name, Link: v.Frame.Link(replaysPath, "view", s.name), Current: s.name == chosen})
		if s.name == chosen && s.statuses != nil {
			q["status"], c.Nothing = s.statuses, words.Empty(words.NoMatch)
		}
	}
	if cursor := v.Query("cursor"); cursor != "" {
		q.Set("cursor", cursor)
		c.First = v.Frame.With("cursor", "")
		v.Frame.Live = false
	}
	var page site.List[view.Replay]
	if err := v.Get(v.API("replays"), q, &page); err != nil {
		return nil, err
	}
	c.Next = site.Either(page.NextCursor, "")
	for i := range page.Data {
		r := &page.Data[i]
		row := replayRow{
			Replay: *r, Badge: words.ReplayStatusOf(r.Status), Tags: filterOf(r).tags(), Progress: progressOf(r, true), Link: v.Frame.Link(replaysPath + "/" + r.ID),
		}
		if r.PauseReason != nil {
			row.Why = words.PauseReasonOf(*r.PauseReason).Word
		}
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

// filter is what a replay is about.
type filter struct {
	Endpoint   string    `json:"endpoint"`
	Statuses   []string  `json:"statuses"`
	Reasons    []string  `json:"reasons"`
	Types      []string  `json:"types"`
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"`
	Deliveries []string  `json:"delivery_ids"`
	Missing    bool      `json:"include_missing"`
}

// filterOf reads the filter of a replay; what is not understood is left out.
func filterOf(r *view.Replay) filter {
	var f filter
	_ = json.Unmarshal(r.Filter, &f)
	return f
}

// tags are the filter in words of the API.
func (f filter) tags() []string {
	var out []string
	add := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				out = append(out, name+"="+value)
			}
		}
	}
	add("endpoint", f.Endpoint)
	if f.Missing {
		add("include_missing", "true")
	}
	if len(f.Statuses) != 1 || f.Statuses[0] != "dead" {
		add("status", f.Statuses...)
	}
	add("reason", f.Reasons...)
	add("type", f.Types...)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			add(name, at.UTC().Format(time.RFC3339))
		}
	}
	const most = 8
	if len(out) > most {
		out = append(out[:most], "…")
	}
	if n := len(f.Deliveries); n > 0 {
		out = append(out, words.Count(n, "chosen delivery", "chosen deliveries"))
	}
	if len(out) == 0 {
		out = append(out, "all dead letters")
	}
	return out
}

// progressOf is the bar of a replay.
func progressOf(r *view.Replay, thin bool) template.HTML {
	p := &r.Progress
	total := float64(p.Fed)
	if p.Total != nil {
		total = float64(*p.Total - p.Skipped)
	}
	label := "too many to count beforehand"
	if p.Percent != nil {
		label = words.Percent(*p.Percent)
	}
	return chart.Progress{
		Total: total, Delivered: float64(p.Delivered), Failed: float64(p.Failed), Underway: float64(underway(p)), Label: label, Thin: thin,
	}.HTML()
}

// underway is how many were fed and have not ended.
func underway(p *view.Progress) int64 { return max(p.Fed-p.Delivered-p.Failed, 0) }

// shortly says in a few words how far a replay is.
func shortly(r *view.Replay, now time.Time) string {
	p := &r.Progress
	text := words.Number(p.Fed)
	if p.Total != nil {
		text += " of " + words.Number(*p.Total)
	}
	text += " fed · " + words.Number(r.CurrentPerMinute) + "/min"
	if eta := time.Time(p.ETA); !eta.IsZero() {
		text += " · done about " + words.About(eta, now)
	}
	return text
}
