package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
)

// version is that of the form of documents.
const version = 1

const versionField = "version"

// item is one object of a document.
type item struct {
	kind   *kind
	path   string // tenants[0].endpoints[1]
	line   int
	id     string // of the server, for objects that have no key
	key    string
	values object             // fields that were given
	within map[string][]*item // sections that were given, by name
}

// name is what people call it, within its tenant or by itself.
func (it *item) name() string {
	name := it.key
	if name == "" {
		name = it.id
	}
	if owner := str(it.values[tenantField]); it.kind.ofTenant && owner != "" {
		return owner + "/" + name
	}
	return name
}

// document is the whole file: sections that were given, by name.
type document map[string][]*item

// reader turns YAML into a document and gathers what is wrong with it.
type reader struct {
	problems []string
	nodes    int
}

// Bounds of a document.
const (
	maxDocument = 64 << 20
	maxNodes    = 5_000_000
	maxDepth    = 64
	maxProblems = 50
)

// readDocument reads a file. Its error names every field that is wrong.
func readDocument(file string, from io.Reader) (document, error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err != nil {
		return nil, kit.Usagef("%s: %w", file, err)
	}
	if len(raw) > maxDocument {
		return nil, kit.Usagef("%s: must have at most %d MiB", file, maxDocument>>20)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, kit.Usagef("%s: is empty; breakwater export writes such a file", file)
		}
		return nil, kit.Usagef("%s: is not valid YAML: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, kit.Usagef("%s: must hold one YAML document", file)
	}
	r := &reader{}
	out := r.document(doc.Content[0])
	if len(r.problems) == 0 {
		return out, nil
	}
	return nil, kit.Usagef("%s: nothing was changed:\n  %s", file, strings.Join(r.problems, "\n  "))
}

func (r *reader) bad(path string, n *yaml.Node, format string, args ...any) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, fmt.Sprintf("%s (line %d): %s", path, n.Line, fmt.Sprintf(format, args...)))
	}
}

// mapping hands the fields of a mapping to fn and complains about repeated names.
func (r *reader) mapping(path string, n *yaml.Node, fn func(path, name string, key, value *yaml.Node)) bool {
	n = r.follow(n)
	if n.Kind != yaml.MappingNode {
		r.bad(path, n, "must be a mapping")
		return false
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := key.Value
		if path != "the file" {
			at = path + "." + key.Value
		}
		if line, again := seen[key.Value]; again {
			r.bad(at, key, "is already there in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		fn(at, key.Value, key, n.Content[i+1])
	}
	return true
}

// follow returns what an alias stands for.
func (r *reader) follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func (r *reader) document(n *yaml.Node) document {
	out := document{}
	said := ""
	r.mapping("the file", n, func(path, name string, key, value *yaml.Node) {
		if name == versionField {
			said = value.Value
			return
		}
		i := slices.IndexFunc(kinds, func(k *kind) bool { return k.section == name })
		if i < 0 {
			known := []string{versionField}
			for _, k := range kinds {
				known = append(known, k.section)
			}
			r.unknown(path, name, key, known)
			return
		}
		out[name] = r.items(kinds[i], path, value)
	})
	if said != strconv.Itoa(version) && len(r.problems) < maxProblems {
		r.problems = append([]string{fmt.Sprintf("%s: must be %d, the only one that this program knows", versionField, version)}, r.problems...)
	}
	return out
}

func (r *reader) unknown(path, name string, at *yaml.Node, known []string) {
	r.bad(path, at, "unknown field%s", kit.DidYouMean(config.Nearest(name, known), ""))
}

// items reads a section. An empty one says that there are none.
func (r *reader) items(k *kind, path string, n *yaml.Node) []*item {
	n = r.follow(n)
	out := []*item{}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return out
	}
	if n.Kind != yaml.SequenceNode {
		r.bad(path, n, "must be a list")
		return out
	}
	seen := map[string]*item{}
	for i, child := range n.Content {
		it := r.item(k, fmt.Sprintf("%s[%d]", path, i), child)
		if it == nil {
			continue
		}
		if first := seen[it.name()]; first != nil {
			r.bad(it.path+"."+k.key, child, "%q is already there in line %d", it.name(), first.line)
			continue
		}
		seen[it.name()] = it
		out = append(out, it)
	}
	return out
}

func (r *reader) item(k *kind, path string, n *yaml.Node) *item {
	it := &item{kind: k, path: path, line: n.Line, values: object{}, within: map[string][]*item{}}
	ok := r.mapping(path, n, func(at, name string, key, value *yaml.Node) {
		switch f := k.field(name); {
		case f != nil:
			r.value(it, f, at, value)
		case name == k.key, name == idField:
			v, is := r.plain(at, value, 0).(string)
			switch {
			case !is || v == "":
				r.bad(at, value, "must be a text")
			case name == idField:
				it.id = v
			default:
				it.key = v
			}
		default:
			for _, w := range k.within {
				if w.section == name {
					it.within[name] = r.items(w, at, value)
					return
				}
			}
			r.unknown(at, name, key, k.known())
		}
	})
	if !ok {
		return nil
	}
	if it.key == "" && it.id == "" {
		r.bad(path+"."+k.key, n, "is required: it tells one %s from another", k.noun)
		return nil
	}
	for i := range k.fields {
		if f := &k.fields[i]; f.required && it.values[f.name] == nil {
			r.bad(path+"."+f.name, n, "is required")
		}
	}
	return it
}

// value reads one field. null says the same as leaving it out.
func (r *reader) value(it *item, f *field, path string, n *yaml.Node) {
	v := r.plain(path, n, 0)
	if v == nil {
		return
	}
	if !f.form.fits(v) {
		r.bad(path, n, "must be %s", f.form)
		return
	}
	it.values[f.name] = v
}

func (f form) fits(v any) bool {
	if f == value {
		return true
	}
	switch v := v.(type) {
	case string:
		return f == text
	case json.Number:
		return f == number
	case bool:
		return f == toggle
	case []any:
		return f == texts && all[string](v) || f == objects && all[object](v)
	case object:
		return f == tree || f == names && all[string](slices.Collect(maps.Values(v)))
	default:
		return false
	}
}

// all reports whether all values are of one type.
func all[T any](values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		_, is := v.(T)
		return !is
	})
}

// plain turns a node into what JSON has.
func (r *reader) plain(path string, n *yaml.Node, depth int) any {
	n = r.follow(n)
	r.nodes++
	if r.nodes > maxNodes || depth > maxDepth {
		if r.nodes <= maxNodes+1 {
			r.bad(path, n, "is too large, or nested too deeply")
		}
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := object{}
		r.mapping(path, n, func(at, name string, _, value *yaml.Node) { out[name] = r.plain(at, value, depth+1) })
		return out
	case yaml.SequenceNode:
		out := []any{}
		for i, child := range n.Content {
			out = append(out, r.plain(fmt.Sprintf("%s[%d]", path, i), child, depth+1))
		}
		return out
	default:
		return r.scalar(path, n)
	}
}

func (r *reader) scalar(path string, n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return json.Number(strconv.FormatInt(i, 10))
		}
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return plainNumber(json.Number(strconv.FormatFloat(f, 'g', -1, 64)))
		}
	case "!!str", "!!timestamp":
		return n.Value
	}
	r.bad(path, n, "%q is no value that can be used here; put a text into quotes", n.Value)
	return nil
}

// plainNumber writes a number in one way: 10, not 10.0 or 1e1.
func plainNumber(n json.Number) json.Number {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return json.Number(strconv.FormatInt(i, 10))
	}
	f, err := n.Float64()
	if err != nil {
		return n
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return json.Number(strconv.FormatInt(int64(f), 10))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}
