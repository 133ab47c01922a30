package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// index finds the targets of an event type without asking each of them. A
// pattern that another one of the same target covers is left out: "order.paid"
// beside "order.*", or anything beside "*". So of a target's patterns at most one
// selects a type, and no target is found twice.
type index struct {
	all   []*target            // of "*"
	exact map[string][]*target // by event type
	under map[string][]*target // by what "order.*" asks for: "order."
}

// add indexes a target under its patterns. Targets come in their order.
func (x *index) add(t *target, types []string) {
	patterns := make(map[string]struct{}, len(types))
	for _, p := range types {
		patterns[p] = struct{}{}
	}
	if _, ok := patterns["*"]; ok {
		x.all = append(x.all, t)
		return
	}
	for p := range patterns {
		prefix, many := strings.CutSuffix(p, "*")
		switch {
		case covered(strings.TrimSuffix(prefix, "."), patterns):
		case many:
			x.under[prefix] = append(x.under[prefix], t)
		default:
			x.exact[p] = append(x.exact[p], t)
		}
	}
}

// covered reports whether a pattern for everything below a part of s is among
// the patterns: "a.*" or "a.b.*" for "a.b.c".
func covered(s string, patterns map[string]struct{}) bool {
	var room [hook.MaxTypeLength + 1]byte
	for i := range len(s) {
		if s[i] != '.' {
			continue
		}
		wide := append(append(room[:0], s[:i+1]...), '*')
		if _, ok := patterns[string(wide)]; ok {
			return true
		}
	}
	return false
}

// find returns the targets of an event type, in their order. What it returns
// must not be changed.
func (x *index) find(eventType string) []*target {
	found := x.all
	for i := range len(eventType) {
		if eventType[i] == '.' && i+1 < len(eventType) {
			found = merge(found, x.under[eventType[:i+1]])
		}
	}
	return merge(found, x.exact[eventType])
}

// merge returns both lists as one, in order. It changes neither.
func merge(a, b []*target) []*target {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := slices.Concat(a, b)
	slices.SortFunc(out, func(a, b *target) int { return a.n - b.n })
	return out
}

// match returns the endpoints that get the event: those that were named, or
// all whose types select it.
func (v *view) match(s *hook.Submission) ([]*target, error) {
	if len(s.Endpoints) == 0 {
		return v.index.find(s.Type), nil
	}
	out := make([]*target, 0, len(s.Endpoints))
	seen := make(map[*target]struct{}, len(s.Endpoints))
	for _, id := range s.Endpoints {
		t := v.byID[id]
		if t == nil {
			return nil, fmt.Errorf("%w %s", hook.ErrUnknownTarget, hook.EndpointPrefix.Format(id))
		}
		if _, twice := seen[t]; !twice {
			seen[t] = struct{}{}
			out = append(out, t)
		}
	}
	return out, nil
}

// filters reports whether a filter has a say in who gets the event: not when endpoints
// were named.
func (v *view) filters(s *hook.Submission, matches []*target) bool {
	return v.filtered && len(s.Endpoints) == 0 && slices.ContainsFunc(matches, func(t *target) bool { return t.filter != nil })
}
