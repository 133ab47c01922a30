package filter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm/runtime"
)

// meter is what one filter may still spend on one event.
type meter struct{ left int }

// pay takes steps, and fails when there are not enough.
func (m *meter) pay(steps int) error {
	if m.left < steps {
		m.left = -1
		return ErrTooMuch
	}
	m.left -= steps
	return nil
}

// pattern is a regular expression, and how many instructions it has.
type pattern struct {
	*regexp.Regexp
	size int
}

// What a step pays for, in bytes.
const (
	comparedPerStep = 256
	copiedPerStep   = 64
)

// maxText bounds the texts that an expression makes, in bytes.
const maxText = 64 << 10

// charged are the functions that stand for operators. Each gets the meter first.
func charged() []expr.Option {
	truth := new(func(*meter, any, any) bool)
	fn := func(name string, do func(m *meter, args []any) (any, error), types ...any) expr.Option {
		return expr.Function(name, func(args ...any) (any, error) {
			m, ok := args[0].(*meter)
			if !ok {
				return nil, errors.New("no meter")
			}
			return do(m, args[1:])
		}, types...)
	}
	order := func(name string, compare func(a, b any) bool) expr.Option {
		return fn(name, func(m *meter, args []any) (any, error) {
			if err := m.pay(1 + min(textLen(args[0]), textLen(args[1]))/comparedPerStep); err != nil {
				return nil, err
			}
			return compare(args[0], args[1]), nil
		}, truth)
	}
	search := func(name string, find func(s, part string) bool) expr.Option {
		return fn(name, func(m *meter, args []any) (any, error) { return searchText(m, args[0], args[1], find) }, truth)
	}
	return []expr.Option{
		fn("$step", func(m *meter, args []any) (any, error) {
			n, _ := args[0].(int)
			return true, m.pay(max(1, n))
		}, new(func(*meter, int) bool)),
		fn("$eq", func(m *meter, args []any) (any, error) { return equal(m, args[0], args[1]) }, truth),
		fn("$ne", func(m *meter, args []any) (any, error) {
			same, err := equal(m, args[0], args[1])
			return !same, err
		}, truth),
		order("$lt", runtime.Less), order("$le", runtime.LessOrEqual), order("$gt", runtime.More), order("$ge", runtime.MoreOrEqual),
		fn("$in", func(m *meter, args []any) (any, error) { return isIn(m, args[0], args[1]) }, truth),
		search("$contains", strings.Contains), search("$startsWith", strings.HasPrefix), search("$endsWith", strings.HasSuffix),
		fn("$matches", matches, truth),
		fn("$add", add, new(func(*meter, any, any) any)),
		fn("$len", lengthOf, new(func(*meter, any) int)),
		fn("$lower", changed(strings.ToLower), new(func(*meter, any) string)),
		fn("$upper", changed(strings.ToUpper), new(func(*meter, any) string)),
		fn("$trim", changed(strings.TrimSpace), new(func(*meter, any) string)),
	}
}

// callLen and callText exist for their names and kinds: nothing calls them, because
// charge puts those that pay in their place.
func callLen(...any) (any, error)  { return 0, errors.New("is not paid for") }
func callText(...any) (any, error) { return "", errors.New("is not paid for") }

func textLen(v any) int {
	s, _ := v.(string)
	return len(s)
}

// equal compares values of any kind, and pays for every part that it looks at.
func equal(m *meter, a, b any) (bool, error) {
	if err := m.pay(1 + min(textLen(a), textLen(b))/comparedPerStep); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if same, err := equal(m, a[i], b[i]); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for name, value := range a {
			other, ok := b[name]
			if !ok {
				return false, nil
			}
			if same, err := equal(m, value, other); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	switch b.(type) {
	case []any, map[string]any:
		return false, nil
	}
	return runtime.Equal(a, b), nil
}

// isIn looks for an element of a list or a name of an object.
func isIn(m *meter, what, where any) (any, error) {
	switch where := where.(type) {
	case nil:
		return false, m.pay(1)
	case []any:
		for _, v := range where {
			if same, err := equal(m, what, v); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		name, ok := what.(string)
		if err := m.pay(1 + len(name)/comparedPerStep); err != nil || !ok {
			return false, err
		}
		_, there := where[name]
		return there, nil
	default:
		return nil, fmt.Errorf("in needs a list or an object, not %s", kindOf(where))
	}
}

// searchText finds nothing in what is not there.
func searchText(m *meter, in, part any, find func(s, part string) bool) (any, error) {
	if err := m.pay(1 + textLen(in)/comparedPerStep + textLen(part)/comparedPerStep); err != nil {
		return nil, err
	}
	if in == nil || part == nil {
		return false, nil
	}
	s, ok := in.(string)
	p, ok2 := part.(string)
	if !ok || !ok2 {
		return nil, fmt.Errorf("cannot look for %s in %s: both must be texts", kindOf(part), kindOf(in))
	}
	return find(s, p), nil
}

func matches(m *meter, args []any) (any, error) {
	p, ok := args[1].(*pattern)
	if !ok {
		return nil, errors.New("no pattern")
	}
	if args[0] == nil {
		return false, m.pay(1)
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("cannot match %s: it must be a text", kindOf(args[0]))
	}
	// Each character may be tried against each instruction.
	if err := m.pay(1 + p.size/8 + len(s)/4*(1+p.size/16)); err != nil {
		return nil, err
	}
	return p.MatchString(s), nil
}

// add adds numbers and joins texts.
func add(m *meter, args []any) (any, error) {
	n := textLen(args[0]) + textLen(args[1])
	if err := m.pay(1 + n/copiedPerStep); err != nil {
		return nil, err
	}
	if n > maxText {
		return nil, fmt.Errorf("+ makes a text of more than %d bytes", maxText)
	}
	return runtime.Add(args[0], args[1]), nil
}

func lengthOf(m *meter, args []any) (any, error) {
	if err := m.pay(1 + textLen(args[0])/comparedPerStep); err != nil {
		return nil, err
	}
	switch v := args[0].(type) {
	case string:
		return utf8.RuneCountInString(v), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	default:
		return nil, fmt.Errorf("%s has no length", kindOf(v))
	}
}

func changed(do func(string) string) func(m *meter, args []any) (any, error) {
	return func(m *meter, args []any) (any, error) {
		s, ok := args[0].(string)
		if !ok {
			return nil, fmt.Errorf("needs a text, not %s", kindOf(args[0]))
		}
		if err := m.pay(1 + len(s)/copiedPerStep); err != nil {
			return nil, err
		}
		return do(s), nil
	}
}

// kindOf says what a value is, in words of JSON.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "a number"
	}
}
