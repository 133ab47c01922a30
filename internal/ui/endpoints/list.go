package endpoints

import (
	"cmp"
	"html/template"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// pageSize is how many endpoints a page of the list shows.
const pageSize = 25

// group is a part of all lanes; no lane is in two of them. The list shows one after
// the other, so that the worst come first and every page is cheap to find.
type group struct {
	value, name string
	filter      url.Values // of the API
}

var groups = []group{
	{"open", "Holding", url.Values{"state": {"open"}, "paused": {"false"}}},
	{"hold", "Told to wait", closed("hold")},
	{"storm", "Storm", closed("storm", "hold")},
	{"growing", "Growing", closed("growing", "storm", "hold")},
	{"recovering", "Draining", closed("recovering", "growing", "storm", "hold")},
	{"paused", "Paused", url.Values{"paused": {"true"}}},
	{"closed", "Delivering", closed("", "recovering", "growing", "storm", "hold")},
}

// closed are the lanes with a closed breaker that are one thing and none of others.
func closed(is string, not ...string) url.Values {
	f := url.Values{"state": {"closed"}, "paused": {"false"}}
	if is != "" {
		f.Set(is, "true")
	}
	for _, name := range not {
		f.Set(name, "false")
	}
	return f
}

// list is the page of all endpoints.
type list struct {
	State    string
	Text     string
	Segments []segment
	Rows     []row
	First    bool // page
	Next     string
	Nothing  *words.Nothing
}

type segment struct {
	Value, Name, Count string
}

// row is one endpoint of the list.
type row struct {
	view.Lane
	Address words.Address
	Name    string // uid, or id
	Owner   string // tenant, for those who see several
	Badge   words.Word
	Note    words.Text
	Types   string
	Strip   template.HTML
	Success string
	Ratio   string
	Stormy  bool
	Waiting string
	P99     string
	Limit   string
}

func loadList(v *site.Visit) (any, error) {
	l := &list{State: v.OneOf("state", "", "open", "hold", "storm", "growing", "recovering", "paused", "closed"), Text: words.Cut(strings.TrimSpace(v.Query("q")), 128)}
	// The API's own names work too: storm=true, paused=true.
	for _, name := range []string{"hold", "storm", "growing", "recovering", "paused"} {
		if v.Query(name) == "true" {
			l.State = name
		}
	}
	var err error
	l.Segments = l.count(v)
	lanes, err := l.read(v)
	if err != nil {
		return nil, err
	}
	health, err := healthOf(v, lanes)
	if err != nil {
		return nil, err
	}
	owners := make(map[string]string)
	for i := range lanes {
		r, err := rowOf(v, &lanes[i], health[lanes[i].Endpoint], owners)
		if err != nil {
			return nil, err
		}
		l.Rows = append(l.Rows, r)
	}
	if len(l.Rows) == 0 {
		n := words.Empty(words.NoEndpoints)
		if l.State != "" || l.Text != "" {
			n = words.Empty(words.NoMatch)
		}
		l.Nothing = &n
	}
	return l, nil
}

// count counts the groups, as far as that is cheap.
func (l *list) count(v *site.Visit) []segment {
	all, more := int64(0), false
	out := []segment{{Value: "", Name: "All"}}
	for _, g := range groups {
		q := withText(g.filter, l.Text)
		n, plus := countOf(v, "lanes", q)
		out = append(out, segment{g.value, g.name, atLeast(n, plus)})
		all, more = all+n, more || plus
	}
	out[0].Count = atLeast(all, more)
	return out
}

func atLeast(n int64, more bool) string {
	if more {
		return words.Number(n) + "+"
	}
	return words.Number(n)
}

func withText(filter url.Values, text string) url.Values {
	q := make(url.Values, len(filter)+1)
	maps.Copy(q, filter)
	if text != "" {
		q.Set("q", text)
	}
	return q
}

// read reads a page: from the group and the place in it that the cursor names, and
// on through the groups after it.
func (l *list) read(v *site.Visit) ([]view.Lane, error) {
	at, cursor, _ := strings.Cut(v.Query("cursor"), ":")
	start, err := strconv.Atoi(at)
	if err != nil || start < 0 || start >= len(groups) {
		start, cursor = 0, ""
	}
	l.First = start == 0 && cursor == ""
	var out []view.Lane
	for i := start; i < len(groups); i++ {
		if l.State != "" && groups[i].value != l.State {
			continue
		}
		if len(out) == pageSize {
			l.Next = strconv.Itoa(i) + ":"
			break
		}
		q := withText(groups[i].filter, l.Text)
		q.Set("limit", strconv.Itoa(pageSize-len(out)))
		if i == start && cursor != "" {
			q.Set("cursor", cursor)
		}
		var some site.List[view.Lane]
		if err := v.Get(v.API("lanes"), q, &some); err != nil {
			return nil, err
		}
		// Those that hold up the most come first, as far as a page can tell.
		slices.SortStableFunc(some.Data, func(a, b view.Lane) int { return cmp.Compare(depthOf(&b), depthOf(&a)) })
		out = append(out, some.Data...)
		if some.NextCursor != nil {
			l.Next = strconv.Itoa(i) + ":" + *some.NextCursor
			break
		}
	}
	return out, nil
}

func depthOf(l *view.Lane) int64 {
	if l.RetryQueue.Depth == nil {
		return 0
	}
	return *l.RetryQueue.Depth
}

// healthOf reads the day of some endpoints.
func healthOf(v *site.Visit, lanes []view.Lane) (map[string]*view.Strip, error) {
	ids := make([]string, len(lanes))
	for i := range lanes {
		ids[i] = lanes[i].Endpoint
	}
	return v.Days(ids)
}

// rowOf reads the last quarter of an hour of an endpoint beside its day: what it does
// now, not what it did at night.
func rowOf(v *site.Visit, l *view.Lane, day *view.Strip, owners map[string]string) (row, error) {
	var recent view.Stats
	if err := v.Get(v.API("endpoints", l.Endpoint, "stats"), url.Values{"window": {"15m"}}, &recent); err != nil && !isMissing(err) {
		return row{}, err
	}
	waiting := latest(recent.Series)
	s := words.StateOf(l, &waiting, v.Now)
	r := row{
		Lane: *l, Address: words.OfURL(l.URL, 28), Name: site.Either(l.UID, l.Endpoint), Badge: s.Badge(), Types: words.Cut(strings.Join(l.Types, " "), 28),
		Note: noteOf(l, s, v.Now), Success: words.None, Ratio: words.None, P99: words.None, Waiting: words.None, Limit: words.None, Stormy: l.Storm.Active,
	}
	if v.Me.Operator() && v.Tenant() == "" {
		if owners[l.Tenant] == "" {
			owners[l.Tenant] = tenantName(v, l.Tenant)
		}
		r.Owner = owners[l.Tenant]
	}
	r.Waiting = waitingOf(l, &waiting)
	if s != words.Holding && s != words.Paused && s != words.Disabled {
		r.Limit = words.Number(int64(math.Round(l.Limit)))
	}
	if day != nil {
		r.Success = successOf(day)
		r.Strip = stripOf(day, r.Success)
	}
	r.P99 = words.LatencyOr(recent.AttemptMS.P99)
	if recent.Totals.Attempts > 0 {
		r.Ratio = words.Ratio(recent.RetryRatio)
	}
	return r, nil
}

// waitingOf is what waits for another attempt or is held: as the lane's owner last
// saw it, or as it was counted in the last minutes, whichever is more.
func waitingOf(l *view.Lane, g *view.Gauges) string {
	q := &l.RetryQueue
	counted := whole(g.Retrying) + whole(g.Held)
	switch {
	case q.Depth != nil && *q.Depth >= counted:
		return atLeast(*q.Depth, q.AtLeast)
	case counted > 0:
		return words.Number(counted)
	default:
		return "0"
	}
}

// noteOf is what stands below the badge.
func noteOf(l *view.Lane, s words.State, now time.Time) words.Text {
	count := func(before string, t time.Time) words.Text {
		return words.Text{{Text: before}, {Text: words.In(t, now), Style: words.Counts, At: t}}
	}
	switch s {
	case words.Holding:
		if t := time.Time(l.NextProbeAt); t.After(now) {
			return count("probe ", t)
		}
		return words.Text{{Text: "probe due now"}}
	case words.ToldToWait:
		return count("ends ", time.Time(l.HoldUntil))
	case words.RetryStorm:
		return words.Text{{Text: words.Count(l.Storm.Retries, "retry", "retries") + " in 15 m"}}
	case words.QueueGrowing, words.Draining:
		if t := time.Time(l.RetryQueue.EmptyAt); t.After(now) {
			return words.Text{{Text: "empty about " + words.About(t, now)}}
		}
	default:
	}
	return nil
}

// successOf is the share of the answers of a day that were 2xx.
func successOf(day *view.Strip) string {
	var good, bad uint64
	for i := range day.Delivered {
		good += day.Delivered[i]
	}
	for i := range day.Failed {
		bad += day.Failed[i]
	}
	if good+bad == 0 {
		return words.None
	}
	return words.Percent(100 * float64(good) / float64(good+bad))
}

// stripOf draws the day of an endpoint.
func stripOf(day *view.Strip, success string) template.HTML {
	cells := make([]chart.HealthCell, len(day.Delivered))
	for i := range cells {
		cells[i].Failed = math.NaN()
		if i < len(day.Failed) {
			if all := day.Delivered[i] + day.Failed[i]; all > 0 {
				cells[i].Failed = float64(day.Failed[i]) / float64(all)
			}
		}
		cells[i].Held = i < len(day.Held) && day.Held[i] > 0
	}
	return chart.Health(cells, "Last 24 hours in 48 half hours: "+success+" of answers were 2xx")
}
