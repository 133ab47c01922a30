package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/lab/simplot"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// simulateFlags are the flags of simulate.
type simulateFlags struct {
	choice scenarioChoice

	policies []string
	seed     uint64
	seeds    int
	workers  int

	png, svg, csv string
	until         time.Duration
	assert        string
	list          bool
}

func (s *session) simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use: "simulate", Short: "Play outages in virtual time and compare strategies", Args: kit.WantArgs(0, 0),
		Long: `Play an outage and the drain after it in virtual time, with the code that the server
runs, and compare it with other ways to retry. Nothing is sent and no server is needed.

A --policy is one of
  FILE               a policy as the API takes it, in YAML or JSON, under the law
  law, law:PRESET    the law: what the server does, with that preset (default: default)
  law+max1000        the same with another ceiling of the requests in flight
  PRESET             only the retries of that preset, as a plain retry loop would do them
  PRESET+cap10       the same with at most 10 requests in flight
  PRESET+cap10+burn  the same with a breaker that fails attempts while it is open
  PRESET+cap10+hold  the same with a breaker that holds, then releases everything
and --list shows all names.`,
		Example: `  breakwater simulate
  breakwater simulate --outage 30m --capacity 100 --rate 50 --policy law --policy full-5+hold
  breakwater simulate --name poison-5 --policy policy.yaml --seeds 20 --assert 'recrashes==0,drain<=1.3'
  breakwater simulate --matrix --seeds 100 --seed 20001 --assert goals`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return s.listSimulations()
			}
			return s.simulate(cmd, &f)
		},
	}
	f.define(cmd)
	return cmd
}

func (f *simulateFlags) define(cmd *cobra.Command) {
	f.choice.define(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.policies, "policy", []string{"law"}, "policy file, preset or strategy; repeatable to compare")
	flags.Uint64Var(&f.seed, "seed", 1, "first seed; the same seed gives the same run")
	flags.IntVar(&f.seeds, "seeds", 1, "how many seeds to play")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "runs at the same time")
	flags.StringVar(&f.png, "png", "", "file for a picture of the first run")
	flags.StringVar(&f.svg, "svg", "", "file for the same picture as SVG")
	flags.StringVar(&f.csv, "csv", "", "file for the first run, a line per second")
	flags.DurationVar(&f.until, "until", 0, "show only so much of the first run in charts and files")
	flags.StringVar(&f.assert, "assert", "", "conditions such as 'recrashes==0,drain<=1.2,peak<=1.5', or goals for the scenario's own; exit code 8 when one is missed")
	flags.BoolVar(&f.list, "list", false, "list the built-in scenarios and strategies")
}

func (s *session) simulate(cmd *cobra.Command, f *simulateFlags) error {
	plan, err := s.plan(cmd, f)
	if err != nil {
		return err
	}
	reports, err := s.play(cmd.Context(), plan, f)
	if err != nil {
		return err
	}
	for i := range reports {
		reports[i].Missed = reports[i].Summary.Missed(plan.goalsOf(&reports[i].Scenario))
		if f.until > 0 {
			reports[i].Cut(f.until)
		}
	}
	if err := f.writeFiles(reports); err != nil {
		return err
	}
	if err := s.printReports(reports, plan); err != nil {
		return err
	}
	return s.checkGoals(reports)
}

// minShown is how much of a run a chart needs.
const minShown = 10 * time.Second

// simulationPlan is what a command line asks for.
type simulationPlan struct {
	scenarios  []sim.Scenario
	strategies []sim.Strategy
	goals      []sim.Goal
	ownGoals   bool // each scenario has its own
}

func (s *session) plan(cmd *cobra.Command, f *simulateFlags) (*simulationPlan, error) {
	p := &simulationPlan{ownGoals: f.assert == "goals"}
	var err error
	if p.scenarios, err = f.choice.scenarios(cmd); err != nil {
		return nil, err
	}
	for _, name := range f.policies {
		st, err := s.strategy(name)
		if err != nil {
			return nil, err
		}
		p.strategies = append(p.strategies, st)
	}
	if f.assert != "" && !p.ownGoals {
		if p.goals, err = sim.ParseGoals(f.assert); err != nil {
			return nil, kit.Usagef("--assert: %w", err)
		}
	}
	switch {
	case f.seeds < 1 || f.seeds > 100_000:
		return nil, kit.Usagef("--seeds: must be between 1 and 100000")
	case f.workers < 1:
		return nil, kit.Usagef("--workers: must be at least 1")
	case cmd.Flags().Changed("until") && f.until < minShown:
		return nil, kit.Usagef("--until: must be at least %s", minShown)
	case len(p.scenarios) > 1 && f.png+f.svg+f.csv != "":
		return nil, kit.Usagef("--png, --svg and --csv need a single scenario")
	}
	return p, nil
}

// goalsOf returns what is asserted about a scenario. The scenario's own goals
// were checked with it.
func (p *simulationPlan) goalsOf(s *sim.Scenario) []sim.Goal {
	if !p.ownGoals || s.Goals == "" {
		return p.goals
	}
	goals, _ := sim.ParseGoals(s.Goals)
	return goals
}

// play runs every strategy in every scenario.
func (s *session) play(ctx context.Context, plan *simulationPlan, f *simulateFlags) ([]sim.Report, error) {
	total := len(plan.scenarios) * len(plan.strategies) * f.seeds
	bar := s.NewProgress("simulating", total)
	defer bar.End()
	var reports []sim.Report
	for _, scenario := range plan.scenarios {
		for _, st := range plan.strategies {
			before := len(reports) * f.seeds
			results, err := sim.RunMany(ctx, scenario, st, sim.Seeds(f.seed, f.seeds), f.workers,
				func(done, _ int) { bar.Set(before + done) })
			if err != nil {
				return nil, err
			}
			reports = append(reports, sim.NewReport(scenario, st, results))
		}
	}
	return reports, nil
}

func (f *simulateFlags) writeFiles(reports []sim.Report) error {
	for _, out := range []struct {
		flag, path string
		write      func(io.Writer, []sim.Report) error
	}{{"png", f.png, simplot.WritePNG}, {"svg", f.svg, simplot.WriteSVG}, {"csv", f.csv, sim.WriteCSV}} {
		if out.path == "" {
			continue
		}
		if err := writeFile(out.path, reports, out.write); err != nil {
			return fmt.Errorf("--%s: %w", out.flag, err)
		}
	}
	return nil
}

func writeFile(path string, reports []sim.Report, write func(io.Writer, []sim.Report) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file, reports), file.Close())
}

func (s *session) printReports(reports []sim.Report, plan *simulationPlan) error {
	if s.JSON {
		return s.PrintJSON(map[string]any{"data": reports})
	}
	if len(plan.scenarios) == 1 && !s.Quiet {
		for i := range reports {
			if err := s.Printf("%s\n\n", simplot.Chart(&reports[i])); err != nil {
				return err
			}
		}
	}
	return s.printTables(reports)
}

func (s *session) checkGoals(reports []sim.Report) error {
	missed := 0
	for i := range reports {
		for _, text := range reports[i].Missed {
			missed++
			s.Note("%s, %s: missed %s", reports[i].Scenario.Name, reports[i].Strategy, text)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w: %s", kit.ErrCheckFailed, kit.Plural(missed, "goal is missed", "goals are missed"))
	}
	return nil
}

func (s *session) listSimulations() error {
	if s.JSON {
		type set struct {
			Name      string   `json:"name"`
			About     string   `json:"about"`
			Scenarios []string `json:"scenarios"`
		}
		var sets []set
		for _, each := range sim.Sets() {
			sets = append(sets, set{each.Name, each.About, names(each.Scenarios, func(s sim.Scenario) string { return s.Name })})
		}
		return s.PrintJSON(map[string]any{"sets": sets, "policies": names(sim.Strategies(), func(st sim.Strategy) string { return st.Name })})
	}
	var b strings.Builder
	for _, set := range sim.Sets() {
		fmt.Fprintf(&b, "--set %s: %s\n", set.Name, set.About)
		for _, scenario := range set.Scenarios {
			fmt.Fprintf(&b, "  --name %s\n", scenario.Name)
		}
	}
	for _, st := range sim.Strategies() {
		fmt.Fprintf(&b, "--policy %s\n", st.Name)
	}
	return s.Printf("%s", b.String())
}
