package overview

import (
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

// trouble is an endpoint that somebody should look at.
type trouble struct {
	view.WorstEndpoint

	Badge   words.Word
	Address words.Address
	Name    string // with its tenant; empty: it has none
	Waiting string
	Oldest  string
	Ratio   string
	Stormy  bool
	Error   words.Outcome
	Strip   template.HTML
	Probes  bool // next_probe_at tells something
}

// stormRatio is the retry ratio that is shown as unusual, the limit of an endpoint.
const stormRatio = 5

func troubles(v *site.Visit, worst []view.WorstEndpoint) ([]trouble, error) {
	strips, err := strips(v, worst)
	if err != nil {
		return nil, err
	}
	out := make([]trouble, len(worst))
	for i := range worst {
		out[i] = show(v, &worst[i], strips[worst[i].Endpoint])
	}
	return out, nil
}

func show(v *site.Visit, w *view.WorstEndpoint, strip []chart.HealthCell) trouble {
	lane := view.Lane{
		Status: w.Status, State: w.State, Storm: view.Storm{Active: w.Storm}, RetryQueue: view.RetryQueue{Growing: w.Growing},
	}
	t := trouble{
		WorstEndpoint: *w, Badge: words.StateOf(&lane, nil, v.Now).Badge(), Address: words.OfURL(w.URL, 40), Waiting: words.None, Oldest: words.None,
		Ratio: words.None, Probes: w.Status == "active" && w.State != view.LaneClosed,
	}
	if strip != nil { // else it is not read yet, which is not a day without traffic
		t.Strip = chart.Health(strip, "last 24 hours")
	}
	if e, err := v.Endpoint(w.Endpoint); err == nil && e != nil {
		t.Name = site.Either(e.UID, "")
	}
	if tenant := v.TenantName(w.Tenant); tenant != "" && v.Tenant() == "" {
		if t.Name != "" {
			t.Name += " · "
		}
		t.Name += tenant
	}
	if w.Depth != nil {
		t.Waiting = words.Number(*w.Depth)
		if w.AtLeast {
			t.Waiting = words.Short(*w.Depth) + "+"
		}
	}
	if w.OldestS != nil && *w.OldestS > 0 {
		t.Oldest = words.Duration(time.Duration(min(*w.OldestS, 1<<31)) * time.Second)
	}
	if w.RetryRatio != nil {
		t.Ratio, t.Stormy = words.Ratio(*w.RetryRatio), *w.RetryRatio >= stormRatio
	}
	if w.LastError != nil {
		t.Error = words.ReasonOf(*w.LastError)
	}
	return t
}

// strips returns the last day of the endpoints, of as many as a page waits for.
func strips(v *site.Visit, worst []view.WorstEndpoint) (map[string][]chart.HealthCell, error) {
	out := make(map[string][]chart.HealthCell)
	ids := make([]string, len(worst))
	for i := range worst {
		ids[i] = worst[i].Endpoint
	}
	days, err := v.Days(ids)
	if err != nil {
		return nil, err
	}
	for _, s := range days {
		cells := make([]chart.HealthCell, len(s.Delivered))
		for i := range cells {
			cells[i] = chart.HealthCell{Failed: math.NaN(), Held: s.Held[i] > 0}
			if all := s.Delivered[i] + s.Failed[i]; all > 0 {
				cells[i].Failed = float64(s.Failed[i]) / float64(all)
			}
		}
		out[s.Endpoint] = cells
	}
	return out, nil
}

// happening is an operational event as the page tells it.
type happening struct {
	view.OperationalEvent

	Word     words.Word
	Letter   string // that marks its moment in the charts; empty: none
	Sentence string
	Link     string
}

const (
	shownEvents  = "12"
	mostLettered = 8
)

// told are the types that the page lists: all but what an outage repeats every minute,
// and keys, which have an audit log.
var told = []string{
	"storm.*", "retry_queue.*", "breaker.opened", "breaker.closed", "breaker.reset", "endpoint.*", "lane.throttled", "delivery.dead_lettered",
	"dead_letters.*", "replay.*", "tenant.*", "node.*", "system.*", "store.*",
}

// moments are the beginnings of types whose moments are seen in figures.
var moments = []string{
	"storm.started", "storm.ended", "retry_queue.growing", "breaker.opened", "breaker.closed", "breaker.reset", "endpoint.disabled", "endpoint.paused",
	"endpoint.resumed", "replay.started", "replay.finished", "replay.paused", "node.joined", "node.left", "node.lease_lost", "system.breakers.many",
	"system.retry_queue.growing", "dead_letters.growing",
}

// events returns the latest events, newest first, and marks for those since from
// that figures show.
func events(v *site.Visit, from time.Time) ([]happening, []chart.Mark, error) {
	var list site.List[view.OperationalEvent]
	if err := v.Get(v.API("operational-events"), url.Values{"type": told, "limit": {shownEvents}}, &list); err != nil {
		return nil, nil, err
	}
	out := make([]happening, len(list.Data))
	var seen []int // those that get a letter, newest first
	for i, e := range list.Data {
		h := happening{OperationalEvent: e, Word: words.OperationalOf(e.Type)}
		name := ""
		if e.Endpoint != nil {
			name, h.Link = v.EndpointName(*e.Endpoint), v.Frame.Link("/ui/endpoints/"+url.PathEscape(*e.Endpoint))
		}
		h.Sentence = words.EventSentence(&list.Data[i], name)
		out[i] = h
		if slices.Contains(moments, e.Type) && time.Time(e.At).After(from) && len(seen) < mostLettered {
			seen = append(seen, i)
		}
	}
	var marks []chart.Mark
	slices.Reverse(seen)
	for n, i := range seen {
		out[i].Letter = string(rune('A' + n))
		marks = append(marks, chart.Mark{At: time.Time(out[i].At), Letter: out[i].Letter})
	}
	return out, marks, nil
}
