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
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/doctor"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/cli/manual"
	"github.com/breakwaterhq/breakwater/internal/cli/receive"
	"github.com/breakwaterhq/breakwater/internal/cli/transfer"
	"github.com/breakwaterhq/breakwater/internal/cli/watch"
)

// Host is the process a command runs in.
type Host = kit.Host

// Run runs one command and returns the exit code of the process.
//
// The first signal cancels the command: a server drains, a client stops
// watching. The second one ends the process at once.
func Run(h Host) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopWatching := watchSignals(h, cancel)
	defer stopWatching()

	s := &session{&kit.Session{Host: h, Version: Version()}}
	root := s.rootCommand()
	root.SetArgs(h.Args)
	root.SetIn(h.Stdin)
	root.SetOut(h.Stdout)
	root.SetErr(h.Stderr)
	err := root.ExecuteContext(ctx)
	code := kit.ExitCode(err)
	if err != nil && !errors.Is(err, kit.ErrSilent) && code != kit.ExitInterrupted {
		// A wrong flag ends the reading of flags before --json may be read.
		s.JSON = s.JSON || slices.Contains(h.Args, "--json")
		s.TellFailure("", err)
	}
	return code
}

// strict makes the commands that come with the library fail for names that are not
// there, as all others do.
func strict(root *cobra.Command) {
	root.InitDefaultCompletionCmd() // after all others, for it needs one
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			kit.Hold(cmd)
		case "help":
			cmd.Run, cmd.RunE = nil, func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err != nil || len(rest) > 0 && found.HasSubCommands() {
					return kit.UnknownCommand(found, args[len(args)-1])
				}
				found.InitDefaultHelpFlag()
				return found.Help()
			}
		}
	}
}

// watchSignals cancels on the first signal and ends the process on the second.
func watchSignals(h Host, cancel context.CancelFunc) (stop func()) {
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
				exit(kit.ExitInterrupted)
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

// session is one invocation.
type session struct{ *kit.Session }

func (s *session) rootCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "breakwater",
		Short:         "Storm-proof webhook delivery",
		Long:          "Breakwater accepts events over HTTP, stores them and delivers them as signed webhooks,\nwithout ever storming a destination that is coming back.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return kit.UnknownCommand(cmd, args[0])
			case version:
				return s.printVersion()
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(kit.FlagError)
	s.AddFlags(root.PersistentFlags())
	root.Flags().BoolVar(&version, "version", false, "show the version of this binary")
	root.AddCommand(
		s.serveCommand(), s.demoCommand(), s.sendCommand(), s.sinkCommand(), s.simulateCommand(), s.benchCommand(),
		s.endpointsCommand(), s.deliveriesCommand(), s.deadCommand(), s.replayCommand(), s.alertsCommand(),
		s.keysCommand(), s.tenantsCommand(), s.policiesCommand(), s.eventTypesCommand(), s.rulesCommand(), s.dashboardCommand(),
		s.backupCommand(), s.restoreCommand(), s.migrateCommand(), s.rekeyCommand(), s.configCommand(), s.healthCommand(), s.versionCommand(),
	)
	root.AddCommand(watch.Commands(s.Session)...)
	root.AddCommand(receive.Commands(s.Session)...)
	root.AddCommand(manual.Command(s.Session))
	root.AddCommand(doctor.Command(s.Session, doctor.ThisMachine()))
	root.AddCommand(transfer.Commands(s.Session)...)
	strict(root)
	kit.AddExamples(root)
	s.complete(root)
	return root
}
