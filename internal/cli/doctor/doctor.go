// Package doctor looks whether a server can run here, and whether the one that runs
// is well: one line for each thing that matters, with what to do about it.
//
// It changes nothing and does not disturb a running server: what only the server can
// know, it is asked.
package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/door"
	"github.com/breakwaterhq/breakwater/internal/upkeep"
)

// How a check ended.
const (
	ok   = "ok"
	warn = "warn"
	fail = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// Machine is what the checks ask of the machine.
type Machine struct {
	LookupHost  func(ctx context.Context, host string) ([]string, error)
	Roots       func() (*x509.CertPool, error)
	DiskFree    func(dir string) (int64, error)
	Descriptors func() uint64
}

// ThisMachine is the one that the process runs on.
func ThisMachine() Machine {
	return Machine{LookupHost: net.DefaultResolver.LookupHost, Roots: x509.SystemCertPool, DiskFree: app.DiskFree, Descriptors: door.Descriptors}
}

// doctor is one run.
type doctor struct {
	*kit.Session
	Machine

	cfg    *config.Config
	opts   *app.Options
	report upkeep.Report
	checks []Check
}

// Command is the command.
func Command(s *kit.Session, m Machine) *cobra.Command {
	var reach []string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check settings, folder, disk, store, keys, names and ways out, and say what to do", Args: kit.WantArgs(0, 0),
		Long: "Check what a server needs, with the settings that it would run with, and the server itself if it runs.\n" +
			"Nothing is changed. Exits with 8 when a check fails; a warning is no failure.",
		Example: "  breakwater doctor --config /etc/breakwater.yaml\n  breakwater doctor --reach https://hooks.example.com/ --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &doctor{Session: s, Machine: m}
			var err error
			d.cfg, err = config.Load(config.Input{Flags: cmd.Flags(), Environ: s.Environ, Version: s.Version})
			if err := d.examine(cmd.Context(), err, reach); err != nil {
				return err
			}
			return d.tell()
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&reach, "reach", nil, "URL that deliveries must be able to reach, repeatable; a connection is opened, nothing is sent")
	return cmd
}

// add notes how a check ended, in one line.
func (d *doctor) add(name, status, detail, remedy string) {
	detail = strings.Join(strings.FieldsFunc(detail, func(r rune) bool { return r == '\n' }), "; ")
	d.checks = append(d.checks, Check{name, status, detail, remedy})
}

func (d *doctor) ok(name, format string, args ...any) {
	d.add(name, ok, fmt.Sprintf(format, args...), "")
}

// examine runs the checks. Its error is that of somebody who ended it.
func (d *doctor) examine(ctx context.Context, configErr error, reach []string) error {
	if !d.settings(configErr) {
		return nil
	}
	d.opts = &d.cfg.Options
	d.opts.Log = slog.New(slog.DiscardHandler) // what matters is in the report
	d.folder()
	d.disk()
	d.flushes()
	d.descriptors()
	d.bounded(ctx, d.names)
	d.roots()
	d.bounded(ctx, func(ctx context.Context) { d.report = upkeep.Look(ctx, *d.opts) })
	d.store()
	d.bounded(ctx, d.server)
	d.clock()
	d.nodes()
	d.keys()
	for _, url := range reach {
		d.bounded(ctx, func(ctx context.Context) { d.reach(ctx, url) })
	}
	return ctx.Err()
}

// bounded gives a check the time that a request has.
func (d *doctor) bounded(ctx context.Context, check func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	check(ctx)
}

// settings reports whether there is a configuration to go on with.
func (d *doctor) settings(err error) bool {
	const name = "settings"
	if wrong, is := errors.AsType[*config.Error](err); is {
		for _, p := range wrong.Problems {
			d.add(name, fail, p.String(), "correct it; docs/configuration.md lists all settings, and the other checks come after it")
		}
		return false
	}
	if err != nil {
		d.add(name, fail, err.Error(), "correct it; the other checks come after it")
		return false
	}
	given := 0
	for _, s := range d.cfg.Effective() {
		if s.Origin != "default" {
			given++
		}
	}
	if _, err := app.New(d.cfg.Options); err != nil {
		d.add(name, fail, err.Error(), "correct the setting; the other checks come after it")
		return false
	}
	d.ok(name, "valid, %s given", kit.Plural(given, "setting", "settings"))
	return true
}

// tell prints what was found.
func (d *doctor) tell() error {
	counts := map[string]int{}
	for _, c := range d.checks {
		counts[c.Status]++
	}
	if d.JSON {
		err := d.PrintJSON(map[string]any{"checks": d.checks, "ok": counts[ok], "warn": counts[warn], "fail": counts[fail]})
		if err != nil {
			return err
		}
	} else if err := d.lines(); err != nil {
		return err
	}
	if n := counts[fail]; n > 0 {
		return fmt.Errorf("%w: %d of %s", kit.ErrCheckFailed, n, kit.Plural(len(d.checks), "check", "checks"))
	}
	return nil
}

func (d *doctor) lines() error {
	for _, c := range d.checks {
		if d.Quiet && c.Status == ok {
			continue
		}
		if err := d.Printf("%-4s  %-10s  %s\n", c.Status, c.Name, c.Detail); err != nil {
			return err
		}
		if c.Remedy == "" {
			continue
		}
		if err := d.Printf("%18sdo: %s\n", "", c.Remedy); err != nil {
			return err
		}
	}
	return nil
}

// short shows a time for people.
func short(t time.Duration) string {
	switch {
	case t >= time.Second || t <= -time.Second:
		return t.Round(10 * time.Millisecond).String()
	default:
		return t.Round(10 * time.Microsecond).String()
	}
}
