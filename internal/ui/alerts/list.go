package alerts

import (
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

const (
	// maxFiring is how many firing alerts the page tells everything about; the list
	// below it has the others.
	maxFiring = 30
	// maxDrawn is how many resolved alerts the picture of the day is made of.
	maxDrawn = 100
	pastPage = 25
)

// list is the page of all alerts.
type list struct {
	Filter filter
	Counts words.Text
	Firing []row
	More   bool // fire beside those
	Day    picture
	Status string // of the lower list
	Past   []row
	Next   string // cursor
	Rules  []string
}

// picture is that of the last 24 hours.
type picture struct {
	chart.AlertLanes
	Cut bool // there were more alerts than it is made of
}

// row is an alert with what a person asks first.
type row struct {
	view.Alert
	Word     words.Word // severity
	State    words.Word
	RuleName string
	Sentence words.Sentence
	On       subject
	Amount   string
	Limit    string
	Tone     chart.Tone
	Told     []told
	Lasted   string
}

// told is a channel that was told, or is to be.
type told struct {
	Channel string
	words.Word
}

// filter is the part of the page's query that the API gets as it is.
type filter struct {
	Severity, Level, Rule, Endpoint string
}

func readFilter(v *site.Visit) filter {
	return filter{
		Severity: v.OneOf("severity", "", "page", "warning", "info"), Level: v.OneOf("level", "", "endpoint", "tenant", "system"),
		Rule: v.Query("rule"), Endpoint: v.Query("endpoint"),
	}
}

// Any reports whether something is left out.
func (f *filter) Any() bool { return *f != filter{} }

func (f *filter) query(status string, limit int) url.Values {
	q := url.Values{"status": {status}, "limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"severity": f.Severity, "level": f.Level, "rule": f.Rule, "endpoint": f.Endpoint} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func loadList(v *site.Visit) (any, error) {
	c := &list{Filter: readFilter(v), Status: v.OneOf("status", "resolved", "firing")}
	var firing, past site.List[view.Alert]
	if err := v.Get(v.API("alerts"), c.Filter.query("firing", maxDrawn), &firing); err != nil {
		return nil, err
	}
	slices.SortStableFunc(firing.Data, func(a, b view.Alert) int {
		return rank(a.Severity) - rank(b.Severity)
	})
	c.Counts = words.AlertCounts(firing.Data)
	if err := v.Get(v.API("alerts"), c.Filter.query("resolved", maxDrawn), &past); err != nil {
		return nil, err
	}
	c.Day = day(firing.Data, past.Data, past.NextCursor != nil, v.Now)
	names := newSubjects(v)
	channels, err := channelNames(v)
	if err != nil {
		return nil, err
	}
	for i := range firing.Data[:min(len(firing.Data), maxFiring)] {
		a := firing.Data[i]
		// Lists leave the notices out.
		if err := v.Get(v.Server("alerts", a.ID), nil, &a); err != nil && !missing(err) {
			return nil, err
		}
		r, err := show(names, channels, a, v.Now)
		if err != nil {
			return nil, err
		}
		c.Firing = append(c.Firing, r)
	}
	c.More = len(firing.Data) > maxFiring || firing.NextCursor != nil
	if err := c.loadPast(v, names); err != nil {
		return nil, err
	}
	return c, nil
}

// What the filter offers.
func (c *list) Severities() []string { return []string{"page", "warning", "info"} }

// Levels are the others.
func (c *list) Levels() []string { return []string{"endpoint", "tenant", "system"} }

// Nothing, NonePast and NoMatch are what the lists say where they are empty.
func (c *list) Nothing() words.Nothing { return words.Empty(words.NoAlerts) }

// NonePast is for a server on which nothing has fired yet.
func (c *list) NonePast() words.Nothing {
	return words.Nothing{Title: "Nothing has fired", Text: "Alerts that are over stay here with their history."}
}

// NoMatch is for a filter that leaves nothing.
func (c *list) NoMatch() words.Nothing { return words.Empty(words.NoMatch) }

// loadPast reads the page of the lower list.
func (c *list) loadPast(v *site.Visit, names *subjects) error {
	q := c.Filter.query(c.Status, pastPage)
	if cursor := v.Query("cursor"); cursor != "" {
		q.Set("cursor", cursor)
	}
	var page site.List[view.Alert]
	if err := v.Get(v.API("alerts"), q, &page); err != nil {
		return err
	}
	for _, a := range page.Data {
		r, err := show(names, nil, a, v.Now)
		if err != nil {
			return err
		}
		c.Past = append(c.Past, r)
	}
	c.Next = site.Either(page.NextCursor, "")
	c.Rules = words.Rules()
	return nil
}

func rank(severity string) int {
	return slices.Index([]string{"page", "warning", "info"}, severity)
}

// show says of an alert what it is about and what it means.
func show(names *subjects, channels map[string]string, a view.Alert, now time.Time) (r row, err error) {
	if names.v.Me.Portal && a.AckedBy != nil {
		somebody := "somebody" // keys are the vendor's business
		a.AckedBy = &somebody
	}
	r = row{
		Alert: a, Word: words.SeverityOf(a.Severity), State: words.AlertStatusOf(a.Status), RuleName: words.RuleOf(a.Rule).Word.Word,
		Sentence: words.AlertSentence(&a, now), Tone: tones[a.Severity],
	}
	r.Amount, r.Limit = words.AlertValue(&a)
	if over := time.Time(a.ResolvedAt); !over.IsZero() {
		r.Lasted = words.Duration(over.Sub(time.Time(a.Since)))
	}
	for _, n := range a.Notifications {
		name := n.Channel
		if known, ok := channels[n.Channel]; ok {
			name = known
		}
		t := told{name, words.NoticeResultOf(n.Result)}
		if i := slices.IndexFunc(r.Told, func(t told) bool { return t.Channel == name }); i >= 0 {
			r.Told[i] = t // what became of the latest
		} else {
			r.Told = append(r.Told, t)
		}
	}
	r.On, err = names.of(&a.Subject)
	return r, err
}

var tones = map[string]chart.Tone{"page": chart.Bad, "warning": chart.Warn}

// Measured reports whether the alert has a number to compare with a limit.
func (r *row) Measured() bool { return r.Limit != "" }

// Bullet draws the value against its limit.
func (r *row) Bullet() any { return chart.Bullet(r.Value, r.Threshold, r.Tone) }

// day is the picture of the last 24 hours, a lane for each rule, worst first.
func day(firing, past []view.Alert, cut bool, now time.Time) picture {
	w := chart.Last(now, 24*time.Hour)
	t := picture{AlertLanes: chart.AlertLanes{Title: "Alerts in the last 24 hours", Window: w}}
	lanes := map[string]*chart.AlertLane{}
	count := 0
	for _, a := range slices.Concat(firing, past) {
		since, over := time.Time(a.Since), time.Time(a.ResolvedAt)
		if !over.IsZero() && over.Before(w.From) {
			continue
		}
		count++
		lane := lanes[a.Rule]
		if lane == nil {
			lane = &chart.AlertLane{Rule: a.Rule}
			lanes[a.Rule] = lane
		}
		lane.Severity = max(lane.Severity, severities[a.Severity])
		lane.Firings = append(lane.Firings, chart.Firing{From: since, To: over})
	}
	for _, lane := range lanes {
		slices.SortFunc(lane.Firings, func(a, b chart.Firing) int { return a.From.Compare(b.From) })
		t.Lanes = append(t.Lanes, *lane)
	}
	slices.SortFunc(t.Lanes, func(a, b chart.AlertLane) int {
		if a.Severity != b.Severity {
			return int(b.Severity) - int(a.Severity)
		}
		return strings.Compare(a.Rule, b.Rule)
	})
	// The oldest that was read ended within the day: there may be others.
	t.Cut = cut && len(past) > 0 && time.Time(past[len(past)-1].Since).After(w.From)
	t.Sentence = daySentence(count, len(firing), t.Lanes)
	return t
}

func daySentence(count, firing int, lanes []chart.AlertLane) string {
	if count == 0 {
		return "No alert fired in the last 24 hours."
	}
	s := words.Count(count, "alert", "alerts") + " of " + words.Count(len(lanes), "rule", "rules") + " in the last 24 hours; "
	if firing == 0 {
		return s + "all are over."
	}
	return s + words.Count(firing, "fires", "fire") + " now."
}

var severities = map[string]chart.Severity{"page": chart.SeverityPage, "warning": chart.SeverityWarning, "info": chart.SeverityInfo}
