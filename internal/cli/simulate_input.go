package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// scenarioChoice are the flags that say what befalls the endpoints.
type scenarioChoice struct {
	file, name, set string
	matrix          bool

	outage    time.Duration
	rate      float64
	load      float64
	capacity  float64
	latency   time.Duration
	endpoints int
}

func (c *scenarioChoice) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.file, "scenario", "", "file with a scenario, see docs/storms.md")
	flags.StringVar(&c.name, "name", "", "built-in scenario (default base)")
	flags.StringVar(&c.set, "set", "", "a whole set of built-in scenarios")
	flags.BoolVar(&c.matrix, "matrix", false, "short for --set matrix: the scenarios the law is judged by")
	flags.DurationVar(&c.outage, "outage", 0, "length of the outage")
	flags.Float64Var(&c.rate, "rate", 0, "new events per second and endpoint")
	flags.Float64Var(&c.load, "load", 0, "the same as a share of the capacity, such as 0.5")
	flags.Float64Var(&c.capacity, "capacity", 0, "requests per second that an endpoint can serve")
	flags.DurationVar(&c.latency, "latency", 0, "time an endpoint takes to answer")
	flags.IntVar(&c.endpoints, "endpoints", 0, "how many endpoints")
}

// changes are the flags that change a scenario.
var changes = []string{"outage", "rate", "load", "capacity", "latency", "endpoints"}

// scenarios returns what is chosen: a set, or one scenario with its changes.
func (c *scenarioChoice) scenarios(cmd *cobra.Command) ([]sim.Scenario, error) {
	if err := exclusive(cmd, "scenario", "name", "set", "matrix"); err != nil {
		return nil, err
	}
	if err := exclusive(cmd, "rate", "load"); err != nil {
		return nil, err
	}
	if c.matrix {
		c.set = "matrix"
	}
	if c.set != "" {
		for _, flag := range changes {
			if cmd.Flags().Changed(flag) {
				return nil, kit.Usagef("--%s: cannot change a whole set of scenarios", flag)
			}
		}
		return findSet(c.set)
	}
	s, err := c.one()
	if err != nil {
		return nil, err
	}
	c.change(cmd, &s)
	if cmd.Flags().Changed("rate") && c.rate >= s.Capacity {
		return nil, kit.Usagef("--rate: must be below the capacity, which is %v", s.Capacity)
	}
	if err := s.Check(); err != nil {
		return nil, kit.Usage(err)
	}
	return []sim.Scenario{s}, nil
}

// exclusive refuses more than one of some flags.
func exclusive(cmd *cobra.Command, flags ...string) error {
	var given []string
	for _, flag := range flags {
		if cmd.Flags().Changed(flag) {
			given = append(given, "--"+flag)
		}
	}
	if len(given) > 1 {
		return kit.Usagef("%s: only one of them at a time", strings.Join(given, ", "))
	}
	return nil
}

func findSet(name string) ([]sim.Scenario, error) {
	var known []string
	for _, set := range sim.Sets() {
		if set.Name == name {
			return set.Scenarios, nil
		}
		known = append(known, set.Name)
	}
	return nil, kit.Usagef("--set: %q is not known; known: %s", name, strings.Join(known, ", "))
}

func (c *scenarioChoice) one() (sim.Scenario, error) {
	switch {
	case c.file != "":
		raw, err := os.ReadFile(c.file)
		if err != nil {
			return sim.Scenario{}, kit.Usagef("--scenario: %w", err)
		}
		s, err := sim.ReadScenario(raw)
		if err != nil {
			return s, kit.Usagef("--scenario %s: %w", c.file, err)
		}
		return s, nil
	case c.name != "":
		if s, ok := sim.FindScenario(c.name); ok {
			return s, nil
		}
		var known []string
		for _, set := range sim.Sets() {
			for _, s := range set.Scenarios {
				known = append(known, s.Name)
			}
		}
		return sim.Scenario{}, kit.Usagef("--name: %q is not known%s", c.name, kit.DidYouMean(config.Nearest(c.name, known), ""))
	default:
		return sim.Base(), nil
	}
}

// change applies the flags that were given. Its goals belong to the scenario as
// it was.
func (c *scenarioChoice) change(cmd *cobra.Command, s *sim.Scenario) {
	given := cmd.Flags().Changed
	if given("capacity") {
		s.Capacity = c.capacity
	}
	if given("latency") {
		s.Latency = sim.Duration(c.latency)
	}
	if given("load") {
		s.Load = c.load
	}
	if given("rate") && s.Capacity > 0 { // Check refuses any other capacity
		s.Load = c.rate / s.Capacity
	}
	if given("endpoints") {
		s.Endpoints = c.endpoints
	}
	if given("outage") {
		at := sim.Duration(2 * time.Minute)
		if len(s.Outages) > 0 {
			at = s.Outages[0].At
		}
		s.Outages = []sim.Outage{{At: at, For: sim.Duration(c.outage)}}
	}
	for _, flag := range changes {
		if given(flag) {
			s.Goals = ""
		}
	}
}

// strategy reads a --policy: a name that is known, else a file.
func (s *session) strategy(name string) (sim.Strategy, error) {
	st, unknown := sim.ParseStrategy(name)
	if unknown == nil {
		return st, nil
	}
	raw, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		known := names(sim.Strategies(), func(st sim.Strategy) string { return st.Name })
		return st, kit.Usagef("--policy: %w, and there is no such file%s", unknown, kit.DidYouMean(config.Nearest(name, known), ""))
	case err != nil:
		return st, kit.Usagef("--policy: %w", err)
	}
	p, warnings, err := sim.ReadPolicy(raw)
	if err != nil {
		return st, kit.Usagef("--policy %s: %w", name, err)
	}
	for _, w := range warnings {
		s.Note("%s: %s", name, w)
	}
	return sim.Law(name, p), nil
}
