package bench

import "slices"

// Figure is one quantity over the rounds.
type Figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// figureOf returns the zero figure for no values.
func figureOf(values []float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Figure{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// over collects one quantity of all measurements.
func over(rounds []*Measure, value func(*Measure) float64) Figure {
	values := make([]float64, len(rounds))
	for i, m := range rounds {
		values[i] = value(m)
	}
	return figureOf(values)
}

// ratios divides round by round: both subjects were measured in the same mood
// of the machine. It is the zero figure when there is nothing to compare with.
func ratios(rounds, base []*Measure, value func(*Measure) float64) Figure {
	var values []float64
	for i := range min(len(rounds), len(base)) {
		if v := value(base[i]); v > 0 {
			values = append(values, value(rounds[i])/v)
		}
	}
	return figureOf(values)
}

// Figures are the quantities of one subject in one row.
type Figures struct {
	Delivered Figure `json:"delivered_per_second"`
	Accepted  Figure `json:"accepted_per_second"`
	Ratio     Figure `json:"delivered_over_relay,omitzero"`
	CPURatio  Figure `json:"server_cpu_over_relay,omitzero"`

	AcceptP50   Figure `json:"accept_p50_ms"`
	AcceptP99   Figure `json:"accept_p99_ms"`
	AcceptP999  Figure `json:"accept_p999_ms"`
	ArrivalP50  Figure `json:"arrival_p50_ms"`
	ArrivalP99  Figure `json:"arrival_p99_ms"`
	ArrivalP999 Figure `json:"arrival_p999_ms"`

	ServerCPU    Figure `json:"server_cpu_us"`
	DatabaseCPU  Figure `json:"database_cpu_us"`
	GeneratorCPU Figure `json:"generator_cpu_us"`
	OtherCPU     Figure `json:"other_cpu_share"`

	PeakMemory     Figure `json:"peak_memory_bytes"`
	DatabaseMemory Figure `json:"database_memory_bytes"`
	Written        Figure `json:"written_bytes_per_event"`

	// Sums over the rounds.
	Lost    int64 `json:"lost"`
	Again   int64 `json:"duplicates"`
	Refused int64 `json:"refused"`
}

func figuresOf(rounds, relay []*Measure) Figures {
	f := Figures{
		Delivered:      over(rounds, (*Measure).delivered),
		Accepted:       over(rounds, func(m *Measure) float64 { return m.Accepted }),
		Ratio:          ratios(rounds, relay, (*Measure).delivered),
		CPURatio:       ratios(rounds, relay, (*Measure).serverCPU),
		AcceptP50:      over(rounds, func(m *Measure) float64 { return m.Accept.P50 }),
		AcceptP99:      over(rounds, func(m *Measure) float64 { return m.Accept.P99 }),
		AcceptP999:     over(rounds, func(m *Measure) float64 { return m.Accept.P999 }),
		ArrivalP50:     over(rounds, func(m *Measure) float64 { return m.Arrival.P50 }),
		ArrivalP99:     over(rounds, func(m *Measure) float64 { return m.Arrival.P99 }),
		ArrivalP999:    over(rounds, func(m *Measure) float64 { return m.Arrival.P999 }),
		ServerCPU:      over(rounds, (*Measure).serverCPU),
		DatabaseCPU:    over(rounds, func(m *Measure) float64 { return m.DatabaseCPU }),
		GeneratorCPU:   over(rounds, func(m *Measure) float64 { return m.GeneratorCPU }),
		OtherCPU:       over(rounds, func(m *Measure) float64 { return m.OtherCPU }),
		PeakMemory:     over(rounds, func(m *Measure) float64 { return float64(m.PeakMemory) }),
		DatabaseMemory: over(rounds, func(m *Measure) float64 { return float64(m.DatabaseMemory) }),
		Written:        over(rounds, func(m *Measure) float64 { return m.Written }),
	}
	for _, m := range rounds {
		f.Lost += m.Lost
		f.Again += m.Again
		f.Refused += m.Refused
	}
	return f
}

func (m *Measure) delivered() float64 { return m.Delivered }
func (m *Measure) serverCPU() float64 { return m.ServerCPU }
