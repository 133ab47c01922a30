package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/lab/bench"
	"github.com/breakwaterhq/breakwater/internal/lab/bench/relay"
)

// benchScenario is a benchmark of its own beside the comparison. It takes the
// shared flags and row base.
func (s *session) benchScenario(cmd *cobra.Command, run benchRun) *cobra.Command {
	var f benchFlags
	f.define(cmd)
	cmd.Args = kit.WantArgs(0, 0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.benchConfig(&f)
		if err != nil {
			return err
		}
		cfg.Rows = bench.DefaultRows()[:1]
		return s.runBench(cmd.Context(), &f, cfg, run)
	}
	return cmd
}

func (s *session) benchBacklogCommand() *cobra.Command {
	var waiting []int64
	cmd := s.benchScenario(&cobra.Command{
		Use: "backlog", Short: "Measure what a dead endpoint's backlog does to the others",
		Long: `Fill a server with deliveries that wait for a dead endpoint and compare the healthy endpoints with
those of a server that has no backlog: throughput, latency at half load, memory. Then restart it.`,
	}, func(ctx context.Context, b *bench.Bench) (*bench.Report, error) {
		for _, n := range waiting {
			if n < 1 || n > 100_000_000 {
				return nil, kit.Usagef("--waiting: must be 1 to 100000000")
			}
		}
		return b.Backlog(ctx, waiting)
	})
	cmd.Flags().Int64SliceVar(&waiting, "waiting", []int64{10_000, 100_000, 1_000_000}, "how many deliveries wait")
	return cmd
}

func (s *session) benchNodesCommand() *cobra.Command {
	var nodes []int
	cmd := s.benchScenario(&cobra.Command{
		Use: "nodes", Short: "Measure several nodes on one Postgres",
		Long: `Measure nodes that share one Postgres, with publishers spread over them. On one machine more nodes cannot be
faster; what shows is the cost of sharing, and that nothing arrives twice.`,
	}, func(ctx context.Context, b *bench.Bench) (*bench.Report, error) {
		for _, n := range nodes {
			if n < 1 || n > 10 {
				return nil, kit.Usagef("--nodes: must be 1 to 10")
			}
		}
		return b.Nodes(ctx, nodes)
	})
	cmd.Flags().IntSliceVar(&nodes, "nodes", []int{1, 3}, "how many nodes")
	setDefault(cmd, "endpoints", "64") // so that every node has some
	return cmd
}

func (s *session) benchEndpointsCommand() *cobra.Command {
	cmd := s.benchScenario(&cobra.Command{
		Use: "endpoints", Short: "Measure very many endpoints with one event each",
		Long: "Measure endpoints that get one event each, so that every event wakes a lane that slept. Each tenant has 100 of them.",
	}, func(ctx context.Context, b *bench.Bench) (*bench.Report, error) { return b.Endpoints(ctx) })
	setDefault(cmd, "endpoints", "100000")
	setDefault(cmd, "rounds", "1")
	return cmd
}

// setDefault gives a shared flag another default for one command.
func setDefault(cmd *cobra.Command, name, value string) {
	flag := cmd.Flags().Lookup(name)
	flag.DefValue = value
	_ = flag.Value.Set(value) // a constant that the flag can read
}

// benchRelayCommand is the yardstick, run by bench itself.
func (s *session) benchRelayCommand() *cobra.Command {
	cfg := relay.Config{Listen: "127.0.0.1:0"}
	cmd := &cobra.Command{
		Use: "relay", Short: "The bare relay that bench compares with", Args: kit.WantArgs(0, 0), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.OnListen = func(url string) { _ = s.PrintJSON(map[string]string{"url": url}) }
			r, err := relay.New(cfg)
			if err != nil {
				return kit.Usage(err)
			}
			return r.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Target, "target", "", "URL to forward to")
	flags.IntVar(&cfg.Groups, "groups", 1, "kinds of events")
	flags.IntVar(&cfg.Fanout, "fanout", 1, "endpoints of each kind")
	flags.BoolVar(&cfg.Standard, "standard", false, "forward with Go's own HTTP client")
	flags.StringVar(&cfg.PprofListen, "pprof-listen", "", "address of the profiler, off when empty")
	return cmd
}
