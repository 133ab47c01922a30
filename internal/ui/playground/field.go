package playground

import (
	"maps"
	"slices"
	"strings"
)

// field is a field of the form.
type field struct {
	Name  string
	Label string
	Value string
	Hint  string
	Error string
	Words []string // of a choice; nil: it is typed
	Whole bool     // a whole number
	Wide  bool
}

// ID is the name as ids may have it.
func (f field) ID() string { return "f-" + strings.ReplaceAll(f.Name, ".", "-") }

// shown are the fields of a policy that the form has, in its order. The rest is
// reached by YAML.
var shown = []field{
	{Name: "retry.max_attempts", Label: "Attempts", Hint: "1 to 50, the first included", Whole: true},
	{Name: "retry.max_elapsed", Label: "Give up after"},
	{Name: "retry.backoff.kind", Label: "Waits", Words: []string{"exponential", "schedule"}},
	{Name: "retry.jitter.kind", Label: "Jitter", Words: []string{"full", "equal", "decorrelated", "percent", "range", "none"}},
	{Name: "retry.backoff.base", Label: "First ceiling"},
	{Name: "retry.backoff.multiplier", Label: "Multiplier"},
	{Name: "retry.backoff.cap", Label: "Greatest ceiling"},
	{Name: "retry.min_delay", Label: "Least wait"},
	{Name: "retry.backoff.delays", Label: "Delays", Hint: "one for each retry", Wide: true},
	{Name: "retry.jitter.percent", Label: "Jitter, percent"},
	{Name: "retry.jitter.low", Label: "Jitter from, times"},
	{Name: "retry.jitter.high", Label: "Jitter to, times"},
	{Name: "concurrency.mode", Label: "In flight", Words: []string{"adaptive", "fixed"}},
	{Name: "concurrency.max", Label: "At most", Whole: true},
	{Name: "concurrency.limit", Label: "Always", Whole: true},
	{Name: "timeout.total", Label: "Timeout"},
	{Name: "rate_limit.per_second", Label: "Requests per second", Hint: "0: no limit"},
	{Name: "breaker.on_open", Label: "While open", Words: []string{"hold", "dead_letter"}},
	{Name: "breaker.max_hold", Label: "Hold at most"},
}

// fieldsOf fills the form: the settings that hold, or what was typed and is wrong.
func fieldsOf(settings values, wrong map[string]wrongValue) []field {
	var out []field
	for _, f := range shown {
		value, there := settings[f.Name]
		if w, bad := wrong[f.Name]; bad {
			f.Value, f.Error = w.typed, w.message
			if value != "" {
				f.Error += "; " + value + " is used"
			}
			out = append(out, f)
			continue
		}
		if !there {
			continue // its object has another kind
		}
		f.Value = value
		out = append(out, f)
	}
	return out
}

// wrongValue is a setting that the API refuses.
type wrongValue struct{ typed, message string }

// hidden are the settings that are changed and have no field: the form carries them.
func hidden(changed values) values {
	out := maps.Clone(changed)
	for _, f := range shown {
		delete(out, f.Name)
	}
	return out
}

// others are the refused settings that have no field.
func others(wrong map[string]wrongValue) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(wrong)) {
		if !slices.ContainsFunc(shown, func(f field) bool { return f.Name == path }) {
			out = append(out, path+" "+wrong[path].message)
		}
	}
	return out
}
