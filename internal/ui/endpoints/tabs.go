package endpoints

import (
	"bytes"
	"encoding/json"
	"html/template"
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

// rows is how many of a list the page shows; the rest has a page of its own.
const rows = 10

// tab is one of the contents below the charts.
type tab struct{ Name, Value, Count string }

// tabContent is what the chosen one shows.
type tabContent struct {
	Deliveries []deliveryRow
	Probes     []probeRow
	Policy     *policyTab
	Audit      []auditRow
	Nothing    words.Nothing
}

type deliveryRow struct {
	view.Delivery
	Badge  words.Word
	Answer template.HTML
	Took   string
	Result words.Text
}

type probeRow struct {
	ID       string
	At       view.Stamp
	Type     string
	Sentence string
}

type auditRow struct {
	ID     string          `json:"id"`
	At     view.Stamp      `json:"at"`
	Action string          `json:"action"`
	Diff   json.RawMessage `json:"diff"`
	Actor  struct {
		Key string  `json:"key"`
		IP  *string `json:"ip"`
	} `json:"actor"`
	Change string `json:"-"`
}

func (p *one) readTab(v *site.Visit) error {
	dead, more := countOf(v, "dead-letters", url.Values{"endpoint": {p.Endpoint.ID}})
	p.Tabs = []tab{
		{"Deliveries", "deliveries", ""},
		{"Dead letters", "dead-letters", words.AtLeast(dead, more)},
		{"Policy", "policy", p.preset()},
		{"Secrets", "secrets", strconv.Itoa(p.Endpoint.SecretsActive)},
		{"Audit", "audit", ""},
	}
	if p.Lane.State == view.LaneOpen || v.Query("tab") == "probes" {
		p.Tabs = slices.Insert(p.Tabs, 0, tab{"Probes", "probes", ""})
	}
	names := make([]string, len(p.Tabs))
	for i := range p.Tabs {
		names[i] = p.Tabs[i].Value
	}
	p.Tab = v.OneOf("tab", names...)
	switch p.Tab {
	case "deliveries":
		p.Shown.Deliveries, p.Shown.Nothing = p.deliveryRows(p.recent), words.Empty(words.NoDeliveries)
	case "dead-letters":
		return p.readDead(v)
	case "policy":
		p.Shown.Policy = newPolicyTab(&p.policy)
	case "probes":
		p.readProbes()
	case "audit":
		return p.readAudit(v)
	}
	return nil
}

// preset is the name of the policy that the resolved one began with.
func (p *one) preset() string {
	var r struct {
		Preset string `json:"preset"`
	}
	if json.Unmarshal(p.policy.Resolved, &r) != nil {
		return ""
	}
	return r.Preset
}

func (p *one) readDead(v *site.Visit) error {
	var list site.List[view.Delivery]
	if err := v.Get(v.API("dead-letters"), url.Values{"endpoint": {p.Endpoint.ID}, "limit": {strconv.Itoa(rows)}}, &list); err != nil {
		return err
	}
	p.Shown.Deliveries, p.Shown.Nothing = p.deliveryRows(list.Data), words.Empty(words.NoDeadLetters)
	return nil
}

func (p *one) deliveryRows(list []view.Delivery) []deliveryRow {
	out := make([]deliveryRow, len(list))
	for i, d := range list {
		r := deliveryRow{Delivery: d, Badge: words.StatusOf(d.Status, d.View), Took: words.None}
		if l := d.Last; l != nil {
			r.Answer, r.Took = chart.Answer(classShapes[l.Class], words.Answer(l.StatusCode, l.Reason)), words.Latency(l.LatencyMS)
		}
		r.Result = p.result(&d)
		out[i] = r
	}
	return out
}

// result says what becomes of a delivery, in a clause.
func (p *one) result(d *view.Delivery) words.Text {
	due := time.Time(d.DueAt)
	switch {
	case d.Reason != nil:
		return words.Text{{Text: *d.Reason, Style: words.Code}}
	case d.Status != "pending":
		return nil
	case d.WaitingFor != nil:
		return words.Text{{Text: words.WaitingForOf(*d.WaitingFor).Word}}
	case due.After(p.now):
		return words.Text{{Text: "next "}, {Text: words.In(due, p.now), Style: words.Counts, At: due}}
	default:
		return words.Text{{Text: "due now"}}
	}
}

// readProbes lists what the breaker did, the newest first.
func (p *one) readProbes() {
	p.Shown.Nothing = words.Nothing{Title: "No probe has failed in this window", Text: "Probes that fail, and every opening and closing of the breaker, appear here."}
	for i := range p.events {
		e := &p.events[i]
		if !strings.HasPrefix(e.Type, "breaker.") {
			continue
		}
		p.Shown.Probes = append(p.Shown.Probes, probeRow{e.ID, e.At, e.Type, words.EventSentence(e, "")})
		if len(p.Shown.Probes) == 2*rows {
			return
		}
	}
}

func (p *one) readAudit(v *site.Visit) error {
	p.Shown.Nothing = words.Empty(words.NoAudit)
	var list site.List[auditRow]
	err := v.Get(v.API("audit"), url.Values{"subject": {p.Endpoint.ID}, "limit": {strconv.Itoa(2 * rows)}}, &list)
	if err != nil && !isMissing(err) {
		return err
	}
	for i := range list.Data {
		list.Data[i].Change = changeOf(list.Data[i].Diff)
	}
	p.Shown.Audit = list.Data
	return nil
}

// changeOf writes what an audit record says that changed, short enough for a row.
func changeOf(diff json.RawMessage) string {
	var b bytes.Buffer
	if len(diff) == 0 || string(diff) == "{}" || json.Compact(&b, diff) != nil {
		return ""
	}
	return words.Cut(b.String(), 160)
}

// policyTab is a resolved policy: the waits, and where each value comes from.
type policyTab struct {
	Ladder   ladder
	Values   []value
	Warnings []string
	Hash     string
}

type value struct{ Path, Value, Origin string }

func newPolicyTab(p *view.Policy) *policyTab {
	t := &policyTab{Ladder: ladderOf(p), Values: valuesOf(p), Warnings: p.Warnings, Hash: p.Hash}
	// What somebody chose is read first.
	slices.SortStableFunc(t.Values, func(a, b value) int { return rankOf(a.Origin) - rankOf(b.Origin) })
	return t
}

func rankOf(origin string) int {
	switch origin {
	case "endpoint":
		return 0
	case "tenant":
		return 1
	case "server":
		return 2
	default:
		return 3
	}
}

// ladder is the waits of a policy.
type ladder struct {
	Rungs   []rung
	Picture template.HTML
	Span    string
}

type rung struct {
	Attempt     int
	Wait, InAll string
}

func ladderOf(p *view.Policy) ladder {
	var l ladder
	pictured := chart.Ladder{Sentence: "The wait before each attempt, from the shortest to the longest that can be drawn."}
	for _, s := range p.Ladder {
		least, mean, most := lasting(s.Min), lasting(s.Mean), lasting(s.Max)
		r := rung{s.Attempt, words.Duration(least) + " to " + words.Duration(most), words.Duration(lasting(s.CumulativeMean))}
		if least == most {
			r.Wait = words.Duration(most)
		}
		l.Rungs = append(l.Rungs, r)
		pictured.Rungs = append(pictured.Rungs, chart.Rung{Floor: least, Mean: mean, Ceiling: most})
	}
	if len(l.Rungs) > 0 {
		l.Picture = pictured.HTML()
		l.Span = "From the first to the last attempt: " + words.Duration(lasting(p.Span.Mean)) + " on average, " + words.Duration(lasting(p.Span.P5)) + " to " +
			words.Duration(lasting(p.Span.P95)) + " for nine of ten, at most " + words.Duration(lasting(p.Span.Max)) + "."
	}
	return l
}

// lasting reads a duration of the API; what is none is 0.
func lasting(text string) time.Duration {
	d, err := quantity.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// valuesOf lists the values of a resolved policy by path, with the level that set
// each.
func valuesOf(p *view.Policy) []value {
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(p.Resolved))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return nil
	}
	var out []value
	flatten("", tree, func(path string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			return
		}
		if path == "preset" {
			return // that is where the values come from
		}
		s, isText := v.(string)
		if !isText {
			s = string(text)
		}
		out = append(out, value{path, s, originOf(p.Origin, path)})
	})
	return out
}

// originOf finds who set a value: itself, or what it is a part of.
func originOf(origin map[string]string, path string) string {
	for path != "" {
		if o := origin[path]; o != "" {
			return o
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			break
		}
		path = path[:i]
	}
	return words.None
}

// flatten walks the leaves of an object in the order of their paths. Empty objects
// are leaves.
func flatten(path string, v any, leaf func(string, any)) {
	m, isMap := v.(map[string]any)
	if !isMap || len(m) == 0 && path != "" {
		leaf(path, v)
		return
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		full := name
		if path != "" {
			full = path + "." + name
		}
		flatten(full, m[name], leaf)
	}
}
