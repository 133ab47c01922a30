package cli

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
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitUnauthorised = 4
	exitRefused      = 5
	exitUnreachable  = 6
	exitPartly       = 7
	exitCheckFailed  = 8
	exitInterrupted  = 130
)

// errSilent marks a failure that was already told.
var errSilent = errors.New("")

// errPartly is returned when some of several things failed.
var errPartly = errors.New("some of it failed")

// errCheckFailed is returned when something that was to be checked is not so.
var errCheckFailed = errors.New("the check failed")

// usageError is a wrong command line.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// unreachableError means that the server gave no usable answer.
type unreachableError struct{ error }

func (e *unreachableError) Unwrap() error { return e.error }

// exitCode maps the outcome of a command.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) { // only a signal cancels
		return exitInterrupted
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return exitUsage
	}
	if errors.Is(err, errPartly) {
		return exitPartly
	}
	if errors.Is(err, errCheckFailed) {
		return exitCheckFailed
	}
	if _, ok := errors.AsType[*unreachableError](err); ok {
		return exitUnreachable
	}
	if p, ok := errors.AsType[*problem](err); ok {
		return p.exitCode()
	}
	return exitFailed
}

func (p *problem) exitCode() int {
	switch {
	case p.Status == http.StatusNotFound:
		return exitNotFound
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return exitUnauthorised
	case p.Status == http.StatusConflict, p.Status == http.StatusPreconditionFailed, p.Status == http.StatusUnprocessableEntity:
		return exitRefused
	case p.Status >= http.StatusInternalServerError:
		return exitUnreachable
	default:
		return exitFailed
	}
}

// flagError adds the nearest flag to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return &usageError{err}
	}
	var known []string
	add := func(f *pflag.Flag) { known = append(known, f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return usagef("%w%s", err, didYouMean(config.Nearest(missing.GetSpecifiedName(), known), "--"))
}
