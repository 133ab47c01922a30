package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

// sinkFlags are the flags of the sink.
type sinkFlags struct {
	behaviour sink.Behaviour
	listen    string
	perPath   bool
	secrets   []string
	subscribe []string
	secretFn  string
	log       string
}

func (s *session) sinkCommand() *cobra.Command {
	var f sinkFlags
	cmd := &cobra.Command{
		Use: "sink", Short: "Run a receiver that fails on purpose", Args: kit.WantArgs(0, 0),
		Long: `Run a receiver that fails, slows down, throttles, refuses, flaps or crashes as told.
Any path is accepted; all paths share what it can take, unless --per-path.
It prints a line for each request, up to 20 in a second, and of busier seconds a line of counts; with --quiet a line
of counts for each second, with --json a document for each request.
While it runs:
  GET  /_sink          all counts and crashes, also per path
  POST /_sink          change behaviour: every flag below is a field, such as {"fail":503,"fail_for":"5s"}
                       or, shorter, {"fail":503,"for":"5s"}; {"down_for":"30s"}, {"next":[429]},
                       {"throttle_over":"20/s"}; also {"secrets":["whsec_…"]}, {"crash":true},
                       {"heal":true} (forget all behaviour), {"reset":true} (counts)
  POST /_sink/{path}   the same for one path; DELETE takes it back`,
		Example: `  breakwater sink --subscribe 'order.*'
  breakwater sink --crash-over 100/s
  breakwater sink --throttle-over 20/s --retry-after 2
  breakwater sink --latency 200ms --refuse-over 50/s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, closeLog, err := s.sinkConfig(&f)
			if err != nil {
				return err
			}
			if len(f.subscribe) > 0 {
				secrets, err := s.subscribe(cmd.Context(), f.listen, f.subscribe)
				if err != nil {
					return errors.Join(err, closeLog())
				}
				cfg.Secrets = append(cfg.Secrets, secrets...)
			}
			receiver, err := sink.New(cfg)
			if err != nil {
				return errors.Join(kit.Usage(sinkError(err)), closeLog())
			}
			return errors.Join(taken(receiver.Run(cmd.Context())), closeLog())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

func (f *sinkFlags) define(flags *pflag.FlagSet) {
	flags.SortFlags = false // what belongs together stands together
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9000", "address to listen on")
	flags.StringSliceVar(&f.subscribe, "subscribe", nil, "have the server deliver events of these types here, such as 'order.*'; makes the endpoint sink-PORT if it is not there")
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret to verify with (whsec_…), repeatable; none: signatures are not checked")
	flags.StringVar(&f.secretFn, "secret-file", "", "file with one secret per line")
	flags.StringVar(&f.log, "log", "", "file for one JSON line per request")
	flags.BoolVar(&f.perPath, "per-path", false, "every path is a destination of its own, with limits and crashes of its own")
	for _, field := range sink.Fields() {
		flag := flags.VarPF(&behaviourFlag{field, &f.behaviour, ""}, flagName(field.Name), "", field.Help)
		if field.Switch {
			flag.NoOptDefVal = "true"
		}
	}
}

func flagName(field string) string { return strings.ReplaceAll(field, "_", "-") }

// behaviourFlag is one setting of the sink as a flag.
type behaviourFlag struct {
	field sink.Field
	into  *sink.Behaviour
	text  string
}

func (v *behaviourFlag) String() string { return v.text }
func (v *behaviourFlag) Type() string   { return v.field.Type }

func (v *behaviourFlag) Set(text string) error {
	v.text = text
	return v.field.Set(v.into, text)
}

// sinkError names flags where the sink names its settings.
func sinkError(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var named []error
		for _, each := range joined.Unwrap() {
			named = append(named, sinkError(each))
		}
		return errors.Join(named...)
	}
	if broken, ok := errors.AsType[*sink.FieldError](err); ok {
		return fmt.Errorf("--%s: %w", flagName(broken.Field), broken.Rule)
	}
	return err
}

// sinkConfig reads the flags. closeLog is never nil.
func (s *session) sinkConfig(f *sinkFlags) (cfg sink.Config, closeLog func() error, err error) {
	closeLog = func() error { return nil }
	if _, _, err := net.SplitHostPort(f.listen); err != nil {
		return cfg, closeLog, kit.Usagef("--listen: %q must be an address such as 127.0.0.1:9000", f.listen)
	}
	fromFile, err := readFlag("secret-file", f.secretFn, readLines)
	if err != nil {
		return cfg, closeLog, kit.Usage(err)
	}
	cfg = sink.Config{Listen: f.listen, Initial: f.behaviour, PerPath: f.perPath, Secrets: append(fromFile, f.secrets...)}
	cfg.OnListen = func(addr net.Addr) { s.Note("sink listening on http://%s/", addr) }
	if s.JSON {
		cfg.Log = s.Stdout
	} else {
		cfg.Out, cfg.Requests = s.Stdout, !s.Quiet
	}
	if s.JSON && f.log != "" {
		return cfg, closeLog, kit.Usagef("--log: --json prints the same lines; use one of them")
	}
	if f.log != "" {
		file, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // holds ids only
		if err != nil {
			return cfg, closeLog, kit.Usagef("--log: %w", err)
		}
		cfg.Log, closeLog = file, file.Close
	}
	return cfg, closeLog, nil
}

func readFlag[T any](flag, text string, read func(string) (T, error)) (T, error) {
	v, err := read(text)
	if err != nil {
		return v, fmt.Errorf("--%s: %w", flag, err)
	}
	return v, nil
}

// readLines returns the lines of a file that are not empty; none for no file.
func readLines(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(raw)), nil
}
