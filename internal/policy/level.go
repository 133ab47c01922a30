package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Level is one stored part of a policy. JSON may be empty.
type Level struct {
	Name string // LevelServer, LevelTenant or LevelEndpoint
	JSON []byte
	// Base is the named policy that the level refers to. The level starts from it
	// as from a preset.
	Base Named
}

// Named is a policy that was saved under a name: a level of its own, over the
// preset that it names itself.
type Named struct {
	Name string // empty: none
	JSON []byte
}

// The levels, from the most general to the most specific.
const (
	LevelServer   = "server"
	LevelTenant   = "tenant"
	LevelEndpoint = "endpoint"
)

// Levels are the three that an endpoint's policy is made of.
func Levels(server []byte, tenant, endpoint hook.PolicyLevel) []Level {
	return []Level{
		{Name: LevelServer, JSON: server},
		{Name: LevelTenant, JSON: tenant.JSON, Base: Named{tenant.Name, tenant.Named}},
		{Name: LevelEndpoint, JSON: endpoint.JSON, Base: Named{endpoint.Name, endpoint.Named}},
	}
}

// StartOf returns the name of the preset or policy that a level starts from, empty
// when it names none or cannot be read.
func StartOf(doc []byte) string {
	var level struct {
		Preset json.RawMessage `json:"preset"`
	}
	if json.Unmarshal(doc, &level) != nil {
		return ""
	}
	name, _ := readString(level.Preset)
	return name
}

// maxDocument bounds a level: several times what a policy that sets everything
// needs, and little enough that reading a hostile one costs nothing.
const maxDocument = 64 << 10

// problems collects everything that is wrong with a document.
type problems struct{ fields []hook.FieldError }

// maxProblems bounds what is reported of one document: its author writes as
// many unknown keys as he likes.
const maxProblems = 20

// shown is a path as errors show it; "" is the document itself.
func shown(path string) string {
	if path == "" {
		return "policy"
	}
	return "policy." + path
}

// add notes a finding once: two levels may break the same rule.
func (ps *problems) add(path, message string) {
	found := hook.FieldError{Path: shown(path), Message: message}
	if len(ps.fields) < maxProblems && !slices.Contains(ps.fields, found) {
		ps.fields = append(ps.fields, found)
	}
}

// addNew adds a finding unless its field is known to be wrong already: what
// follows from another error is noise.
func (ps *problems) addNew(path, message string) {
	if !slices.ContainsFunc(ps.fields, func(f hook.FieldError) bool { return f.Path == shown(path) }) {
		ps.add(path, message)
	}
}

func (ps *problems) err() error {
	if len(ps.fields) == 0 {
		return nil
	}
	slices.SortStableFunc(ps.fields, func(a, b hook.FieldError) int { return cmp.Compare(a.Path, b.Path) })
	return &hook.Invalid{Code: "invalid_policy", Fields: ps.fields}
}

// levelReader holds what one level says, as far as it has been read. Values that
// broke a rule are left out.
type levelReader struct {
	preset   string // "" when it names none
	base     string // a name that is known besides the presets
	values   settings
	problems *problems
}

// parseLevel reads one level and reports everything that is wrong with it
// alone. An empty one and null say nothing.
func parseLevel(doc []byte, base string, ps *problems) *levelReader {
	l := &levelReader{base: base, values: settings{}, problems: ps}
	switch {
	case len(bytes.TrimSpace(doc)) == 0:
	case len(doc) > maxDocument:
		ps.add("", "must be at most 64 KiB")
	default:
		l.document(doc)
	}
	l.checkKinds(l.values)
	return l
}

func (l *levelReader) document(doc []byte) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		l.problems.add("", "is not valid JSON: "+err.Error())
	} else if compact.String() != "null" {
		l.object("", compact.Bytes())
	}
}

// object reads one object; path is "" for the document itself.
func (l *levelReader) object(path string, raw json.RawMessage) {
	var members map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
		if !l.short(path, raw) {
			l.problems.add(path, "must be an object")
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if len(l.problems.fields) >= maxProblems {
			return
		}
		full := strings.TrimPrefix(path+"."+key, ".")
		l.member(path, key, full, members[key])
	}
}

func (l *levelReader) member(object, key, full string, raw json.RawMessage) {
	switch f, known := fieldByPath[full]; {
	case slices.Contains(entryObjects, object):
		l.entry(object, key, full, raw)
	case object == "" && key == "preset":
		l.presetName(raw)
	case strings.Contains(key, "."):
		l.unknown(object, key, full) // "retry.max_attempts" as one key is not the field
	case known:
		l.leaf(full, f.rule, raw)
	case !isObject(full):
		l.unknown(object, key, full)
	case string(raw) == "null":
		l.values[full] = nil
	default:
		l.object(full, raw)
	}
}

func (l *levelReader) entry(object, key, full string, raw json.RawMessage) {
	r, message := entryRule(object, key)
	if message != "" {
		l.problems.add(full, message)
		return
	}
	l.leaf(full, r, raw)
}

func (l *levelReader) unknown(object, key, full string) {
	l.problems.add(full, "unknown key "+strconv.Quote(key)+"; known: "+strings.Join(membersOf(object), ", "))
}

// isObject reports whether path is an inner node of the policy object.
func isObject(path string) bool {
	return slices.Contains(entryObjects, path) || slices.ContainsFunc(fields, func(f field) bool {
		return strings.HasPrefix(f.path, path+".")
	})
}

// membersOf lists the keys that an object may have, in the order of the table.
func membersOf(object string) []string {
	var names []string
	if object == "" {
		names = append(names, "preset")
	}
	paths := slices.Clone(entryObjects)
	for i := range fields {
		paths = append(paths, fields[i].path)
	}
	for _, path := range paths {
		rest, ok := strings.CutPrefix("."+path, strings.TrimSuffix("."+object, ".")+".")
		name, _, _ := strings.Cut(rest, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (l *levelReader) leaf(path string, r rule, raw json.RawMessage) {
	if string(raw) == "null" {
		l.values[path] = nil
		return
	}
	value, wrong := r.read(raw)
	for _, message := range wrong {
		l.problems.add(path, message)
	}
	if len(wrong) == 0 {
		l.values[path] = value
	}
}

// short accepts the short forms: `concurrency: 10` for a fixed limit, and
// `jitter: full` for a jitter without parameters.
func (l *levelReader) short(path string, raw json.RawMessage) bool {
	switch path {
	case "concurrency":
		value, wrong := fieldByPath["concurrency.limit"].rule.read(raw)
		if len(wrong) > 0 {
			l.problems.add(path, wrong[0])
			return true
		}
		l.values[concurrencyMode] = string(Fixed)
		l.values["concurrency.limit"] = value
		return true
	case "retry.jitter":
		if _, ok := readString(raw); ok {
			l.leaf(jitterKind, fieldByPath[jitterKind].rule, raw)
			return true
		}
	}
	return false
}

func (l *levelReader) presetName(raw json.RawMessage) {
	if string(raw) == "null" {
		return
	}
	name, ok := readString(raw)
	if !ok {
		l.problems.add("preset", "must be a string")
		return
	}
	if _, ok := findPreset(name); !ok && (name == "" || name != l.base) {
		l.problems.add("preset", "unknown preset "+strconv.Quote(name)+"; known: "+strings.Join(presetNames(), ", "))
		return
	}
	l.preset = name
}

// checkKinds refuses fields that do not exist with the kind that kinds gives
// their object; a kind that is not given is not judged.
func (l *levelReader) checkKinds(kinds settings) {
	for path, value := range l.values {
		f := fieldByPath[path]
		if f == nil || f.kind == "" || value == nil {
			continue
		}
		if kind, ok := kinds[f.selector()].(string); ok && kind != f.kind {
			l.problems.addNew(path, "not allowed with "+lastName(f.selector())+" "+kind)
		}
	}
}
