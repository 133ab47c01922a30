// Package figures makes the tiles and charts of a window of time, of one tenant or of
// all: the overview and the page of a tenant show the same ones. It is pure.
package figures

import (
	"html/template"
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// Tile is a number with its course and one fact. The template "tiles" shows it.
type Tile struct {
	Name        string
	Value, Unit string
	And, AndOf  string // a second value and its unit; empty: none
	Fact        string
	Tone        string // of the fact: neg, amber; empty: none
	Wide        bool
	Spark       template.HTML
	Link        string
}

// Pieces are the series of a window without its ends that are not complete: rates of
// them would be too low.
type Pieces struct {
	stats *view.Stats
	list  []view.StatsPoint
	times []time.Time
	step  time.Duration
}

// Tiles are the numbers of a tenant, or of all.
func (p *Pieces) Tiles(o *view.Overview, window string, link func(path string, pairs ...any) string) []Tile {
	list := []Tile{
		p.accepted(window), p.delivered(), p.success(), p.retries(), storms(o),
		breakers(o), p.latency(), p.waiting(), deadLetters(o, p),
	}
	for i, to := range []string{
		link("/ui/deliveries"), link("/ui/deliveries", "status", "delivered"), link("/ui/dead-letters"),
		link("/ui/deliveries", "status", "retrying"), link("/ui/endpoints", "storm", "true"),
		link("/ui/endpoints", "state", "open"), link("/ui/endpoints"),
		link("/ui/deliveries", "status", "pending"), link("/ui/dead-letters"),
	} {
		list[i].Link = to
	}
	return list
}

// Of returns the pieces of a window.
func Of(s *view.Stats) *Pieces {
	p := &Pieces{stats: s, list: s.Series, step: time.Duration(s.StepSeconds) * time.Second}
	if n := len(p.list); n > 0 && time.Time(p.list[n-1].At).Add(p.step).After(time.Time(s.To)) {
		p.list = p.list[:n-1]
	}
	if len(p.list) > 0 && time.Time(p.list[0].At).Before(time.Time(s.From)) {
		p.list = p.list[1:]
	}
	for i := range p.list {
		p.times = append(p.times, time.Time(p.list[i].At))
	}
	return p
}

// values returns one figure of every piece.
func (p *Pieces) values(of func(*view.StatsPoint) float64) []float64 {
	out := make([]float64, len(p.list))
	for i := range p.list {
		out[i] = of(&p.list[i])
	}
	return out
}

// perSecond returns a count of every piece as a rate.
func (p *Pieces) perSecond(of func(*view.StatsPoint) uint64) []float64 {
	return p.values(func(s *view.StatsPoint) float64 { return float64(of(s)) / p.step.Seconds() })
}

// lately is how much of the end of a window tells how things are now.
const lately = 5 * time.Minute

// now is the mean of the last minutes.
func (p *Pieces) now(rates []float64) float64 {
	n := min(max(int(lately/max(p.step, 1)), 1), len(rates))
	if n == 0 {
		return 0
	}
	sum := 0.0
	for _, r := range rates[len(rates)-n:] {
		sum += r
	}
	return sum / float64(n)
}

func spark(values []float64) template.HTML {
	return chart.Spark{Values: values}.HTML()
}

func (p *Pieces) accepted(window string) Tile {
	rates := p.perSecond(func(s *view.StatsPoint) uint64 { return s.Accepted })
	t := Tile{Name: "Accepted", Value: words.PerSecond(p.now(rates)), Unit: "/s", Spark: spark(rates)}
	t.Fact = words.Short(p.stats.Totals.Accepted) + " in " + Spell(window)
	if n := p.stats.Totals.Events; n != p.stats.Totals.Accepted {
		t.Fact += " of " + words.Short(n) + plural(n, " event", " events")
	}
	return t
}

func (p *Pieces) delivered() Tile {
	rates := p.perSecond(func(s *view.StatsPoint) uint64 { return s.Delivered })
	t := Tile{Name: "Delivered", Value: words.PerSecond(p.now(rates)), Unit: "/s", Spark: spark(rates)}
	accepted := p.now(p.perSecond(func(s *view.StatsPoint) uint64 { return s.Accepted }))
	switch off := p.now(rates) - accepted; {
	case math.Abs(off) < max(0.02*accepted, 0.05):
		t.Fact = "as many as accepted"
	case off > 0:
		t.Fact = words.PerSecond(off) + "/s more than accepted"
	default:
		t.Fact = words.PerSecond(-off) + "/s less than accepted"
	}
	return t
}

// goodShare is the least success rate that looks usual, of 1.
const goodShare = 0.99

func (p *Pieces) success() Tile {
	t := Tile{Name: "Success rate", Value: words.None}
	rates := p.values(func(s *view.StatsPoint) float64 {
		if s.Delivered+s.Dead == 0 {
			return math.NaN()
		}
		return float64(s.Delivered) / float64(s.Delivered+s.Dead)
	})
	tone := chart.Calm
	if r := p.stats.SuccessRate; r != nil {
		t.Value, t.Unit = words.Decimal(100**r, 1), "%"
		if *r < goodShare {
			tone = chart.Warn
		}
	}
	t.Spark = chart.Spark{Values: rates, Top: 1, Tone: tone}.HTML()
	switch n := p.stats.Totals.Dead; n {
	case 0:
		t.Fact = "nothing given up"
	default:
		t.Fact = words.Short(n) + " given up"
	}
	return t
}

func (p *Pieces) retries() Tile {
	ratios := p.values(func(s *view.StatsPoint) float64 { return float64(s.Retry) / float64(max(s.First, 1)) })
	return Tile{
		Name: "Retry ratio", Value: words.Ratio(p.stats.RetryRatio), Spark: spark(ratios),
		Fact: words.Short(p.stats.Totals.Retry) + plural(p.stats.Totals.Retry, " retry", " retries") + " for " + words.Short(p.stats.Totals.First) + " first",
	}
}

func storms(o *view.Overview) Tile {
	t := Tile{Name: "Retry storms", Value: words.Number(o.Storms), Fact: "no endpoint is in one"}
	if o.Storms > 0 {
		t.Fact, t.Tone = "retries outnumber first attempts", "neg"
		for i := range o.WorstEndpoints {
			if w := &o.WorstEndpoints[i]; w.Storm {
				t.Fact = words.OfURL(w.URL, 0).Host
				break
			}
		}
	}
	return t
}

func breakers(o *view.Overview) Tile {
	b := o.Breakers
	all := b.Closed + b.Open + b.HalfOpen
	t := Tile{Name: "Breakers open", Value: words.Number(b.Open + b.HalfOpen), Fact: "of " + words.Number(all) + plural(all, " endpoint", " endpoints")}
	if b.HalfOpen > 0 {
		t.Fact += ", " + words.Number(b.HalfOpen) + " probing"
	}
	if b.Open+b.HalfOpen == 1 {
		for i := range o.WorstEndpoints {
			if w := &o.WorstEndpoints[i]; w.State != view.LaneClosed && w.Status == "active" {
				t.Fact, t.Tone = words.OfURL(w.URL, 0).Host, "neg"
			}
		}
	}
	return t
}

func (p *Pieces) latency() Tile {
	t := Tile{Name: "Accepted to 2xx, p50 and p99", Wide: true, Value: words.None, Fact: "what was retried or held counts too"}
	if l := p.stats.DeliveryMS; l.P50 != nil && l.P99 != nil {
		t.Value, t.And = words.Latency(*l.P50), words.Latency(*l.P99)
	}
	t.Spark = spark(p.values(func(s *view.StatsPoint) float64 {
		if s.DeliveryMS.P50 == nil {
			return math.NaN()
		}
		return *s.DeliveryMS.P50
	}))
	return t
}

func (p *Pieces) waiting() Tile {
	t := Tile{Name: "Pending", Value: words.None, Fact: "not counted yet"}
	g := p.latest()
	if g == nil {
		return t
	}
	pending, ready, retrying, held := p.pendingNow(g)
	t.Value = words.Number(pending)
	switch {
	case pending == 0:
		t.Fact = "everything has been sent"
	case ready+retrying+held == 0:
		t.Fact = "what for is counted every minute"
	case held > 0:
		t.Fact = words.Short(held) + " held, " + words.Short(retrying) + " to retry"
	default:
		t.Fact = words.Short(ready) + " ready, " + words.Short(retrying) + " to retry"
	}
	t.Spark = spark(p.values(func(s *view.StatsPoint) float64 { return sum(&s.Gauges) }))
	return t
}

func deadLetters(o *view.Overview, p *Pieces) Tile {
	d := o.DeadLetters
	t := Tile{Name: "Dead letters", Value: words.Number(d.Total), Fact: "none in the last hour"}
	if d.AtLeast {
		t.Value = words.Short(d.Total) + "+"
	}
	if d.LastHour > 0 {
		t.Fact, t.Tone = "+"+words.Short(d.LastHour)+" in the last hour", "amber"
	}
	t.Spark = spark(p.perSecond(func(s *view.StatsPoint) uint64 { return s.Dead }))
	return t
}

// latest returns the newest gauges that somebody has told: of a piece that is over, if
// there is one, because others may not be counted in full.
func (p *Pieces) latest() *view.Gauges {
	for _, list := range [][]view.StatsPoint{p.list, p.stats.Series} {
		for i := len(list) - 1; i >= 0; i-- {
			if g := &list[i].Gauges; g.Ready != nil || g.Pending != nil {
				return g
			}
		}
	}
	return nil
}

func (p *Pieces) pendingNow(g *view.Gauges) (pending, ready, retrying, held uint64) {
	of := func(n *uint64) uint64 {
		if n == nil {
			return 0
		}
		return *n
	}
	ready, retrying, held = of(g.Ready)+of(g.Delayed), of(g.Retrying), of(g.Held)
	return max(of(g.Pending), ready+retrying+held), ready, retrying, held
}

// sum is all that waited, not a number if nobody looked.
func sum(g *view.Gauges) float64 {
	if g.Ready == nil && g.Pending == nil {
		return math.NaN()
	}
	n := 0.0
	for _, part := range []*uint64{g.Ready, g.Delayed, g.Retrying, g.Held} {
		if part != nil {
			n += float64(*part)
		}
	}
	if n == 0 && g.Pending != nil {
		n = float64(*g.Pending)
	}
	return n
}

// Spell writes a window as people do.
func Spell(window string) string {
	return map[string]string{"15m": "15 m", "1h": "1 h", "24h": "24 h", "7d": "7 d"}[window]
}

func plural[N words.Integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
