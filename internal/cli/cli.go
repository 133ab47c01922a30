// Package cli is the command line: it reads arguments, runs the server or
// talks to one over its HTTP API, and turns the outcome into text or JSON and
// an exit code.
//
// Results go to stdout, everything else to stderr. It has no rules of its own:
// what a command may do is decided by the server.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/config"
)

// Host is the process a command runs in.
type Host struct {
	Args    []string // without the program's name
	Environ []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Signals <-chan os.Signal // nil means SIGINT and SIGTERM of this process
	Exit    func(code int)   // ends the process at the second signal; nil means os.Exit
}

// Run runs one command and returns the exit code of the process.
//
// The first signal cancels the command: a server drains, a client stops
// watching. The second one ends the process at once.
func Run(h Host) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopWatching := h.watchSignals(cancel)
	defer stopWatching()

	s := &session{Host: h}
	root := s.rootCommand()
	root.SetArgs(h.Args)
	root.SetIn(h.Stdin)
	root.SetOut(h.Stdout)
	root.SetErr(h.Stderr)
	err := root.ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && !errors.Is(err, errSilent) && code != exitInterrupted {
		s.note("breakwater: %v", err)
	}
	return code
}

// watchSignals cancels on the first signal and ends the process on the second.
func (h *Host) watchSignals(cancel context.CancelFunc) (stop func()) {
	signals := h.Signals
	release := func() {}
	if signals == nil {
		ch := make(chan os.Signal, 2)
		signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
		signals, release = ch, func() { signal.Stop(ch) }
	}
	exit := h.Exit
	if exit == nil {
		exit = os.Exit
	}
	done := make(chan struct{})
	go func() {
		for count := 0; ; count++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			if count > 0 {
				exit(exitInterrupted)
				return
			}
			cancel()
		}
	}()
	return func() {
		release()
		close(done)
	}
}

// session is one invocation: its process and its global flags.
type session struct {
	Host

	url        string
	apiKeyFile string
	tenant     string
	json       bool
	quiet      bool
	timeout    time.Duration
}

const (
	defaultURL     = "http://127.0.0.1:8080"
	defaultTimeout = 30 * time.Second
)

func (s *session) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "breakwater",
		Short:         "Storm-proof webhook delivery",
		Long:          "Breakwater accepts events over HTTP, stores them and delivers them as signed webhooks,\nwithout ever storming a destination that is coming back.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&s.url, "url", "", "server to talk to (BREAKWATER_URL, default "+defaultURL+")")
	flags.StringVar(&s.apiKeyFile, "api-key-file", "", "file with the API key (BREAKWATER_API_KEY_FILE, or BREAKWATER_API_KEY for the key itself)")
	flags.StringVar(&s.tenant, "tenant", "default", "tenant to act for: its id, its uid, or - for all")
	flags.BoolVar(&s.json, "json", false, "print JSON")
	flags.BoolVar(&s.quiet, "quiet", false, "print as little as possible")
	flags.DurationVar(&s.timeout, "timeout", defaultTimeout, "limit of each request")
	root.AddCommand(
		s.serveCommand(), s.demoCommand(), s.sendCommand(), s.sinkCommand(), s.simulateCommand(), s.benchCommand(),
		s.endpointsCommand(), s.deliveriesCommand(), s.deadCommand(), s.replayCommand(), s.alertsCommand(),
		s.keysCommand(), s.tenantsCommand(), s.policiesCommand(), s.rulesCommand(), s.dashboardCommand(),
		s.backupCommand(), s.restoreCommand(), s.migrateCommand(), s.configCommand(), s.healthCommand(), s.versionCommand(),
	)
	return root
}

// group is a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(cmd.ErrOrStderr())
			return errors.Join(cmd.Help(), &usageError{errSilent})
		},
	}
	cmd.AddCommand(children...)
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	known := names(cmd.Commands(), (*cobra.Command).Name)
	return usagef("unknown command %q for %q%s", name, cmd.CommandPath(), didYouMean(config.Nearest(name, known), ""))
}

func didYouMean(name, prefix string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + prefix + name + "?"
}

// wantArgs checks the number of arguments; most below zero means any number.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return usagef("wrong number of arguments; usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// variable returns an environment variable, or an empty string.
func (h *Host) variable(name string) string {
	for _, kv := range h.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}
