package policy

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Limits is what the operator lays down: narrower bounds for tenants and
// endpoints, and presets of the operator's own. The zero value, like nil, adds
// nothing.
type Limits struct {
	// Presets are known beside the built-in ones. A preset under the name of a
	// built-in one is ignored.
	Presets []PresetInfo

	bounds map[string]bound
}

// bound narrows one number, or fixes one switch. nil means open.
type bound struct{ low, high, only any }

// Unbound returns the limits without their bounds.
func (l *Limits) Unbound() *Limits {
	if l == nil {
		return nil
	}
	return &Limits{Presets: l.Presets}
}

// ParseLimits reads the operator's bounds: the shape of a policy with
// {"min": x, "max": y} in the place of numbers and durations, and with the one
// value that is allowed in the place of a switch. The error is a
// *hook.Invalid with paths from "policy_limits".
func ParseLimits(doc []byte) (*Limits, error) {
	ps := newProblems("policy_limits")
	l := &Limits{bounds: map[string]bound{}}
	w := walker{problems: ps}
	w.leaf = func(path string, r rule, raw json.RawMessage) { l.read(path, r, raw, ps) }
	w.document(doc)
	if err := ps.err(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Limits) read(path string, r rule, raw json.RawMessage, ps *problems) {
	if list, ok := r.(delays); ok {
		r = list.item // each delay of the list is limited
	}
	switch r.(type) {
	case wholeRule, numberRule, durationRule:
	case flag:
		value, wrong := r.read(raw)
		if len(wrong) > 0 {
			ps.add(path, wrong[0])
			return
		}
		l.bounds[path] = bound{only: value}
		return
	default:
		ps.add(path, "cannot be limited")
		return
	}
	var ends map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &ends) != nil {
		ps.add(path, "must be an object with min, max or both")
		return
	}
	var b bound
	for key, end := range ends {
		value, wrong := r.read(end)
		switch {
		case key != "min" && key != "max":
			ps.add(path+"."+key, `unknown key; known: min, max`)
		case len(wrong) > 0:
			ps.add(path+"."+key, wrong[0])
		case key == "min":
			b.low = value
		default:
			b.high = value
		}
	}
	if b.low != nil && b.high != nil && measure(b.low) > measure(b.high) {
		ps.add(path, "min must not exceed max")
	}
	l.bounds[path] = b
}

// check says how a value breaks the operator's bounds; "" when it keeps them.
func (l *Limits) check(path string, value any) string {
	if l == nil || value == nil {
		return ""
	}
	b, ok := l.bounds[path]
	if !ok {
		return ""
	}
	if b.only != nil {
		if value != b.only {
			return fmt.Sprintf("limited by the server to %v", b.only)
		}
		return ""
	}
	values := []any{value}
	if list, ok := value.([]time.Duration); ok {
		values = values[:0]
		for _, d := range list {
			values = append(values, d)
		}
	}
	for _, v := range values {
		switch {
		case b.high != nil && measure(v) > measure(b.high):
			return "limited by the server to at most " + show(b.high)
		case b.low != nil && measure(v) < measure(b.low):
			return "limited by the server to at least " + show(b.low)
		}
	}
	return ""
}

// measure makes values of one field comparable.
func measure(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return float64(v)
	default:
		return 0
	}
}

func show(v any) string {
	if d, ok := v.(time.Duration); ok {
		return quantity.FormatDuration(d)
	}
	return quantity.FormatNumber(measure(v))
}

func presetNames(limits *Limits) []string {
	var names []string
	for _, p := range allPresets(limits) {
		names = append(names, p.Name)
	}
	return names
}
