package alerts

import (
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

var alertPage = site.Page{
	Path: "/ui/alerts/{alert}", Template: "alerts-alert.html", Title: "Alert", Place: place,
	Live: []string{"alerts-state", "alerts-notices"}, Load: loadAlert,
}

// one is the page of an alert.
type one struct {
	row
	Notices []notice
	Before  []row           // other times that the rule fired for the same subject
	Rule    *view.AlertRule // nil: the visitor may not see thresholds
	Snoozes []string
}

// notice is what was sent over a channel, or is to be.
type notice struct {
	view.Notification
	Name  string
	What  words.Word
	State words.Word
}

// snoozes are how long people usually want no repeats.
var snoozes = []string{"15m", "1h", "4h", "24h", "7d"}

func loadAlert(v *site.Visit) (any, error) {
	var a view.Alert
	if err := v.Get(v.Server("alerts", v.ID("alert")), nil, &a); err != nil {
		return nil, err
	}
	channels, err := channelNames(v)
	if err != nil {
		return nil, err
	}
	names := newSubjects(v)
	c := &one{Snoozes: snoozes}
	if c.row, err = show(names, channels, a, v.Now); err != nil {
		return nil, err
	}
	v.Frame.Title = c.RuleName
	for _, n := range a.Notifications {
		name := n.Channel
		if known, ok := channels[n.Channel]; ok {
			name = known
		}
		c.Notices = append(c.Notices, notice{n, name, words.NoticeOf(n.Kind), words.NoticeResultOf(n.Result)})
	}
	if c.Before, err = before(v, names, &a); err != nil {
		return nil, err
	}
	if v.Me.Operator() {
		c.Rule, err = ruleOf(v, a.Rule)
	}
	return c, err
}

// before returns the other alerts of the same rule and subject, newest first.
func before(v *site.Visit, names *subjects, a *view.Alert) ([]row, error) {
	q := url.Values{"rule": {a.Rule}, "level": {a.Level}, "limit": {"50"}}
	path := v.Server("tenants", site.Either(a.Subject.Tenant, "-"), "alerts")
	if a.Subject.Endpoint != nil {
		q.Set("endpoint", *a.Subject.Endpoint)
	}
	var past site.List[view.Alert]
	if err := v.Get(path, q, &past); err != nil {
		if missing(err) {
			return nil, nil // the tenant is gone
		}
		return nil, err
	}
	var out []row
	for _, p := range past.Data {
		if p.ID == a.ID || !same(&p.Subject, &a.Subject) || len(out) == 10 {
			continue
		}
		r, err := show(names, nil, p, v.Now)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func same(a, b *view.AlertSubject) bool {
	return eq(a.Tenant, b.Tenant) && eq(a.Endpoint, b.Endpoint) && eq(a.Replay, b.Replay) && eq(a.Node, b.Node)
}

func eq(a, b *string) bool { return site.Either(a, "") == site.Either(b, "") }

// acknowledge notes that somebody knows of an alert.
func acknowledge(v *site.Visit) (site.Done, error) {
	in := map[string]string{}
	for _, name := range []string{"note", "snooze"} {
		if text := v.Posted(name); text != "" {
			in[name] = text
		}
	}
	var a view.Alert
	if err := v.Do(http.MethodPost, v.Server("alerts", v.ID("alert"), "ack"), in, &a); err != nil {
		return site.Done{}, err
	}
	say := words.RuleOf(a.Rule).Word.Word + " is acknowledged: it is repeated no more."
	if in["snooze"] != "" {
		say = words.RuleOf(a.Rule).Word.Word + " is acknowledged: no repeats for " + in["snooze"] + "."
	}
	path := v.Frame.Link("/ui/alerts")
	return site.Done{To: path, Say: say, Link: v.Frame.Link("/ui/alerts/" + a.ID), Name: "Open it"}, nil
}

// rules are all rules with their thresholds.
type rules struct{ Rules []rule }

type rule struct {
	view.AlertRule
	Word   words.AlertRule
	Levels []level
}

type level struct {
	Name       string
	Severities []words.Word
}

func loadRules(v *site.Visit) (any, error) {
	list, err := readRules(v)
	if err != nil {
		return nil, err
	}
	c := &rules{}
	for _, r := range list {
		shown := rule{AlertRule: r, Word: words.RuleOf(r.Name)}
		for _, l := range r.Levels {
			at := level{Name: l.Level}
			for _, s := range l.Severities {
				at.Severities = append(at.Severities, words.SeverityOf(s))
			}
			shown.Levels = append(shown.Levels, at)
		}
		c.Rules = append(c.Rules, shown)
	}
	return c, nil
}

func readRules(v *site.Visit) ([]view.AlertRule, error) {
	var list site.List[view.AlertRule]
	err := v.Get(v.Server("alert-rules"), nil, &list)
	return list.Data, err
}

func ruleOf(v *site.Visit, name string) (*view.AlertRule, error) {
	list, err := readRules(v)
	for i := range list {
		if list[i].Name == name {
			return &list[i], nil
		}
	}
	return nil, err
}
