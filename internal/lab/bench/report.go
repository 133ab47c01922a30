package bench

import (
	"fmt"
	"slices"
	"time"
)

// Report is everything a benchmark found, and on what.
type Report struct {
	Kind     string      `json:"kind"`
	Version  string      `json:"version"`
	Started  time.Time   `json:"started"`
	Seconds  float64     `json:"seconds"`
	Machine  Machine     `json:"machine"`
	Settings Settings    `json:"settings"`
	Rows     []RowReport `json:"rows"`
	Facts    []Fact      `json:"facts,omitempty"`
	Goals    []Goal      `json:"goals"`
	Skipped  []Skip      `json:"skipped,omitempty"`
}

// Settings are how it was measured.
type Settings struct {
	Rounds    int     `json:"rounds"`
	WarmUp    float64 `json:"warm_up_seconds"`
	Duration  float64 `json:"duration_seconds"`
	Endpoints int     `json:"endpoints"`
	Product   string  `json:"product"`
	Database  string  `json:"database,omitempty"`
	Profiled  bool    `json:"profiled,omitempty"`
}

// RowReport is one row with all its subjects.
type RowReport struct {
	Row

	Text    string   `json:"about"`
	Results []Result `json:"results"`
}

// Result is one subject in one row.
type Result struct {
	Subject Subject    `json:"subject"`
	Figures Figures    `json:"figures"`
	Rounds  []*Measure `json:"rounds"`
}

// Fact is a figure that is no part of a row.
type Fact struct {
	Subject Subject `json:"subject"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

// newReport notes the facts that hold for the whole run.
func (b *Bench) newReport(kind string) (*Report, error) {
	machine, err := describeMachine(b.place.dir)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Kind: kind, Version: b.cfg.Version, Started: time.Now().UTC().Truncate(time.Second),
		Machine: machine, Skipped: b.skipped,
		Settings: Settings{
			Rounds: b.cfg.Rounds, WarmUp: b.cfg.WarmUp.Seconds(), Duration: b.cfg.Duration.Seconds(),
			Endpoints: b.cfg.Groups, Product: "defaults, with --dev for destinations on this machine",
			Profiled: b.cfg.ProfileDir != "",
		},
	}
	if b.postgres != nil {
		r.Machine.Postgres = b.postgres.version
		r.Settings.Database = "given by --database-url; its CPU and memory are unknown"
		if b.postgres.own != nil {
			r.Settings.Database = "temporary, on this machine, with the settings that Postgres comes with"
		}
	}
	return r, nil
}

// add notes a measurement.
func (r *Report) add(row *Row, s Subject, m *Measure) {
	r.addAs(row, row.About(), s, m)
}

// addAs notes a measurement in a row that is described by a text.
func (r *Report) addAs(row *Row, text string, s Subject, m *Measure) {
	at := slices.IndexFunc(r.Rows, func(x RowReport) bool { return x.Name == row.Name })
	if at < 0 {
		at = len(r.Rows)
		r.Rows = append(r.Rows, RowReport{Row: *row, Text: text})
	}
	results := &r.Rows[at].Results
	i := slices.IndexFunc(*results, func(x Result) bool { return x.Subject == s })
	if i < 0 {
		i = len(*results)
		*results = append(*results, Result{Subject: s})
	}
	(*results)[i].Rounds = append((*results)[i].Rounds, m)
}

// conclude computes what follows from the measurements.
func (r *Report) conclude(now time.Time) {
	r.Seconds = now.Sub(r.Started).Round(time.Second).Seconds()
	for i := range r.Rows {
		row := &r.Rows[i]
		var relay []*Measure
		// In an open loop everybody delivers what it is offered.
		if res := row.result(Relay); res != nil && row.Share == 0 {
			relay = res.Rounds
		}
		for j := range row.Results {
			row.Results[j].Figures = figuresOf(row.Results[j].Rounds, relay)
		}
	}
	r.Goals = append(r.Goals, r.comparisonGoals()...)
	r.compareWithPlain()
	r.compareTwins()
}

// compareTwins adds what the settings of twins do.
func (r *Report) compareTwins() {
	for i := range r.Rows {
		row := &r.Rows[i]
		for j := range row.Results {
			res := &row.Results[j]
			twin := row.result(res.Subject.twin())
			if twin == nil {
				continue
			}
			r.fact(res.Subject, row.Name+": delivered ÷ with the settings", ratios(res.Rounds, twin.Rounds, (*Measure).delivered).Median, "")
			r.fact(res.Subject, row.Name+": server and database CPU per event − with the settings",
				res.Figures.ServerCPU.Median+res.Figures.DatabaseCPU.Median-twin.Figures.ServerCPU.Median-twin.Figures.DatabaseCPU.Median, "µs")
		}
	}
}

// compareWithPlain adds what the product is to a relay as anybody would write
// it. The goals are about the faster one.
func (r *Report) compareWithPlain() {
	for i := range r.Rows {
		row := &r.Rows[i]
		plain := row.result(Plain)
		for j := range row.Results {
			res := &row.Results[j]
			if plain == nil || res.Subject.isRelay() {
				continue
			}
			r.fact(res.Subject, "delivered ÷ relay with Go's HTTP client", ratios(res.Rounds, plain.Rounds, (*Measure).delivered).Median, "")
			r.fact(res.Subject, "server CPU ÷ relay's with Go's HTTP client", ratios(res.Rounds, plain.Rounds, (*Measure).serverCPU).Median, "")
		}
	}
}

func (row *RowReport) result(s Subject) *Result {
	for i := range row.Results {
		if row.Results[i].Subject == s {
			return &row.Results[i]
		}
	}
	return nil
}

// figures returns those of a subject in a row, nil when it was not measured.
func (r *Report) figures(row string, s Subject) *Figures {
	for i := range r.Rows {
		if r.Rows[i].Name != row {
			continue
		}
		if res := r.Rows[i].result(s); res != nil {
			return &res.Figures
		}
	}
	return nil
}

// Lost returns how many accepted events of the product never arrived. The relay
// promises nothing.
func (r *Report) Lost() int64 {
	var sum int64
	for i := range r.Rows {
		for j := range r.Rows[i].Results {
			if res := &r.Rows[i].Results[j]; !res.Subject.isRelay() {
				sum += res.Figures.Lost
			}
		}
	}
	return sum
}

// Missed returns the goals that were measured and not met.
func (r *Report) Missed() []Goal {
	return slices.DeleteFunc(slices.Clone(r.Goals), func(g Goal) bool { return g.Met })
}

// Goal is what a figure should be.
type Goal struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// atLeast and atMost judge a median.
func atLeast(name string, f Figure, bound float64, form string) Goal {
	return Goal{Name: name, Want: "≥ " + fmt.Sprintf(form, bound), Got: fmt.Sprintf(form, f.Median), Met: f.Median >= bound}
}

func atMost(name string, f Figure, bound float64, form string) Goal {
	return Goal{Name: name, Want: "≤ " + fmt.Sprintf(form, bound), Got: fmt.Sprintf(form, f.Median), Met: f.Median <= bound}
}

// comparisonGoals are the numbers that the design holds itself to. Only what
// was measured is judged.
func (r *Report) comparisonGoals() []Goal {
	var goals []Goal
	relay := r.figures(Base, Relay)
	sqlite, postgres := r.figures(Base, SQLite), r.figures(Base, Postgres)
	if relay != nil && sqlite != nil {
		goals = append(goals,
			atLeast("SQLite: delivered ÷ bare relay", sqlite.Ratio, 0.70, "%.2f"),
			atMost("SQLite: server CPU per event ÷ bare relay's", sqlite.CPURatio, 1.6, "%.2f"))
	}
	if relay != nil && postgres != nil {
		goals = append(goals, atLeast("Postgres: delivered ÷ bare relay", postgres.Ratio, 0.50, "%.2f"))
	}
	for _, s := range []Subject{SQLite, Postgres} {
		if f := r.figures(Half, s); f != nil {
			goals = append(goals, atMost(s.title()+": accept to arrival, p99 at half load", f.ArrivalP99, 25, "%.1f ms"))
		}
	}
	return goals
}

func (s Subject) title() string {
	switch s {
	case SQLite:
		return "SQLite"
	case Postgres:
		return "Postgres"
	case Plain:
		return "Relay with Go's HTTP client"
	case Relay:
	}
	return "Relay"
}
