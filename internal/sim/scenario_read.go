package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// maxDocument bounds a scenario file: far above what one needs.
const maxDocument = 64 << 10

// ReadScenario reads a scenario file, YAML or JSON. What it leaves out is as in
// Base. The error is a *hook.Invalid that names every field that is wrong.
func ReadScenario(data []byte) (Scenario, error) {
	s := Base()
	s.Name, s.Goals = "scenario", ""
	r := reader{}
	if node := r.document(data); node != nil {
		r.object(node, "", s.fields())
	}
	if err := r.err(); err != nil {
		return Scenario{}, err
	}
	if err := s.Check(); err != nil {
		return Scenario{}, err
	}
	return s, nil
}

// fields maps the names in a file to where their values go.
func (s *Scenario) fields() map[string]any {
	return map[string]any{
		"name": &s.Name, "goals": &s.Goals,
		"capacity": &s.Capacity, "latency": &s.Latency, "latency_cv": &s.LatencyCV, "network": &s.Network,
		"load": &s.Load, "endpoints": &s.Endpoints, "new": &s.New,
		"outages": &s.Outages, "batch": &s.Batch, "batch_at": &s.BatchAt,
		"crash":          map[string]any{"queue": &s.Crash.Queue, "overload": &s.Crash.Overload, "for": &s.Crash.For},
		"warmup":         map[string]any{"from": &s.Warmup.From, "over": &s.Warmup.Over},
		"capacity_after": &s.After, "poison": &s.Poison, "flaky": &s.Flaky,
		"rate_limit": map[string]any{
			"per_second": &s.RateLimit.PerSecond, "burst": &s.RateLimit.Burst, "retry_after": &s.RateLimit.RetryAfter,
		},
		"failover": map[string]any{"every": &s.Failover.Every, "gap": &s.Failover.Gap},
		"timeout":  &s.Timeout, "horizon": &s.Horizon,
	}
}

// reader fills in fields and collects what is wrong with their names, by path:
// the decoder's own messages name Go types instead.
type reader struct{ wrong []hook.FieldError }

func (r *reader) add(path, format string, args ...any) {
	r.wrong = append(r.wrong, hook.FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) err() error {
	if len(r.wrong) == 0 {
		return nil
	}
	return &hook.Invalid{Code: "invalid_scenario", Fields: r.wrong}
}

// document returns the top of a file, nil when there is nothing to read.
func (r *reader) document(data []byte) *yaml.Node {
	if len(data) > maxDocument {
		r.add("scenario", "must be at most 64 KiB")
		return nil
	}
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // an empty file is the base scenario
	case err != nil:
		r.add("scenario", "is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	if !errors.Is(decoder.Decode(&more), io.EOF) {
		r.add("scenario", "must be one document")
		return nil
	}
	return doc.Content[0]
}

func (r *reader) object(node *yaml.Node, path string, fields map[string]any) {
	if node.Kind != yaml.MappingNode {
		r.add(orTop(path), "must be an object (line %d)", node.Line)
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		target, known := fields[key.Value]
		switch {
		case !known:
			r.add(full, "unknown field (line %d); known: %s", key.Line, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[key.Value]:
			r.add(full, "given twice (line %d)", key.Line)
		default:
			r.value(value, full, target)
		}
		seen[key.Value] = true
	}
}

func orTop(path string) string {
	if path == "" {
		return "scenario"
	}
	return path
}

// value reads one field. An alias is refused: nothing here repeats.
func (r *reader) value(node *yaml.Node, path string, target any) {
	switch t := target.(type) {
	case map[string]any:
		r.object(node, path, t)
	case *[]Outage:
		r.outages(node, path, t)
	case *Duration:
		d, err := policy.ParseDuration(node.Value)
		if node.Kind != yaml.ScalarNode || err != nil {
			r.add(path, "must be a duration such as 200ms, 30s or 5m (line %d)", node.Line)
			return
		}
		*t = Duration(d)
	case *string:
		r.scalar(node, path, target, "a text")
	case *bool:
		r.scalar(node, path, target, "true or false")
	case *int:
		if node.Tag == "!!float" { // the decoder would cut off the fraction
			node = &yaml.Node{Line: node.Line}
		}
		r.scalar(node, path, target, "a whole number")
	default:
		r.scalar(node, path, target, "a number")
	}
}

func (r *reader) scalar(node *yaml.Node, path string, target any, want string) {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!null" || node.Decode(target) != nil {
		r.add(path, "must be %s (line %d)", want, node.Line)
	}
}

func (r *reader) outages(node *yaml.Node, path string, list *[]Outage) {
	if node.Kind != yaml.SequenceNode {
		r.add(path, "must be a list of {at, for} (line %d)", node.Line)
		return
	}
	*list = make([]Outage, len(node.Content))
	for i, item := range node.Content {
		o := &(*list)[i]
		r.object(item, fmt.Sprintf("%s[%d]", path, i), map[string]any{"at": &o.At, "for": &o.For, "black_hole": &o.BlackHole})
	}
}

// Bounds of a run, so that no scenario keeps a machine busy for ever.
const (
	maxEvents  = 50e6
	maxOutages = 100
	maxTime    = 30 * 24 * time.Hour
)

// Check names every field that is out of bounds. The error is a *hook.Invalid.
func (s *Scenario) Check() error {
	r := reader{}
	r.number("capacity", s.Capacity, 0.1, 100_000)
	r.duration("latency", s.Latency, 100*time.Microsecond, 2*time.Minute)
	r.number("latency_cv", s.LatencyCV, 0, 5)
	r.duration("network", s.Network, 0, 10*time.Second)
	r.number("load", s.Load, 0.001, 0.99)
	r.number("endpoints", float64(s.Endpoints), 1, 1000)
	r.number("batch", s.Batch, 0, 10_000)
	r.duration("batch_at", s.BatchAt, 0, maxTime)
	r.number("capacity_after", s.After, 0, 2)
	r.number("poison", s.Poison, 0, 0.99)
	r.number("flaky", s.Flaky, 0, 0.99)
	r.duration("crash.queue", s.Crash.Queue, 0, time.Hour)
	r.number("crash.overload", s.Crash.Overload, 0, 1000)
	r.duration("crash.for", s.Crash.For, 0, maxTime)
	r.number("warmup.from", s.Warmup.From, 0, 1)
	r.duration("warmup.over", s.Warmup.Over, 0, time.Hour)
	r.number("rate_limit.per_second", s.RateLimit.PerSecond, 0, 100_000)
	r.number("rate_limit.burst", s.RateLimit.Burst, 0, 1e6)
	r.duration("rate_limit.retry_after", s.RateLimit.RetryAfter, 0, time.Hour)
	r.duration("failover.every", s.Failover.Every, 0, maxTime)
	r.duration("failover.gap", s.Failover.Gap, 0, time.Hour)
	r.duration("timeout", s.Timeout, 0, 2*time.Minute)
	r.duration("horizon", s.Horizon, 0, maxTime)
	s.checkOutages(&r)
	if len(r.wrong) == 0 {
		s.checkWhole(&r)
	}
	return r.err()
}

// number refuses what is outside [low, high], NaN included.
func (r *reader) number(path string, v, low, high float64) {
	if !(v >= low && v <= high) {
		r.add(path, "must be between %v and %v", low, high)
	}
}

func (r *reader) duration(path string, v Duration, low, high time.Duration) {
	if time.Duration(v) < low || time.Duration(v) > high {
		r.add(path, "must be between %s and %s", policy.FormatDuration(low), policy.FormatDuration(high))
	}
}

func (s *Scenario) checkOutages(r *reader) {
	if len(s.Outages) > maxOutages {
		r.add("outages", "must be at most %d", maxOutages)
		return
	}
	var last Duration
	for i, o := range s.Outages {
		path := fmt.Sprintf("outages[%d]", i)
		r.duration(path+".at", o.At, 0, maxTime)
		r.duration(path+".for", o.For, time.Second, maxTime)
		if o.At < last {
			r.add(path+".at", "must not be before the end of the outage before it")
		}
		last = min(o.At, Duration(maxTime)) + min(o.For, Duration(maxTime))
	}
}

// checkWhole finds what only the whole scenario can break.
func (s *Scenario) checkWhole(r *reader) {
	limit := &s.RateLimit
	if s.spare() < 0.005*s.Capacity {
		r.add("load", "leaves nothing to drain a backlog with: it must stay below capacity_after and rate_limit.per_second")
		return
	}
	if limit.PerSecond > 0 && (limit.Burst < 1 || limit.RetryAfter%Duration(time.Second) != 0) {
		r.add("rate_limit", "needs a burst of at least 1 and a retry_after of whole seconds")
	}
	if s.Failover.Every > 0 && s.Failover.Gap >= s.Failover.Every {
		r.add("failover.gap", "must be shorter than failover.every")
	}
	if s.Warmup.Over > 0 && s.Warmup.From == 0 {
		r.add("warmup.from", "must be above 0")
	}
	if s.end() > maxTime.Seconds() {
		r.add("outages", "make a run of more than 30 days")
	}
	if events := float64(s.Endpoints) * s.Capacity * (s.Load*s.end() + s.Batch); events > maxEvents {
		r.add("capacity", "makes a run of %.0f million events; at most %.0f million", math.Ceil(events/1e6), maxEvents/1e6)
	}
	if s.Goals != "" {
		if _, err := ParseGoals(s.Goals); err != nil {
			r.add("goals", "%v", err)
		}
	}
}
