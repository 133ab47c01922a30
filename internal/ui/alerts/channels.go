package alerts

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

var (
	channelsPage = site.Page{
		Path: channelsPath, Template: "alerts-channels.html", Title: "Channels", Place: place, Live: []string{"alerts-channel-rows"}, Load: loadChannels,
	}
	channelPage = site.Page{Path: "/ui/alerts/channels/{channel}", Template: "alerts-channel.html", Title: "Channel", Place: place, Load: loadChannel}
	// madePage is shown once: it has the secret of a new channel.
	madePage = site.Page{Template: "alerts-channel-made.html", Title: "Channel created", Place: place}
)

const channelsPath = "/ui/alerts/channels"

// channelsOf returns the path of channels: the server's for an operator who looks at
// all tenants, else those of one tenant.
func channelsOf(v *site.Visit, parts ...string) string {
	parts = append([]string{"alert-channels"}, parts...)
	if v.Me.Operator() && v.Tenant() == "" {
		return v.Server(parts...)
	}
	return v.API(parts...)
}

// readChannels reads all channels: there are 100 of the operator at most, and 20 of
// each tenant, of which the first are shown.
func readChannels(v *site.Visit) (site.List[view.AlertChannel], error) {
	var list site.List[view.AlertChannel]
	q := url.Values{"limit": {"100"}}
	if cursor := v.Query("cursor"); cursor != "" && v.Request.URL.Path == channelsPath {
		q.Set("cursor", cursor)
	}
	err := v.Get(channelsOf(v), q, &list)
	return list, err
}

// channelNames returns the names of channels by id.
func channelNames(v *site.Visit) (map[string]string, error) {
	list, err := readChannels(v)
	names := map[string]string{}
	for _, c := range list.Data {
		names[c.ID] = c.Name
	}
	return names, err
}

// channel is one with its words.
type channel struct {
	view.AlertChannel
	Word  words.Word
	Where string // it leads
	Gets  string // in a clause
	Test  *view.ChannelTest
	Tried words.Word // result of the test
	Log   bool       // the one that is always there
	Of    string     // the tenant's name; empty: the operator's
}

type channels struct {
	Channels []channel
	Log      *channel // nil: the visitor does not have it
	Next     string
}

// Nothing is what the list says where it is empty.
func (c *channels) Nothing() words.Nothing { return words.Empty(words.NoChannels) }

func loadChannels(v *site.Visit) (any, error) {
	list, err := readChannels(v)
	if err != nil {
		return nil, err
	}
	c := &channels{Next: site.Either(list.NextCursor, "")}
	names := newSubjects(v)
	for _, ch := range list.Data {
		shown, err := showChannel(names, ch)
		if err != nil {
			return nil, err
		}
		c.Channels = append(c.Channels, shown)
	}
	if v.Me.Operator() && v.Tenant() == "" {
		c.Log = &channel{AlertChannel: view.AlertChannel{ID: view.LogChannel, Name: view.LogChannel, Kind: "log"}, Word: words.ChannelOf("log"), Log: true}
	}
	return c, nil
}

func showChannel(names *subjects, ch view.AlertChannel) (c channel, err error) {
	c = channel{AlertChannel: ch, Word: words.ChannelOf(ch.Kind), Where: site.Either(ch.URL, strings.Join(ch.To, ", ")), Gets: gets(&ch), Log: ch.ID == view.LogChannel}
	c.Of, err = names.tenant(ch.Tenant)
	return c, err
}

// gets says which alerts a channel gets.
func gets(ch *view.AlertChannel) string {
	what := "All alerts"
	if len(ch.Rules) > 0 {
		what = "Alerts of " + words.Count(len(ch.Rules), "rule", "rules")
	}
	if len(ch.Levels) > 0 {
		what += " of level " + strings.Join(ch.Levels, ", ")
	}
	switch site.Either(ch.MinSeverity, "") {
	case "page":
		what += ", pages only"
	case "warning":
		what += ", warnings and pages"
	}
	if !ch.SendResolved {
		what += ", not their end"
	}
	if len(ch.OperationalEvents) > 0 {
		what += "; operational events " + strings.Join(ch.OperationalEvents, ", ")
	}
	return what
}

func loadChannel(v *site.Visit) (any, error) {
	c, err := readChannel(v)
	if err == nil {
		v.Frame.Title = c.Name
	}
	return c, err
}

func readChannel(v *site.Visit) (*channel, error) {
	var ch view.AlertChannel
	if err := v.Get(channelsOf(v, v.ID("channel")), nil, &ch); err != nil {
		return nil, err
	}
	c, err := showChannel(newSubjects(v), ch)
	return &c, err
}

// testChannel sends a test and shows what the other side said.
func testChannel(v *site.Visit) (site.Done, error) {
	c, err := readChannel(v)
	if err != nil {
		return site.Done{}, err
	}
	var test view.ChannelTest
	if err := v.Do(http.MethodPost, channelsOf(v, v.ID("channel"), "test"), nil, &test); err != nil {
		return site.Done{}, err
	}
	c.Test, c.Tried = &test, words.NoticeResultOf(test.Result)
	page := channelPage
	page.Title = c.Name
	return site.Done{Show: &page, Content: c}, nil
}

func askDelete(v *site.Visit) (any, error) {
	c, err := readChannel(v)
	if err != nil {
		return nil, err
	}
	path := "/ui/alerts/channels/" + url.PathEscape(c.ID)
	v.Frame.Title = "Delete " + c.Name
	return &site.Confirm{
		Title: "Delete the channel " + c.Name + "?", Sentence: "No alert is sent over it any more. Notices that wait for it are skipped. Its secret cannot be had again.",
		Facts: []string{c.Word.Word + ": " + c.Where, c.Gets}, Gentler: "To silence it for some alerts only, edit which ones it gets.",
		Action: v.Frame.Link(path + "/delete"), Button: "Delete the channel", Danger: true, Back: v.Frame.Link(path), BackName: c.Name,
	}, nil
}

func deleteChannel(v *site.Visit) (site.Done, error) {
	if err := v.Do(http.MethodDelete, channelsOf(v, v.ID("channel")), nil, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(channelsPath), Say: "The channel is deleted."}, nil
}

// made is what is shown once of a new channel.
type made struct {
	view.AlertChannel
	Secret string `json:"secret"`
}

func createChannel(v *site.Visit) (site.Done, error) {
	in := map[string]any{"name": v.Posted("name"), "kind": v.Posted("kind"), "send_resolved": v.Posted("send_resolved") == "true"}
	for name, value := range readLists(v) {
		if len(value) > 0 {
			in[name] = value
		}
	}
	for _, name := range []string{"min_severity", "url", "secret", "tenant"} {
		if text := v.Posted(name); text != "" && (name != "tenant" || v.Me.Operator() && v.Tenant() == "") {
			in[name] = text
		}
	}
	headers, err := readHeaders(v.Posted("headers"))
	if err != nil {
		return site.Done{}, err
	}
	if len(headers) > 0 {
		in["headers"] = headers
	}
	var out made
	if err := v.Do(http.MethodPost, channelsOf(v), in, &out); err != nil {
		return site.Done{}, err
	}
	if out.Secret != "" {
		return site.Done{Show: &madePage, Content: &out}, nil
	}
	return site.Done{To: v.Frame.Link("/ui/alerts/channels/" + out.ID), Say: "The channel is created. Send a test over it."}, nil
}

func changeChannel(v *site.Visit) (site.Done, error) {
	before, err := readChannel(v)
	if err != nil {
		return site.Done{}, err
	}
	in := map[string]any{"name": v.Posted("name"), "send_resolved": v.Posted("send_resolved") == "true", "min_severity": nil}
	for name, value := range readLists(v) {
		in[name] = value
	}
	if text := v.Posted("min_severity"); text != "" {
		in["min_severity"] = text
	}
	if fields := fieldsOf[before.Kind]; fields.URL {
		in["url"] = v.Posted("url")
	}
	if text := v.Posted("secret"); text != "" {
		in["secret"] = text
	}
	if fieldsOf[before.Kind].Headers {
		if in["headers"], err = changedHeaders(before.Headers, v.Posted("headers")); err != nil {
			return site.Done{}, err
		}
	}
	if err := v.Patch(channelsOf(v, before.ID), in, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link("/ui/alerts/channels/" + before.ID), Say: "The channel is changed."}, nil
}

// readLists reads the fields that have several values.
func readLists(v *site.Visit) map[string][]string {
	lists := map[string][]string{"levels": v.Ticked("levels")}
	for _, name := range []string{"rules", "operational_events", "to"} {
		lists[name] = strings.FieldsFunc(v.Posted(name), func(r rune) bool { return strings.ContainsRune(" ,;\r\n\t", r) })
	}
	for name, list := range lists {
		if list == nil {
			lists[name] = []string{}
		}
	}
	return lists
}

// readHeaders reads lines of names and values.
func readHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, site.Wrong("headers", "must have a name, a colon and a value in each line")
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers, nil
}

// changedHeaders is the patch that turns the headers of a channel into those that
// were typed: a line that was taken out removes its header.
func changedHeaders(before map[string]string, text string) (map[string]*string, error) {
	typed, err := readHeaders(text)
	if err != nil {
		return nil, err
	}
	patch := map[string]*string{}
	for name := range before {
		patch[name] = nil
	}
	for name, value := range typed {
		patch[name] = &value
	}
	return patch, nil
}

func sortedHeaders(headers map[string]string) string {
	var lines []string
	for name, value := range headers {
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
