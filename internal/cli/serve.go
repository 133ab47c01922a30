package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
)

func (s *session) serveCommand() *cobra.Command {
	cmd := s.configured("serve", "Run the server", s.serve)
	cmd.Example = "  breakwater serve --dev\n  breakwater serve --config /etc/breakwater/breakwater.yaml --listen :8080"
	cmd.Long = "Run the server until SIGINT or SIGTERM; it then finishes what is in flight. A second signal ends it at once."
	return cmd
}

// configured is a command that takes the settings of a server, as flags too.
func (s *session) configured(use, short string, run func(context.Context, *config.Config) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(config.Input{Flags: cmd.Flags(), Environ: s.Environ, Version: Version()})
			if err != nil {
				return err
			}
			return run(cmd.Context(), cfg)
		},
	}
	config.AddFlags(cmd.Flags())
	return cmd
}

func (s *session) serve(ctx context.Context, cfg *config.Config) error {
	opts := cfg.Options
	opts.Version = Version()
	opts.Settings = cfg.Effective()
	opts.Log = newLogger(s.Stderr, cfg)
	opts.Announce = func(started app.Started) { s.banner(started, opts.Dev) }
	server, err := app.New(opts)
	if err != nil {
		return taken(err)
	}
	return taken(server.Run(ctx))
}

// taken says what to do when another process has what is needed.
func taken(err error) error {
	switch {
	case errors.Is(err, app.ErrFolderInUse):
		return fmt.Errorf("%w%w", err, kit.Next("end that process, or name another folder with --data-dir"))
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w%w", err, kit.Next("something else listens there: name another address with --listen"))
	}
	return err
}

// banner greets the person who started the server. A closed stdout is no
// reason to stop serving.
func (s *session) banner(started app.Started, dev bool) {
	if s.JSON {
		_ = s.PrintJSON(map[string]string{
			"url": started.URL, "store": started.Store, "node": started.Node,
			"admin_key": started.AdminKey, "admin_key_file": started.AdminKeyFile,
		})
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "breakwater %s listening on %s\n", Version(), started.URL)
	if !s.Quiet {
		fmt.Fprintf(&b, "store %s, node %s\n", started.Store, started.Node)
		fmt.Fprintf(&b, "dashboard %s/ui\n", started.URL)
	}
	if started.AdminKey != "" {
		kept := "shown once"
		if started.AdminKeyFile != "" {
			kept += ", kept in " + started.AdminKeyFile
		}
		fmt.Fprintf(&b, "admin key %s (%s)\n", started.AdminKey, kept)
	}
	if !s.Quiet {
		b.WriteString(tryLine(dev))
	}
	_ = s.Printf("%s", b.String())
}

// tryLine suggests a next step that works: loopback destinations are open in
// dev only.
func tryLine(dev bool) string {
	if dev {
		return "try: breakwater sink, then breakwater endpoints create http://127.0.0.1:9000/\n"
	}
	return "try: breakwater endpoints create https://example.com/hook\n"
}

// newLogger logs to w: text where a person reads it, else JSON.
func newLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogFormat == "text" || cfg.LogFormat == "" && kit.IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
