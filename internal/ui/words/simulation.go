package words

import (
	"math"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// destinations say what a simulated destination does.
var destinations = map[string]string{
	"queue":      "Work waits; more than 3 s of it crashes the destination for a minute.",
	"cold":       "As queue; it comes back with 30 % of its capacity, which grows for 2 minutes.",
	"black_hole": "As queue; while it is down requests time out instead of being refused.",
	"cliff":      "Always as fast, until one request too many in a second crashes it for 10 s.",
	"refuse":     "Answers 503 above its capacity.",
	"throttle":   "Answers 429 with Retry-After: 1 above its capacity.",
}

// Destination says what a simulated destination does; "" if it is none.
func Destination(name string) string { return destinations[name] }

// SimulationSentence says what became of a simulated outage.
func SimulationSentence(s *view.Simulation) Text {
	crashed := say(", and the endpoint does not crash again")
	if unbreakable(s) {
		crashed = nil
	}
	if s.Recrashes > 0 {
		crashed = say(", and the endpoint crashes again ", strong(Count(s.Recrashes, "time", "times")))
	}
	if s.Recrashes >= mostCrashes {
		crashed = say(crashed, ", where the run stops")
	}
	drained := say("The backlog of ", Count(s.Backlog, "event", "events"), " does not go away")
	if s.DrainSeconds != nil {
		drained = say("The backlog of ", Count(s.Backlog, "event", "events"), " is gone ", strong(Duration(lasts(*s.DrainSeconds))), " after the recovery")
	}
	lost := say("nothing is given up")
	if s.Dead > 0 {
		lost = say(strong(Percent(100*float64(s.Dead)/float64(max(s.Events, 1)))), " of all events are given up")
	}
	return say("Arrivals reach ", strong(times(s.PeakOverCapacity)), crashed, ". ", drained, ", and ", lost, ".")
}

// unbreakable reports whether no load makes the destination crash: it refuses what is
// too much.
func unbreakable(s *view.Simulation) bool {
	return s.Destination == "refuse" || s.Destination == "throttle"
}

// times is a multiple of the capacity.
func times(peak float64) string {
	if peak >= 9.95 {
		return Decimal(peak, 0) + " × capacity"
	}
	return Decimal(peak, 1) + " × capacity"
}

// mostCrashes is where a run stops.
const mostCrashes = 10

func lasts(s float64) time.Duration { return time.Duration(math.Round(s)) * time.Second }

// PeakNote is the text at the highest second of a simulation.
func PeakNote(s *view.Simulation) string {
	note := Rate(s.PeakOverCapacity*s.Capacity) + ", " + times(s.PeakOverCapacity)
	if s.Recrashes > 0 && s.PeakOverCapacity > 2 {
		return note + ": it crashes again"
	}
	return "peak " + note
}

// SimulationRow compares two simulations in one thing.
type SimulationRow struct{ Name, Own, Rival string }

// SimulationRows are the figures of a simulation, and of the one that it is compared
// with, if there is one.
func SimulationRows(own, rival *view.Simulation) []SimulationRow {
	var rows []SimulationRow
	for _, r := range []struct {
		name  string
		value func(*view.Simulation) string
	}{
		{"Crashed again", func(s *view.Simulation) string {
			switch {
			case unbreakable(s):
				return None
			case s.Recrashes == 0:
				return "no"
			}
			return Count(s.Recrashes, "time", "times")
		}},
		{"Peak arrivals", func(s *view.Simulation) string { return times(s.PeakOverCapacity) }},
		{"First delivery after the recovery", func(s *view.Simulation) string { return secondsOr(s.DetectSeconds, "never") }},
		{"Drained after", func(s *view.Simulation) string { return secondsOr(s.DrainSeconds, "never") }},
		{"Drain, times the optimum", func(s *view.Simulation) string {
			if s.DrainOverOptimum == nil {
				return None
			}
			return Decimal(*s.DrainOverOptimum, 2)
		}},
		{"Failed attempts per event", func(s *view.Simulation) string { return trim(s.Waste, 3) }},
		{"Given up", func(s *view.Simulation) string {
			if s.Dead == 0 {
				return "0"
			}
			return Number(s.Dead) + ", " + Percent(100*float64(s.Dead)/float64(max(s.Events, 1)))
		}},
		{"New events late, p99", func(s *view.Simulation) string { return secondsOr(s.LiveP99Seconds, None) }},
	} {
		row := SimulationRow{Name: r.name, Own: r.value(own)}
		if rival != nil {
			row.Rival = r.value(rival)
		}
		rows = append(rows, row)
	}
	return rows
}

func secondsOr(s *float64, none string) string {
	switch {
	case s == nil:
		return none
	case *s < 10:
		return trim(max(*s, 0), 1) + " s"
	default:
		return Duration(lasts(*s))
	}
}

// SpanSentence says how long the attempts of a policy stretch.
func SpanSentence(p *view.Policy) Text {
	if len(p.Ladder) == 0 {
		return say("There is one attempt, and no retry.")
	}
	span := func(text string) Part { return strong(spell(text)) }
	return say("From first to last attempt: mean ", span(p.Span.Mean), ", 9 of 10 deliveries between ", span(p.Span.P5), " and ", span(p.Span.P95),
		". An outage adds to this: holding uses up no attempts.")
}

// LadderSentence says what the picture of the waits shows.
func LadderSentence(p *view.Policy) string {
	if len(p.Ladder) == 0 {
		return "No retries."
	}
	var ceilings []string
	for _, s := range p.Ladder {
		ceilings = append(ceilings, spell(s.Ceiling))
	}
	last := p.Ladder[len(p.Ladder)-1].Attempt
	return strings.TrimSpace("Waits before attempts 2 to " + Number(last) + " with ceilings of " + list(ceilings, 12) + ".")
}
