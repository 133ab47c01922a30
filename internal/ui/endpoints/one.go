package endpoints

import (
	"encoding/json"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// one is the page of an endpoint.
type one struct {
	Endpoint view.Endpoint
	Address  words.Address
	Tenant   string // its name; empty: that of the visitor
	State    words.State
	Lane     view.Lane
	Since    words.Text
	Say      words.Sentence
	Picture  template.HTML
	Charts   charts
	Test     *tested
	Tab      string
	Tabs     []tab
	Shown    tabContent

	now      time.Time
	live     view.Stats // the last quarter of an hour
	waiting  view.Gauges
	atLeast  bool                    // there are more that wait than were counted
	events   []view.OperationalEvent // of the window, the newest first
	recent   []view.Delivery         // the newest
	last     *view.Last
	paused   pause
	maxHold  time.Duration
	policy   view.Policy
	expiring time.Time
}

// windows that the charts can show; the API's names.
var windows = []string{"15m", "1h", "6h", "24h", "7d"}

func loadOne(v *site.Visit) (any, error) {
	p := &one{now: v.Now}
	var err error
	if p.Endpoint, err = endpointOf(v); err != nil {
		return nil, err
	}
	id := p.Endpoint.ID
	p.Address = words.OfURL(p.Endpoint.URL, 0)
	v.Frame.Title = p.Address.Host
	for path, to := range map[string]any{"lane": &p.Lane, "policy": &p.policy} {
		if err := v.Get(v.API("endpoints", id, path), nil, to); err != nil {
			return nil, err
		}
	}
	if err := v.Get(v.API("endpoints", id, "stats"), url.Values{"window": {"15m"}}, &p.live); err != nil {
		return nil, err
	}
	if v.Me.Operator() {
		p.Tenant = tenantName(v, p.Endpoint.Tenant)
	}
	p.maxHold = p.readMaxHold()
	if err := p.readWaiting(v); err != nil {
		return nil, err
	}
	if p.Charts, err = p.readCharts(v); err != nil {
		return nil, err
	}
	p.State = words.StateOf(&p.Lane, &p.waiting, p.now)
	p.Say = words.LaneSentence(p.words(), p.now)
	p.Since = p.since()
	p.Picture = p.picture()
	if p.Test, err = readTest(v, &p.Endpoint); err != nil {
		return nil, err
	}
	if err := p.readTab(v); err != nil {
		return nil, err
	}
	return p, nil
}

// tenantName is the name that people gave a tenant, or its id.
func tenantName(v *site.Visit, id string) string {
	var t view.Tenant
	if err := v.Get(v.Server("tenants", id), nil, &t); err != nil {
		return id
	}
	return site.Either(t.UID, id)
}

func (p *one) readMaxHold() time.Duration {
	var r struct {
		Breaker struct {
			MaxHold string `json:"max_hold"`
		} `json:"breaker"`
	}
	if json.Unmarshal(p.policy.Resolved, &r) != nil {
		return 0
	}
	return lasting(r.Breaker.MaxHold)
}

// stopped reports whether nothing is sent but probes.
func (p *one) stopped() bool { return p.Lane.Paused || p.Lane.State == view.LaneOpen }

// readWaiting finds out what waits: the figures are up to a minute old, so what is
// held, or drains, is counted as far as counting is cheap.
func (p *one) readWaiting(v *site.Visit) error {
	p.waiting = latest(p.live.Series)
	of := url.Values{"endpoint": {p.Endpoint.ID}}
	with := func(pairs ...string) url.Values {
		q := url.Values{"endpoint": of["endpoint"]}
		for i := 0; i+1 < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return q
	}
	var newest, oldest site.List[view.Delivery]
	if err := v.Get(v.API("deliveries"), with("limit", strconv.Itoa(rows)), &newest); err != nil {
		return err
	}
	p.recent, p.last = newest.Data, lastOf(newest.Data)
	n, more := countOf(v, "deliveries", with("status", "pending"))
	p.count(n, more)
	if !p.stopped() || n == 0 {
		return nil
	}
	if err := v.Get(v.API("deliveries"), with("status", "pending", "order", "asc", "limit", "5"), &oldest); err != nil {
		return err
	}
	if l := lastOf(oldest.Data); p.last == nil || l != nil && time.Time(l.At).After(time.Time(p.last.At)) {
		p.last = l
	}
	for i := range oldest.Data {
		d := &oldest.Data[i]
		ends := time.Time(d.ExpiresAt)
		if due := time.Time(d.DueAt); p.maxHold > 0 && !due.After(p.now) && (ends.IsZero() || due.Add(p.maxHold).Before(ends)) {
			ends = due.Add(p.maxHold)
		}
		if !ends.IsZero() && (p.expiring.IsZero() || ends.Before(p.expiring)) {
			p.expiring = ends
		}
	}
	return nil
}

// count takes what was counted just now over what the figures say.
func (p *one) count(pending int64, more bool) {
	g := &p.waiting
	rest := uint64(max(pending, 0))
	for _, other := range []*uint64{g.Retrying, g.Delayed} {
		if other != nil {
			rest -= min(*other, rest)
		}
	}
	to := &g.Ready
	if p.stopped() {
		to = &g.Held
	}
	if p.atLeast = more; more && *to != nil && **to >= rest {
		return
	}
	*to = &rest
}

// latest returns the newest gauges that somebody told of in the last minutes.
func latest(series []view.StatsPoint) (g view.Gauges) {
	for i := len(series) - 1; i >= max(0, len(series)-3); i-- {
		s := &series[i].Gauges
		if g.Ready == nil && s.Ready != nil {
			g.Ready, g.Delayed, g.Retrying, g.Held, g.OldestS = s.Ready, s.Delayed, s.Retrying, s.Held, s.OldestS
		}
		if g.InFlight == nil && s.InFlight != nil {
			g.InFlight, g.Limit, g.LimitLow = s.InFlight, s.Limit, s.LimitLow
		}
	}
	return g
}

// lastOf returns the latest attempt of some deliveries.
func lastOf(list []view.Delivery) *view.Last {
	var out *view.Last
	for i := range list {
		if l := list[i].Last; l != nil && (out == nil || time.Time(l.At).After(time.Time(out.At))) {
			out = l
		}
	}
	return out
}

// words is what the sentence is made of.
func (p *one) words() *words.Lane {
	l := &words.Lane{Lane: p.Lane, Endpoint: p.Endpoint, Waiting: p.waiting, Last: p.last, FirstExpires: p.expiring}
	l.ChangedAt, l.By, l.Note = p.paused.at, p.paused.by, p.paused.note
	if p.stopped() && p.atLeast { // the queue of the lane may say "at least"
		l.Waiting.Held = nil
	}
	return l
}

// since says since when the endpoint is as it is, beside the badge.
func (p *one) since() words.Text {
	from := func(what string, t time.Time) words.Text {
		return words.Text{
			{Text: what + " since "},
			{Text: words.Clock(t, p.now), Style: words.Moved, At: t},
			{Text: ", "},
			{Text: words.Duration(words.Since(t, p.now).Truncate(time.Second)), Style: words.Grows, At: t},
		}
	}
	switch {
	case p.Lane.Paused && !p.paused.at.IsZero():
		return from(p.Endpoint.Status, p.paused.at)
	case p.Lane.Paused:
		return nil
	case p.Lane.State == view.LaneOpen:
		return from("breaker open", time.Time(p.Lane.OpenedAt))
	case !time.Time(p.Lane.ClosedAt).IsZero():
		return from("delivering", time.Time(p.Lane.ClosedAt))
	default:
		return nil
	}
}
