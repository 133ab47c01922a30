package kit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/config"
)

// The exit codes are part of the interface: scripts depend on them.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitNotFound     = 3
	ExitUnauthorised = 4
	ExitRefused      = 5
	ExitUnreachable  = 6
	ExitPartly       = 7
	ExitCheckFailed  = 8
	ExitInterrupted  = 130
)

// Exit is an exit code and what it means.
type Exit struct {
	Code    int
	Meaning string
}

// ExitCodes lists all exit codes.
func ExitCodes() []Exit {
	return []Exit{
		{ExitOK, "ok"},
		{ExitFailed, "failed"},
		{ExitUsage, "wrong usage or configuration; nothing was done"},
		{ExitNotFound, "not found"},
		{ExitUnauthorised, "not authorised: no key, a wrong one, or one that may not do this"},
		{ExitRefused, "refused by the server (409, 412, 422)"},
		{ExitUnreachable, "server unreachable, or it failed (5xx)"},
		{ExitPartly, "partly done: some of several things failed"},
		{ExitCheckFailed, "a check said no"},
		{ExitInterrupted, "interrupted"},
	}
}

// ErrSilent marks a failure that was already told.
var ErrSilent = errors.New("")

// ErrPartly is returned when some of several things failed.
var ErrPartly = errors.New("some of it failed")

// ErrCheckFailed is returned when something that was to be checked is not so.
var ErrCheckFailed = errors.New("the check failed")

// UsageError is a wrong command line.
type UsageError struct{ error }

func (e *UsageError) Unwrap() error { return e.error }

// Usage makes err one of usage.
func Usage(err error) error { return &UsageError{err} }

// Usagef is Usage of a new error.
func Usagef(format string, args ...any) error {
	return Usage(fmt.Errorf(format, args...))
}

// UnreachableError means that the server gave no usable answer.
type UnreachableError struct{ error }

// Unreachable makes err one of a server that gave no usable answer.
func Unreachable(err error) error { return &UnreachableError{err} }

func (e *UnreachableError) Unwrap() error { return e.error }

// ExitCode maps the outcome of a command.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, context.Canceled) { // only a signal cancels
		return ExitInterrupted
	}
	if _, ok := errors.AsType[*UsageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return ExitUsage
	}
	if errors.Is(err, ErrPartly) {
		return ExitPartly
	}
	if errors.Is(err, ErrCheckFailed) {
		return ExitCheckFailed
	}
	if _, ok := errors.AsType[*UnreachableError](err); ok {
		return ExitUnreachable
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.ExitCode()
	}
	return ExitFailed
}

// ExitCode is that of the answer.
func (p *Problem) ExitCode() int {
	switch {
	case p.Code == "invalid_parameter", p.Code == "tenant_required": // a flag is wrong, which the server has found
		return ExitUsage
	case p.Status == http.StatusNotFound:
		return ExitNotFound
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return ExitUnauthorised
	case p.Status == http.StatusConflict, p.Status == http.StatusPreconditionFailed, p.Status == http.StatusUnprocessableEntity:
		return ExitRefused
	case p.Status >= http.StatusInternalServerError:
		return ExitUnreachable
	default:
		return ExitFailed
	}
}

// FlagError adds the nearest flag to an unknown one.
func FlagError(cmd *cobra.Command, err error) error {
	help := Next("see: %s --help", cmd.CommandPath())
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usagef("%w%w", err, help)
	}
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	if near := config.Nearest(missing.GetSpecifiedName(), known); near != "" {
		return Usagef("%w%s", err, DidYouMean(near, "--"))
	}
	return Usagef("%w%w", err, help)
}
