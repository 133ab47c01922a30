package endpoints

import (
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

var stateShapes = map[words.State]chart.State{
	words.Delivering: chart.Delivering, words.Draining: chart.Draining, words.QueueGrowing: chart.QueueGrowing, words.SlowStart: chart.SlowStart,
	words.RetryStorm: chart.RetryStorm, words.ToldToWait: chart.ToldToWait, words.Probing: chart.Probing, words.Holding: chart.Holding,
	words.Paused: chart.Paused, words.Disabled: chart.Disabled,
}

var classShapes = map[string]chart.Class{
	"success": chart.Success, "down": chart.Down, "retryable": chart.Retryable, "throttle": chart.Throttle,
	"permanent": chart.Permanent, "limited": chart.Limited, "local": chart.Local,
}

// picture draws the lane.
func (p *one) picture() template.HTML {
	badge := p.State.Badge()
	g := &p.waiting
	l := chart.Lane{
		State: stateShapes[p.State], Badge: badge.Word, BadgeTitle: badge.API,
		Accepted: words.None, AcceptedNote: "15 m · " + words.Cut(strings.Join(p.Endpoint.Types, ", "), 24),
		Waiting: p.waitingInAll(), Largest: p.Charts.most,
		Queues: []chart.Queue{
			{Name: "ready", Style: chart.Ready, Count: whole(g.Ready)},
			{Name: "retry", Style: chart.Retry, Count: whole(g.Retrying)},
			{Name: "held", Style: chart.Held, Count: whole(g.Held)},
			{Name: "later", Style: chart.First, Count: whole(g.Delayed)},
		},
		Host: p.Address.Host,
	}
	full := complete(p.live.Series, time.Minute, p.now)
	for i := range full {
		l.Spark.Values = append(l.Spark.Values, float64(full[i].Accepted)/60)
	}
	if n := len(full); n > 0 {
		l.Accepted = words.PerSecond(float64(full[n-1].Accepted) / 60)
	}
	p.gate(&l)
	p.destination(&l, full)
	return l.HTML()
}

// waitingInAll adds up what waits.
func (p *one) waitingInAll() string {
	g := &p.waiting
	sum := whole(g.Ready) + whole(g.Retrying) + whole(g.Held) + whole(g.Delayed)
	return words.AtLeast(sum, p.atLeast && sum > 0)
}

func whole(n *uint64) int64 {
	if n == nil {
		return 0
	}
	return int64(min(*n, math.MaxInt64))
}

// gate says what passes the wall.
func (p *one) gate(l *chart.Lane) {
	until := func(before string, t time.Time) chart.Line {
		return chart.Line{{Text: before}, {Text: words.In(t, p.now), Bold: true, At: t, Count: chart.Until}}
	}
	switch p.State {
	case words.Paused, words.Disabled:
		l.Gate = []chart.Line{chart.Say("nothing leaves until it is resumed")}
		return
	case words.Holding, words.Probing:
		l.Gate = []chart.Line{chart.Say("nothing leaves but probes")}
		if at := time.Time(p.Lane.NextProbeAt); at.After(p.now) {
			l.Gate = append(l.Gate, until("next probe ", at))
		} else {
			l.Gate = append(l.Gate, chart.Say("a probe is due now"))
		}
		if n := p.Charts.probes; n > 0 {
			l.Gate = append(l.Gate, chart.Say(words.Count(n, "probe", "probes")+" in this window"))
		}
		return
	case words.ToldToWait:
		l.Gate = []chart.Line{chart.Say("the endpoint asked for quiet"), until("it ends ", time.Time(p.Lane.HoldUntil))}
	default:
	}
	limit := int(math.Round(p.Lane.Limit))
	flight := int(whole(p.waiting.InFlight))
	l.Slots = chart.Slots{Limit: limit, New: min(flight, limit)}
	l.Gate = append(l.Gate,
		chart.Line{{Text: "up to "}, {Text: words.Number(flight), Bold: true}, {Text: " of limit "}, {Text: words.Number(limit), Bold: true}, {Text: " in flight"}},
		chart.Say(p.Lane.LimitMode+" limit"))
	if by := p.Lane.PacedBy; by != nil && p.Lane.RatePerSecond != nil {
		l.Gate = append(l.Gate, chart.Say("at most "+words.Rate(*p.Lane.RatePerSecond)+", paced by "+*by))
	}
}

// destination says how the endpoint answers.
func (p *one) destination(l *chart.Lane, full []view.StatsPoint) {
	if a := p.last; a != nil {
		l.Answer, l.AnswerClass = words.Answer(a.StatusCode, a.Reason), classShapes[a.Class]
		l.AnswerAt = time.Time(a.At)
		l.AnswerNote = words.Age(l.AnswerAt, p.now)
		if a.LatencyMS > 0 {
			l.Destination = append(l.Destination, chart.Say("in "+words.Latency(a.LatencyMS)))
		}
	}
	if b := p.Lane.BaseLatencyMS; b != nil {
		l.Destination = append(l.Destination, chart.Say("base latency "+words.Latency(*b)))
	}
	var attempts, failed uint64
	for i := max(0, len(full)-5); i < len(full); i++ {
		attempts += full[i].First + full[i].Retry + full[i].Other
		failed += full[i].Failed
	}
	if attempts > 0 {
		l.Destination = append(l.Destination, chart.Say(words.Percent(100*float64(attempts-min(failed, attempts))/float64(attempts))+" of "+
			words.Count(attempts, "answer", "answers")+" in 5 min were 2xx"))
	}
}

// complete leaves out the piece of time that is not over.
func complete(series []view.StatsPoint, step time.Duration, now time.Time) []view.StatsPoint {
	for len(series) > 0 && time.Time(series[len(series)-1].At).Add(step).After(now) {
		series = series[:len(series)-1]
	}
	return series
}
