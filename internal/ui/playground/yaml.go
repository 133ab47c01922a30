package playground

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxYAML bounds what is read: an address has less room.
const maxYAML = 32 << 10

// readYAML reads a policy level: its preset, and its settings by path.
func readYAML(text string) (preset string, v values, err error) {
	if len(text) > maxYAML {
		return "", nil, errors.New("must be at most 32 KiB")
	}
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", nil, errors.New("is not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc == nil {
		return "", values{}, nil
	}
	raw, err := json.Marshal(textKeys(doc))
	if err != nil || raw[0] != '{' {
		return "", nil, errors.New("must be an object such as preset: default")
	}
	if v, err = leaves(raw); err != nil {
		return "", nil, errors.New("could not be read")
	}
	preset = v["preset"]
	delete(v, "preset")
	for path, text := range v {
		switch {
		case len(v) > maxValues:
			return "", nil, errors.New("has more settings than a policy")
		case text == "" || text == "null" || text == "{}":
			delete(v, path)
		case path == "retry.jitter": // the short forms
			v["retry.jitter.kind"] = text
			delete(v, path)
		case path == "concurrency":
			v["concurrency.mode"], v["concurrency.limit"] = "fixed", text
			delete(v, path)
		}
	}
	return preset, v, nil
}

// textKeys makes texts of keys that YAML reads as numbers, such as statuses.
func textKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = textKeys(member)
		}
	case map[any]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[fmt.Sprint(key)] = textKeys(member)
		}
		return out
	case []any:
		for i := range v {
			v[i] = textKeys(v[i])
		}
	}
	return v
}

// line is a line of YAML, in the parts that a page sets.
type line struct {
	Indent, Key, Value, Comment string
}

// writeYAML writes a preset and what is changed of it, each with what it was.
func writeYAML(preset string, changed, base values) []line {
	lines := []line{{Key: "preset", Value: preset}}
	var open []string
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		names := strings.Split(path, ".")
		same := 0
		for same < len(open) && same < len(names)-1 && open[same] == names[same] {
			same++
		}
		for i := same; i < len(names)-1; i++ {
			lines = append(lines, line{Indent: strings.Repeat("  ", i), Key: names[i]})
		}
		open = names[:len(names)-1]
		l := line{Indent: strings.Repeat("  ", len(names)-1), Key: names[len(names)-1], Value: changed[path]}
		if strings.HasSuffix(path, ".delays") {
			l.Value = "[" + l.Value + "]"
		}
		if was := base[path]; was != "" {
			l.Comment = "# " + preset + ": " + was
		}
		lines = append(lines, l)
	}
	return lines
}

// plainText is the YAML without its comments, for copying and editing.
func plainText(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Indent + l.Key + ":")
		if l.Value != "" {
			b.WriteString(" " + l.Value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// setYAML is the YAML with its keys, values and comments set apart.
func setYAML(lines []line) template.HTML {
	var b strings.Builder
	e := template.HTMLEscapeString
	for _, l := range lines {
		b.WriteString(l.Indent + `<span class="k">` + e(l.Key) + `</span>:`)
		if l.Value != "" {
			b.WriteString(` <span class="n">` + e(l.Value) + `</span>`)
		}
		if l.Comment != "" {
			b.WriteString(`   <span class="c">` + e(l.Comment) + `</span>`)
		}
		b.WriteString("\n")
	}
	return template.HTML(b.String()) //nolint:gosec // every part is escaped
}
