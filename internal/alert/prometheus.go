package alert

import (
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Condition is what a Prometheus asks to know whether a rule fires.
type Condition struct {
	Query    string
	Severity hook.Severity
	For      time.Duration // how long it must be true
}

// Measured reports whether Prometheus can measure the rule by itself, whether or not
// somebody judges alerts.
func (r *Rule) Measured() bool { return r.query != "" }

// Conditions returns the conditions of a rule, one for each severity that
// Prometheus can tell apart; none when the rule is switched off. A rule that
// Prometheus can measure by itself is judged over all nodes together, with the
// severity that it has at the highest level. Of the others it is known whether an
// alert is open: those have lasted long enough already.
func (r *Rule) Conditions(t Thresholds) (out []Condition) {
	if !t.Enabled(r.Name) {
		return nil
	}
	if r.Measured() {
		highest := r.At[len(r.At)-1]
		return []Condition{{Query: r.Query(t), Severity: highest.Steps[0], For: t.Duration(r.Name, forField)}}
	}
	for _, s := range r.Severities() {
		out = append(out, Condition{
			Query: fmt.Sprintf("sum(breakwater_alerts_open{alert=%q,severity=%q}) > 0", r.Name, s), Severity: s,
		})
	}
	return out
}
