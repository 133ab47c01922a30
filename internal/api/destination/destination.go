// Package destination reads what people write about an endpoint: which events it gets,
// in which form, and with which headers.
//
// It names every field that broke a rule. It stores nothing, and leaves the address to
// the guard of egress and the policy to its own package.
package destination

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/filter"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/shape"
)

const maxHeaders = 50

// CheckTypes checks the event types that an endpoint, or a replay, is about.
func CheckTypes(bad *rest.Invalid, types []string) {
	for i, p := range types {
		if err := hook.CheckPattern(p); err != nil {
			bad.AddAs("type_invalid", rest.At("types", i), err.Error())
		}
	}
}

// Filter reads the expression that chooses events by their content; empty: none.
func Filter(bad *rest.Invalid, s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if _, err := filter.Compile(s); err != nil {
		bad.Add("filter", "invalid", err.Error())
	}
	return s
}

// BodyMode reads the form of the body; empty: the payload as it is.
func BodyMode(bad *rest.Invalid, s string) hook.BodyMode {
	if s == "" {
		return hook.BodyPayload
	}
	m, err := hook.ParseBodyMode(s)
	if err != nil {
		bad.Add("body", "not_allowed", err.Error())
	}
	return m
}

// TraceContext reads what becomes of trace contexts; empty: they are not sent.
func TraceContext(bad *rest.Invalid, s string) hook.TraceContext {
	if s == "" {
		return hook.TraceOff
	}
	t, err := hook.ParseTraceContext(s)
	if err != nil {
		bad.Add("trace_context", "not_allowed", err.Error())
	}
	return t
}

// checkTraceHeaders refuses headers of the endpoint's own by the names that a
// trace context is forwarded under: a receiver would get two.
func checkTraceHeaders(bad *rest.Invalid, t hook.TraceContext, headers map[string]string) {
	if t != hook.TraceForward {
		return
	}
	for name := range headers {
		switch http.CanonicalHeaderKey(name) {
		case hook.HeaderTraceParent, hook.HeaderTraceState:
			bad.Add("headers."+name, "not_allowed", "cannot be given together with trace_context forward")
		}
	}
}

// checkBodyHeaders refuses headers that belong to the form of the body.
func checkBodyHeaders(bad *rest.Invalid, mode hook.BodyMode, headers map[string]string) {
	for name := range headers {
		if shape.Reserved(mode, name) {
			bad.Add("headers."+name, "not_allowed", "cannot be given together with body "+mode.String())
		}
	}
}

// CheckHeaders checks the headers of an endpoint's own, also against those that its
// other settings bring. Messages never hold a value.
func CheckHeaders(bad *rest.Invalid, e *hook.Endpoint, headers map[string]string) {
	checkTraceHeaders(bad, e.TraceContext, headers)
	checkBodyHeaders(bad, e.Body, headers)
	if len(headers) > maxHeaders {
		bad.Add("headers", "out_of_range", fmt.Sprintf("must have at most %d entries", maxHeaders))
	}
	seen := map[string]bool{}
	for name, value := range headers {
		if key := strings.ToLower(name); seen[key] {
			bad.Add("headers."+name, "not_allowed", "is given twice; case makes no difference")
		} else {
			seen[key] = true
		}
		switch err := hook.CheckHeader(name, value); {
		case errors.Is(err, hook.ErrHeaderReserved):
			bad.AddAs("header_forbidden", "headers."+name, err.Error())
		case err != nil:
			bad.Add("headers."+name, "invalid", err.Error())
		case value == view.Masked:
			bad.Add("headers."+name, "not_allowed", "has the value that stands for a hidden one")
		}
	}
}

// PatchHeaders applies a merge patch to headers, whose names know no case. A
// masked value that comes back from a read keeps what is stored.
func PatchHeaders(bad *rest.Invalid, stored map[string]string, ch rest.Change[map[string]*string]) map[string]string {
	switch {
	case !ch.Set:
		return stored
	case ch.Null:
		return nil
	}
	out := rest.MergeTexts(stored, nil)
	for _, name := range slices.Sorted(maps.Keys(ch.To)) {
		value := ch.To[name]
		have, ok := findHeader(out, name)
		switch {
		case value != nil && *value == view.Masked && ok:
			continue
		case value != nil && *value == view.Masked:
			bad.Add("headers."+name, "not_allowed", "is hidden and cannot be set to ***")
			continue
		}
		delete(out, have)
		if value != nil {
			out[name] = *value
		}
	}
	return out
}

// HeaderDiff tells which headers changed, without their values.
func HeaderDiff(before, after map[string]string) map[string][]string {
	out := map[string][]string{}
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			out["set"] = append(out["set"], name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			out["removed"] = append(out["removed"], name)
		}
	}
	return out
}

// findHeader returns the stored spelling of a header name.
func findHeader(headers map[string]string, name string) (string, bool) {
	for have := range headers {
		if strings.EqualFold(have, name) {
			return have, true
		}
	}
	return "", false
}
