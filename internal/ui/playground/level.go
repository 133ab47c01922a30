package playground

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// values are settings of a policy as people type them, by path. The address of the
// page has them as parameters: retry.backoff.cap=1h.
type values map[string]string

// roots are the members of a policy that have settings below them or are one.
var roots = []string{"retry", "retry_after", "classify", "timeout", "concurrency", "rate_limit", "breaker", "replay", "disable_after"}

// maxValues bounds the settings of an address. A policy has fewer.
const maxValues = 200

// kinds are the settings that exist only with one kind of their object, and which.
var kinds = map[string]struct{ selector, kind string }{
	"retry.backoff.base":       {"retry.backoff.kind", "exponential"},
	"retry.backoff.multiplier": {"retry.backoff.kind", "exponential"},
	"retry.backoff.cap":        {"retry.backoff.kind", "exponential"},
	"retry.backoff.delays":     {"retry.backoff.kind", "schedule"},
	"retry.jitter.percent":     {"retry.jitter.kind", "percent"},
	"retry.jitter.low":         {"retry.jitter.kind", "range"},
	"retry.jitter.high":        {"retry.jitter.kind", "range"},
	"concurrency.limit":        {"concurrency.mode", "fixed"},
	"concurrency.initial":      {"concurrency.mode", "adaptive"},
	"concurrency.max":          {"concurrency.mode", "adaptive"},
}

// readValues takes the settings out of the parameters of an address.
func readValues(q url.Values) values {
	v := values{}
	for name := range q {
		root, _, _ := strings.Cut(name, ".")
		if text := strings.TrimSpace(q.Get(name)); text != "" && slices.Contains(roots, root) && len(v) < maxValues {
			v[name] = text
		}
	}
	return v
}

// differing leaves out what is as it would be anyway, and what the kind of its object
// does not have: a form sends all of its fields.
func (v values) differing(base values) values {
	out := values{}
	for path, text := range v {
		if text != base[path] {
			out[path] = text
		}
	}
	for path, k := range kinds {
		kind := out[k.selector]
		if kind == "" {
			kind = base[k.selector]
		}
		if kind != k.kind {
			delete(out, path)
		}
	}
	if out["retry.backoff.kind"] == "schedule" && out["retry.backoff.delays"] == "" {
		out["retry.backoff.delays"] = "30s, 2m, 10m, 1h" // there is no schedule without delays
	}
	return out
}

// level puts the settings together as the API takes them.
func (v values) level(preset string) json.RawMessage {
	doc := map[string]any{}
	if preset != "" {
		doc["preset"] = preset
	}
	for _, path := range slices.Sorted(maps.Keys(v)) {
		at := doc
		names := strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			inner, ok := at[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				at[name] = inner
			}
			at = inner
		}
		at[names[len(names)-1]] = typed(path, v[path])
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return json.RawMessage("{}") // cannot happen: texts, numbers and flags
	}
	return raw
}

// typed is a text as JSON has it: a number, true or false, a list, else a text.
func typed(path, text string) any {
	switch {
	case strings.HasSuffix(path, ".delays"):
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == ';' })
	case text == "true" || text == "false":
		return text == "true"
	case strings.ContainsAny(text[:1], "-0123456789") && json.Valid([]byte(text)):
		return json.Number(text)
	default:
		return text
	}
}

// plain is a value of JSON as people type it.
func plain(raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		return strings.Join(list, ", ")
	default:
		return string(bytes.TrimSpace(raw))
	}
}

// leaves takes a policy apart.
func leaves(policy json.RawMessage) (values, error) {
	raw, err := view.Leaves(policy)
	if err != nil {
		return nil, err
	}
	v := values{}
	for path, value := range raw {
		v[path] = plain(value)
	}
	return v, nil
}

// replacing is the patch that makes one policy level of another: what it does not
// have any more is null.
func replacing(stored, level json.RawMessage) json.RawMessage {
	var from, to map[string]json.RawMessage
	if json.Unmarshal(stored, &from) != nil || json.Unmarshal(level, &to) != nil {
		return level
	}
	out := maps.Clone(to)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	for name, before := range from {
		after, kept := to[name]
		switch {
		case !kept:
			out[name] = json.RawMessage("null")
		case bytes.HasPrefix(bytes.TrimSpace(before), []byte("{")) && bytes.HasPrefix(bytes.TrimSpace(after), []byte("{")):
			out[name] = replacing(before, after)
		}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return level
	}
	return raw
}
