package sim

import "slices"

// Summary is what the runs of one scenario and strategy showed together.
type Summary struct {
	Runs        int     `json:"runs"`
	Recrashes   int     `json:"recrashes"`     // of all runs
	Recrashed   float64 `json:"recrash_share"` // share of runs with at least one
	Peak        Measure `json:"peak_median"`
	PeakMax     Measure `json:"peak_max"`
	Drain       Measure `json:"drain_median"`
	DrainMax    Measure `json:"drain_max"`
	Waste       Measure `json:"waste_median"`
	Dead        Measure `json:"dead_median"`
	DeadMax     Measure `json:"dead_max"`
	LiveP99     Measure `json:"live_p99_median_seconds"`
	Detect      Measure `json:"detect_median_seconds"`
	DetectMax   Measure `json:"detect_max_seconds"`
	Throttled   Measure `json:"throttled_median"`
	BrokenHolds int     `json:"broken_holds"` // of all runs
	InFlight    int     `json:"max_in_flight"`

	RecrashesMax    Measure `json:"recrashes_max"`
	DrainSeconds    Measure `json:"drain_median_seconds"`
	DrainSecondsMax Measure `json:"drain_max_seconds"`
	Waiting         int     `json:"max_waiting"` // worst run
	Undrained       int     `json:"undrained"`   // outages of all runs

	First   RecoverySummary `json:"first"`
	Between Measure         `json:"crashes_between_max"`
	Second  RecoverySummary `json:"second"` // nothing is known without a second outage
}

// RecoverySummary is what the runs showed of the first outage, or of the second.
type RecoverySummary struct {
	Crashes    Measure `json:"crashes_median"`
	CrashesMax Measure `json:"crashes_max"`
	Drain      Measure `json:"drain_median"`
	DrainMax   Measure `json:"drain_max"`
	Waste      Measure `json:"waste_median"`
	WasteMax   Measure `json:"waste_max"`
	FoundMax   Measure `json:"found_max_seconds"`
}

// Summarise puts results together.
func Summarise(results []Result) Summary {
	s := Summary{Runs: len(results)}
	crashed := 0
	for i := range results {
		r := &results[i]
		s.Recrashes += r.Crashes
		s.BrokenHolds += r.BrokenHolds
		s.InFlight = max(s.InFlight, r.InFlight)
		if r.Crashes > 0 {
			crashed++
		}
	}
	if s.Runs > 0 {
		s.Recrashed = float64(crashed) / float64(s.Runs)
	}
	s.Peak, s.PeakMax = spread(results, func(r *Result) float64 { return r.Peak })
	s.Drain, s.DrainMax = spread(results, func(r *Result) float64 { return float64(r.Drain) })
	s.Waste, _ = spread(results, func(r *Result) float64 { return r.Waste })
	s.Dead, s.DeadMax = spread(results, func(r *Result) float64 { return r.Dead })
	s.LiveP99, _ = spread(results, func(r *Result) float64 { return float64(r.LiveP99) })
	s.Detect, s.DetectMax = spread(results, func(r *Result) float64 { return float64(r.Detect) })
	s.Throttled, _ = spread(results, func(r *Result) float64 { return r.Throttled })
	_, s.RecrashesMax = spread(results, func(r *Result) float64 { return float64(r.Crashes) })
	s.DrainSeconds, s.DrainSecondsMax = spread(results, func(r *Result) float64 { return float64(r.DrainSeconds) })
	_, s.Between = spread(results, func(r *Result) float64 { return float64(r.Between) })
	var first, second []*Recovery
	for i := range results {
		r := &results[i]
		s.Waiting = max(s.Waiting, r.Waiting)
		first = append(first, &r.First)
		if r.Second != nil {
			second = append(second, r.Second)
		}
	}
	s.First, s.Second = summariseRecoveries(first), summariseRecoveries(second)
	for _, r := range slices.Concat(first, second) {
		if !r.DrainSeconds.Known() {
			s.Undrained++
		}
	}
	return s
}

func summariseRecoveries(list []*Recovery) RecoverySummary {
	var u RecoverySummary
	u.Crashes, u.CrashesMax = spread(list, func(r **Recovery) float64 { return float64((*r).Crashes) })
	u.Drain, u.DrainMax = spread(list, func(r **Recovery) float64 { return float64((*r).Drain) })
	u.Waste, u.WasteMax = spread(list, func(r **Recovery) float64 { return float64((*r).Waste) })
	_, u.FoundMax = spread(list, func(r **Recovery) float64 { return float64((*r).Found) })
	return u
}

func spread[T any](results []T, of func(*T) float64) (median, most Measure) {
	values := make([]float64, len(results))
	for i := range results {
		values[i] = of(&results[i])
	}
	return Quantile(values, 0.5), Quantile(values, 1)
}
