package view

// Simulation is what a simulated outage showed. Times are seconds from the
// beginning of the run.
type Simulation struct {
	Seed        uint64  `json:"seed"`
	Destination string  `json:"destination"`
	Strategy    string  `json:"strategy"`
	Capacity    float64 `json:"capacity" doc:"Requests per second that the destination bears."`
	DownFrom    float64 `json:"down_from"`
	DownTo      float64 `json:"down_to"`
	Seconds     int     `json:"seconds" doc:"Length of the whole run, which ends two minutes after the drain."`

	StepSeconds int       `json:"step_seconds" doc:"What one value of arrivals and delivered stands for."`
	Arrivals    []int     `json:"arrivals" nullable:"false" doc:"Requests that came to the destination in the highest second of each step."`
	Delivered   []float64 `json:"delivered" nullable:"false" doc:"Events delivered per second, mean of each step."`

	RunFigures
	PeakAt int `json:"peak_at" doc:"When the highest second was."`

	Runs        int         `json:"runs" doc:"How many were played: with this seed, and with those after it."`
	CrashedRuns int         `json:"crashed_runs" doc:"Of them, those in which the destination crashed again."`
	Median      *RunFigures `json:"median" doc:"The middle of all runs, each figure for itself; null: there was one. What never happened is more than all else."`
}

// RunFigures are what came out of a run.
type RunFigures struct {
	Events           int      `json:"events"`
	Backlog          int      `json:"backlog" doc:"Events that waited when the destination came back."`
	PeakOverCapacity float64  `json:"peak_over_capacity" doc:"Highest second within 5 minutes of the recovery, over the capacity."`
	Recrashes        int      `json:"recrashes" doc:"Crashes by overload after the recovery; the run stops at ten."`
	DrainSeconds     *float64 `json:"drain_seconds" doc:"Time from the recovery until the backlog was gone; null: it was not within the run."`
	DrainOverOptimum *float64 `json:"drain_over_optimum" doc:"The same over the time that a sender would take who knew the capacity."`
	Dead             int      `json:"dead" doc:"Events given up."`
	Waste            float64  `json:"waste" doc:"Failed attempts per event."`
	LiveP99Seconds   *float64 `json:"live_p99_seconds" doc:"Extra delay of events accepted within 10 minutes of the recovery, 99th percentile."`
	DetectSeconds    *float64 `json:"detect_seconds" doc:"Time from the recovery to the first delivery."`
	MaxInFlight      int      `json:"max_in_flight"`
}
