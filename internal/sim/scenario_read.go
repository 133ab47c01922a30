package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
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
	if (s.Cliff.Mode == CliffCrash || s.Cliff.Mode == CliffHang) && s.Cliff.For == 0 {
		s.Cliff.For = defaultCliffFor
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
		"capacity_after": &s.After, "poison": &s.Poison, "flaky": &s.Flaky, "swallow": &s.Swallow, "at_once": &s.AtOnce,
		"rate_limit": map[string]any{
			"per_second": &s.RateLimit.PerSecond, "burst": &s.RateLimit.Burst, "retry_after": &s.RateLimit.RetryAfter,
		},
		"failover": map[string]any{"every": &s.Failover.Every, "gap": &s.Failover.Gap},
		"timeout":  &s.Timeout, "horizon": &s.Horizon,
		"shared":      &s.Shared,
		"cliff":       map[string]any{"mode": &s.Cliff.Mode, "for": &s.Cliff.For, "window": &s.Cliff.Window},
		"stray":       map[string]any{"share": &s.Stray.Share, "retry_after": &s.Stray.RetryAfter},
		"single_429s": &s.Singles,
		"flap":        map[string]any{"every": &s.Flap.Every, "for": &s.Flap.For},
		"again": map[string]any{
			"after": &s.Again.After, "gap": &s.Again.Gap, "for": &s.Again.For, "capacity": &s.Again.Capacity,
		},
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
		items(r, node, path, "{at, for}", t, func(o *Outage) map[string]any {
			return map[string]any{"at": &o.At, "for": &o.For, "black_hole": &o.BlackHole}
		})
	case *[]Single:
		items(r, node, path, "{at, retry_after}", t, func(o *Single) map[string]any {
			return map[string]any{"at": &o.At, "retry_after": &o.RetryAfter}
		})
	case *Duration:
		d, err := quantity.ParseDuration(node.Value)
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

// items reads a list of objects.
func items[T any](r *reader, node *yaml.Node, path, form string, list *[]T, fields func(*T) map[string]any) {
	if node.Kind != yaml.SequenceNode {
		r.add(path, "must be a list of %s (line %d)", form, node.Line)
		return
	}
	*list = make([]T, len(node.Content))
	for i, item := range node.Content {
		r.object(item, fmt.Sprintf("%s[%d]", path, i), fields(&(*list)[i]))
	}
}
