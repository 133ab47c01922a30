// Package overview is the first page of the dashboard: what is wrong, in a sentence,
// the figures of everything that the visitor may see, which endpoints need somebody,
// and what happened of late.
package overview

import (
	"embed"
	"io/fs"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/figures"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

//go:embed templates/*.html
var files embed.FS

// Section returns the page.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{{
			Path: "/ui", Template: "overview.html", Title: "Overview", Place: "Overview", Load: load,
			Live: []string{"overview-banner", "overview-tiles", "overview-attempts", "overview-pending", "overview-attention", "overview-events"},
		}},
	}
}

// windows are those that the page offers, the first if none is asked for.
var windows = []string{"1h", "15m", "24h", "7d"}

// content is what the page shows.
type content struct {
	Window   string
	Windows  []string
	Banner   *words.Banner
	Tiles    []figures.Tile
	Attempts figures.Picture
	Pending  figures.Picture
	Troubles []trouble
	Events   []happening
	Lettered bool
	Nothing  words.Nothing // in place of troubles
	Quiet    words.Nothing // in place of events
	NoCounts words.Nothing // in place of what waits
}

func load(v *site.Visit) (any, error) {
	window := v.OneOf("window", windows...)
	var o view.Overview
	if err := v.Get(v.API("stats"), url.Values{"window": {window}}, &o); err != nil {
		return nil, err
	}
	c := &content{
		Window: window, Windows: []string{"15m", "1h", "24h", "7d"},
		Nothing: words.Empty(words.NoTrouble), Quiet: words.Empty(words.NoOperational), NoCounts: words.Empty(words.NoFigures),
	}
	var err error
	if c.Banner, err = banner(v, o.WorstEndpoints); err != nil {
		return nil, err
	}
	if c.Troubles, err = troubles(v, o.WorstEndpoints); err != nil {
		return nil, err
	}
	var marks []chart.Mark
	if c.Events, marks, err = events(v, time.Time(o.From)); err != nil {
		return nil, err
	}
	c.Lettered = len(marks) > 0
	p := figures.Of(&o.Stats)
	c.Tiles, c.Attempts, c.Pending = p.Tiles(&o, window, v.Frame.Link), p.Attempts(window, marks), p.Pending(window, marks)
	return c, nil
}

// shownLanes is how many lanes of a kind the banner looks at.
const shownLanes = "10"

// banner says what is wrong; nil: nothing is.
func banner(v *site.Visit, worst []view.WorstEndpoint) (*words.Banner, error) {
	f := new(words.Fleet)
	for _, query := range []url.Values{
		{"state": {"open"}, "paused": {"false"}, "limit": {shownLanes}},
		{"storm": {"true"}, "paused": {"false"}, "limit": {shownLanes}},
	} {
		var lanes site.List[view.Lane]
		if err := v.Get(v.API("lanes"), query, &lanes); err != nil {
			return nil, err
		}
		f.MoreLanes = f.MoreLanes || lanes.NextCursor != nil
		for i := range lanes.Data {
			l := &lanes.Data[i]
			if query.Has("storm") && l.State != view.LaneClosed {
				continue // it is among those that are open
			}
			t := words.Trouble{Name: v.EndpointName(l.Endpoint), Lane: *l}
			for j := range worst {
				if w := &worst[j]; w.Endpoint == l.Endpoint && l.State != view.LaneClosed {
					t.Held, t.More = w.Depth, w.AtLeast
				}
			}
			f.Lanes = append(f.Lanes, t)
		}
	}
	var firing site.List[view.Alert]
	if err := v.Get(v.API("alerts"), url.Values{"status": {"firing"}, "limit": {"100"}}, &firing); err != nil {
		return nil, err
	}
	f.Alerts = firing.Data
	return words.OverviewBanner(f, v.Now), nil
}
