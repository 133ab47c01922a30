package sim

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
	return s
}

func spread(results []Result, of func(*Result) float64) (median, most Measure) {
	values := make([]float64, len(results))
	for i := range results {
		values[i] = of(&results[i])
	}
	return Quantile(values, 0.5), Quantile(values, 1)
}
