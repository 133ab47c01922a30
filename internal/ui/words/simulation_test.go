package words_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func TestSimulationSentences(t *testing.T) {
	t.Parallel()
	calm := view.Simulation{Capacity: 50, RunFigures: view.RunFigures{
		Events: 21_633, Backlog: 7429, PeakOverCapacity: 1.28, DrainSeconds: new(331.2), DrainOverOptimum: new(1.11), Waste: 0.0031, DetectSeconds: new(4.26),
	}}
	storm := view.Simulation{Capacity: 50, RunFigures: view.RunFigures{Events: 32_285, Backlog: 1, PeakOverCapacity: 277.94, Recrashes: 10, Dead: 16_223, Waste: 3.51}}
	few := calm
	few.Recrashes, few.Dead = 1, 1
	refusing := calm
	refusing.Destination = "refuse"
	several, crashing := storm, calm // the run that is shown is not the middle of all
	several.Runs, several.Median = 13, &calm.RunFigures
	crashing.Runs, crashing.CrashedRuns, crashing.Median = 20, 11, &storm.RunFigures
	same(t, "the run shown", words.RunSentence(&several).String(), words.SimulationSentence(&storm).String())
	for want, s := range map[string]view.Simulation{
		"Median of 13 runs: arrivals reach 1.3 × capacity, and the endpoint does not crash again. The backlog of 7,429 events is gone 5 m 31 s after the recovery, and nothing is given up.":                 several,
		"Median of 20 runs: arrivals reach 278 × capacity, and the endpoint crashes again in 11 of them, where a run stops. The backlog of 1 event does not go away, and 50.2 % of all events are given up.": crashing,
		"Arrivals reach 1.3 × capacity, and the endpoint does not crash again. The backlog of 7,429 events is gone 5 m 31 s after the recovery, and nothing is given up.":                                    calm,
		"Arrivals reach 278 × capacity, and the endpoint crashes again 10 times, where a run stops. The backlog of 1 event does not go away, and 50.2 % of all events are given up.":                         storm,
		"Arrivals reach 1.3 × capacity, and the endpoint crashes again 1 time. The backlog of 7,429 events is gone 5 m 31 s after the recovery, and < 0.01 % of all events are given up.":                    few,
		"Arrivals reach 1.3 × capacity. The backlog of 7,429 events is gone 5 m 31 s after the recovery, and nothing is given up.":                                                                           refusing,
	} {
		same(t, "simulation", words.SimulationSentence(&s).String(), want)
		checkStyle(t, "simulation", want)
	}
	same(t, "calm peak", words.PeakNote(&calm), "peak 64/s, 1.3 × capacity")
	same(t, "storm peak", words.PeakNote(&storm), "13,897/s, 278 × capacity: it crashes again")
	rows := words.SimulationRows(&calm, &storm)
	for _, want := range []words.SimulationRow{
		{Name: "Crashed again", Own: "no", Rival: "10 times"},
		{Name: "First delivery after the recovery", Own: "4.3 s", Rival: "never"},
		{Name: "Drained after", Own: "5 m 31 s", Rival: "never"},
		{Name: "Failed attempts per event", Own: "0.003", Rival: "3.51"},
		{Name: "Given up", Own: "0", Rival: "16,223, 50.2 %"},
	} {
		found := false
		for _, r := range rows {
			found = found || r == want
		}
		if !found {
			t.Errorf("no %+v in %+v", want, rows)
		}
	}
	if r := words.SimulationRows(&several, &crashing)[0]; r.Own != "no" || r.Rival != "in 11 of 20 runs" {
		t.Errorf("several runs: %+v", r)
	}
	for _, r := range words.SimulationRows(&storm, nil) {
		if r.Rival != "" {
			t.Errorf("a rival that there is not: %+v", r)
		}
	}
	for _, d := range []string{"queue", "cold", "black_hole", "cliff", "refuse", "throttle"} {
		checkStyle(t, d, words.Destination(d))
		if words.Destination(d) == "" {
			t.Errorf("%s says nothing", d)
		}
	}
}

func TestWaitSentences(t *testing.T) {
	t.Parallel()
	p := view.Policy{Ladder: []view.Step{{Attempt: 2, Ceiling: "30s"}, {Attempt: 3, Ceiling: "1m30s"}}, Span: view.Span{Mean: "1m1s", P5: "10s", P95: "1m50s"}}
	same(t, "span", words.SpanSentence(&p).String(), "From first to last attempt: mean 1 m 01 s, 9 of 10 deliveries between 10 s and 1 m 50 s. An outage adds to this: holding uses up no attempts.")
	same(t, "ladder", words.LadderSentence(&p), "Waits before attempts 2 to 3 with ceilings of 30 s and 1 m 30 s.")
	same(t, "no retries", words.SpanSentence(&view.Policy{}).String(), "There is one attempt, and no retry.")
}
