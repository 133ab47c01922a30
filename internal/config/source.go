package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const prefix = "BREAKWATER_"

// foreign are variables with our prefix that other parts read: the client
// commands and the file that names the configuration.
var foreign = []string{FileVariable, "BREAKWATER_URL", "BREAKWATER_API_KEY", "BREAKWATER_API_KEY_FILE"}

// foreignPrefixes belong to the tests.
var foreignPrefixes = []string{"BREAKWATER_TEST_", "BREAKWATER_REQUIRE_"}

// name is one spelling of a setting.
type name struct {
	setting *setting
	isFile  bool
}

// names finds a setting by its spelling in each source.
type names struct{ keys, variables, flags map[string]name }

func index(settings []setting) names {
	n := names{keys: map[string]name{}, variables: map[string]name{}, flags: map[string]name{}}
	for i := range settings {
		s := &settings[i]
		n.keys[s.key] = name{s, false}
		n.variables[s.variable()] = name{s, false}
		if !s.secret || s.plainFlag {
			n.flags[s.flagName()] = name{s, false}
		}
		if s.secret {
			n.keys[s.key+"_file"] = name{s, true}
			n.variables[s.variable()+"_FILE"] = name{s, true}
			n.flags[s.flagName()+"-file"] = name{s, true}
		}
	}
	return n
}

// AddFlags defines --config and the flag of every setting.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(FileFlag, "", "YAML file with settings (default "+DefaultFile+" if there is one)")
	known := index(new(Config).settings())
	for _, flag := range slices.Sorted(maps.Keys(known.flags)) {
		n := known.flags[flag]
		v := &raw{placeholder: n.setting.value.word, join: n.setting.value.list}
		help := n.setting.help
		if n.isFile {
			v.placeholder, help = "file", "file that holds: "+help
		} else if n.setting.def != "" {
			help += " (default " + n.setting.def + ")"
		}
		f := flags.VarPF(v, flag, "", help)
		if v.placeholder == "" {
			f.NoOptDefVal = "true"
		}
		// So many that they would hide the others; docs/alerts.md has them by rule.
		f.Hidden = strings.HasPrefix(n.setting.key, "alerts.")
	}
}

// raw keeps a flag's text as it is: all values are checked together later, so
// that one bad flag does not hide the next.
type raw struct {
	text        string
	placeholder string
	join        bool
	set         bool
}

func (r *raw) String() string { return r.text }

// Type is the word that help shows for the value; none for switches.
func (r *raw) Type() string {
	if r.placeholder == "" {
		return "bool"
	}
	return r.placeholder
}

func (r *raw) Set(text string) error {
	if r.join && r.set {
		text = r.text + "," + text
	}
	r.text, r.set = text, true
	return nil
}

func (l *loader) readFlags(flags *pflag.FlagSet) {
	if flags == nil {
		return
	}
	flags.Visit(func(f *pflag.Flag) {
		if n, ok := l.known.flags[f.Name]; ok {
			l.give(n.setting, given{text: f.Value.String(), origin: "--" + f.Name, rank: rankFlag, isFile: n.isFile})
		}
	})
}

// readEnviron takes our variables. One that is set to nothing counts as not
// set, because compose files pass on variables that way.
func (l *loader) readEnviron(environ []string) {
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		variable, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(variable, prefix) || slices.Contains(foreign, variable) ||
			slices.ContainsFunc(foreignPrefixes, func(p string) bool { return strings.HasPrefix(variable, p) }) {
			continue
		}
		n, ok := l.known.variables[variable]
		if !ok {
			l.problem(Problem{
				Key: variable, Origin: "environment", Message: "unknown variable",
				Hint: l.nearestVariable(variable),
			})
			continue
		}
		if text != "" {
			l.give(n.setting, given{text: text, origin: variable, rank: rankEnv, isFile: n.isFile})
		}
	}
}

// nearestVariable compares without the prefix, which all of them share.
func (l *loader) nearestVariable(variable string) string {
	known := append(slices.Sorted(maps.Keys(l.known.variables)), foreign...)
	for i := range known {
		known[i] = strings.TrimPrefix(known[i], prefix)
	}
	if near := Nearest(strings.TrimPrefix(variable, prefix), known); near != "" {
		return prefix + near
	}
	return ""
}

// maxFile bounds the YAML file.
const maxFile = 1 << 20

func (l *loader) readFile(path string, wanted bool) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !wanted {
		return
	}
	if err != nil {
		l.problem(Problem{Key: path, Message: fmt.Sprintf("cannot be read: %v", rootCause(err))})
		return
	}
	defer f.Close()
	l.readYAML(path, io.LimitReader(f, maxFile))
}

// readYAML walks the document instead of decoding it into a struct, because
// only the nodes know the lines that messages should name.
func (l *loader) readYAML(path string, r io.Reader) {
	dec := yaml.NewDecoder(r)
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			l.problem(Problem{Key: path, Message: "is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")})
		}
		return
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		l.problem(Problem{Key: path, Message: "must hold one YAML document"})
	}
	w := yamlWalk{loader: l, path: path, seen: map[string]int{}}
	if len(doc.Content) > 0 {
		w.node("", doc.Content[0])
	}
}

type yamlWalk struct {
	*loader
	path string
	seen map[string]int // line by key
}

func (w *yamlWalk) origin(n *yaml.Node) string { return fmt.Sprintf("%s line %d", w.path, n.Line) }

func (w *yamlWalk) node(key string, n *yaml.Node) {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			child := n.Content[i].Value
			if key != "" {
				child = key + "." + child
			}
			w.node(child, n.Content[i+1])
		}
	case n.Tag == "!!null" && n.Kind == yaml.ScalarNode:
		// "key:" without a value is a setting somebody emptied, or an empty
		// section: both leave the default, but the name must exist.
		if !w.section(key) {
			w.lookup(key, n)
		}
	case key == "":
		w.problem(Problem{Key: w.path, Message: "must be a mapping of settings"})
	default:
		w.value(key, n)
	}
}

// section reports whether key is empty or the first part of known keys.
func (w *yamlWalk) section(key string) bool {
	return key == "" || slices.ContainsFunc(slices.Sorted(maps.Keys(w.known.keys)), func(k string) bool {
		return strings.HasPrefix(k, key+".")
	})
}

// lookup finds the setting of one key and complains about unknown and repeated
// ones.
func (w *yamlWalk) lookup(key string, n *yaml.Node) (name, bool) {
	found, ok := w.known.keys[key]
	switch line, again := w.seen[key]; {
	case !ok && w.section(key):
		w.problem(Problem{Key: key, Origin: w.origin(n), Message: "is a section: put its settings under it"})
		return name{}, false
	case !ok:
		w.problem(Problem{
			Key: key, Origin: w.origin(n), Message: "unknown key",
			Hint: Nearest(key, slices.Sorted(maps.Keys(w.known.keys))),
		})
		return name{}, false
	case again:
		w.problem(Problem{Key: key, Origin: w.origin(n), Message: fmt.Sprintf("is already set in line %d", line)})
		return name{}, false
	}
	w.seen[key] = n.Line
	return found, true
}

func (w *yamlWalk) value(key string, n *yaml.Node) {
	found, ok := w.lookup(key, n)
	if !ok {
		return
	}
	g := given{text: n.Value, origin: w.origin(n), rank: rankYAML, isFile: found.isFile}
	switch n.Kind {
	case yaml.ScalarNode:
	case yaml.SequenceNode:
		items, ok := scalars(n)
		if !found.setting.value.list || !ok {
			w.problem(Problem{Key: key, Origin: w.origin(n), Message: "takes one value, not a list"})
			return
		}
		g.text = strings.Join(items, ",")
	default:
		w.problem(Problem{Key: key, Origin: w.origin(n), Message: "must be a plain value; aliases are not supported"})
		return
	}
	w.give(found.setting, g)
}

func scalars(n *yaml.Node) ([]string, bool) {
	items := make([]string, len(n.Content))
	for i, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return nil, false
		}
		items[i] = c.Value
	}
	return items, true
}
