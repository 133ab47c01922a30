package alert

import (
	"fmt"
	"maps"
	"math"
	"time"
)

// Thresholds are the settings of all rules: what differs from the table. The zero
// value is the table's.
type Thresholds struct {
	set map[setting]float64
	off map[string]bool
}

type setting struct{ rule, field string }

// Get returns a threshold. One that does not exist is not a number, which no value
// exceeds.
func (t Thresholds) Get(rule, field string) float64 {
	if r := Lookup(rule); r != nil {
		return t.get(r, field)
	}
	return math.NaN()
}

func (t Thresholds) get(r *Rule, field string) float64 {
	if v, ok := t.set[setting{r.Name, field}]; ok {
		return v
	}
	if f, ok := r.Field(field); ok {
		return f.Default
	}
	return math.NaN()
}

// Duration returns a threshold that is a duration.
func (t Thresholds) Duration(rule, field string) time.Duration {
	return seconds(t.Get(rule, field))
}

// Enabled reports whether a rule is judged at all.
func (t Thresholds) Enabled(rule string) bool { return !t.off[rule] }

// Equal reports whether two sets say the same of every rule, be it by being set or
// by the table.
func (t Thresholds) Equal(o Thresholds) bool {
	for _, r := range table {
		if t.Enabled(r.Name) != o.Enabled(r.Name) {
			return false
		}
		for _, f := range r.Fields {
			if t.get(r, f.Name) != o.get(r, f.Name) {
				return false
			}
		}
	}
	return true
}

// With returns the thresholds with one of them set from its text.
func (t Thresholds) With(rule, field, text string) (Thresholds, error) {
	r := Lookup(rule)
	if r == nil {
		return t, fmt.Errorf("alerts.%s: there is no such rule", rule)
	}
	f, ok := r.Field(field)
	if !ok {
		return t, fmt.Errorf("alerts.%s.%s: the rule has no such threshold", rule, field)
	}
	v, err := f.Parse(text)
	if err != nil {
		return t, fmt.Errorf("alerts.%s.%s: %w", rule, field, err)
	}
	set := make(map[setting]float64, len(t.set)+1)
	maps.Copy(set, t.set)
	set[setting{rule, field}] = v
	return Thresholds{set: set, off: t.off}, nil
}

// WithRule returns the thresholds with a rule switched on or off.
func (t Thresholds) WithRule(rule string, enabled bool) (Thresholds, error) {
	if Lookup(rule) == nil {
		return t, fmt.Errorf("alerts.%s: there is no such rule", rule)
	}
	off := make(map[string]bool, len(t.off)+1)
	maps.Copy(off, t.off)
	off[rule] = !enabled
	return Thresholds{set: t.set, off: off}, nil
}

// Check reports thresholds that contradict each other.
func (t Thresholds) Check() error {
	if low, high := t.Get(HoldExpiring, "percent"), t.Get(HoldExpiring, "page_percent"); low >= high {
		return fmt.Errorf("alerts.%s.page_percent: must be more than percent, %v", HoldExpiring, low)
	}
	return nil
}

// values are the thresholds of one rule.
type values struct {
	t    Thresholds
	rule *Rule
}

func (v values) of(field string) float64 { return v.t.get(v.rule, field) }

func (v values) duration(field string) time.Duration { return seconds(v.of(field)) }
