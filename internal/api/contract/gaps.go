package contract

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Gaps are the parts of the document that are not explained or not shown.
func (d *Document) Gaps() []string {
	var out []string
	lacks := func(node map[string]any, where string, what ...string) {
		for _, w := range what {
			if node[w] == nil || node[w] == "" {
				out = append(out, where+" has no "+w)
			}
		}
	}
	tags := map[string]bool{}
	list, _ := d.doc["tags"].([]any)
	for _, t := range list {
		tags[text(object(t)["name"])] = true
		lacks(object(t), "tag "+text(object(t)["name"]), "description")
	}
	for op := range d.operations() {
		lacks(op.spec, op.String(), "operationId", "summary", "description", "tags")
		for _, t := range op.spec["tags"].([]any) {
			if !tags[text(t)] {
				out = append(out, fmt.Sprintf("tag %v of %s is not listed", t, op))
			}
		}
		params, _ := op.spec["parameters"].([]any)
		for _, p := range params {
			lacks(object(p), "parameter "+text(object(p)["name"])+" of "+op.String(), "description")
		}
		out = append(out, bodyGaps(op.String()+": its body", object(op.spec["requestBody"]))...)
		responses := object(op.spec["responses"])
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			r, _ := d.resolve(responses[status], "")
			lacks(r, op.String()+" "+status, "description")
			out = append(out, bodyGaps(op.String()+" "+status, r)...)
		}
	}
	schemas := object(object(d.doc["components"])["schemas"])
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema := object(schemas[name])
		lacks(schema, "schema "+name, "description", "examples")
		for member, p := range object(schema["properties"]) {
			if prop := object(p); prop["$ref"] == nil { // what it refers to explains itself
				lacks(prop, name+"."+member, "description")
			}
		}
	}
	slices.Sort(out)
	return out
}

// bodyGaps finds bodies of JSON that nothing shows.
func bodyGaps(where string, node map[string]any) []string {
	var out []string
	for media, m := range object(node["content"]) {
		if strings.Contains(media, "json") && object(m)["example"] == nil {
			out = append(out, where+" of "+media+" has no example")
		}
	}
	return out
}
