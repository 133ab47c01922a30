package deadletters

import (
	"errors"
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

const (
	// maxGroups and maxRows bound what the page lists; a filter leads to the rest.
	maxGroups = 15
	maxRows   = 20
	// maxLooked is how many dead letters are read to find those of a group, because
	// the API knows no filter by answer.
	maxLooked = "200"
)

// deadFilters are the names of the API's filters of dead letters.
var deadFilters = []string{"endpoint", "reason", "type", "event", "since", "until"}

var deadReasons = []string{"exhausted", "limited", "permanent", "gone", "expired", "breaker_open"}

// dead is what the page of dead letters shows.
type dead struct {
	Filter  *site.Filter
	Reasons []string
	Wrong   string
	Say     words.Text
	Count   string
	One     bool
	Running []running
	Groups  []group
	More    int // groups that are not listed
	Chosen  *choice
	Rows    []view.Delivery
	AllRows string // address of the list of them
	Nothing words.Nothing
}

// running is a replay that has not ended.
type running struct {
	view.Replay
	Badge    words.Word
	Link     string
	Progress template.HTML
	Text     string
}

// group is a number of dead letters that died alike.
type group struct {
	view.DeadGroup
	Endpoint *view.Endpoint
	Name     string
	Badge    words.Word
	Last     *view.Last
	Meaning  string
	Bar      template.HTML
	Key      string
	Link     string
	Chosen   bool
}

// choice is what the bar over the groups offers to do.
type choice struct {
	Title   string
	Count   string
	Also    string // what a replay takes besides, empty: nothing
	Replay  string // address; empty: it cannot be done from here
	Discard string
	All     string // address that chooses all; empty: all are chosen
	Why     string // why it cannot be done
}

func loadDead(v *site.Visit) (any, error) {
	f := v.Filter(deadFilters...)
	c := &dead{Filter: f, Reasons: deadReasons}
	var groups view.DeadGroups
	if err := v.Get(v.API("dead-letters", "groups"), f.Query(), &groups); err != nil {
		if c.Wrong = badFilter(err); c.Wrong == "" {
			return nil, err
		}
		v.Frame.Live = false
		return c, nil
	}
	c.Count, c.One = words.AtLeast(groups.Count, !groups.Exact), groups.Count == 1
	if c.Nothing = words.Empty(words.NoDeadLetters); f.Any() {
		c.Nothing = words.Empty(words.NoMatch)
	} else {
		var oldest site.List[view.Delivery]
		if err := v.Get(v.API("dead-letters"), url.Values{"order": {"asc"}, "limit": {"1"}}, &oldest); err != nil {
			return nil, err
		}
		var first time.Time
		if len(oldest.Data) > 0 {
			first = time.Time(oldest.Data[0].KeptUntil)
		}
		c.Say = words.DeadLetters(int64(groups.Count), !groups.Exact, first, v.Now)
	}
	replays, err := c.readRunning(v)
	if err != nil {
		return nil, err
	}
	if err := c.readGroups(v, groups, replays); err != nil {
		return nil, err
	}
	err = c.choose(v, groups)
	return c, err
}

// badFilter returns what is wrong with a filter that the API refused; empty: it was
// something else.
func badFilter(err error) string {
	p := new(site.Problem)
	if !errors.As(err, &p) || p.Status != http.StatusBadRequest && p.Status != http.StatusUnprocessableEntity {
		return ""
	}
	if len(p.Errors) == 0 {
		return p.Detail
	}
	var parts []string
	for _, e := range p.Errors {
		parts = append(parts, strings.TrimPrefix(e.Path, "query.")+": "+e.Message)
	}
	return strings.Join(parts, "; ") + "."
}

// readRunning adds the replays under way. It returns the endpoints they are of.
func (c *dead) readRunning(v *site.Visit) (map[string]bool, error) {
	var page site.List[view.Replay]
	if err := v.Get(v.API("replays"), url.Values{"status": {"queued", "running", "paused"}, "limit": {"3"}}, &page); err != nil {
		return nil, err
	}
	of := make(map[string]bool)
	for i := range page.Data {
		r := &page.Data[i]
		if e := filterOf(r).Endpoint; e != "" {
			of[e] = true
		}
		c.Running = append(c.Running, running{
			Replay: *r, Badge: words.ReplayStatusOf(r.Status), Link: v.Frame.Link(replaysPath + "/" + r.ID), Progress: progressOf(r, true), Text: shortly(r, v.Now),
		})
	}
	return of, nil
}

// readGroups adds the largest groups with what they mean.
func (c *dead) readGroups(v *site.Visit, all view.DeadGroups, replayed map[string]bool) error {
	shown := all.Data[:min(len(all.Data), maxGroups)]
	c.More = len(all.Data) - len(shown)
	largest := 1
	for _, g := range shown {
		largest = max(largest, g.Count)
	}
	for _, d := range shown {
		g := group{DeadGroup: d, Key: keyOf(&d), Name: d.Endpoint, Bar: chart.Bar(float64(d.Count)/float64(largest), chart.Held)}
		meaning := words.DeadGroup{Reason: d.Reason, Replayed: replayed[d.Endpoint]}
		e, err := v.Endpoint(d.Endpoint)
		if err != nil {
			return err
		}
		if e != nil {
			g.Endpoint, g.Name = e, site.Either(e.UID, words.OfURL(e.URL, 0).Host)
			meaning.State = words.StateOfEndpoint(e)
			g.Badge = meaning.State.Badge()
		} else {
			g.Badge = words.EndpointStatusOf("deleted")
		}
		var sample view.Delivery
		if err := v.Get(v.API("deliveries", d.Sample), nil, &sample); err == nil { // it may be gone meanwhile
			g.Last, meaning.Last = sample.Last, sample.Last
			if d.Reason == "exhausted" {
				meaning.Attempts = sample.Charged
			}
		}
		g.Meaning = words.DeadMeaning(&meaning)
		if g.Endpoint == nil {
			g.Meaning = "The endpoint is deleted: there is nowhere to send them."
		}
		g.Chosen = v.Query("group") == g.Key
		if g.Link = v.Frame.With("group", g.Key); g.Chosen {
			g.Link = v.Frame.With("group", "")
		}
		c.Groups = append(c.Groups, g)
	}
	return nil
}

// keyOf names a group in an address.
func keyOf(g *view.DeadGroup) string { return g.Endpoint + "." + g.Reason + "." + answerOf(g) }

// answerOf is the last answer of a group.
func answerOf(g *view.DeadGroup) string {
	if g.StatusCode == nil {
		return "none"
	}
	return strconv.Itoa(*g.StatusCode)
}

// choose finds out what can be done with what is chosen: a group, or all that match.
func (c *dead) choose(v *site.Visit, groups view.DeadGroups) error {
	key := v.Query("group")
	if key == "" || len(c.Groups) == 0 {
		return nil
	}
	if key == "all" {
		c.chooseAll(v, groups)
		return nil
	}
	for i := range c.Groups {
		if g := &c.Groups[i]; g.Chosen {
			return c.chooseGroup(v, g, groups)
		}
	}
	return nil
}

func (c *dead) chooseAll(v *site.Visit, groups view.DeadGroups) {
	c.Chosen = &choice{Title: "all that match this filter", Count: c.Count}
	tenant := groups.Data[0].Tenant
	for i := range groups.Data {
		if groups.Data[i].Tenant != tenant && v.Tenant() == "" || groups.Truncated && v.Tenant() == "" && v.Me.Operator() {
			c.Chosen.Why = "They belong to several tenants. Pick one above: a replay is of one tenant."
			return
		}
	}
	c.Chosen.link(v, tenant, c.Filter.Query())
}

func (c *dead) chooseGroup(v *site.Visit, g *group, groups view.DeadGroups) error {
	c.Chosen = &choice{Title: g.Name + ", " + g.Reason + ", " + answerOf(&g.DeadGroup), Count: words.Number(g.Count), All: v.Frame.With("group", "all")}
	alike := 0
	for _, other := range groups.Data {
		if other.Endpoint == g.DeadGroup.Endpoint && other.Reason == g.Reason {
			alike += other.Count
		}
	}
	if alike > g.Count {
		c.Chosen.Also = "A replay is chosen by endpoint and reason: it takes all " + words.Number(alike) + ", whatever their last answer was."
	}
	q := c.Filter.Query()
	q["endpoint"], q["reason"] = []string{g.DeadGroup.Endpoint}, []string{g.Reason}
	c.Chosen.link(v, g.Tenant, q)
	c.AllRows = deadList(v, q)
	q.Set("limit", maxLooked)
	var page site.List[view.Delivery]
	if err := v.Get(v.API("dead-letters"), q, &page); err != nil {
		return err
	}
	for _, d := range page.Data {
		if sameAnswer(d.Last, g.StatusCode) && len(c.Rows) < maxRows {
			c.Rows = append(c.Rows, d)
		}
	}
	return nil
}

func sameAnswer(last *view.Last, status *int) bool {
	if last == nil || last.StatusCode == nil {
		return status == nil
	}
	return status != nil && *status == *last.StatusCode
}

// link fills in where the buttons lead.
func (c *choice) link(v *site.Visit, tenant string, q url.Values) {
	q = maps.Clone(q)
	switch {
	case !v.Me.Operator():
	case v.Tenant() != "":
		q.Set("tenant", v.Frame.Tenant)
	default:
		q.Set("tenant", tenant)
	}
	c.Replay, c.Discard = newPath+"?"+q.Encode(), discardPath+"?"+q.Encode()
}

// deadList is the address of the list of deliveries with a filter.
func deadList(v *site.Visit, q url.Values) string {
	pairs := []any{"status", "dead"}
	for name, values := range q {
		if name != "tenant" && len(values) > 0 {
			pairs = append(pairs, name, values[0])
		}
	}
	return v.Frame.Link("/ui/deliveries", pairs...)
}
