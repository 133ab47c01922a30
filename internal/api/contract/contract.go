// Package contract checks that a server keeps the promises of its OpenAPI document.
// It watches requests and answers, and says which of them the document does not
// describe, and which described answers were never seen.
//
// It is for tests. It is stricter than the document: an answer may not have members
// that are not described, although clients must bear them, for servers may be newer.
package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is an OpenAPI 3.1 document and what was seen of it.
type Document struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	mux      *http.ServeMux
	problem  string // where the schema of problems is

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema // by JSON pointer
	seen    map[string]bool
}

const docURL = "https://breakwater.invalid/openapi.json"

// Parse reads a document.
func Parse(text []byte) (*Document, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is a %T", value)
	}
	d := &Document{
		doc: doc, compiler: jsonschema.NewCompiler(), mux: http.NewServeMux(), problem: "/components/schemas/Problem",
		schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{},
	}
	closeObjects(doc)
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(docURL, doc); err != nil {
		return nil, fmt.Errorf("add document: %w", err)
	}
	for op := range d.operations() {
		d.mux.HandleFunc(op.method+" "+op.path, func(http.ResponseWriter, *http.Request) {})
	}
	return d, nil
}

// closeObjects forbids members that are not described, wherever the document does
// not say what else an object may have.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		props, ok := n["properties"].(map[string]any)
		if _, says := n["additionalProperties"]; ok && !says && len(props) > 0 && n["type"] != nil {
			n["additionalProperties"] = false
		}
		for name, child := range n {
			if name != "example" && name != "examples" {
				closeObjects(child)
			}
		}
	case []any:
		for _, child := range n {
			closeObjects(child)
		}
	}
}

// operation is a described route.
type operation struct {
	method, path string
	spec         map[string]any
}

func (o operation) String() string { return o.method + " " + o.path }

// operations yields every route of the document, in order.
func (d *Document) operations() func(func(operation) bool) {
	paths := object(d.doc["paths"])
	return func(yield func(operation) bool) {
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			item := object(paths[path])
			for _, method := range slices.Sorted(maps.Keys(item)) {
				if spec := object(item[method]); spec["responses"] != nil && !yield(operation{strings.ToUpper(method), path, spec}) {
					return
				}
			}
		}
	}
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// Answered are the routes and their answers that the document describes, each as
// method, path, status and media type.
func (d *Document) Answered() []string {
	var out []string
	for op := range d.operations() {
		responses := object(op.spec["responses"])
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			r, _ := d.resolve(responses[status], "")
			content := slices.Sorted(maps.Keys(object(r["content"])))
			if len(content) == 0 {
				content = []string{""}
			}
			for _, media := range content {
				out = append(out, mark(op, status, media))
			}
		}
	}
	return out
}

func mark(op operation, status, media string) string {
	return strings.TrimSpace(op.String() + " " + status + " " + media)
}

// Unseen are the described answers that no test has caused.
func (d *Document) Unseen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(d.Answered(), func(s string) bool { return d.seen[s] })
}

// resolve follows a reference. at is the pointer of the node.
func (d *Document) resolve(node any, at string) (found map[string]any, pointer string) {
	m := object(node)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m, at
	}
	var target any = d.doc
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		target = object(target)[part]
	}
	return object(target), strings.TrimPrefix(ref, "#")
}

// escape makes a part of a JSON pointer that stands in a URL.
func escape(s string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(s))
}

// schema returns the schema at a pointer.
func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(docURL + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", pointer, err)
	}
	d.schemas[pointer] = s
	return s, nil
}

// checkJSON validates a JSON text.
func (d *Document) checkJSON(pointer string, body []byte) error {
	s, err := d.schema(pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("is no JSON: %w", err)
	}
	return s.Validate(value)
}

// mediaOf returns the media type of a header without its parameters.
func mediaOf(h http.Header) string {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return h.Get("Content-Type")
	}
	return media
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}

// CheckExamples validates every example of the document against the schema that it
// stands beside, and counts them.
func (d *Document) CheckExamples() (n int, wrong []error) {
	check := func(at string, values ...any) {
		for _, v := range values {
			n++
			raw, err := json.Marshal(v)
			if err == nil {
				err = d.checkJSON(at, raw)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("example at %s: %w", at, err))
			}
		}
	}
	var walk func(node any, at string)
	walk = func(node any, at string) {
		switch v := node.(type) {
		case map[string]any:
			if list, ok := v["examples"].([]any); ok {
				check(at, list...)
			}
			if e, ok := v["example"]; ok && v["schema"] != nil {
				check(at+"/schema", e)
			}
			for name, child := range v {
				if name != "example" && name != "examples" {
					walk(child, at+"/"+escape(name))
				}
			}
		case []any:
			for i, child := range v {
				walk(child, fmt.Sprintf("%s/%d", at, i))
			}
		}
	}
	walk(d.doc, "")
	return n, wrong
}
