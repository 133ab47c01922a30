package settings

import (
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// nodes is the page of the processes.
type nodes struct {
	Tabs   []Tab
	Nodes  []node
	Shards view.Shards
	Gone   []string // shards without an owner
}

type node struct {
	view.Node
	State words.Word
	Owns  string
	Lease string
	Clock string
}

func loadNodes(v *site.Visit) (any, error) {
	var list view.Nodes
	if err := v.Get(v.Server("nodes"), nil, &list); err != nil {
		return nil, err
	}
	c := &nodes{Tabs: tabs(v), Shards: list.Shards}
	for _, s := range list.Shards.Unowned {
		c.Gone = append(c.Gone, strconv.Itoa(s))
	}
	for _, n := range list.Data {
		shown := node{Node: n, State: words.NodeStatusOf(n.Status), Owns: ranges(n.Shards), Lease: words.None, Clock: words.None}
		if n.LeaseLeftMs != nil {
			if left := *n.LeaseLeftMs; left > 0 {
				shown.Lease = words.Latency(left) + " left"
			} else {
				shown.Lease = "ended"
			}
		}
		if n.ClockOffsetMs != nil {
			shown.Clock = offset(*n.ClockOffsetMs)
		}
		c.Nodes = append(c.Nodes, shown)
	}
	return c, nil
}

func offset(ms float64) string {
	switch {
	case ms < 0:
		return words.Latency(-ms) + " behind"
	case ms > 0:
		return words.Latency(ms) + " ahead"
	default:
		return "as the database's"
	}
}

// ranges writes 0, 1, 2, 5 as 0–2, 5. The numbers are in order.
func ranges(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		part := strconv.Itoa(list[i])
		if j > i {
			part += "–" + strconv.Itoa(list[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// config is the configuration in force, by the first part of its keys.
type config struct {
	Tabs   []Tab
	Groups []group
	Only   bool // what is not as it is by default
}

type group struct {
	Name     string
	Settings []setting
}

// setting is one with where its value comes from.
type setting view.Setting

// Default reports whether nobody has set it.
func (s *setting) Default() bool { return s.Origin == "default" }

func loadConfig(v *site.Visit) (any, error) {
	var list site.List[setting]
	if err := v.Get(v.Server("config"), nil, &list); err != nil {
		return nil, err
	}
	c := &config{Tabs: tabs(v), Only: v.Query("set") == "true"}
	for _, s := range list.Data {
		if c.Only && s.Default() {
			continue
		}
		name, _, dotted := strings.Cut(s.Key, ".")
		if !dotted {
			name = "server"
		}
		if n := len(c.Groups); n == 0 || c.Groups[n-1].Name != name {
			c.Groups = append(c.Groups, group{Name: name})
		}
		last := &c.Groups[len(c.Groups)-1]
		last.Settings = append(last.Settings, s)
	}
	return c, nil
}

// audit is the page of the changes.
type audit struct {
	Tabs    []Tab
	Records []record
	Next    string
	Actor   string
	Action  string
	Subject string
	Since   string
	Windows []string
	Any     bool // something is left out
}

type record struct {
	view.Audit
	Who  string
	Path string // page of what changed; empty: it has none
	Diff string
}

// Nothing and NoMatch are what the list says where it is empty.
func (a *audit) Nothing() words.Nothing {
	if a.Any {
		return words.Empty(words.NoMatch)
	}
	return words.Empty(words.NoAudit)
}

var auditWindows = []string{"1h", "24h", "7d", "30d"}

func loadAudit(v *site.Visit) (any, error) {
	c := &audit{Tabs: tabs(v), Actor: v.Query("actor"), Action: v.Query("action"), Subject: v.Query("subject"), Since: v.Query("since"), Windows: auditWindows}
	q := v.Request.URL.Query()
	q.Del("tenant")
	for name := range q {
		if q.Get(name) == "" {
			q.Del(name)
		}
	}
	c.Any = c.Actor+c.Action+c.Subject+c.Since != ""
	q.Set("limit", "50")
	var list site.List[view.Audit]
	path := v.API("audit")
	if v.Me.Operator() && v.Tenant() == "" {
		path = v.Server("audit") // with the changes of the server itself
	}
	if err := v.Get(path, q, &list); err != nil {
		return nil, err
	}
	c.Next = site.Either(list.NextCursor, "")
	names, err := v.KeyNames()
	if err != nil {
		return nil, err
	}
	for _, a := range list.Data {
		r := record{Audit: a, Who: a.Actor.Key, Path: pageOf(a.Subject), Diff: diff(a.Diff)}
		if name := names[a.Actor.Key]; name != "" {
			r.Who = name
		}
		c.Records = append(c.Records, r)
	}
	return c, nil
}

// pageOf returns the page of what an id names.
func pageOf(id string) string {
	prefix, _, _ := strings.Cut(id, "_")
	if page := pages[prefix]; page != "" {
		return page + id
	}
	return ""
}

var pages = map[string]string{
	"ep": "/ui/endpoints/", "dlv": "/ui/deliveries/", "evt": "/ui/events/", "rpl": "/ui/replays/", "ten": "/ui/tenants/", "alr": "/ui/alerts/", "ach": "/ui/alerts/channels/",
}
