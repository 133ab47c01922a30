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
}

// The levels, from the most general to the most specific.
const (
	LevelServer   = "server"
	LevelTenant   = "tenant"
	LevelEndpoint = "endpoint"
)

// maxDocument bounds a level: several times what a policy that sets everything
// needs, and little enough that reading a hostile one costs nothing.
const maxDocument = 64 << 10

// problems collects everything that is wrong with a document.
type problems struct {
	root   string // "policy"
	fields []hook.FieldError
	known  map[hook.FieldError]bool // two levels may break the same rule
	paths  map[string]bool
}

// maxProblems bounds what is reported of one document: its author writes as
// many unknown keys as he likes.
const maxProblems = 20

func newProblems(root string) *problems {
	return &problems{root: root, known: map[hook.FieldError]bool{}, paths: map[string]bool{}}
}

func (ps *problems) add(path, message string) {
	full := ps.root
	if path != "" {
		full += "." + path
	}
	found := hook.FieldError{Path: full, Message: message}
	if !ps.known[found] && len(ps.fields) < maxProblems {
		ps.fields = append(ps.fields, found)
		ps.known[found], ps.paths[full] = true, true
	}
}

// addNew adds a finding unless its field is known to be wrong already: what
// follows from another error is noise.
func (ps *problems) addNew(path, message string) {
	if !ps.paths[ps.root+"."+path] {
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

// walker visits the leaves of a document that has the shape of a policy.
type walker struct {
	problems *problems
	leaf     func(path string, r rule, raw json.RawMessage)
	// null is called for an object that is null, short for one that is given as
	// a scalar; short reports whether it took it. Both may be nil.
	null  func(path string)
	short func(path string, raw json.RawMessage) bool
	// preset gets the name of the preset; nil when the document has none.
	preset func(raw json.RawMessage)
}

// document visits a whole document. An empty one and null have no leaves.
func (w *walker) document(doc []byte) {
	if len(bytes.TrimSpace(doc)) == 0 {
		return
	}
	if len(doc) > maxDocument {
		w.problems.add("", "must be at most 64 KiB")
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		w.problems.add("", "is not valid JSON: "+err.Error())
		return
	}
	if compact.String() != "null" {
		w.object("", compact.Bytes())
	}
}

// object visits one object; path is "" for the document itself.
func (w *walker) object(path string, raw json.RawMessage) {
	var members map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
		if w.short == nil || !w.short(path, raw) {
			w.problems.add(path, "must be an object")
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if len(w.problems.fields) >= maxProblems {
			return
		}
		full := strings.TrimPrefix(path+"."+key, ".")
		w.member(path, key, full, members[key])
	}
}

func (w *walker) member(object, key, full string, raw json.RawMessage) {
	switch f, known := fieldByPath[full]; {
	case slices.Contains(entryObjects, object):
		w.entry(object, key, full, raw)
	case object == "" && key == "preset" && w.preset != nil:
		w.preset(raw)
	case strings.Contains(key, "."):
		w.unknown(object, key, full) // "retry.max_attempts" as one key is not the field
	case known:
		w.leaf(full, f.rule, raw)
	case !isObject(full):
		w.unknown(object, key, full)
	case string(raw) == "null" && w.null != nil:
		w.null(full)
	default:
		w.object(full, raw)
	}
}

func (w *walker) entry(object, key, full string, raw json.RawMessage) {
	r, message := entryRule(object, key)
	if message != "" {
		w.problems.add(full, message)
		return
	}
	w.leaf(full, r, raw)
}

func (w *walker) unknown(object, key, full string) {
	w.problems.add(full, "unknown key "+strconv.Quote(key)+"; known: "+strings.Join(membersOf(object), ", "))
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

// draft is what one level says.
type draft struct {
	preset string // "" when it names none
	values settings
}

// parseLevel reads one level and reports everything that is wrong with it
// alone. Values that broke a rule are left out of the draft.
func parseLevel(limits *Limits, doc []byte, ps *problems) draft {
	d := draft{values: settings{}}
	w := walker{problems: ps}
	w.leaf = func(path string, r rule, raw json.RawMessage) { d.read(path, r, raw, ps) }
	w.null = func(path string) { d.values[path] = nil }
	w.short = func(path string, raw json.RawMessage) bool { return d.readShort(path, raw, ps) }
	w.preset = func(raw json.RawMessage) { d.readPreset(limits, raw, ps) }
	w.document(doc)
	d.checkKinds(d.values, ps)
	return d
}

func (d *draft) read(path string, r rule, raw json.RawMessage, ps *problems) {
	if string(raw) == "null" {
		d.values[path] = nil
		return
	}
	value, wrong := r.read(raw)
	for _, message := range wrong {
		ps.add(path, message)
	}
	if len(wrong) == 0 {
		d.values[path] = value
	}
}

// readShort accepts the short forms: `concurrency: 10` for a fixed limit, and
// `jitter: full` for a jitter without parameters.
func (d *draft) readShort(path string, raw json.RawMessage, ps *problems) bool {
	switch path {
	case "concurrency":
		value, wrong := fieldByPath["concurrency.limit"].rule.read(raw)
		if len(wrong) > 0 {
			ps.add(path, wrong[0])
			return true
		}
		d.values[concurrencyMode] = string(Fixed)
		d.values["concurrency.limit"] = value
		return true
	case "retry.jitter":
		if _, ok := readString(raw); ok {
			d.read(jitterKind, fieldByPath[jitterKind].rule, raw, ps)
			return true
		}
	}
	return false
}

func (d *draft) readPreset(limits *Limits, raw json.RawMessage, ps *problems) {
	if string(raw) == "null" {
		return
	}
	name, ok := readString(raw)
	if !ok {
		ps.add("preset", "must be a string")
		return
	}
	if _, ok := findPreset(limits, name); !ok {
		ps.add("preset", "unknown preset "+strconv.Quote(name)+"; known: "+strings.Join(presetNames(limits), ", "))
		return
	}
	d.preset = name
}

// checkKinds refuses fields that do not exist with the kind that kinds gives
// their object; a kind that is not given is not judged.
func (d *draft) checkKinds(kinds settings, ps *problems) {
	for path, value := range d.values {
		f := fieldByPath[path]
		if f == nil || f.kind == "" || value == nil {
			continue
		}
		if kind, ok := kinds[f.selector()].(string); ok && kind != f.kind {
			ps.addNew(path, "not allowed with "+lastName(f.selector())+" "+kind)
		}
	}
}
