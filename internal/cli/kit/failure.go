package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/config"
)

// Failure is what --json tells of a failure: one document on a line of stderr.
// Scripts depend on its members; only the texts may change.
type Failure struct {
	Code      string  `json:"code"` // of the API's answer, else one of those below
	Detail    string  `json:"detail"`
	Errors    []Field `json:"errors"`         // what is wrong with which flag, argument, setting or field
	Next      string  `json:"next,omitempty"` // what to do about it
	ID        string  `json:"id,omitempty"`   // which of several objects it is about
	Status    int     `json:"status,omitempty"`
	RequestID string  `json:"request_id,omitempty"`
	ExitCode  int     `json:"exit_code"`
}

// Field is one thing that is wrong with what was given.
type Field struct {
	Path    string `json:"path"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

// failureCodes are those of failures that are no answer of the API.
var failureCodes = map[int]string{
	ExitFailed: "failed", ExitUsage: "usage", ExitUnreachable: "unreachable", ExitPartly: "partly_done", ExitCheckFailed: "check_failed",
}

// nextStep is the part of an error that says what to do.
type nextStep struct{ text string }

func (n *nextStep) Error() string { return "\n  " + n.text }

// Next is the end of an error: what to do about it, on a line of its own.
func Next(format string, args ...any) error { return &nextStep{fmt.Sprintf(format, args...)} }

// TellFailure tells that something failed: of an object if several were named, else
// the whole command.
func (s *Session) TellFailure(id string, err error) {
	switch {
	case s.JSON:
		document, _ := json.Marshal(newFailure(id, err)) // it has texts and numbers only
		s.Note("%s", document)
	case id != "":
		s.Note("%s: %v", id, err)
	default:
		s.Note("breakwater: %v", err)
	}
}

func newFailure(id string, err error) Failure {
	f := Failure{ID: id, ExitCode: ExitCode(err), Detail: err.Error(), Errors: []Field{}}
	f.Code = failureCodes[f.ExitCode]
	if p, ok := errors.AsType[*Problem](err); ok {
		f.Detail = strings.Replace(f.Detail, p.Error(), p.detail(), 1)
		f.Next, f.Status, f.RequestID, f.Errors = p.next(), p.Status, p.RequestID, OrEmpty(p.Errors)
		if p.Code != "" && f.ExitCode == p.ExitCode() {
			f.Code = p.Code
		}
		return f
	}
	if n, ok := errors.AsType[*nextStep](err); ok {
		f.Next, f.Detail = n.text, strings.Replace(f.Detail, n.Error(), "", 1)
	}
	if f.ExitCode == ExitUsage {
		f.Errors = OrEmpty(wrongFields(err))
	}
	return f
}

// wrongFields returns what is wrong with a command line or a configuration. Every text
// about a flag, an argument or a line of a file begins with its name and a colon.
func wrongFields(err error) (fields []Field) {
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		for _, p := range wrong.Problems {
			fields = append(fields, Field{Path: p.Key, Message: p.Message})
		}
		return fields
	}
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return []Field{{Path: "--" + missing.GetSpecifiedName(), Code: "unknown", Message: err.Error()}}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return []Field{{Path: "--" + invalid.GetFlag().Name, Message: err.Error()}}
	}
	if alone, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return []Field{{Path: "--" + alone.GetFlag().Name, Code: "required", Message: err.Error()}}
	}
	for line := range strings.Lines(err.Error()) {
		names, message, ok := strings.Cut(strings.TrimSpace(line), ": ")
		names, _, _ = strings.Cut(names, " (line ")
		for name := range strings.SplitSeq(names, ", ") {
			if ok && name != "" && !strings.Contains(name, " ") {
				fields = append(fields, Field{Path: name, Message: message})
			}
		}
	}
	return fields
}
