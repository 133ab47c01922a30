// Package spec completes the OpenAPI document: it says what routes and types do not
// say of themselves, in words and in examples, and which members may be null.
//
// It knows the document and nothing of the server: what it adds is for readers, and
// for programs that make clients. Requests are judged by the server itself.
package spec

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

type tag struct{ name, description string }

// Complete adds to a document. typeOf returns the type that a schema was made from.
func Complete(doc map[string]any, typeOf func(ref string) reflect.Type) {
	c := &completion{doc: doc, schemas: object(object(doc["components"])["schemas"])}
	c.describeServer()
	c.nameBodies()
	asked := c.asked()
	for name, s := range c.schemas {
		schema := object(s)
		tellNulls(name, schema, typeOf(schemaRef+name), !asked[name])
		c.describeSchema(name, schema)
	}
	for _, op := range c.operations() {
		describeOperation(op)
	}
	c.addExamples()
}

// completion is a document on its way.
type completion struct {
	doc, schemas map[string]any
}

const schemaRef = "#/components/schemas/"

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// operations returns all operations, ordered by path and method.
func (c *completion) operations() []map[string]any {
	var out []map[string]any
	paths := object(c.doc["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := object(paths[path])
		for _, method := range slices.Sorted(maps.Keys(item)) {
			if op := object(item[method]); op["responses"] != nil {
				out = append(out, op)
			}
		}
	}
	return out
}

// describeServer adds what belongs to the whole document.
func (c *completion) describeServer() {
	info := object(c.doc["info"])
	info["license"] = map[string]any{"name": "Apache 2.0", "identifier": "Apache-2.0"}
	info["contact"] = map[string]any{"name": "Breakwater", "url": "https://github.com/breakwaterhq/breakwater"}
	info["description"] = strings.TrimSpace(text(info["description"]) + " The server shows this document to people at /docs.")
	if at := c.serverURL(); at != "" {
		c.doc["externalDocs"] = map[string]any{"description": "This document for people, served by the server itself.", "url": at + "/docs"}
	}
	used := map[string]bool{}
	for _, op := range c.operations() {
		list, _ := op["tags"].([]any)
		for _, t := range list {
			used[text(t)] = true
		}
	}
	var out []any
	for _, t := range tags {
		if used[t.name] {
			out = append(out, map[string]any{"name": t.name, "description": t.description})
		}
		delete(used, t.name)
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		out = append(out, map[string]any{"name": name})
	}
	c.doc["tags"] = out
}

// serverURL is where the server says that it is; empty: where the document came from.
// What is not part of a path has to be a whole address.
func (c *completion) serverURL() string {
	list, _ := c.doc["servers"].([]any)
	if len(list) == 0 {
		return ""
	}
	return strings.TrimSuffix(text(object(list[0])["url"]), "/")
}

// bodies are schemas that have no type of their own, by operation. In the document
// they get a name, so that the types of generated clients have one.
var bodies = []struct{ operation, status, name string }{
	{"send-event", "", "EventCreateBody"},
	{"send-event", "202", "EventAccepted"},
	{"send-events", "", "BatchCreateBody"},
}

func (c *completion) nameBodies() {
	for _, op := range c.operations() {
		for _, b := range bodies {
			if text(op["operationId"]) != b.operation {
				continue
			}
			from := object(op["requestBody"])
			if b.status != "" {
				from = object(object(op["responses"])[b.status])
			}
			media := object(object(from["content"])["application/json"])
			if schema := object(media["schema"]); schema["$ref"] == nil && schema != nil {
				c.schemas[b.name] = schema
				media["schema"] = map[string]any{"$ref": schemaRef + b.name}
			}
		}
	}
	// The events of a batch have a name as well.
	events := object(object(object(c.schemas["BatchCreateBody"])["properties"])["events"])
	if item := object(events["items"]); item != nil && item["$ref"] == nil {
		c.schemas["BatchEvent"] = item
		events["items"] = map[string]any{"$ref": schemaRef + "BatchEvent"}
	}
}

// asked are the schemas that requests have. Their rules are the server's.
func (c *completion) asked() map[string]bool {
	out := map[string]bool{}
	var walk func(node any)
	walk = func(node any) {
		switch n := node.(type) {
		case map[string]any:
			if name, ok := strings.CutPrefix(text(n["$ref"]), schemaRef); ok && !out[name] {
				out[name] = true
				walk(c.schemas[name])
			}
			for _, child := range n {
				walk(child)
			}
		case []any:
			for _, child := range n {
				walk(child)
			}
		}
	}
	for _, op := range c.operations() {
		walk(op["requestBody"])
	}
	return out
}

// describeSchema adds the words on a schema and its members.
func (c *completion) describeSchema(name string, schema map[string]any) {
	if schema["description"] == nil && schemas[name] != "" {
		schema["description"] = schemas[name]
	}
	for member, p := range object(schema["properties"]) {
		prop := object(p)
		for _, key := range []string{name + "." + member, member} {
			if prop["description"] == nil && properties[key] != "" {
				prop["description"] = properties[key]
			}
		}
	}
}

// describeOperation adds the words on an operation and its parameters.
func describeOperation(op map[string]any) {
	id := text(op["operationId"])
	if op["description"] == nil && operations[id] != "" {
		op["description"] = operations[id]
	}
	if conflicts[id] {
		object(op["responses"])["409"] = map[string]any{"$ref": "#/components/responses/Conflict"}
	}
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		param := object(p)
		if param["description"] == nil && parameters[text(param["name"])] != "" {
			param["description"] = parameters[text(param["name"])]
		}
		schema := object(param["schema"])
		if schema["description"] == param["description"] { // it stands beside the schema already
			delete(schema, "description")
		}
		if list, ok := schema["type"].([]any); ok { // an address has no null
			schema["type"] = list[0]
		}
	}
}
