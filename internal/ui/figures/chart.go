package figures

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// Picture is a chart with its legend.
type Picture struct {
	Legend, Chart template.HTML
	Empty         bool // there is nothing to draw yet
}

// base is what both charts have in common: one axis of time, and the moments with
// letters.
func (p *Pieces) base(marks []chart.Mark) chart.Plot {
	from, to := time.Time(p.stats.From), time.Time(p.stats.To)
	return chart.Plot{
		Window: chart.Window{From: from, To: to}, Times: p.times, Bucket: p.step, Half: true, Marks: marks,
	}
}

// Attempts are the attempts per second by kind, over what was accepted.
func (p *Pieces) Attempts(window string, marks []chart.Mark) Picture {
	first := p.perSecond(func(s *view.StatsPoint) uint64 { return s.First })
	retry := p.perSecond(func(s *view.StatsPoint) uint64 { return s.Retry })
	replay := p.perSecond(func(s *view.StatsPoint) uint64 { return s.Replay + s.Manual })
	accepted := p.perSecond(func(s *view.StatsPoint) uint64 { return s.Accepted })
	plot := p.base(marks)
	plot.Title = "Attempts per second by kind, last " + Spell(window)
	plot.Sentence = fmt.Sprintf("Lately %s first attempts and %s retries per second, %s accepted.",
		words.PerSecond(p.now(first)), words.PerSecond(p.now(retry)), words.PerSecond(p.now(accepted)))
	plot.Areas = []chart.Series{
		{Name: "first", Style: chart.First, Values: first},
		{Name: "retry", Style: chart.Retry, Values: retry},
		{Name: "replay", Style: chart.Replay, Values: replay},
	}
	plot.Lines = []chart.Series{{Name: "accepted", Style: chart.Accepted, Values: accepted}}
	for i := range p.list {
		if p.list[i].Probe > 0 {
			plot.Probes = append(plot.Probes, p.times[i].Add(p.step/2))
		}
	}
	return picture(&plot)
}

func picture(plot *chart.Plot) Picture {
	return Picture{Legend: chart.Legend(plot.Entries()), Chart: plot.HTML()}
}

// Pending is what waits, by what it waits for.
func (p *Pieces) Pending(window string, marks []chart.Mark) Picture {
	plot := p.base(marks)
	plot.Title, plot.Y = "Pending deliveries, last "+Spell(window), chart.Axis{Whole: true}
	plot.Sentence = "Nobody has counted yet what waits."
	gauge := func(of func(*view.Gauges) uint64) []float64 {
		return p.values(func(s *view.StatsPoint) float64 {
			if s.Gauges.Ready == nil {
				return math.NaN()
			}
			return float64(of(&s.Gauges))
		})
	}
	value := func(n *uint64) uint64 {
		if n == nil {
			return 0
		}
		return *n
	}
	ready := chart.Series{Name: "ready", Style: chart.Ready, Values: gauge(func(g *view.Gauges) uint64 { return value(g.Ready) + value(g.Delayed) })}
	retry := chart.Series{Name: "retry", Style: chart.Retry, Values: gauge(func(g *view.Gauges) uint64 { return value(g.Retrying) })}
	held := chart.Series{Name: "held", Style: chart.Held, Values: gauge(func(g *view.Gauges) uint64 { return value(g.Held) })}
	if g := p.latest(); g != nil {
		_, n, retrying, behind := p.pendingNow(g)
		ready.Now, retry.Now, held.Now = words.Number(n), words.Number(retrying), words.Number(behind)
		plot.Sentence = fmt.Sprintf("%s ready, %s to retry, %s held.", words.Number(n), words.Number(retrying), words.Number(behind))
	}
	plot.Areas = []chart.Series{ready, retry, held}
	out := picture(&plot)
	out.Empty = !slices.ContainsFunc(ready.Values, func(f float64) bool { return !math.IsNaN(f) })
	return out
}
