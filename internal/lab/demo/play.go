package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// phase is where the performance stands.
type phase int

const (
	calmBefore phase = iota
	outage
	drain
	calmAfter
	lastEvents
	over
)

func (p phase) words(d *Demo) string {
	switch p {
	case outage:
		return fmt.Sprintf("The endpoint is down for %v. New events keep coming.", d.cfg.Outage)
	case drain:
		return "The endpoint is back. Everything that waited wants to go out now."
	case calmAfter, lastEvents:
		return "Breakwater has delivered all that waited."
	case calmBefore, over:
	}
	return fmt.Sprintf("All is well: %.0f events a second, to an endpoint that bears %.0f.", d.cfg.Rate, d.capacity())
}

// back is when the endpoint comes back.
func (d *Demo) back() time.Duration { return calm + d.cfg.Outage }

// look takes down how both sides stand.
func (d *Demo) look(ctx context.Context) (Scene, error) {
	lane, err := d.server.lane(ctx)
	if err != nil {
		return Scene{}, err
	}
	s := Scene{At: d.passed(), Capacity: d.capacity(), Plain: d.plain.look(d.plain.loop.given.Load()), Ours: d.ours.look(d.server.accepted.Load())}
	s.Ours.Lane = laneWords(lane, time.Now())
	s.Beside, s.BesideOf = delivered(d.beside.sink.Report()), d.server.accepted.Load()
	s.First = firstWords(d.beside)
	d.hear(&s, lane)
	d.mu.Lock()
	s.Moments = d.last
	d.mu.Unlock()
	return s, nil
}

func (e *side) look(given int64) Side {
	r := e.sink.Report()
	return Side{
		Bars: e.bars(), Given: given, Waiting: max(given-delivered(r), 0), Delivered: delivered(r),
		Crashes: r.Crashes, WhileDown: r.WhileDown, Peak: r.MaxPerSecond, Twice: r.Duplicates,
	}
}

// hear tells what has happened since the last look.
func (d *Demo) hear(s *Scene, lane view.Lane) {
	for _, e := range []struct {
		side *side
		now  *Side
		who  string
	}{{d.plain, &s.Plain, "the retry loop"}, {d.ours, &s.Ours, "Breakwater"}} {
		if e.side.seen.crashes < e.now.Crashes {
			e.side.seen.crashes = e.now.Crashes
			d.tellCrash(e.who, e.now.Crashes)
		}
		if s.At > d.back() && e.side.seen.drained == 0 && float64(e.now.Waiting) <= d.cfg.Rate/2 {
			e.side.seen.drained = s.At - d.back()
			d.tell(Good, "%s: nothing waits any more, %.0f s after the endpoint came back", e.who, e.side.seen.drained.Seconds())
		}
	}
	open := lane.State == view.LaneOpen
	switch {
	case open && !d.ours.seen.open:
		d.tell(Fair, "Breakwater's breaker opened: one probe at a time from now on, nothing else")
	case !open && d.ours.seen.open:
		d.tell(Good, "Breakwater: a probe came through; what waits follows at a pace that the endpoint bears")
	}
	d.ours.seen.open = open
}

// tellCrash tells of crashes. Many are one moment that goes on.
func (d *Demo) tellCrash(who string, times int64) {
	d.mu.Lock()
	d.last = slices.DeleteFunc(slices.Clone(d.last), func(m Moment) bool { return m.Mood == Bad && strings.HasPrefix(m.Words, who) })
	d.mu.Unlock()
	if times == 1 {
		d.tell(Bad, "%s crashed the endpoint again: more than %.0f requests in a second", who, d.capacity())
		return
	}
	d.tell(Bad, "%s crashed the endpoint again, %d times so far", who, times)
}

// advance goes on to the next phase when its time has come.
func (d *Demo) advance(p phase, s *Scene) phase {
	switch {
	case s.At > d.cfg.Longest:
		return over
	case p == calmBefore && s.At >= calm:
		for _, e := range []*side{d.plain, d.ours} {
			// It serves on this machine and takes what it is told.
			_ = e.goDown(context.Background(), d.cfg.Outage)
		}
		d.tell(Bad, "both endpoints go down for %v", d.cfg.Outage)
		return outage
	case p == outage && s.At >= d.back():
		d.tell(Fair, "both endpoints are back, with %d events waiting", s.Ours.Waiting)
		return drain
	case p == drain && d.ours.seen.drained > 0:
		return calmAfter
	case p == calmAfter && s.At > d.back()+d.ours.seen.drained+calm:
		d.stopEvents()
		return lastEvents
	case p == lastEvents && s.Ours.Waiting == 0:
		return over
	}
	return p
}

// laneWords say what Breakwater does at the moment.
func laneWords(l view.Lane, now time.Time) string {
	probe := time.Time(l.NextProbeAt).Sub(now)
	switch {
	case l.State == view.LaneOpen && probe > 0:
		return fmt.Sprintf("breaker open, next probe in %.0f s", probe.Seconds())
	case l.State == view.LaneOpen:
		return "breaker open, probing"
	case l.PacedBy != nil && l.RatePerSecond != nil:
		why := map[string]string{"recovery": "it has just come back", "ceiling": "more broke it before", "throttle": "it refused more"}[*l.PacedBy]
		return fmt.Sprintf("breaker closed, %.0f requests a second: %s", *l.RatePerSecond, why)
	default:
		return fmt.Sprintf("breaker closed, up to %.0f requests in flight", l.Limit)
	}
}

// firstWords show an event as it arrives.
func firstWords(g *stage) []string {
	h := g.firstHeader()
	if h == nil {
		return nil
	}
	return []string{
		"POST /hooks  " + string(payload(1)),
		"webhook-id: " + h.Get("Webhook-Id") + "  webhook-timestamp: " + h.Get("Webhook-Timestamp"),
		"webhook-signature: " + h.Get("Webhook-Signature"),
	}
}
