package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/lab/bench"
)

// benchFlags are the flags that all benchmarks share.
type benchFlags struct {
	only        []string
	settings    []string
	rounds      int
	warmUp      time.Duration
	duration    time.Duration
	publishers  int
	endpoints   int
	dir         string
	databaseURL string
	out         string
	profile     string
	check       bool
}

func (f *benchFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "subjects to measure: relay, plain, sqlite, postgres (default all)")
	flags.StringArrayVar(&f.settings, "with", nil, "measure each store also with this setting, such as stats.enabled=false; may be repeated")
	flags.IntVar(&f.rounds, "rounds", 3, "how often each figure is measured")
	flags.DurationVar(&f.warmUp, "warm-up", 2*time.Second, "load before each measurement")
	flags.DurationVar(&f.duration, "duration", 8*time.Second, "length of each measurement")
	flags.IntVar(&f.publishers, "publishers", 0, "publishers of every row instead of its own number")
	flags.IntVar(&f.endpoints, "endpoints", 8, "endpoints that events are spread over")
	flags.StringVar(&f.dir, "dir", "", "folder for the data while measuring (default the system's temporary folder)")
	flags.StringVar(&f.databaseURL, "database-url", "", "Postgres to measure with (default a temporary one from the installed programs)")
	flags.StringVar(&f.out, "out", "", "folder for bench.json, bench.md, bench.png and bench.svg")
	flags.StringVar(&f.profile, "profile", "", "folder for CPU profiles of the subjects")
	flags.BoolVar(&f.check, "check", false, "exit code 8 when a goal is missed")
}

func (s *session) benchCommand() *cobra.Command {
	var f benchFlags
	var rows []string
	var quick bool
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure throughput, latency and CPU on this machine", Args: kit.WantArgs(0, 0),
		Long: `Measure Breakwater on SQLite and on Postgres against a bare relay: the same requests through
the same HTTP code, with no storage and no retries. Everything runs on this machine, each subject
as a process of its own, in turns. An event counts when it has arrived. docs/performance.md says
how to read the figures.

Rows (all of them unless --rows names some):
` + rowList(),
		Example: `  breakwater bench --quick
  breakwater bench --rounds 5 --out results
  breakwater bench --rows base,half --only relay,sqlite --profile profiles`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.benchConfig(&f)
			if err != nil {
				return err
			}
			if quick {
				f.quicken(cmd, &cfg)
				rows = append(rows, bench.Base)
			}
			if cfg.Rows, err = chooseRows(rows); err != nil {
				return err
			}
			return s.runBench(cmd.Context(), &f, cfg, func(ctx context.Context, b *bench.Bench) (*bench.Report, error) { return b.Run(ctx) })
		},
	}
	f.define(cmd)
	cmd.Flags().StringSliceVar(&rows, "rows", nil, "rows to measure")
	cmd.Flags().BoolVar(&quick, "quick", false, "row base only, one short round")
	cmd.AddCommand(s.benchBacklogCommand(), s.benchNodesCommand(), s.benchEndpointsCommand(), s.benchRelayCommand())
	return cmd
}

func rowList() string {
	var b strings.Builder
	for _, r := range bench.DefaultRows() {
		fmt.Fprintf(&b, "  %-8s %s\n", r.Name, r.About())
	}
	return b.String()
}

// quicken shortens what was not asked for.
func (f *benchFlags) quicken(cmd *cobra.Command, cfg *bench.Config) {
	if !cmd.Flags().Changed("rounds") {
		cfg.Rounds = 1
	}
	if !cmd.Flags().Changed("duration") {
		cfg.Duration = 4 * time.Second
	}
}

func (s *session) benchConfig(f *benchFlags) (bench.Config, error) {
	cfg := bench.Config{
		Environ: s.Environ, Dir: f.dir, DatabaseURL: f.databaseURL, Rounds: f.rounds, WarmUp: f.warmUp, Duration: f.duration,
		Groups: f.endpoints, ProfileDir: f.profile, Version: Version(), Told: s.benchProgress,
	}
	for _, name := range f.only {
		subject := bench.Subject(name)
		if !slices.Contains(bench.Subjects(), subject) {
			return cfg, kit.Usagef("--only: no subject %q%s", name, kit.DidYouMean(config.Nearest(name, names(bench.Subjects(), func(s bench.Subject) string { return string(s) })), ""))
		}
		cfg.Subjects = append(cfg.Subjects, subject)
	}
	for _, setting := range f.settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" {
			return cfg, kit.Usagef("--with: %q is not a setting: want name=value", setting)
		}
		cfg.Settings = append(cfg.Settings, "--"+strings.NewReplacer(".", "-", "_", "-").Replace(name)+"="+value)
	}
	return cfg, nil
}

// names returns the names of things.
func names[T any](list []T, of func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = of(v)
	}
	return out
}

// chooseRows returns the rows with these names; all when there is none.
func chooseRows(wanted []string) ([]bench.Row, error) {
	var rows []bench.Row
	all := bench.DefaultRows()
	if len(wanted) == 0 {
		return all, nil
	}
	known := names(all, func(r bench.Row) string { return r.Name })
	for _, name := range wanted {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, kit.Usagef("--rows: no row %q%s", name, kit.DidYouMean(config.Nearest(name, known), ""))
		}
		rows = append(rows, all[i])
	}
	return rows, nil
}

// benchRun is one kind of benchmark.
type benchRun func(context.Context, *bench.Bench) (*bench.Report, error)

// runBench runs one kind of benchmark and shows what it found.
func (s *session) runBench(ctx context.Context, f *benchFlags, cfg bench.Config, run benchRun) error {
	if f.publishers != 0 {
		for i := range cfg.Rows {
			cfg.Rows[i].Publishers = f.publishers
		}
	}
	if f.out != "" { // found out now, not after minutes
		if err := os.MkdirAll(f.out, 0o755); err != nil { //nolint:gosec // figures are no secret
			return kit.Usagef("--out: %w", err)
		}
	}
	b, err := bench.New(cfg)
	if err != nil {
		return kit.Usage(err)
	}
	report, err := run(ctx, b)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := report.WriteFiles(f.out); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if err := s.showReport(report); err != nil {
		return err
	}
	return f.judge(report)
}

func (s *session) showReport(report *bench.Report) error {
	if s.JSON {
		return s.PrintJSON(report)
	}
	if err := report.WriteTable(s.Stdout); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// judge fails when accepted events were lost, always, and when a goal was
// missed if that is asked for.
func (f *benchFlags) judge(report *bench.Report) error {
	if lost := report.Lost(); lost > 0 {
		return fmt.Errorf("%w: %s", kit.ErrCheckFailed, kit.Plural(int(lost), "accepted event never arrived", "accepted events never arrived"))
	}
	if missed := report.Missed(); f.check && len(missed) > 0 {
		return fmt.Errorf("%w: %s", kit.ErrCheckFailed, kit.Plural(len(missed), "goal is missed", "goals are missed"))
	}
	return nil
}

// benchProgress tells of each measurement: that it runs, on a terminal, and
// what it found.
func (s *session) benchProgress(step bench.Step) {
	if s.Quiet {
		return
	}
	terminal := kit.IsTerminal(s.Stderr)
	if step.Doing != "" {
		s.Note("%s", step.Doing)
		return
	}
	head := fmt.Sprintf("%d/%d  round %d  %-10s %-9s", step.Done, step.Total, step.Round, step.What, step.Subject)
	switch {
	case step.Measure != nil && terminal:
		s.Note("\r\x1b[K%s %s", head, step.Measure)
	case step.Measure != nil:
		s.Note("%s %s", head, step.Measure)
	case terminal:
		_, _ = fmt.Fprintf(s.Stderr, "\r\x1b[K%s …", head)
	}
}
