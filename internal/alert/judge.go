package alert

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Finding is a rule that is true of a subject now.
type Finding struct {
	Rule      string
	Level     hook.AlertLevel
	Severity  hook.Severity
	Subject   hook.AlertSubject
	Value     float64
	Threshold float64
	Summary   string // a sentence with numbers, and what to look at

	// For is how long it must be true before anybody is told.
	For time.Duration
	// Weak is not enough for a new alert, but keeps one that is open from
	// ending.
	Weak bool
	// Except are channels that must not carry it: they are what fails.
	Except []hook.ID
	// Named are things that are each worth a notice when they are named for the
	// first time, while the alert fires already.
	Named []hook.ID
}

// verdict is what a rule says of a reading; Judge makes a finding of it.
type verdict struct {
	value, threshold float64
	summary          string
	step             int
	weak             bool
	subject          *hook.AlertSubject // nil: that of the reading
	except, named    []hook.ID
}

func found(value, threshold float64, summary string) []verdict {
	return []verdict{{value: value, threshold: threshold, summary: summary}}
}

// Judge returns what is true now of the subject of a reading.
func Judge(t Thresholds, r *Reading) []Finding {
	var out []Finding
	level := r.Level()
	for _, rule := range byLevel[level] {
		if rule.judge == nil || !t.Enabled(rule.Name) {
			continue
		}
		for _, v := range rule.judge(values{t, rule}, r) {
			f := Finding{
				Rule: rule.Name, Level: level, Severity: rule.Severity(level, v.step), Subject: r.Subject,
				Value: v.value, Threshold: v.threshold, Summary: v.summary, Weak: v.weak, Except: v.except, Named: v.named,
				For: seconds(t.get(rule, forField)),
			}
			if v.subject != nil {
				f.Subject = *v.subject
			}
			out = append(out, f)
		}
	}
	return out
}

// Ending is how something that was an alert ended.
type Ending struct {
	Rule    string
	Subject hook.AlertSubject
	Summary string
}

// Endings tell of what is over, as far as there is more to tell than that.
func Endings(r *Reading) []Ending {
	l := &r.Lane
	if r.Level() != hook.LevelEndpoint || l.Open || l.OpenedAt.IsZero() || !l.ClosedAt.After(l.OpenedAt) {
		return nil
	}
	summary := r.who() + " answers again: its breaker closed after " + lasted(l.ClosedAt.Sub(l.OpenedAt)) + ", with " +
		of(l.Held, "delivery", "deliveries") + " held. They go out now, at a pace that it bears."
	return []Ending{{BreakerOpen, r.Subject, summary}, {"breaker_open_long", r.Subject, summary}}
}
