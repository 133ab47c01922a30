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

// SimulationSentence says what became of a simulated outage: in the middle of all its
// runs, if there are several.
func SimulationSentence(s *view.Simulation) Text {
	f := figures(s)
	peak := say("Arrivals reach ", strong(times(f.PeakOverCapacity)))
	if s.Median != nil {
		peak = say("Median of ", strong(Number(s.Runs)), " runs: arrivals reach ", strong(times(f.PeakOverCapacity)))
	}
	return say(peak, crashes(s, f), backlogEnds(f))
}

// RunSentence says what became of the run that is shown.
func RunSentence(s *view.Simulation) Text {
	one := *s
	one.Median = nil
	return SimulationSentence(&one)
}

// figures are the median of all runs, or those of the only one.
func figures(s *view.Simulation) *view.RunFigures {
	if s.Median != nil {
		return s.Median
	}
	return &s.RunFigures
}

// crashes tells whether the destination crashes again, in a clause.
func crashes(s *view.Simulation, f *view.RunFigures) Text {
	var t Text
	switch {
	case s.Median != nil && s.CrashedRuns > 0:
		t = say(", and the endpoint crashes again in ", strong(Number(s.CrashedRuns)+" of them"))
	case f.Recrashes > 0:
		t = say(", and the endpoint crashes again ", strong(Count(f.Recrashes, "time", "times")))
	case !unbreakable(s):
		t = say(", and the endpoint does not crash again")
	}
	if f.Recrashes >= mostCrashes {
		t = say(t, ", where a run stops")
	}
	return say(t, ".")
}

// backlogEnds tells what becomes of the backlog, with a blank before it.
func backlogEnds(f *view.RunFigures) Text {
	drained := say(" The backlog of ", Count(f.Backlog, "event", "events"), " does not go away")
	if f.DrainSeconds != nil {
		drained = say(" The backlog of ", Count(f.Backlog, "event", "events"), " is gone ", strong(Duration(lasts(*f.DrainSeconds))), " after the recovery")
	}
	lost := say("nothing is given up")
	if f.Dead > 0 {
		lost = say(strong(Percent(100*float64(f.Dead)/float64(max(f.Events, 1)))), " of all events are given up")
	}
	return say(drained, ", and ", lost, ".")
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
	rows := []SimulationRow{{Name: "Crashed again", Own: crashedAgain(own)}}
	if rival != nil {
		rows[0].Rival = crashedAgain(rival)
	}
	for _, r := range []struct {
		name  string
		value func(*view.RunFigures) string
	}{
		{"Peak arrivals", func(f *view.RunFigures) string { return times(f.PeakOverCapacity) }},
		{"First delivery after the recovery", func(f *view.RunFigures) string { return secondsOr(f.DetectSeconds, "never") }},
		{"Drained after", func(f *view.RunFigures) string { return secondsOr(f.DrainSeconds, "never") }},
		{"Drain, times the optimum", func(f *view.RunFigures) string {
			if f.DrainOverOptimum == nil {
				return None
			}
			return Decimal(*f.DrainOverOptimum, 2)
		}},
		{"Failed attempts per event", func(f *view.RunFigures) string { return trim(f.Waste, 3) }},
		{"Given up", func(f *view.RunFigures) string {
			if f.Dead == 0 {
				return "0"
			}
			return Number(f.Dead) + ", " + Percent(100*float64(f.Dead)/float64(max(f.Events, 1)))
		}},
		{"New events late, p99", func(f *view.RunFigures) string { return secondsOr(f.LiveP99Seconds, None) }},
	} {
		row := SimulationRow{Name: r.name, Own: r.value(figures(own))}
		if rival != nil {
			row.Rival = r.value(figures(rival))
		}
		rows = append(rows, row)
	}
	return rows
}

// crashedAgain says how often.
func crashedAgain(s *view.Simulation) string {
	switch {
	case unbreakable(s):
		return None
	case s.Median != nil && s.CrashedRuns > 0:
		return "in " + Number(s.CrashedRuns) + " of " + Number(s.Runs) + " runs"
	case figures(s).Recrashes == 0:
		return "no"
	default:
		return Count(s.Recrashes, "time", "times")
	}
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
