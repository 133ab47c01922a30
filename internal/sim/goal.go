package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// goalValues are the numbers that goals may be set for: medians over the runs,
// or the worst run where the name says so. Re-crashes and broken holds are
// counted over all runs.
var goalValues = map[string]func(*Summary) Measure{
	"recrashes":     func(s *Summary) Measure { return Measure(s.Recrashes) },
	"peak":          func(s *Summary) Measure { return s.Peak },
	"peak_max":      func(s *Summary) Measure { return s.PeakMax },
	"drain":         func(s *Summary) Measure { return s.Drain },
	"drain_max":     func(s *Summary) Measure { return s.DrainMax },
	"waste":         func(s *Summary) Measure { return s.Waste },
	"dead":          func(s *Summary) Measure { return s.DeadMax }, // nobody asks for a median of none
	"live_p99":      func(s *Summary) Measure { return s.LiveP99 },
	"detect":        func(s *Summary) Measure { return s.Detect },
	"detect_max":    func(s *Summary) Measure { return s.DetectMax },
	"throttled":     func(s *Summary) Measure { return s.Throttled },
	"broken_holds":  func(s *Summary) Measure { return Measure(s.BrokenHolds) },
	"max_in_flight": func(s *Summary) Measure { return Measure(s.InFlight) },

	"recrashes_max":     func(s *Summary) Measure { return s.RecrashesMax },
	"drain_seconds":     func(s *Summary) Measure { return s.DrainSeconds },
	"drain_seconds_max": func(s *Summary) Measure { return s.DrainSecondsMax },
	"max_waiting":       func(s *Summary) Measure { return Measure(s.Waiting) },
	"undrained":         func(s *Summary) Measure { return Measure(s.Undrained) },

	"first_crashes":       func(s *Summary) Measure { return s.First.Crashes },
	"first_crashes_max":   func(s *Summary) Measure { return s.First.CrashesMax },
	"first_drain":         func(s *Summary) Measure { return s.First.Drain },
	"first_drain_max":     func(s *Summary) Measure { return s.First.DrainMax },
	"first_waste":         func(s *Summary) Measure { return s.First.Waste },
	"first_waste_max":     func(s *Summary) Measure { return s.First.WasteMax },
	"crashes_between_max": func(s *Summary) Measure { return s.Between },
	"second_crashes":      func(s *Summary) Measure { return s.Second.Crashes },
	"second_crashes_max":  func(s *Summary) Measure { return s.Second.CrashesMax },
	"second_drain":        func(s *Summary) Measure { return s.Second.Drain },
	"second_drain_max":    func(s *Summary) Measure { return s.Second.DrainMax },
	"second_waste":        func(s *Summary) Measure { return s.Second.Waste },
	"second_waste_max":    func(s *Summary) Measure { return s.Second.WasteMax },
	"found_max":           func(s *Summary) Measure { return s.Second.FoundMax },
}

// operators, those of two characters first: "<" begins "<=".
var operators = []struct {
	sign string
	ok   func(got, want float64) bool
}{
	{"==", func(a, b float64) bool { return a == b }},
	{"!=", func(a, b float64) bool { return a != b }},
	{"<=", func(a, b float64) bool { return a <= b }},
	{">=", func(a, b float64) bool { return a >= b }},
	{"<", func(a, b float64) bool { return a < b }},
	{">", func(a, b float64) bool { return a > b }},
}

// Goal is one condition on a summary.
type Goal struct {
	Text string
	got  func(*Summary) Measure
	ok   func(got, want float64) bool
	want float64
}

// ParseGoals reads conditions such as "recrashes==0,drain<=1.2,live_p99<=15s".
// Times are seconds or durations.
func ParseGoals(text string) ([]Goal, error) {
	var goals []Goal
	for item := range strings.SplitSeq(text, ",") {
		g, err := parseGoal(strings.TrimSpace(item))
		if err != nil {
			return nil, err
		}
		goals = append(goals, g)
	}
	return goals, nil
}

func parseGoal(text string) (Goal, error) {
	for _, op := range operators {
		name, value, found := strings.Cut(text, op.sign)
		if !found {
			continue
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		got, known := goalValues[name]
		if !known {
			return Goal{}, fmt.Errorf("%q: %q is not known; known: %s", text, name, strings.Join(slices.Sorted(maps.Keys(goalValues)), ", "))
		}
		want, err := goalNumber(value)
		if err != nil {
			return Goal{}, fmt.Errorf("%q: %q must be a number or a duration", text, value)
		}
		return Goal{Text: text, got: got, ok: op.ok, want: want}, nil
	}
	return Goal{}, fmt.Errorf("%q must be a comparison such as recrashes==0 or drain<=1.2", text)
}

func goalNumber(text string) (float64, error) {
	if d, err := quantity.ParseDuration(text); err == nil {
		return d.Seconds(), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && math.IsNaN(v) {
		return 0, strconv.ErrSyntax
	}
	return v, err
}

// Missed returns the goals that a summary misses, each with the number it has
// instead. What could not be measured misses every goal.
func (s *Summary) Missed(goals []Goal) []string {
	var missed []string
	for _, g := range goals {
		got := g.got(s)
		if math.IsNaN(float64(got)) || !g.ok(float64(got), g.want) {
			missed = append(missed, fmt.Sprintf("%s: it is %s", g.Text, got.Text(4)))
		}
	}
	return missed
}
