package cli

import (
	"bytes"
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/metric/grafana"
	"github.com/breakwaterhq/breakwater/internal/metric/promrule"
)

// rulesCommand reads the settings of a server, whose thresholds the rules have.
func (s *session) rulesCommand() *cobra.Command {
	var rules promrule.Config
	cmd := s.configured("rules", "Print alert rules for Prometheus", func(_ context.Context, cfg *config.Config) error {
		o := &cfg.Options
		rules.Thresholds, rules.LeaseTTL, rules.Runbook, rules.Unjudged = o.AlertThresholds, o.LeaseTTL, o.RunbookURL, !o.Alerts
		write := promrule.Write
		if s.JSON {
			write = promrule.WriteJSON
		}
		return s.printMade(func(w io.Writer) error { return write(w, rules) })
	})
	cmd.Long = "Print alert rules for Prometheus: those of the server's own alerts, with links to the runbook,\n" +
		"and some that watch the server from outside. Run it with the settings of the server."
	flags := cmd.Flags()
	flags.StringVar(&rules.SeverityLabel, "severity-label", promrule.DefaultSeverityLabel, "label with the severity: page, warning or info")
	flags.StringVar(&rules.Job, "job", promrule.DefaultJob, "scrape job of the nodes")
	flags.StringVar(&rules.Docs, "docs-url", promrule.DefaultDocs, "where this documentation is, for links to the runbook")
	return cmd
}

func (s *session) dashboardCommand() *cobra.Command {
	var dash grafana.Config
	cmd := &cobra.Command{
		Use: "dashboard-json", Short: "Print a Grafana dashboard", Args: kit.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			return s.printMade(func(w io.Writer) error { return grafana.Write(w, dash) })
		},
	}
	cmd.Flags().StringVar(&dash.Datasource, "datasource", "", "uid of the Prometheus data source; when empty the dashboard asks for it")
	return cmd
}

// printMade prints what only a wrong flag keeps from being made.
func (s *session) printMade(write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return kit.Usage(err)
	}
	return s.Printf("%s", b.Bytes())
}
