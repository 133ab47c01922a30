package alert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Rule is one thing that people are told of.
type Rule struct {
	Name    string
	Meaning string // one line: what is wrong when it fires
	Metric  string // what is measured
	Healthy string // where it is when all is well
	At      []At
	Fields  []Field
	// Window is the time over which the metric is taken; 0: it is a state.
	Window time.Duration
	// Least is how long an alert lasts at least, so that what comes in bursts is
	// one alert and not several. Any alert ends when its condition was false for
	// Options.ResolveAfter.
	Least time.Duration

	query string // of Prometheus, with {field} for thresholds; empty: see Query
	judge func(v values, r *Reading) []verdict
}

// At is a level that a rule looks at. Steps are its severities: the first is that
// of a new alert, the others those it may rise to.
type At struct {
	Level hook.AlertLevel
	Steps []hook.Severity
}

// Names of fields that several parts know.
const (
	minSamples = "min_samples" // fewer are no sample
	forField   = "for"         // how long the condition must be true
)

// Runbook is where the documentation tells what to do.
func (r *Rule) Runbook() string { return "docs/alerts.md#" + r.Name }

// Severity is that of a step at a level; 0 when the rule does not look there.
func (r *Rule) Severity(level hook.AlertLevel, step int) hook.Severity {
	for _, at := range r.At {
		if at.Level == level {
			return at.Steps[min(step, len(at.Steps)-1)]
		}
	}
	return 0
}

// Severities are those that its alerts may have, lowest first.
func (r *Rule) Severities() (out []hook.Severity) {
	for _, at := range r.At {
		for _, s := range at.Steps {
			if !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Field returns a threshold of the rule by name.
func (r *Rule) Field(name string) (Field, bool) {
	i := slices.IndexFunc(r.Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return r.Fields[i], true
}

// MinSamples is how many there must be by default before the rule says anything;
// 0 when any one will do.
func (r *Rule) MinSamples() int {
	f, _ := r.Field(minSamples)
	return int(f.Default)
}

// Query is a condition of Prometheus that says the same about all nodes together,
// with the given thresholds. Metrics carry no ids, so a rule about one endpoint
// asks whether the alert is open.
func (r *Rule) Query(t Thresholds) string {
	if r.query == "" {
		return fmt.Sprintf("sum(breakwater_alerts_open{alert=%q}) > 0", r.Name)
	}
	var pairs []string
	for _, f := range r.Fields {
		pairs = append(pairs, "{"+f.Name+"}", quantity.FormatNumber(t.Get(r.Name, f.Name)))
	}
	return strings.NewReplacer(pairs...).Replace(r.query)
}

// Unit is what a threshold is counted in. The values of durations are seconds.
type Unit uint8

// The units of thresholds.
const (
	Count    Unit = iota // a whole number
	Number               // any number
	Percent              // of 100
	Duration             // shown and set like 5m
)

// Field is a threshold of a rule: the setting alerts.<rule>.<name>.
type Field struct {
	Name    string
	Default float64
	Low     float64
	High    float64
	Unit    Unit
	Doc     string
}

// Parse reads a threshold as it is written in settings.
func (f Field) Parse(text string) (float64, error) {
	v, err := f.read(text)
	if err != nil {
		return 0, err
	}
	if v < f.Low || v > f.High {
		return 0, fmt.Errorf("must be %s", f.Bounds())
	}
	return v, nil
}

func (f Field) read(text string) (float64, error) {
	switch f.Unit {
	case Duration:
		d, err := quantity.ParseDuration(text)
		return d.Seconds(), err
	case Count:
		n, err := quantity.ParseWhole(text)
		return float64(n), err
	default:
		return quantity.ParseNumber(text)
	}
}

// Format writes a threshold as Parse reads it.
func (f Field) Format(v float64) string {
	if f.Unit == Duration {
		return quantity.FormatDuration(seconds(v))
	}
	return quantity.FormatNumber(v)
}

// Bounds words what is allowed.
func (f Field) Bounds() string { return f.Format(f.Low) + " to " + f.Format(f.High) }

// seconds makes a duration of a threshold; of one that does not exist 0.
func seconds(v float64) time.Duration {
	if math.IsNaN(v) {
		return 0
	}
	return time.Duration(math.Round(v * float64(time.Second)))
}

// Rules lists every rule, in the order of the documentation.
func Rules() []*Rule { return slices.Clone(table) }

// Lookup returns a rule by name, nil when there is none.
func Lookup(name string) *Rule { return byName[name] }

var byName = func() map[string]*Rule {
	m := make(map[string]*Rule, len(table))
	for _, r := range table {
		m[r.Name] = r
	}
	return m
}()

// byLevel are the rules that look at a level.
var byLevel = func() map[hook.AlertLevel][]*Rule {
	m := make(map[hook.AlertLevel][]*Rule)
	for _, r := range table {
		for _, at := range r.At {
			m[at.Level] = append(m[at.Level], r)
		}
	}
	return m
}()
