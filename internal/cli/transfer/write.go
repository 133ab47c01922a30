package transfer

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

const preface = `The configuration of a Breakwater server, as breakwater export writes it and breakwater import reads it.
A field that is left out has its usual value, a section that is left out is left alone.
`

// writeDocument writes a document in the order of the table; as JSON, which is YAML
// too, if that is asked for.
func writeDocument(w io.Writer, doc document, asJSON bool) error {
	root := mapping()
	root.HeadComment = preface
	if err := put(root, versionField, json.Number(strconv.Itoa(version))); err != nil {
		return err
	}
	for _, k := range kinds {
		if err := putItems(root, k, doc[k.section]); err != nil {
			return err
		}
	}
	if asJSON {
		var plain any
		if err := root.Decode(&plain); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return json.NewEncoder(w).Encode(plain)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return enc.Close()
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func put(to *yaml.Node, name string, value any) error {
	var n yaml.Node
	if err := n.Encode(forYAML(value)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	putNode(to, name, &n)
	return nil
}

func putNode(to *yaml.Node, name string, n *yaml.Node) {
	to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, n)
}

// putItems writes a section; nil is none.
func putItems(to *yaml.Node, k *kind, items []*item) error {
	if items == nil {
		return nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if len(items) == 0 {
		list.Style = yaml.FlowStyle
	}
	for _, it := range items {
		n := mapping()
		name, value := k.key, it.key
		if value == "" {
			name, value = idField, it.id
		}
		if err := put(n, name, value); err != nil {
			return err
		}
		for i := range k.fields {
			f := &k.fields[i]
			if v, given := it.values[f.name]; given {
				if err := put(n, f.name, v); err != nil {
					return err
				}
			}
		}
		for _, w := range k.within {
			if err := putItems(n, w, it.within[w.section]); err != nil {
				return err
			}
		}
		list.Content = append(list.Content, n)
	}
	putNode(to, k.section, list)
	return nil
}

// forYAML gives numbers the types that YAML writes as numbers.
func forYAML(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = forYAML(v[i])
		}
		return out
	case object:
		out := object{}
		for name, e := range v {
			out[name] = forYAML(e)
		}
		return out
	default:
		return v
	}
}
