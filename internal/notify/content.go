package notify

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Bounds of what is shown, in characters: a notice is read on a telephone.
const (
	maxSummary = 700
	maxWhere   = 120
)

// content is a notice in words, before it takes the form of a channel. All of
// its texts are single lines without control characters.
type content struct {
	tag      string // page, warning, info, resolved, test
	rule     string
	where    string // what it is about: api.example.com/hook
	headline string // what is wrong
	facts    []fact
	runbook  string // what to do; empty: nothing
	ui, api  string // links; empty without a public URL
}

// fact is something to know, and the name of it.
type fact struct {
	Name, Value string
	Short       bool // fits beside another one
}

// links knows where people find things.
type links struct {
	public  string // without a slash at the end; empty: unknown
	runbook string
}

// describe words a notice about an alert.
func (l links) describe(n *Notice, now time.Time) content {
	a := n.Alert
	c := content{
		tag:     a.Severity.String(),
		rule:    clean(a.Rule, MaxRuleName),
		where:   where(n),
		runbook: l.runbookOf(a.Rule),
		ui:      l.page("/ui/alerts/", hook.AlertPrefix, a.ID),
		api:     l.page("/v1/alerts/", hook.AlertPrefix, a.ID),
	}
	summary := clean(a.Summary, maxSummary)
	switch {
	case n.test: // of an alert that is nowhere to be found
		return content{tag: "test", rule: c.rule, where: c.where, headline: summary}
	case over(n):
		c.tag, c.runbook = "resolved", ""
		c.headline = summary
		if a.Status != hook.AlertResolved || summary == "" { // else it tells the end already
			c.headline = "over after " + lasted(endOf(n).Sub(a.Since))
		}
	default:
		c.headline = stillFiring(n.Kind, a.Severity) + summary
	}
	c.facts = alertFacts(n, now)
	return c
}

// over reports whether a notice tells the end of its alert.
func over(n *Notice) bool {
	return n.Kind == hook.NoticeResolved || n.Alert.Status == hook.AlertResolved
}

// endOf is when the alert was over.
func endOf(n *Notice) time.Time {
	if n.Alert.ResolvedAt.IsZero() {
		return n.At
	}
	return n.Alert.ResolvedAt
}

// stillFiring is what a notice says before the summary when it is not the first
// one of its alert.
func stillFiring(k hook.NoticeKind, s hook.Severity) string {
	switch k {
	case hook.NoticeRepeat:
		return "still firing: "
	case hook.NoticeRaised:
		return "now " + s.String() + ": "
	case hook.NoticeFlapping:
		return "comes and goes; the next notice is its end: "
	default:
		return ""
	}
}

func alertFacts(n *Notice, now time.Time) []fact {
	a := n.Alert
	facts := []fact{
		{"Value", number(a.Value), true},
		{"Threshold", number(a.Threshold), true},
	}
	if over(n) {
		facts = append(facts,
			fact{"Since", stamp(a.Since), true},
			fact{"Resolved", stamp(endOf(n)), true},
			fact{"Lasted", lasted(endOf(n).Sub(a.Since)), true})
	} else {
		facts = append(facts, fact{"Since", stamp(a.Since) + " (" + lasted(now.Sub(a.Since)) + " ago)", false})
	}
	facts = append(facts, subjectFacts(n)...)
	if a.Count > 1 {
		facts = append(facts, fact{"Came up", strconv.Itoa(a.Count) + " times", true})
	}
	return facts
}

// subjectFacts names everything the alert is about, by the ids that the API and
// the command line take.
func subjectFacts(n *Notice) []fact {
	var facts []fact
	add := func(name string, p hook.Prefix, id hook.ID, label string) {
		if id == 0 {
			return
		}
		value := p.Format(id)
		if label = clean(label, maxWhere); label != "" {
			value += " (" + label + ")"
		}
		facts = append(facts, fact{name, value, false})
	}
	s := n.Alert.Subject
	add("Endpoint", hook.EndpointPrefix, s.Endpoint, hostAndPath(n.Endpoint))
	add("Tenant", hook.TenantPrefix, s.Tenant, n.Tenant)
	add("Replay", hook.ReplayPrefix, s.Replay, "")
	add("Node", hook.NodePrefix, s.Node, "")
	return facts
}

// where names the subject in a few words for a headline.
func where(n *Notice) string {
	s := n.Alert.Subject
	switch {
	case s.Endpoint != 0:
		return orID(hostAndPath(n.Endpoint), hook.EndpointPrefix, s.Endpoint)
	case s.Replay != 0:
		return hook.ReplayPrefix.Format(s.Replay)
	case s.Tenant != 0:
		return orID(n.Tenant, hook.TenantPrefix, s.Tenant)
	case s.Node != 0:
		return hook.NodePrefix.Format(s.Node)
	default:
		return wholeSystem
	}
}

// wholeSystem is the subject of what is about everything.
const wholeSystem = "system"

func orID(name string, p hook.Prefix, id hook.ID) string {
	if name = clean(name, maxWhere); name != "" {
		return name
	}
	return p.Format(id)
}

// hostAndPath is as much of an endpoint's URL as others may see: a query often
// holds a key.
func hostAndPath(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host + strings.TrimSuffix(u.EscapedPath(), "/")
}

func newLinks(public, runbook string) (links, error) {
	for name, raw := range map[string]string{"PublicURL": public, "RunbookURL": runbook} {
		if raw == "" {
			continue
		}
		if err := checkURL(raw); err != nil {
			return links{}, fmt.Errorf("%s %w", name, err)
		}
	}
	l := links{public: strings.TrimRight(public, "/"), runbook: runbook}
	if l.runbook == "" && l.public != "" {
		l.runbook = l.public + "/docs/alerts.md"
	}
	return l, nil
}

func (l links) page(path string, p hook.Prefix, id hook.ID) string {
	if l.public == "" || id == 0 {
		return ""
	}
	return l.public + path + p.Format(id)
}

func (l links) runbookOf(rule string) string {
	if l.runbook == "" || !isRuleName(rule) {
		return ""
	}
	return l.runbook + "#" + rule
}

// lines is the notice as text: the first line says what is wrong.
func (c *content) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.title())
	for _, f := range c.facts {
		fmt.Fprintf(&b, "%-11s %s\n", f.Name+":", f.Value)
	}
	if len(c.facts) > 0 {
		b.WriteString("\n")
	}
	for _, f := range c.linked() {
		fmt.Fprintf(&b, "%-11s %s\n", f.Name+":", f.Value)
	}
	return b.String()
}

// title is the first line: [PAGE] retry_storm: api.example.com/hook: 505 retries
// for 53 first attempts. The subject is put before a headline without it.
func (c *content) title() string {
	title := "[" + strings.ToUpper(c.tag) + "] " + c.rule + ": "
	switch {
	case c.headline == "":
		return title + c.where
	case strings.Contains(c.headline, c.where), c.where == wholeSystem:
		return title + c.headline
	default:
		return title + c.where + ": " + c.headline
	}
}

// linked lists the links there are, what to do first.
func (c *content) linked() []fact {
	var out []fact
	for _, f := range []fact{{Name: "What to do", Value: c.runbook}, {Name: "Dashboard", Value: c.ui}, {Name: "API", Value: c.api}} {
		if f.Value != "" {
			out = append(out, f)
		}
	}
	return out
}

// clean makes one line of at most so many characters out of any text.
func clean(s string, most int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)), " ")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// number writes a value for people: no more than four digits that matter, whole
// numbers as they are.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "unknown"
	case math.IsInf(v, 0):
		return "unbounded"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// lasted writes a duration in its two largest units: 3 d 4 h, 12 min 30 s.
func lasted(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size && i < len(units)-1 {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.size, u.name)
		if i+1 < len(units) {
			if rest := d % u.size / units[i+1].size; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}
