// Package kit is what the commands share: the process they run in, the client of
// the API, how results are printed, and the exit codes.
//
// Results go to stdout, everything else to stderr. It has no rules of its own:
// what a command may do is decided by the server.
package kit

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// Variable returns an environment variable, or an empty string.
func (h *Host) Variable(name string) string {
	for _, kv := range h.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// Session is one invocation: its process and its global flags.
type Session struct {
	Host
	Version string // of this binary

	Tenant  string
	JSON    bool
	Quiet   bool
	Timeout time.Duration

	url        string
	apiKeyFile string
}

const (
	defaultURL     = "http://127.0.0.1:8080"
	defaultTimeout = 30 * time.Second
	defaultTenant  = "default"
)

// AddFlags adds the flags that all commands have.
func (s *Session) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.url, "url", "", "server to talk to (BREAKWATER_URL, default "+defaultURL+")")
	flags.StringVar(&s.apiKeyFile, "api-key-file", "", "file with the API key (BREAKWATER_API_KEY_FILE, or BREAKWATER_API_KEY for the key itself)")
	flags.StringVar(&s.Tenant, "tenant", defaultTenant, "tenant to act for: its id, its uid, or - for all")
	flags.BoolVar(&s.JSON, "json", false, "print JSON")
	flags.BoolVar(&s.Quiet, "quiet", false, "print as little as possible")
	flags.DurationVar(&s.Timeout, "timeout", defaultTimeout, "limit of each request")
}

// Group is a command that only holds others.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	Hold(cmd)
	cmd.AddCommand(children...)
	return cmd
}

// Hold makes a command one that only holds others: alone it does nothing.
func Hold(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		if document, err := cmd.Flags().GetBool("json"); err == nil && document {
			return Usagef("name a command of %s: %s", cmd.CommandPath(), strings.Join(below(cmd), ", "))
		}
		cmd.SetOut(cmd.ErrOrStderr())
		return errors.Join(cmd.Help(), Usage(ErrSilent))
	}
}

// UnknownCommand says that there is no such command, and what it may have meant.
func UnknownCommand(cmd *cobra.Command, name string) error {
	known := below(cmd)
	near := config.Nearest(name, known)
	if near == "" {
		return Usagef("unknown command %q for %q%w", name, cmd.CommandPath(), Next("there are: %s", strings.Join(known, ", ")))
	}
	return Usagef("unknown command %q for %q%s", name, cmd.CommandPath(), DidYouMean(near, ""))
}

// below returns the names of the commands that a command holds.
func below(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// DidYouMean ends an error with the name that may have been meant.
func DidYouMean(name, prefix string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + prefix + name + "?"
}

// WantArgs checks the number of arguments; most below zero means any number.
func WantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("wrong number of arguments; usage: %s%w", cmd.UseLine(), Next("see: %s --help", cmd.CommandPath()))
		}
		return nil
	}
}

// IsTerminal reports whether a person reads w as it is written.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// stand are examples of what arguments stand for.
var stand = map[string]string{
	"ENDPOINT": "ep_...", "DELIVERY": "dlv_...", "REPLAY": "rpl_...", "KEY": "key_...", "TENANT": "acme", "ALERT": "alr_...", "CHANNEL": "ach_...",
	"NAME": "gentle",
}

// AddExamples gives every command that says nothing itself an example: with what its
// arguments stand for.
func AddExamples(c *cobra.Command) {
	for _, child := range c.Commands() {
		AddExamples(child)
	}
	if c.Example != "" || c.HasSubCommands() || !c.HasParent() {
		return
	}
	words := []string{c.CommandPath()}
	for _, word := range strings.Fields(c.Use)[1:] {
		word = strings.TrimSuffix(word, "...")
		if example, ok := stand[word]; ok {
			word = example
		}
		words = append(words, word)
	}
	c.Example = "  " + strings.Join(words, " ")
}
