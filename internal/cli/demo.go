package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/lab/demo"
)

// demoFlags are the flags of the demo.
type demoFlags struct {
	rate   float64
	outage time.Duration
	port   int
	keep   bool
	record string
}

func (s *session) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch an outage and its end, in this terminal", Args: kit.WantArgs(0, 0),
		Long: `Start a server with a store of its own, an endpoint that goes down, and events; then watch what
Breakwater does, beside what a plain retry loop does to the same kind of endpoint. It needs nothing,
leaves nothing behind, and ends by itself in less than two minutes.`,
		Example: `  breakwater demo
  breakwater demo --keep        # the server stays afterwards, with its dashboard`,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.demo(cmd.Context(), &f) },
	}
	cmd.Flags().Float64Var(&f.rate, "rate", 20, fmt.Sprintf("events per second, %d to %d", demo.LeastRate, demo.MostRate))
	cmd.Flags().DurationVar(&f.outage, "outage", 15*time.Second, fmt.Sprintf("how long the endpoint is down, %v to %v", demo.LeastOutage, demo.MostOutage))
	cmd.Flags().IntVar(&f.port, "port", 0, "port of the server on this machine; 0: any that is free")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the server running afterwards, until Ctrl-C")
	cmd.Flags().StringVar(&f.record, "record", "", "file for an SVG of what was shown, which plays by itself")
	return cmd
}

func (s *session) demo(ctx context.Context, f *demoFlags) (err error) {
	if f.port < 0 || f.port > 65535 {
		return kit.Usagef("--port: from 0 to 65535")
	}
	if err := demo.Check(f.rate, f.outage); err != nil {
		return kit.Usagef("--%w", err)
	}
	dir, err := os.MkdirTemp("", "breakwater-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started, ended, err := s.demoServer(ctx, dir, f.port)
	if err != nil {
		return err
	}
	err = s.playDemo(ctx, started, f)
	if err == nil && f.keep {
		s.Note("The server stays until Ctrl-C.")
		select {
		case <-ctx.Done():
		case err := <-ended:
			return err
		}
	}
	cancel()
	return errors.Join(err, <-ended)
}

// demoServer starts a server that keeps its data in dir, until ctx ends.
func (s *session) demoServer(ctx context.Context, dir string, port int) (app.Started, <-chan error, error) {
	settings := filepath.Join(dir, "none.yaml") // not the one of the folder that somebody is in
	if err := os.WriteFile(settings, nil, 0o600); err != nil {
		return app.Started{}, nil, err
	}
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	config.AddFlags(flags)
	err := flags.Parse([]string{"--config", settings, "--dev", "--data-dir", filepath.Join(dir, "data"), "--listen", fmt.Sprintf("127.0.0.1:%d", port)})
	if err != nil {
		return app.Started{}, nil, err
	}
	cfg, err := config.Load(config.Input{Flags: flags, Version: Version()})
	if err != nil {
		return app.Started{}, nil, err
	}
	opts := cfg.Options
	opts.Version, opts.Settings = Version(), cfg.Effective()
	opts.Log = slog.New(slog.NewTextHandler(s.Stderr, &slog.HandlerOptions{Level: slog.LevelError})) // the demo tells the rest
	announced := make(chan app.Started, 1)
	opts.Announce = func(started app.Started) { announced <- started }
	server, err := app.New(opts)
	if err != nil {
		return app.Started{}, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	select {
	case started := <-announced:
		return started, ended, nil
	case err := <-ended:
		return app.Started{}, nil, cmp.Or(err, ctx.Err())
	}
}

// playDemo shows it: on a terminal as a picture that moves, elsewhere a line for whatever
// happens.
func (s *session) playDemo(ctx context.Context, started app.Started, f *demoFlags) error {
	var recording demo.Recording
	terminal := demo.NewTerminal(s.Stderr, s.colour())
	moving := kit.IsTerminal(s.Stderr) && !s.Quiet
	var failed error
	shown := make([]demo.Line, demo.Height)
	performance, err := demo.New(demo.Config{
		URL: started.URL, Key: started.AdminKey, Rate: f.rate, Outage: f.outage,
		Show: func(scene demo.Scene) {
			shown = demo.Draw(scene)
			recording.Add(scene.At, shown)
			if moving {
				failed = errors.Join(failed, terminal.Show(shown))
			}
		},
		Tell: func(m demo.Moment) {
			if !moving && !s.Quiet {
				s.Note("t+%.0fs %s", m.At.Seconds(), m.Words)
			}
		},
	})
	if err != nil {
		return err
	}
	if !s.Quiet {
		s.Note("dashboard %s/ui, admin key %s\n", started.URL, started.AdminKey)
	}
	summary, err := performance.Run(ctx)
	if err != nil {
		return err
	}
	ending := demo.DrawSummary(&summary)
	recording.End(summary.Took, slices.Concat(shown[:demo.ChartHeight], ending))
	if err := s.saveRecording(&recording, f.record); err != nil {
		return err
	}
	if s.JSON {
		return s.PrintJSON(summary)
	}
	return errors.Join(failed, demo.NewTerminal(s.Stdout, s.colour() && kit.IsTerminal(s.Stdout)).Keep(slices.Concat([]demo.Line{{}}, ending, nextSteps)))
}

// nextSteps are what to do after the demo.
var nextSteps = []demo.Line{{}, {{
	Mood: demo.Dim, Text: "Next: breakwater serve --dev, then breakwater sink --crash-over 50/s and events of your own; breakwater simulate compares strategies.",
}}}

// colour reports whether people want colours.
func (s *session) colour() bool {
	return !slices.ContainsFunc(s.Environ, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR=" })
}

func (s *session) saveRecording(r *demo.Recording, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("save the recording: %w", err)
	}
	return errors.Join(r.WriteSVG(file), file.Close())
}
