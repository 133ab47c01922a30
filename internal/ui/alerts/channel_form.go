package alerts

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

var (
	newChannelPage = site.Page{
		Path: "/ui/alerts/channels/new", Template: "alerts-channel-form.html", Title: "New channel", Place: place, Writes: true, Load: loadNewChannel,
	}
	editChannelPage = site.Page{
		Path: "/ui/alerts/channels/{channel}/edit", Template: "alerts-channel-form.html", Title: "Edit channel", Place: place, Writes: true, Load: loadEditChannel,
	}
)

// kindFields are the fields that only some kinds of channels have.
type kindFields struct{ URL, Secret, Headers, To, Events bool }

var fieldsOf = map[string]kindFields{
	"webhook": {URL: true, Secret: true, Headers: true, Events: true},
	"slack":   {URL: true},
	"email":   {To: true},
	"log":     {},
}

// channelForm is the form of a new channel or of one that is changed.
type channelForm struct {
	Kind     words.Word
	Kinds    []words.Word // to choose from; empty: the kind stays
	Has      kindFields
	Levels   []string
	Rules    []string
	Action   string
	Back     string
	BackName string
	Last4    string // of the secret that holds
	Operator bool   // may name a tenant
}

// Severities are what a channel may ask for at least.
func (c *channelForm) Severities() []string { return []string{"info", "warning", "page"} }

func newForm(v *site.Visit, kind string) *channelForm {
	levels := []string{"endpoint", "tenant"}
	operator := v.Me.Operator() && v.Tenant() == ""
	if operator {
		levels = append(levels, "system")
	}
	return &channelForm{Kind: words.ChannelOf(kind), Has: fieldsOf[kind], Levels: levels, Rules: words.Rules(), Operator: operator}
}

func loadNewChannel(v *site.Visit) (any, error) {
	kinds := []string{"webhook", "slack", "email"}
	if v.Me.Operator() && v.Tenant() == "" {
		kinds = append(kinds, "log")
	}
	kind := v.OneOf("kind", kinds...)
	if posted := v.Frame.Form.Value("kind"); posted != "" {
		if _, known := fieldsOf[posted]; known {
			kind = posted
		}
	}
	c := newForm(v, kind)
	for _, k := range kinds {
		c.Kinds = append(c.Kinds, words.ChannelOf(k))
	}
	c.Action, c.Back, c.BackName = v.Frame.Link(channelsPath), v.Frame.Link(channelsPath), "Channels"
	v.Fill(url.Values{"send_resolved": {"true"}, "kind": {kind}})
	return c, nil
}

func loadEditChannel(v *site.Visit) (any, error) {
	ch, err := readChannel(v)
	if err != nil {
		return nil, err
	}
	v.Frame.Title = "Edit " + ch.Name
	c := newForm(v, ch.Kind)
	path := "/ui/alerts/channels/" + url.PathEscape(ch.ID)
	c.Action, c.Back, c.BackName, c.Last4 = v.Frame.Link(path+"/edit"), v.Frame.Link(path), ch.Name, site.Either(ch.SecretLast4, "")
	c.Operator = false // whose it is stays
	v.Fill(url.Values{
		"version": {strconv.FormatInt(ch.Version, 10)},
		"name":    {ch.Name}, "kind": {ch.Kind}, "url": {site.Either(ch.URL, "")}, "to": {strings.Join(ch.To, "\n")}, "headers": {sortedHeaders(ch.Headers)},
		"levels": ch.Levels, "min_severity": {site.Either(ch.MinSeverity, "")}, "rules": {strings.Join(ch.Rules, "\n")},
		"operational_events": {strings.Join(ch.OperationalEvents, "\n")}, "send_resolved": {map[bool]string{true: "true"}[ch.SendResolved]},
	})
	return c, nil
}
