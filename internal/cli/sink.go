package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/sink"
)

// sinkFlags are the flags of the sink that need reading before they become a
// sink.Config.
type sinkFlags struct {
	behaviour sink.Behaviour
	listen    string
	secrets   []string
	secretFn  string
	rateLimit string
	crashOver string
	capacity  string
	flap      string
	log       string
}

func (s *session) sinkCommand() *cobra.Command {
	var f sinkFlags
	cmd := &cobra.Command{
		Use: "sink", Short: "Run a receiver that fails on purpose", Args: wantArgs(0, 0),
		Long: `Run a receiver that fails, slows down, limits its rate, flaps or crashes as told.
Any path is accepted. While it runs:
  GET  /_sink          all counts, also per path
  POST /_sink          change behaviour: {"fail":503,"for":"5s"}, {"latency":"200ms"}, {"secrets":["whsec_…"]},
                       {"rate_limit":"20/s"}, {"crash":true}, {"heal":true}, {"reset":true} (counts)
  POST /_sink/{path}   the same for one path; DELETE takes it back`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, closeLog, err := s.sinkConfig(&f)
			if err != nil {
				return err
			}
			receiver, err := sink.New(cfg)
			if err != nil {
				return errors.Join(&usageError{err}, closeLog())
			}
			return errors.Join(receiver.Run(cmd.Context()), closeLog())
		},
	}
	f.define(cmd)
	return cmd
}

func (f *sinkFlags) define(cmd *cobra.Command) {
	flags, b := cmd.Flags(), &f.behaviour
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9000", "address to listen on")
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret to verify with (whsec_…), repeatable; none: signatures are not checked")
	flags.StringVar(&f.secretFn, "secret-file", "", "file with one secret per line")
	flags.IntVar(&b.Fail, "fail", 0, "status to fail with")
	flags.Float64Var(&b.FailRate, "fail-rate", 0, "share of requests that fail, 0 to 1; all when only --fail is given")
	flags.DurationVar(&b.FailFor, "fail-for", 0, "how long failing lasts")
	flags.DurationVar(&b.After, "after", 0, "when failing begins")
	flags.DurationVar(&b.Latency, "latency", 0, "wait before every answer")
	flags.StringVar(&f.rateLimit, "rate-limit", "", "accepted requests per second, such as 20/s; beyond it 429 with Retry-After")
	flags.IntVar(&b.RateBurst, "rate-burst", 0, "requests that --rate-limit lets through at once (default those of one second)")
	flags.IntVar(&b.RetryAfter, "retry-after", 0, "seconds to send as Retry-After with 429 and failures")
	flags.StringVar(&f.flap, "flap", "", "alternate between working and failing, such as 30s/10s")
	flags.StringVar(&f.crashOver, "crash-over", "", "arrivals in one second that crash the sink, such as 100/s")
	flags.DurationVar(&b.CrashFor, "crash-for", 10*time.Second, "how long a crash lasts; connections are reset meanwhile")
	flags.StringVar(&f.capacity, "capacity", "", "requests per second that --workers can serve; a full queue crashes the sink")
	flags.IntVar(&b.Workers, "workers", 10, "parallel handlers of --capacity")
	flags.IntVar(&b.Queue, "queue", 0, "requests that may wait for a worker of --capacity (default 3 s of work, at least 20)")
	flags.BoolVar(&b.Gone, "gone", false, "answer 410")
	flags.BoolVar(&b.SlowBody, "slow-body", false, "answer 200, then let the body drip")
	flags.StringVar(&f.log, "log", "", "file for one JSON line per request")
}

// sinkConfig reads the flags. closeLog is never nil.
func (s *session) sinkConfig(f *sinkFlags) (cfg sink.Config, closeLog func() error, err error) {
	closeLog = func() error { return nil }
	b := f.behaviour
	var errs [5]error
	b.RateLimit, errs[0] = readFlag("rate-limit", f.rateLimit, sink.ParseRate)
	b.CrashOver, errs[1] = readFlag("crash-over", f.crashOver, sink.ParseRate)
	b.Capacity, errs[2] = readFlag("capacity", f.capacity, sink.ParseRate)
	b.Flap, errs[3] = readFlag("flap", f.flap, sink.ParseFlap)
	fromFile, fileErr := readFlag("secret-file", f.secretFn, readLines)
	errs[4] = fileErr
	if err := errors.Join(errs[:]...); err != nil {
		return cfg, closeLog, &usageError{err}
	}
	cfg = sink.Config{Listen: f.listen, Initial: b, Secrets: append(fromFile, f.secrets...)}
	if !s.quiet {
		cfg.Out = s.Stdout
		cfg.OnListen = func(addr net.Addr) {
			s.note("sink listening on http://%s/", addr)
		}
	}
	if f.log != "" {
		file, err := os.OpenFile(f.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // holds ids only
		if err != nil {
			return cfg, closeLog, usagef("--log: %w", err)
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
