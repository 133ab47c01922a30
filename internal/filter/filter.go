// Package filter decides by its content whether an endpoint gets an event: one
// expression over type, payload and tenant that is true or false.
//
// Whoever may change an endpoint writes the expression, and whoever may publish writes
// the payload, so neither is trusted with time or memory. Only operators and functions
// whose cost is known may be used, each is paid for before it runs, and what has used
// up its budget ends with an error. The package reads no store and no clock.
package filter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// MaxLength bounds an expression, in characters.
const MaxLength = 1000

const (
	// maxNodes bounds the parts of an expression.
	maxNodes = 400
	// maxSteps bounds the work for one filter and one event; a step is worth some
	// hundred nanoseconds. So a filter ends within some tens of milliseconds.
	maxSteps = 200_000
	// maxAllSteps bounds that for all filters of one event.
	maxAllSteps = 1_000_000
	// memory bounds the elements of the lists that an expression makes.
	memory = 10_000
)

// Event is what filters see of an event. It is for one goroutine.
type Event struct {
	Type    string
	Tenant  string
	Payload any // as Decode returns it
	spent   int // steps
}

// Program is a filter ready to run. It is never changed and safe for concurrent use.
type Program struct{ code *vm.Program }

// SyntaxError is what is wrong with an expression.
type SyntaxError struct {
	At      int // the character where it is, counted from 1
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at character %d: %s", e.At, e.Message) }

// Compile checks an expression and makes it ready to run. Its errors are SyntaxErrors.
func Compile(text string) (p *Program, err error) {
	if n := utf8.RuneCountInString(text); n > MaxLength {
		return nil, &SyntaxError{At: MaxLength + 1, Message: fmt.Sprintf("has %d characters, at most %d are allowed", n, MaxLength)}
	}
	if !utf8.ValidString(text) {
		return nil, &SyntaxError{At: 1, Message: "is not UTF-8"}
	}
	if strings.TrimSpace(text) == "" {
		return nil, &SyntaxError{At: 1, Message: "is empty"}
	}
	defer func() {
		if recover() != nil { // the parser's mistake, and no reason to end the request
			p, err = nil, &SyntaxError{At: 1, Message: "cannot be read"}
		}
	}()
	cfg := config()
	tree, err := parser.ParseWithConfig(text, cfg)
	if err != nil {
		return nil, syntaxError(err)
	}
	if err := permit(tree.Node); err != nil {
		return nil, err
	}
	if _, err := checker.Check(tree, cfg); err != nil {
		return nil, syntaxError(err)
	}
	if err := charge(&tree.Node); err != nil {
		return nil, err
	}
	if _, err := checker.Check(tree, cfg); err != nil {
		return nil, syntaxError(err)
	}
	code, err := compiler.Compile(tree, cfg)
	if err != nil {
		return nil, syntaxError(err)
	}
	return &Program{code}, nil
}

// syntaxError takes over where a mistake is and what it is; the rest of the library's
// text is a picture of the line.
func syntaxError(err error) *SyntaxError {
	if wrong, ok := errors.AsType[*file.Error](err); ok {
		return &SyntaxError{At: wrong.From + 1, Message: wrong.Message}
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return &SyntaxError{At: 1, Message: message}
}

// ErrTooMuch is why a filter ended that used up its budget.
var ErrTooMuch = errors.New("takes too much work for this payload")

var errNotBool = errors.New("is neither true nor false for this payload")

// maxErrorLength bounds the text of an error, in bytes.
const maxErrorLength = 300

// Match evaluates the filter for an event. Of an error nothing but its text matters:
// the expression could not be evaluated for this payload.
func (p *Program) Match(e *Event) (bool, error) {
	m := &meter{left: min(maxSteps, maxAllSteps-e.spent)}
	defer func(had int) { e.spent += had - max(0, m.left) }(m.left)
	if err := m.pay(1); err != nil {
		return false, err
	}
	machine := vm.VM{MemoryBudget: memory}
	out, err := machine.Run(p.code, environment{Type: e.Type, Tenant: e.Tenant, Payload: e.Payload, Meter: m})
	switch {
	case m.left < 0:
		return false, ErrTooMuch
	case err != nil:
		return false, evalError(err)
	}
	match, ok := out.(bool)
	if !ok {
		return false, errNotBool
	}
	return match, nil
}

// evalError is short enough to be shown, and holds no more of the payload than the
// library's texts do: kinds of values and names.
func evalError(err error) error {
	message := err.Error()
	if wrong, ok := errors.AsType[*file.Error](err); ok {
		if strings.HasPrefix(wrong.Message, "invalid operation: bool(") { // what the library makes of a result
			return errNotBool
		}
		message = fmt.Sprintf("at character %d: %s", wrong.From+1, wrong.Message)
	}
	message = strings.ToValidUTF8(strings.Map(oneLine, message), "\uFFFD")
	if len(message) > maxErrorLength {
		end := maxErrorLength
		for !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end] + "…"
	}
	return errors.New(message)
}

func oneLine(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}
